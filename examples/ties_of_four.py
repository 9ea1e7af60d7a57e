"""Figure 1 of the ties paper: two preferences leave the ranking of four documents open, two ties settle it."""

from pathlib import Path

import numpy as np

import luce

DOCUMENTS = np.array([[1.25, 1.46], [-0.75, -0.04], [0.75, 0.04], [-1.25, -1.46]], dtype=np.float32)
"""Documents 1 to 4, to be ranked in that order by their projection on a line."""
PREFERENCES, TIES = [(0, 2), (1, 3)], [(0, 1), (2, 3)]


def learned(ties: list[tuple[int, int]]) -> np.ndarray:
    """The direction of the line on which documents are ranked, of length 1."""
    data = luce.from_arrays(DOCUMENTS, qid=[1] * 4)
    pairs = luce.Comparisons.from_pairs(wins=PREFERENCES, ties=ties)
    model = luce.Ranker(loss="bradley_terry", loss__epsilon=0.5, l2=0.01)
    scores = model.fit(data, comparisons=pairs).predict(data)
    slope = np.linalg.lstsq(DOCUMENTS, scores - scores.mean(), rcond=None)[0]
    return slope / np.linalg.norm(slope)


def picture(thin: np.ndarray, thick: np.ndarray) -> str:
    """Documents, both lines through the middle, and where each document falls on them."""

    def at(point: np.ndarray) -> tuple[float, float]:
        return 230 + 90 * float(point[0]), 165 - 90 * float(point[1])

    drawn = []
    for slope, width in ((thin, 1), (thick, 3)):
        (x1, y1), (x2, y2) = (at(far * slope) for far in (-1.8, 1.8))
        drawn.append(f'<path d="M{x1:.1f} {y1:.1f}L{x2:.1f} {y2:.1f}" stroke="currentColor" stroke-width="{width}"/>')
        for document in DOCUMENTS:
            (x, y), foot = at(document), at((document @ slope) * slope)
            drawn.append(
                f'<path d="M{x:.1f} {y:.1f}L{foot[0]:.1f} {foot[1]:.1f}" stroke="currentColor" '
                f'stroke-opacity=".4" stroke-dasharray="{2 * width}"/>'
            )
    for number, document in enumerate(DOCUMENTS, 1):
        x, y = at(document)
        drawn.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4"/><text x="{x + 7:.1f}" y="{y - 7:.1f}">d{number}</text>')
    shows = "Four documents and their projections: by preferences alone (thin), with ties (thick)"
    return (
        '<svg viewBox="0 0 460 330" role="img" font-size="13" font-family="sans-serif" style="max-width:460px" '
        f'fill="currentColor" xmlns="http://www.w3.org/2000/svg"><title>{shows}</title>{"".join(drawn)}</svg>'
    )


if __name__ == "__main__":
    lines = {"preferences alone": learned([]), "with ties": learned(TIES)}
    for name, line in lines.items():
        order = ", ".join(f"d{1 + i}" for i in np.argsort(-DOCUMENTS @ line, kind="stable"))
        scores = (DOCUMENTS @ line).round(2).tolist()
        print(f"{name:<18} line along {line.round(2).tolist()}, scores {scores}: {order}")
    Path("ties_of_four.svg").write_text(picture(*lines.values()))
    print("Wrote ties_of_four.svg.")
