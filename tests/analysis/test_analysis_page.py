"""docs/analysis.md: its code runs, its images exist, and it covers every plot."""

from __future__ import annotations

import ast
import re
import shutil
from pathlib import Path

import pandas as pd
import pytest
from matplotlib.figure import Figure

import fedmule
import fedmule.analysis.plots
from fedmule.analysis import load_run
from fedmule.simulator.studies.index import write_study
from fedmule.simulator.studies.plan import StudyFile

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "analysis.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


def make_study(folder: Path, run: Path) -> None:
    """Make a study of speed and range whose points all hold the same run."""
    summary, rows = load_run(run).summary, []
    results = {key: value for key, value in summary.items() if key not in ("name", "seed")}
    for speed in (6, 18):
        for reach in (30, 120):
            for seed in range(2):
                keys = {"run": f"runs/{len(rows)}", "scenario": "warzone", "seed": seed, "replication": seed}
                values = {"vehicle.speed_mps": speed, "radio.range_m": reach, "status": "done", "error": None}
                rows.append({**keys, **values, **results})
                shutil.copytree(run, folder / keys["run"])
    vary = {"vehicle.speed_mps": (6, 18), "radio.range_m": (30, 120)}
    write_study(folder, StudyFile(name="s", scenarios=("warzone",), vary=vary), pd.DataFrame(rows))


def test_the_code_runs_as_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run = fedmule.run("warzone", {"stop.visits": 20})
    make_study(tmp_path / "studies/speed_and_range", run)
    names: dict[str, object] = {}
    drawn = 0
    for statement in ast.parse("\n".join(BLOCKS)).body:
        code = ast.unparse(statement)
        if isinstance(statement, ast.Expr) and code.startswith("draw_") and "savefig" not in code:
            assert isinstance(eval(code, names), Figure), code
            drawn += 1
        else:
            exec(compile(code, "analysis.md", "exec"), names)
    assert Path("warzone.png").exists()
    assert drawn >= len(fedmule.analysis.plots.__all__) - 1


def test_every_plot_has_its_image() -> None:
    used = set(re.findall(r"\b(draw_\w+)\(", "\n".join(BLOCKS)))
    assert used == set(fedmule.analysis.plots.__all__)
    images = re.findall(r"!\[[^]]+\]\((.+?)\)", PAGE)
    assert len(images) == 14
    for image in images:
        assert 5_000 < (DOCS / image).stat().st_size < 150_000, image
