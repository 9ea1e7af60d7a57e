"""The slow, obvious reader of LETOR text that the compiled one is held against."""

from __future__ import annotations

import re

import numpy as np


def parse(text: str, absent: float = 0.0) -> dict[str, object]:
    """Rows in the order of the file: labels, qids, features and comments."""
    labels, qids, rows, documents = [], [], [], []
    for line in text.split("\n"):
        body, _, comment = line.partition("#")
        tokens = body.split()
        if not tokens:
            continue
        labels.append(float(tokens[0]))
        qids.append(tokens[1].removeprefix("qid:"))
        rows.append({int(k): float(v) for k, v in (token.split(":") for token in tokens[2:])})
        named = re.match(r"\s*docid\s*=\s*(\S+)", comment, re.IGNORECASE)
        documents.append(named[1] if named else comment.strip())
    width = max(max(row, default=0) for row in rows)
    X = np.full((len(rows), width), absent)
    for i, row in enumerate(rows):
        for index, value in row.items():
            X[i, index - 1] = value
    with np.errstate(over="ignore"):
        return {"y": np.array(labels), "qid": qids, "X": X.astype(np.float32), "documents": documents}
