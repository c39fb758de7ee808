"""The verdict on a run, from numbers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from fedmule.simulator.runs.verdict import half_width, mean_known, over_alone


def text(gains: list[float], clients: int | None = None, algorithm: str = "rwsadmm", server: str = "vehicle") -> str:
    """The verdict on clients with these gains in points, of whom there are `clients` in all."""
    alone = np.full(clients or len(gains), np.nan)
    alone[: len(gains)] = 0.5
    personal = np.full(len(alone), 0.1)
    personal[: len(gains)] = 0.5 + np.array(gains) / 100
    found = over_alone(personal, alone, algorithm, server)["verdict"]
    assert found is not None
    return found


def test_better() -> None:
    assert text([10.0, 12.0, 14.0, 8.0]) == (
        "Carrying a model: +11.0 points (± 4.1) over training alone; 4 of 4 clients better off, 0 worse."
    )


def test_worse() -> None:
    assert text([-2.0, -3.0, -2.0, 0.5, -4.0, -2.5]) == (
        "Carrying a model: −2.2 points (± 1.6) against training alone; 1 of 6 clients better off, 5 worse."
    )


def test_no_clear_difference() -> None:
    assert text([10.0, 12.0, 14.0, 0.0]).startswith("Carrying a model: no clear difference from training alone: +9.0")
    assert text([1.0, -1.0, 0.5, 0.0]) == (
        "Carrying a model: no clear difference from training alone: +0.1 points (± 1.4); "
        "2 of 4 clients better off, 1 worse."
    )
    assert "no clear difference from training alone: +0.0 points (± 0.0)" in text([0.0, 0.0])
    assert "+0.0 points" in text([-0.01, 0.0, 0.005])


def test_how_many_chose_training_alone() -> None:
    personal, alone = np.array([0.5, 0.6, 0.7]), np.array([0.5, 0.5, 0.7])
    found = over_alone(personal, alone, "rwsadmm", "vehicle", 2)
    assert found["clients_alone"] == 2
    assert str(found["verdict"]).endswith("; 1 of 3 clients better off, 0 worse; 2 chose to train alone.")
    assert "chose" not in str(over_alone(personal, alone, "rwsadmm", "vehicle", 0)["verdict"])


def test_a_sample() -> None:
    assert text([5.0, 6.0] * 25, 1000) == (
        "Carrying a model: +5.5 points (± 0.1) over training alone; 50 of 50 clients better off, 0 worse, "
        "in a sample of 50 of 1,000 clients."
    )


def test_one_client() -> None:
    assert text([3.0]) == "Carrying a model: +3.0 points over training alone for the only client."
    assert text([-3.0], 8) == (
        "Carrying a model: −3.0 points against training alone for one of 8 clients, which says little about the others."
    )


def test_what_is_compared() -> None:
    assert text([1.0, 1.1], algorithm="local").startswith("Training only at contacts: +1.1")
    assert text([1.0, 1.1], server="star").startswith("Sharing a model over a server: ")


def test_nobody_alone() -> None:
    found = over_alone(np.array([0.5, 0.6]), np.full(2, np.nan), "rwsadmm", "vehicle")
    assert found == {
        "alone_clients": 0,
        "gain_over_alone": None,
        "gain_over_alone_half_width": None,
        "clients_better_off": 0,
        "clients_worse_off": 0,
        "clients_alone": None,
        "verdict": None,
    }
    assert mean_known(np.full(2, np.nan)) is None


@given(st.lists(st.floats(-1, 1), min_size=2, max_size=50))
def test_the_interval_is_that_of_a_paired_t_test(gains: list[float]) -> None:
    personal, alone = np.array(gains) / 2 + 0.5, np.full(len(gains), 0.5)
    width = half_width(personal - alone)
    assert width is not None
    if np.std(gains) > 1e-3:
        found = stats.ttest_rel(personal, alone).confidence_interval(0.95)
        assert width == pytest.approx((found.high - found.low) / 2)


def test_rounding_makes_nobody_better_or_worse_off() -> None:
    """The same accuracy, added up in another order, may differ in its last digit."""
    alone = np.array([0.3, 0.5, 0.7, 0.2])
    found = over_alone(alone + np.array([1e-16, -1e-16, 0.1, -0.05]), alone, "rwsadmm", "vehicle")
    assert (found["clients_better_off"], found["clients_worse_off"]) == (1, 1)
