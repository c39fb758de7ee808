"""How runs end, and how many of how many are done."""

from __future__ import annotations

from pathlib import Path

from fedmule.simulator import api
from fedmule.simulator.runs.ending import ending_of, n_of_n, without_result


def test_endings() -> None:
    assert ending_of({"stopped_by": "visits", "gradient_steps": 5}) == "done"
    assert ending_of({"stopped_by": "diverged", "gradient_steps": 0}) == "diverged"
    assert ending_of({"stopped_by": "interrupted", "gradient_steps": 5}) == "interrupted"
    assert ending_of({"stopped_by": "nobody_reached", "gradient_steps": 0}) == "learnt nothing"
    assert ending_of({"stopped_by": "visits"}) == "done"  # of an early version


def test_the_reasons_of_the_others() -> None:
    lost = without_result(["done", "missing", "diverged", "done", "diverged"])
    assert n_of_n(2, 5, lost) == "2 of 5, 2 diverged, 1 missing"
    assert n_of_n(3, 3, {}) == "3 of 3"


def test_a_run_that_no_step_reached_has_learnt_nothing(tmp_path: Path) -> None:
    """Whoever has a radio of 10 cm hears nobody: every exchange breaks off."""
    changes = {"radio": {"kind": "disc", "range_m": 0.1}, "stop.visits": 2, "stop.sim_time_s": 300.0}
    summary = api.run("smoke", changes, out=tmp_path / "run", quiet=True).summary
    assert (summary["gradient_steps"], summary["ending"]) == (0, "learnt nothing")
