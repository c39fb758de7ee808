"""A run's identity: another program or other data make another run, and no table mixes the two."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from fedmule.analysis import load_study
from fedmule.simulator.cli import main

ROOT = Path(__file__).parents[2]
TINY = """
[terrain]
size_m = [200, 200]
[clients]
count = 4
mobility = "static"
[learning]
algorithm = "fedavg"
dataset = { kind = "synthetic", samples = [20, 40] }
evaluate_every = 2
[stop]
visits = 4
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tiny.toml").write_text(TINY)
    return tmp_path


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the program, to be changed."""
    copy = tmp_path_factory.mktemp("program") / "fedmule"
    ignored = shutil.ignore_patterns("__pycache__", ".*", "tests", "docs")
    shutil.copytree(ROOT, copy, ignore=ignored)
    return copy


def study_by(program: Path, out: str, seeds: int) -> str:
    """Run a study with a program, in a process of its own; returns what it printed to stderr."""
    command = [
        sys.executable,
        "-m",
        "fedmule",
        "study",
        "tiny.toml",
        "--seeds",
        str(seeds),
        "--jobs",
        "1",
        "--out",
        out,
    ]
    environment = {**os.environ, "PYTHONPATH": str(program.parent)}
    process = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=240, check=True)
    return process.stderr


def results(out: str) -> pd.DataFrame:
    index = load_study(out).index
    return index.drop(columns=[name for name in index if str(name).startswith("host_")])


def test_a_changed_algorithm_runs_everything_again(here: Path, program: Path) -> None:
    study_by(program, "study", 1)
    before = results("study")
    with (program / "learning/algorithms/fedavg.py").open("a") as file:
        file.write("\n\ndef weighted_mean(x, samples):\n    return 0.5 * x.mean(dim=0)\n")
    err = study_by(program, "study", 2)
    study_by(program, "fresh", 2)
    pd.testing.assert_frame_equal(results("study"), results("fresh"), check_exact=True)
    assert results("study")["train_loss"][0] != before["train_loss"][0]
    assert "1 run is out of date and will be run again: the program has changed (learning)" in err


def test_changed_data_run_everything_again(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def write(sign: int) -> None:
        rows = [f"{i},{sign * (i % 7)},{i % 2}\n" for i in range(80)]
        (here / "data.csv").write_text("a,b,label\n" + "".join(rows))

    command = ["study", "tiny.toml", "--set", 'learning.dataset={kind="file", path="data.csv"}', "--jobs", "1"]
    write(1)
    assert main([*command, "--seeds", "1", "--out", "study"]) == 0
    write(-1)
    assert main([*command, "--seeds", "2", "--out", "fresh"]) == 0
    capsys.readouterr()
    assert main([*command, "--seeds", "2", "--out", "study"]) == 0
    pd.testing.assert_frame_equal(results("study"), results("fresh"), check_exact=True)
    assert f"run again: {here / 'data.csv'} has changed" in capsys.readouterr().err
