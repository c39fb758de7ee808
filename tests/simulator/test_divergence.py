"""Models that diverge are noticed by bounds that the run sets; the message says where, and because of which key."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import extremes
import pytest

from fedmule.simulator.cli import main
from fedmule.simulator.divergence import FIRST, Divergence
from fedmule.simulator.scenario.learning import Learning


def watch(start_loss: float = 2.3, classes: int = 10, usual_beta: float | None = None, **learning: Any) -> Divergence:
    return Divergence(start_loss, classes, Learning.model_validate(learning), usual_beta)


@pytest.mark.parametrize(
    ("losses", "last", "said"),
    [
        ([2.3], math.nan, "at contact 2 (visit 1), with client 4 the loss was no number any more; "),
        ([2.3, 1.9], math.inf, "no number"),
        ([2.3, 0.8, 231.0, 231.0], 231.0, "the loss was 2.3e+02"),  # 100 times that of the start
        ([40.0, 240.0, 20.0, 231.0, 240.0], 231.0, "the loss was 2.3e+02"),
        ([], 2e6, "at contact 1 (visit 0), with client 4 the loss was 2e+06"),
    ],
)
def test_a_loss_that_runs_away(losses: list[float], last: float, said: str) -> None:
    found = watch()
    for contact, loss in enumerate([*losses, last], start=1):
        assert found.words is None
        found.learnt(loss, {}, contact // 2, contact, 4)
    assert found.words is not None
    assert said in found.words


def test_a_loss_that_is_large_from_the_start_may_be_as_large_later() -> None:
    found = watch(start_loss=400.0)
    for contact, loss in enumerate([300.0, 9_000.0, 39_000.0]):
        found.learnt(loss, {}, 1, contact, None)
    assert found.words is None
    for contact in (7, 8, 9):
        assert found.words is None
        found.learnt(41_000.0, {}, 1, contact, None)
    assert found.words is not None
    assert found.words.startswith("at contact 9 (visit 1) the loss was 4.1e+04")


def test_sizes_grow_beyond_a_thousand_times_their_first() -> None:
    found = watch()
    for contact in range(FIRST + 5):
        found.learnt(1.0, {"the token": 2.0 + contact, "a dual": 0.0}, contact, contact, 1)
    found.learnt(1.0, {"the token": 1_000 * (2.0 + FIRST - 1), "a dual": 1e30}, 0, 20, 1)  # the first dual above 0
    assert found.words is None
    found.learnt(None, {"the token": 11_100.0}, 7, 21, 3)
    assert found.words is not None
    assert (
        "at contact 21 (visit 7), with client 3 the token was 1.1e+04, 1,009 times as large as at first" in found.words
    )
    other = watch()
    other.learnt(1.0, {"a dual": math.inf}, 1, 1, 0)
    assert other.words is not None
    assert "a dual was no number any more" in other.words


@pytest.mark.parametrize(
    ("learning", "said"),
    [
        ({}, "likely because of learning.step_size = 0.1"),
        ({"step_size": 5.0}, "likely because of learning.step_size = 5 (0.1 by default)"),
        ({"step_size": 5.0, "algorithm": {"kind": "rwsadmm", "kappa": 500.0}}, "learning.algorithm.kappa = 500 (0.5 "),
        ({"algorithm": {"kind": "rwsadmm", "beta": 1e-4}}, "learning.algorithm.beta = 0.0001 (0.3 by default)"),
        ({"local_steps": 900}, "learning.local_steps = 900 (10 by default)"),
    ],
)
def test_the_likely_key_is_the_one_farthest_from_its_default(learning: dict[str, Any], said: str) -> None:
    found = watch(usual_beta=0.3, **learning)
    found.learnt(math.nan, {}, 1, 1, 0)
    assert found.words is not None
    assert said in found.words


def test_features_that_are_large_are_the_likely_reason() -> None:
    found = watch(start_loss=1e4)
    found.learnt(math.nan, {}, 1, 1, 0)
    assert found.words is not None
    assert "because the features are large" in found.words


@pytest.mark.parametrize(
    ("name", "changes"), list(extremes.extremes())[3::9], ids=lambda part: part if isinstance(part, str) else ""
)
def test_no_extreme_run_ends_as_a_success_with_an_absurd_loss(
    name: str, changes: dict[str, Any], tmp_path: Path
) -> None:
    """Some of them; all with python tests/benchmarks/extremes.py --all."""
    right, text = extremes.outcome(changes, tmp_path)
    assert right, text


def test_the_exit_status_and_the_last_line_say_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--set", "learning.step_size=1e6", "--set", "stop.visits=30", "--set", "learning.algorithm=fedavg"]
    assert main(["run", "smoke", "--out", str(tmp_path / "run"), *words]) == 3
    said = capsys.readouterr().out
    assert "the models diverged at contact 4 (visit 1), with client 5" in said
    assert "learning.step_size = 1e+06 (0.1 by default)" in said
