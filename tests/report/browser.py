"""A headless Chromium that looks at a report as a person does; tests skip, with the reason, where there is none."""

from __future__ import annotations

import base64
import io
import json
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

PHONE, DESK = 360, 1100
_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


class Keys:
    """Keys that have no letter, as WebDriver names them."""

    ENTER, TAB, DOWN = "\ue007", "\ue004", "\ue015"


class Browser:
    """One tab of a headless Chromium."""

    def __init__(self, driver: Any) -> None:
        self.driver = driver

    def open(self, page: Path, *, width: int = DESK, dark: bool = False) -> None:
        """Open a page at a width, under a preference for light or dark."""
        self.command("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
        self.prefer(dark=dark)
        for kind in ("browser", "performance"):
            self.driver.get_log(kind)
        self.driver.get(page.as_uri())
        self.wait("return 'ready' in document.documentElement.dataset")

    def prefer(self, *, dark: bool) -> None:
        """What the system prefers."""
        self.command(
            "Emulation.setEmulatedMedia",
            features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}],
        )

    def command(self, name: str, **parameters: Any) -> Any:
        """A command of the DevTools protocol."""
        return self.driver.execute_cdp_cmd(name, parameters)

    def run(self, script: str, *arguments: Any) -> Any:
        """What a script returns."""
        return self.driver.execute_script(script, *arguments)

    def wait(self, script: str, *arguments: Any, seconds: float = 120.0) -> None:
        """Until a script returns something true."""
        end = time.monotonic() + seconds
        while not self.run(script, *arguments):
            if time.monotonic() > end:
                raise AssertionError(f"still not true after {seconds} s: {script}")
            time.sleep(0.02)

    def find(self, selector: str) -> Any:
        """The first element."""
        return self.driver.find_element("css selector", selector)

    def all(self, selector: str) -> list[Any]:
        """All elements."""
        return list(self.driver.find_elements("css selector", selector))

    def texts(self, selector: str) -> list[str]:
        """Texts of all elements, hidden ones as well."""
        return list(self.run("return [...document.querySelectorAll(arguments[0])].map(e => e.textContent)", selector))

    def click(self, selector: str) -> None:
        """Click, wherever it is on the page."""
        self.run("document.querySelector(arguments[0]).click()", selector)

    def settle(self) -> None:
        """Until what a change set off is drawn."""
        self.driver.execute_async_script("const done = arguments[0]; setTimeout(() => requestAnimationFrame(done), 60)")

    def see_all(self) -> list[str]:
        """Scroll through the page, so that every panel is made; the ids of the panels."""
        ids = self.run("return [...document.querySelectorAll('main > section')].map(s => s.id)")
        for panel in ids:
            self.run("document.getElementById(arguments[0]).scrollIntoView()", panel)
            self.wait("return 'ready' in document.getElementById(arguments[0]).dataset", panel)
        self.settle()
        return list(ids)

    def choose(self, a: int, b: int) -> None:
        """Compare two models by their numbers."""
        for letter, model in (("a", a), ("b", b)):
            self.run(
                "const s = document.getElementById('model-' + arguments[0]); s.value = arguments[1];"
                "s.dispatchEvent(new Event('change'))",
                letter,
                str(model),
            )
        self.settle()

    def console(self) -> list[str]:
        """Everything that was said on the console, errors of the page included."""
        return [f"{entry['level']}: {entry['message']}" for entry in self.driver.get_log("browser")]

    def requests(self) -> list[str]:
        """Addresses that the page asked for since it was opened."""
        events = [json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance")]
        return [e["params"]["request"]["url"] for e in events if e["method"] == "Network.requestWillBeSent"]

    def boxes(self, selector: str) -> list[tuple[int, int, int, int]]:
        """Left, top, right and bottom of all elements, in pixels of the whole page."""
        script = "return [...document.querySelectorAll(arguments[0])].map(e => { const r = e.getBoundingClientRect();"
        script += "return [r.left + scrollX, r.top + scrollY, r.right + scrollX, r.bottom + scrollY].map(Math.round) })"
        return [tuple(box) for box in self.run(script, selector)]

    def picture(self) -> Any:
        """Pixels (height, width, 3) of the whole page."""
        from PIL import Image

        (box,) = self.boxes("body")
        clip = {"x": 0, "y": 0, "width": box[2], "height": box[3], "scale": 1}
        shot = self.command("Page.captureScreenshot", captureBeyondViewport=True, clip=clip)
        with Image.open(io.BytesIO(base64.b64decode(shot["data"]))) as image:
            return np.asarray(image.convert("RGB"))


@contextmanager
def chromium() -> Iterator[Browser]:
    """Start a browser, or skip."""
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed: pip install 'luce[test]'")
    binary = next(filter(None, map(shutil.which, _NAMES)), None)
    driver_path = shutil.which("chromedriver")
    if binary is None or driver_path is None:
        pytest.skip("no Chromium with its driver here (Debian: apt-get install chromium chromium-driver)")
    options = webdriver.ChromeOptions()
    options.binary_location = binary
    for argument in ("headless=new", "no-sandbox", "disable-gpu", "disable-dev-shm-usage", "hide-scrollbars"):
        options.add_argument(f"--{argument}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver_path))
    try:
        yield Browser(driver)
    finally:
        driver.quit()
