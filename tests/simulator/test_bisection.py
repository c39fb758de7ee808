"""Bisection over seeds, on functions whose crossing is known."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import stats

from fedmule.simulator.studies.bisection import Evaluate, Finding, Number, Range, Tried, bisect

NOISE = np.array([-0.3, 0.1, 0.2])  # of three seeds, the same at every value


def exact(function: Callable[[float], float], seen: list[Number] | None = None) -> Evaluate:
    """Every seed gives the function itself."""

    def evaluate(values: Sequence[Number]) -> list[list[float]]:
        if seen is not None:
            seen.extend(values)
        return [[function(value)] * 3 for value in values]

    return evaluate


finite = st.floats(-1e6, 1e6)


@st.composite
def ranges(draw: st.DrawFn) -> Range:
    """Ranges of all sorts: of numbers, of whole numbers, on grids, narrow and wide."""
    if draw(st.booleans()):
        low = draw(st.integers(-1000, 1000))
        return Range(low, low + draw(st.integers(1, 5000)), whole=True)
    if draw(st.booleans()):
        grid = tuple(sorted(draw(st.sets(finite, min_size=2, max_size=30))))
        return Range(grid[0], grid[-1], grid=grid)
    low = draw(st.one_of(finite, st.floats(1e-6, 1.0)))
    high = low + draw(st.floats(1e-3, 1e6))
    assume(high > low)
    return Range(low, high, tolerance=draw(st.none() | st.just((high - low) / 100)))


def near_enough(values: Range, failing: Number, reaching: Number) -> bool:
    gap = abs(reaching - failing)
    if values.grid:
        return abs(values.grid.index(failing) - values.grid.index(reaching)) == 1
    if values.whole:
        return gap == 1
    if values.tolerance is not None:
        return gap <= values.tolerance * (1 + 1e-9)
    if values.geometric:
        low, high = sorted((failing, reaching))
        return math.log(high / low) <= math.log(values.high / values.low) / 20 * (1 + 1e-6)
    return gap <= (values.high - values.low) / 20 * (1 + 1e-6)


# --- without noise -----------------------------------------------------------------------------------------------


@given(ranges(), st.floats(0, 1), st.booleans())
def test_the_crossing_of_a_monotone_function_is_found(values: Range, share: float, rising: bool) -> None:
    crossing = values.low + share * (values.high - values.low)
    sign = 1 if rising else -1
    seen: list[Number] = []
    finding = bisect(values, 0.0, exact(lambda x: sign * (x - crossing), seen))
    assert len(seen) == len(set(seen)) == len(finding.tried)
    assert all(values.low <= value <= values.high for value in seen)
    ends = [sign * (end - crossing) >= 0 for end in (values.low, values.high)]
    if all(ends):
        assert (finding.outcome, finding.value) == ("all", values.low if rising else values.high)
        return
    assert finding.outcome == "found"
    assert finding.bracket is not None
    assert finding.rising == rising
    assert finding.drop is None
    failing, reaching = finding.bracket
    assert finding.value == reaching
    assert sign * failing < sign * crossing <= sign * reaching
    assert near_enough(values, failing, reaching)
    assert finding.interval == ((failing, reaching) if rising else (reaching, failing))
    if values.whole:
        assert all(isinstance(value, int) for value in seen)
        assert reaching == (math.ceil(crossing) if rising else math.floor(crossing))
    if values.grid:
        assert set(seen) <= set(values.grid)


@given(ranges(), st.floats(0, 1))
def test_a_finer_search_tries_what_the_coarse_one_tried_first(values: Range, share: float) -> None:
    """So it finds these runs done."""
    crossing = values.low + share * (values.high - values.low)
    coarse, fine = [], []
    bisect(Range(values.low, values.high, values.whole, values.grid, (values.high - values.low) / 4), 0.0,
           exact(lambda x: x - crossing, coarse))  # fmt: skip
    bisect(Range(values.low, values.high, values.whole, values.grid, (values.high - values.low) / 64), 0.0,
           exact(lambda x: x - crossing, fine))  # fmt: skip
    assert fine[: len(coarse)] == coarse


def test_values_have_no_more_digits_than_they_need() -> None:
    seen: list[Number] = []
    bisect(Range(1.0, 20.0), 0.0, exact(lambda x: x - 6.27, seen))
    assert seen == [1.0, 20.0, 10.5, 5.8, 8.2, 7.0, 6.4]


def test_wide_ranges_are_halved_by_factors() -> None:
    assert not Range(1.0, 20.0).geometric
    assert not Range(0.0, 1000.0).geometric
    assert not Range(-5.0, 1000.0).geometric
    assert Range(1.0, 1000.0).middle(1.0, 1000.0) == pytest.approx(math.sqrt(1000), rel=0.02)
    assert Range(1, 1000, whole=True).middle(1, 1000) == 32
    assert Range(1.0, 20.0).middle(1.0, 20.0) == 10.5
    seen: list[Number] = []
    bisect(Range(0.001, 1000.0), 0.0, exact(lambda x: math.log(x / 0.05), seen))
    assert len(seen) == 7  # as few as in a narrow range


def test_there_is_none() -> None:
    seen: list[Number] = []
    finding = bisect(Range(1, 9, whole=True), 100.0, exact(lambda x: x, seen))
    assert (finding.outcome, finding.value, finding.interval) == ("none", None, (None, None))
    assert seen == [1, 9, 5]  # the middle too: the best may be inside
    assert finding.best.value == 9
    assert bisect(Range(1, 2, whole=True), 100.0, exact(lambda x: -x)).best.value == 1


def test_a_hump_is_climbed_from_the_low_side_and_reported() -> None:
    finding = bisect(Range(0.0, 16.0), 5.0, exact(lambda x: 8 - abs(x - 8)))
    assert finding.outcome == "found"
    assert finding.hump
    assert finding.rising
    assert finding.value == pytest.approx(5, abs=0.8)
    low, high = finding.interval
    assert low is not None
    assert high is not None
    assert low < 5 <= high


def test_results_that_turn_the_other_way_are_named() -> None:
    peaked = bisect(Range(1.0, 20.0), 4.0, exact(lambda x: 40 - x if 8 < x < 12 else x))
    assert peaked.drop == (10.5, 20.0)
    assert not peaked.hump
    falling = bisect(Range(1.0, 20.0), 4.0, exact(lambda x: 21 - x + (20 if 8 < x < 12 else 0)))
    assert not falling.rising
    assert falling.drop == (10.5, 1.0)  # read from the end that fails


def test_a_seed_without_a_result_ends_the_search() -> None:
    def evaluate(values: Sequence[Number]) -> list[list[float]]:
        return [[value, math.nan if value == 5 else value] for value in values]

    finding = bisect(Range(1, 9, whole=True), 4.0, evaluate)
    assert (finding.outcome, finding.value, finding.bracket) == ("undecided", None, (1, 9))
    assert [tried.value for tried in finding.tried] == [1, 9, 5]
    assert not finding.at(5).complete
    at_once = bisect(Range(5, 9, whole=True), 4.0, evaluate)
    assert (at_once.outcome, at_once.bracket) == ("undecided", None)


def test_one_seed_has_no_interval() -> None:
    finding = bisect(Range(1, 9, whole=True), 4.0, lambda values: [[float(value)] for value in values])
    assert (finding.value, finding.interval) == (4, (None, None))
    assert finding.at(4).half_width is None


# --- with noise --------------------------------------------------------------------------------------------------


def test_decisions_follow_students_interval() -> None:
    results = (0.04, 0.07, 0.05, 0.09)
    low, high = stats.t.interval(0.95, 3, np.mean(results), stats.sem(results))
    tried = Tried(3.0, results)
    assert tried.mean == pytest.approx(np.mean(results))
    assert tried.half_width == pytest.approx((high - low) / 2)
    assert tried.decision(low - 1e-6) == "reaches it"
    assert tried.decision(low + 1e-6) == "reaches it, within the noise"
    assert tried.decision(high - 1e-6) == "below, within the noise"
    assert tried.decision(high + 1e-6) == "below"
    assert Tried(3.0, (1.0, math.nan)).decision(0.0) == "cannot decide"


def test_the_interval_ends_where_results_are_clear() -> None:
    """Means cross 0 at 6.27; three seeds make everything within ±0.66 of it unclear."""
    half_width = stats.t.ppf(0.975, 2) * NOISE.std(ddof=1) / math.sqrt(3)
    assert half_width == pytest.approx(0.657, abs=1e-3)
    finding = bisect(Range(1.0, 20.0), 0.0, lambda values: [list(value - 6.27 + NOISE) for value in values])
    assert [tried.value for tried in finding.tried] == [1.0, 20.0, 10.5, 5.8, 8.2, 7.0, 6.4]
    assert (finding.value, finding.interval) == (6.4, (1.0, 7.0))  # 5.8 is too near
    falling = bisect(Range(1.0, 20.0), 0.0, lambda values: [list(6.27 - value + NOISE) for value in values])
    assert (falling.value, falling.bracket, falling.interval) == (5.8, (6.4, 5.8), (1.0, 7.0))


def test_a_clear_value_bounds_the_answer_though_one_beyond_it_is_noisier() -> None:
    spread = {20.0: 0.1, 10.5: 50.0, 5.8: 0.1}
    finding = bisect(
        Range(1.0, 20.0), 0.0, lambda values: [list(value - 4 + spread.get(value, 0.1) * NOISE) for value in values]
    )
    assert not finding.at(10.5).clearly(0.0)
    assert finding.interval == (3.4, 4.6)


def noisy(crossing: float, spread: float, common: float, draw: np.random.Generator, seeds: int = 5) -> Evaluate:
    """A line through the crossing; of the noise's variance this share is the seed's own, the same at every value."""
    own = draw.normal(size=seeds)

    def evaluate(values: Sequence[Number]) -> list[list[float]]:
        fresh = draw.normal(size=(len(values), seeds))
        noise = spread * (math.sqrt(common) * own + math.sqrt(1 - common) * fresh)
        return [list(value - crossing + noise[i]) for i, value in enumerate(values)]

    return evaluate


def covers(finding: Finding, crossing: float) -> bool:
    low, high = finding.interval
    return (low is None or low < crossing) and (high is None or crossing <= high)


@pytest.mark.parametrize("spread", [0.3, 2.0, 8.0])
@pytest.mark.parametrize("common", [0.0, 0.8])
def test_the_interval_covers_the_truth_as_often_as_it_says(spread: float, common: float) -> None:
    """Between 1 and 20. Where the noise is nearly as large as the range, many values are equally likely to mislead."""
    draw, trials = np.random.default_rng(7), 400
    crossings = draw.uniform(1.0, 20.0, trials)
    findings = [bisect(Range(1.0, 20.0), 0.0, noisy(x, spread, common, draw)) for x in crossings]
    covered = float(np.mean([covers(finding, x) for finding, x in zip(findings, crossings, strict=True)]))
    assert covered >= (0.95 if spread < 5 else 0.93)
    false_alarms = np.mean([finding.drop is not None for finding in findings])
    assert false_alarms <= 0.05
    if spread < 1:  # and it says something
        bounded = [finding.interval for finding in findings if None not in finding.interval]
        assert len(bounded) >= 0.9 * trials
        assert np.mean([high - low for low, high in bounded if low is not None and high is not None]) < 3.5


def test_whole_numbers_with_noise() -> None:
    draw = np.random.default_rng(8)
    covered = []
    for _ in range(200):
        crossing = int(draw.integers(2, 12))
        finding = bisect(Range(1, 12, whole=True), -0.5, noisy(crossing, 0.8, 0.5, draw))
        covered.append(covers(finding, crossing))
    assert np.mean(covered) >= 0.95


@settings(max_examples=30)
@given(st.integers(0, 10**6), st.floats(1, 20))
def test_the_same_results_give_the_same_answer(seed: int, crossing: float) -> None:
    """As when a search that was interrupted is repeated: what was run gives what it gave."""
    run: dict[Number, list[float]] = {}
    world = noisy(crossing, 2.0, 0.5, np.random.default_rng(seed))

    def interrupted(values: Sequence[Number]) -> list[list[float]]:
        if len(run) >= 4:
            raise KeyboardInterrupt
        return remembered(values)

    def remembered(values: Sequence[Number]) -> list[list[float]]:
        run.update({value: world([value])[0] for value in values if value not in run})
        return [run[value] for value in values]

    try:
        first = bisect(Range(1.0, 20.0), 0.0, interrupted)
    except KeyboardInterrupt:
        first = bisect(Range(1.0, 20.0), 0.0, remembered)
    assert bisect(Range(1.0, 20.0), 0.0, remembered) == first
