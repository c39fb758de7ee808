"""fedmule compare: the same world for every algorithm, and local training always beside them."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from fedmule.analysis import load_study
from fedmule.analysis.comparison import verdict
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


def test_without_more_it_compares_the_default_with_fine_tuned_fedavg(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", "tiny.toml", "--seeds", "2", "--jobs", "1"]) == 0
    out = capsys.readouterr().out
    assert [line.split()[0] for line in out.splitlines()[2:5]] == ["local", "rwsadmm", "fedavg_ft"]
    last = out.splitlines()[-1]
    index = load_study("studies/tiny-algorithms").index
    best = index.groupby("learning.algorithm")["personal_test_acc_mean"].mean().idxmax()
    assert re.match(rf"({best} is ahead:|No clear winner: {best} has) [+−-]\d", last)
    assert "With 2 seeds only large differences show" in last


@dataclass
class Contender:
    """An algorithm of a comparison, with its accuracies in %."""

    column: str
    accuracies: list[float]
    is_local: bool = False
    diverged: int = 0  # seeds

    @property
    def seeds(self) -> int:
        return len(self.accuracies) + self.diverged

    @property
    def runs(self) -> dict[int, str]:
        return dict.fromkeys(range(len(self.accuracies)), "")

    def percent(self, name: str) -> list[float]:
        return self.accuracies

    def values(self, name: str) -> dict[int, float]:
        return {seed: value / 100 for seed, value in enumerate(self.accuracies)}


def test_the_verdict_says_what_is_more_than_chance() -> None:
    local = Contender("local", [70.0, 71.0, 69.0, 70.5, 70.0], is_local=True)
    one, other = Contender("one", [80.0, 81.0, 79.5, 80.0, 80.2]), Contender("other", [80.5, 80.0, 79.0, 80.6, 79.9])
    assert " ".join(verdict([local, one, other])) == (
        "No clear winner: one has +0.1 points (± 0.8) over other, no more than chance may do; "
        "+10.0 points (± 0.5) over local, more than chance."
    )
    assert verdict([local, one]) == ["one is ahead: +10.0 points (± 0.5) over local, more than chance."]
    assert verdict([one, other])[0].startswith("No clear winner: one has +0.1 points")
    assert verdict([local, Contender("one", []), Contender("two", [60.0])])[0].startswith("No clear winner: local has")
    lost = Contender("lost", [float("nan")] * 5)  # nothing is known of it
    assert verdict([lost, local, one]) == verdict([local, lost, one]) == verdict([local, one])
    assert verdict([local])[0].startswith("Nothing to compare")
    better = Contender("better", [90.0, 91.0, 89.0, 90.0], diverged=1)
    assert verdict([better, local, one]) == [*verdict([local, one]), "better diverged in 1 of 5 seeds and is left out."]
    assert verdict([better, local])[0].startswith("Nothing to compare")
