"""When a run is over, and how much of it is."""

from __future__ import annotations

import pytest

from fedmule.simulator.scenario import Stop
from fedmule.simulator.stopping import Stopping


def stopping(clients: int = 2, **limits: float) -> Stopping:
    return Stopping(Stop.model_validate(limits), clients)


def test_progress_is_that_of_the_nearest_limit() -> None:
    rules = stopping(visits=10, sim_time_s=100.0, total_bytes=1000)
    for _ in range(3):
        rules.contact(50, in_passing=False)
    assert rules.progress(0.0) == pytest.approx(0.3)
    assert rules.progress(40.0) == pytest.approx(0.4)
    rules.meeting(350)
    assert rules.progress(40.0) == pytest.approx(0.5)
    assert rules.progress(1e9) == 1.0


def test_each_limit_and_the_reason_that_came_first() -> None:
    rules = stopping(visits=2, sim_time_s=100.0, accuracy=0.9)
    assert not rules.over(99.0, 0.89)
    assert rules.stopped_by is None
    rules.contact(1, in_passing=False)
    rules.contact(1, in_passing=False)
    assert rules.over(1000.0, 1.0)
    assert rules.stopped_by == "visits"
    rules.interrupt()
    assert rules.stopped_by == "visits"
    timed, good = stopping(sim_time_s=100.0), stopping(accuracy=0.9)
    assert timed.over(100.0, 0.0)
    assert good.over(0.0, 0.9)
    assert (timed.stopped_by, good.stopped_by) == ("sim_time_s", "accuracy")


def test_contacts_in_passing_are_no_visits_but_their_bytes_count() -> None:
    rules = stopping(visits=2, total_bytes=100)
    for _ in range(4):
        rules.contact(10, in_passing=True)
    assert rules.progress(0.0) == pytest.approx(0.4)
    assert not rules.over(0.0, 0.0)
    rules.contact(0, in_passing=False)
    assert rules.progress(0.0) == pytest.approx(0.5)


def test_an_interruption_ends_with_the_resumption() -> None:
    rules = stopping(visits=2)
    rules.interrupt()
    assert rules.over(0.0, 0.0)
    assert rules.stopped_by == "interrupted"
    rules.resume()
    assert not rules.over(0.0, 0.0)


def test_too_many_in_a_row() -> None:
    """20 and two for each client: more clients not reached, or visits without a byte, end the run."""
    rules = stopping(clients=2, visits=10_000)
    for _ in range(24):
        rules.not_reached()
    rules.contact(0, in_passing=True)
    for _ in range(24):
        rules.not_reached()
        assert not rules.over(0.0, 0.0)
    rules.not_reached()
    assert rules.over(0.0, 0.0)
    assert rules.stopped_by == "nobody_reached"
    silent = stopping(clients=2, total_bytes=10)
    silent.contact(1, in_passing=False)
    for _ in range(24):
        silent.contact(0, in_passing=False)
        assert not silent.over(0.0, 0.0)
    silent.contact(0, in_passing=False)
    assert silent.over(0.0, 0.0)
    assert silent.stopped_by == "nothing_sent"


def test_models_that_diverged_end_the_run() -> None:
    rules = stopping(visits=10)
    assert not rules.over(0.0, 0.0)
    rules.diverged = True
    assert rules.over(0.0, 0.0)
    assert rules.stopped_by == "diverged"
