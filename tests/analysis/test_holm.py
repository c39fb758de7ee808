"""Who beats whom: Holm's correction, against the closed test it is short for."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.stats import ttest_rel

from fedmule.analysis.comparison import better_than
from fedmule.simulator.studies.statistics import LEVEL

SEEDS = 6
SHAPE = np.array([-1.0, 1.0, -1.0, 1.0, -1.0, 1.0])  # of accuracies over the seeds: mean 0


@dataclass(frozen=True)
class Finished:
    """An algorithm with known accuracies, one per seed."""

    column: str
    accuracy: np.ndarray[Any, Any]
    diverged: int = 0  # of its runs

    def values(self, column: str) -> dict[int, float]:
        assert column == "personal_test_acc_mean"
        return dict(enumerate(self.accuracy.tolist()))


def p_values(finished: list[Finished]) -> dict[tuple[str, str], float]:
    return {(a.column, b.column): float(ttest_rel(a.accuracy, b.accuracy).pvalue) for a, b in combinations(finished, 2)}


def claims(p: dict[tuple[str, str], float]) -> set[tuple[str, str]]:
    """Pairs that differ by the closed test: every set of pairs with this one in it is rejected by Bonferroni's."""
    sets = [chosen for size in range(1, len(p) + 1) for chosen in combinations(p, size)]
    rejected = {chosen for chosen in sets if min(p[pair] for pair in chosen) * len(chosen) <= LEVEL}
    return {pair for pair in p if all(chosen in rejected for chosen in sets if pair in chosen)}


def found(finished: list[Finished]) -> set[tuple[str, str]]:
    """Pairs that `better_than` claims to differ, in the order of `finished`."""
    order = [one.column for one in finished]
    pairs = {(winner, loser) for winner, losers in better_than(finished).items() for loser in losers}
    return {(min(pair, key=order.index), max(pair, key=order.index)) for pair in pairs}


def test_the_least_clear_of_clear_differences_needs_no_more_than_the_level_itself() -> None:
    """Three pairs, the last with p between 5 %/3 and 5 %: Bonferroni's correction would not claim it, Holm's does."""
    clear = Finished("far", np.full(SEEDS, 0.2) + 0.002 * SHAPE)
    one = Finished("one", np.zeros(SEEDS))
    other = Finished("other", 0.0125 + 0.01 * SHAPE)
    finished = [clear, one, other]
    p = p_values(finished)
    assert LEVEL / 3 < p["one", "other"] < LEVEL
    assert max(p["far", "one"], p["far", "other"]) < LEVEL / 3
    assert better_than(finished) == {"far": ["one", "other"], "one": [], "other": ["one"]}


def test_nothing_is_claimed_once_a_difference_fails() -> None:
    """Two of three p below 5 %/2, none below 5 %/3: a step-up correction would claim them, Holm's claims nothing."""
    low = Finished("low", np.zeros(SEEDS))
    finished = [low, Finished("one", 0.0145 + 0.01 * SHAPE), Finished("other", 0.0145 - 0.01 * SHAPE)]
    p = p_values(finished)
    assert LEVEL / 3 < p["low", "one"] < LEVEL / 2
    assert LEVEL / 3 < p["low", "other"] < LEVEL / 2
    assert better_than(finished) == {"low": [], "one": [], "other": []}


@given(
    st.lists(st.lists(st.integers(-20, 20), min_size=SEEDS, max_size=SEEDS), min_size=2, max_size=4),
    st.lists(st.sampled_from([0, 10, 20, 30, 100]), min_size=4, max_size=4),
)
def test_claims_are_those_of_the_closed_test(noise: list[list[int]], means: list[int]) -> None:
    finished = [Finished(f"a{i}", (np.array(row) + means[i]) / 1000) for i, row in enumerate(noise)]
    assume(all(np.ptp(a.accuracy - b.accuracy) > 1e-6 for a, b in combinations(finished, 2)))
    assert found(finished) == claims(p_values(finished))


def test_winners_have_the_higher_mean() -> None:
    low, high = Finished("low", 0.01 * SHAPE), Finished("high", 0.5 + 0.01 * np.roll(SHAPE, 1))
    for finished in ([low, high], [high, low]):
        assert better_than(finished) == {"low": [], "high": ["low"]}


@pytest.mark.parametrize("seeds", [1, 0])
def test_a_single_seed_claims_nothing(seeds: int) -> None:
    finished = [Finished("low", np.zeros(seeds)), Finished("high", np.ones(seeds))]
    assert better_than(finished) == {"low": [], "high": []}
