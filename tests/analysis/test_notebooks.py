"""Notebooks run from any folder, show figures, and are stored without outputs."""

from __future__ import annotations

import base64
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOKS = sorted((Path(__file__).parents[2] / "analysis/notebooks").glob("*.ipynb"))
NAMES = ["01_first_run", "02_speed_and_range", "03_algorithms", "04_theory", "05_your_own"]


def test_all_are_there() -> None:
    assert [path.stem for path in NOTEBOOKS] == NAMES


@pytest.mark.parametrize("path", NOTEBOOKS, ids=NAMES)
def test_outputs_are_cleared(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            assert (cell.outputs, cell.execution_count) == ([], None)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=NAMES)
def test_a_notebook_runs(path: Path, tmp_path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(notebook, timeout=600, kernel_name="python3", resources={"metadata": {"path": tmp_path}}).execute()
    outputs = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    streams = [(output.name, output.text) for output in outputs if output.output_type == "stream"]
    assert all(name == "stderr" and "arning" not in text for name, text in streams)  # progress bars, nothing else
    figures = [o.data["image/png"] for o in outputs if "data" in o and "image/png" in o.data]
    assert len(figures) == sum("\ndraw_" in f"\n{cell.source}" for cell in notebook.cells if cell.cell_type == "code")
    assert all(base64.b64decode(figure).startswith(b"\x89PNG") for figure in figures)
