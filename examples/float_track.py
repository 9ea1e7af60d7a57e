"""A float drifts past moored sources for 60 days and keeps four unlabelled arrivals a day."""

import numpy as np

from luce.track import follow, simulate

world = simulate("ocean", steps=60, clutter_rate=6.0, random_state=7)
settings = {"start": world.start, "dynamics": 8000.0, "particles": 1500, **world.settings}

for name, engine in (("ranked signals", "exact"), ("order ignored", "unranked"), ("true labels", "labelled")):
    track = follow(world.signals, world.sources, engine=engine, **settings)
    print(f"{name:>15}: median error {np.median(track.errors(world.truth)) / 1000:6.1f} km")
    if engine == "exact":
        ranked = track

print(f"{ranked.agreement():.0%} of the signals were traced to their source (or to noise)")
day = 30
north, east = np.sqrt(np.diag(ranked.covariances[day])) / 1000
lat, lon = ranked.positions[day]
print(f"day {day + 1}: {-lat:.2f} S {-lon:.2f} W, standard deviation {north:.0f} km north and {east:.0f} km east")
