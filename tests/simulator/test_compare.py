"""fedmule compare: the same world for every algorithm, and local training always beside them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from fedmule.analysis import load_study
from fedmule.simulator.cli import main

SCENARIO = """
[clients]
count = 4
mobility = "static"
[learning]
dataset = { kind = "synthetic", samples = [20, 40] }
evaluate_every = 2
"""


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tiny.toml").write_text(f"{SCENARIO}[stop]\nvisits = 8\n")
    (tmp_path / "timed.toml").write_text(f"{SCENARIO}[stop]\nsim_time_s = 200\n")


@pytest.mark.parametrize("in_passing", ["false", "true"])
def test_algorithms_share_the_world_and_take_equal_steps(capsys: pytest.CaptureFixture[str], in_passing: str) -> None:
    options = ["--algorithms", "fedavg,derived", "--seeds", "2", "--jobs", "1", "--target", "0.1"]
    assert main(["compare", "tiny.toml", *options, "--set", f"vehicle.in_passing={in_passing}"]) == 0
    out = capsys.readouterr().out
    assert [line.split()[0] for line in out.splitlines()[2:5]] == ["local", "fedavg", "derived"]
    assert "to 10 %" in out
    study = load_study("studies/tiny-algorithms")
    assert list(study.index["learning.algorithm"]) == ["local", "local", "fedavg", "fedavg", "derived", "derived"]
    assert list(study.index["seed"]) == [0, 1] * 3
    assert {run.visits["gradient_steps"].sum() for run in study.runs()} == {80}  # 8 visits of 10 or 80 of 1
    if in_passing == "false":  # contacts in passing add to them, more of them in 80 visits than in 8
        assert set(study.index["gradient_steps"]) == {80}
    starts = study.index.groupby("seed")["start_personal_test_acc_mean"].nunique()
    assert (starts == 1).all()
    local, fedavg = (study.contacts(["client", "sim_time_s"], {"learning.algorithm": n}) for n in ("local", "fedavg"))
    assert list(local["client"]) == list(fedavg["client"])


def test_a_subclass_of_your_own_takes_as_many_gradients_as_its_base(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    module = "from fedmule.learning.algorithms.ditto import Ditto\n\nclass MyDitto(Ditto):\n    pass\n"
    (tmp_path / "dittos_of_mine.py").write_text(module)
    options = ["--algorithms", "ditto,dittos_of_mine:MyDitto", "--seeds", "1", "--jobs", "1"]
    assert main(["compare", "tiny.toml", *options]) == 2
    assert "add --allow-plugins" in capsys.readouterr().err
    assert main(["compare", "tiny.toml", *options, "--allow-plugins"]) == 0
    index = load_study("studies/tiny-algorithms").index.set_index("learning.algorithm")
    assert index["gradient_steps"].nunique() == 1
    ours, theirs = (index.loc[name, "personal_test_acc_mean"] for name in ("dittos_of_mine:MyDitto", "ditto"))
    assert ours == theirs


def test_a_scenario_that_ends_by_its_clock_is_compared_until_then(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", "timed.toml", "--algorithms", "ditto", "--seeds", "1", "--jobs", "1"]) == 0
    assert "One seed cannot show" in capsys.readouterr().out
    index = load_study("studies/timed-algorithms").index
    assert set(index["stopped_by"]) == {"sim_time_s"}
    assert index["visits"].nunique() == 1


def test_an_unknown_algorithm_is_named(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["compare", "tiny.toml", "--algorithms", "fedavgg"]) == 2
    assert "did you mean fedavg?" in capsys.readouterr().err
    assert not (tmp_path / "studies").exists()
