"""Runs the notebooks of the documentation and keeps their outputs: `python docs/notebooks.py`."""

from __future__ import annotations

import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient

FOLDER = Path(__file__).parent / "notebooks"


def run(path: Path, folder: Path) -> nbformat.NotebookNode:
    """The notebook with its outputs, run in a folder; an error in a cell is an error here."""
    book = nbformat.read(path, as_version=4)
    NotebookClient(book, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(folder)}}).execute()
    for cell in book.cells:
        cell.metadata.clear()  # times of this run
    return book


if __name__ == "__main__":
    for path in sorted(FOLDER.glob("*.ipynb")):
        with tempfile.TemporaryDirectory() as folder:
            nbformat.write(run(path, Path(folder)), path)
        print(f"{path.name}: {path.stat().st_size / 1e3:.0f} kB")
