"""Bisection over seeds: where a result that is random, and roughly monotone, crosses a target.

A result is compared with the target by its mean over seeds. The interval of the answer is more careful: a value counts
as clearly below the target, or as clearly reaching it, only if the 95 % interval of its mean lies wholly on one side.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Literal

from fedmule.simulator.studies.statistics import LEVEL, interval, paired_p

Number = int | float
Evaluate = Callable[[Sequence[Number]], Sequence[Sequence[float]]]  # results over seeds for each value; nan: no result
Outcome = Literal["found", "all", "none", "undecided"]

PARTS = 20  # by default a range is searched to within a 20th of it
WIDE = 20.0  # a range whose ends differ by more than this factor is halved by factors


@dataclass(frozen=True)
class Range:
    """The values to search: from `low` to `high`, only whole numbers, or only those of a grid."""

    low: Number
    high: Number
    whole: bool = False
    grid: tuple[Number, ...] = ()  # ascending, from low to high; none: everything between
    tolerance: float | None = None  # how near neighbours must be for the search to end

    @property
    def geometric(self) -> bool:
        """Whether the middle of two values is their geometric mean: the range is wide, and begins above 0."""
        return not self.grid and self.low > 0 and self.high / self.low > WIDE

    def middle(self, a: Number, b: Number) -> Number | None:
        """The value to try between two others; None if they are near enough."""
        a, b = sorted((a, b))
        if self.tolerance is not None and b - a <= self.tolerance:
            return None
        if self.grid:
            i, j = self.grid.index(a), self.grid.index(b)
            return self.grid[(i + j) // 2] if j - i > 1 else None
        exact = math.sqrt(a) * math.sqrt(b) if self.geometric else a + (b - a) / 2
        if self.whole:
            return min(max(round(exact), a + 1), b - 1) if b - a > 1 else None
        if self.tolerance is None and self._parts(a, b) <= 1 + 1e-9:
            return None
        return _rounded(exact, exact - a) if a < exact < b else None

    def _parts(self, a: Number, b: Number) -> float:
        """How many 20ths of the range lie between two values."""
        if self.geometric:
            return PARTS * math.log(b / a) / math.log(self.high / self.low)
        return PARTS * (b - a) / (self.high - self.low)


@dataclass(frozen=True)
class Tried:
    """A value that was tried, and its results over seeds."""

    value: Number
    results: tuple[float, ...]  # one for each seed, the same seeds for every value; nan: no result
    mean: float = field(init=False)
    half_width: float | None = field(init=False)  # of the 95 % interval of the mean; None for a single seed

    def __post_init__(self) -> None:
        mean, half_width = interval(self.results)
        object.__setattr__(self, "mean", mean)
        object.__setattr__(self, "half_width", half_width)

    @property
    def complete(self) -> bool:
        """Whether every seed has a result."""
        return not math.isnan(self.mean)

    def reaches(self, target: float) -> bool:
        """Whether the mean is at least the target."""
        return self.mean >= target

    def clearly(self, target: float) -> bool:
        """Whether the interval of the mean lies on one side of the target."""
        if self.half_width is None:
            return False
        return self.mean - self.half_width >= target or self.mean + self.half_width < target

    def decision(self, target: float) -> str:
        """What follows from it, in words."""
        if not self.complete:
            return "cannot decide"
        doubt = "" if self.half_width is None or self.clearly(target) else ", within the noise"
        return f"{'reaches it' if self.reaches(target) else 'below'}{doubt}"


@dataclass(frozen=True)
class Finding:
    """What a search found."""

    outcome: Outcome
    tried: tuple[Tried, ...]  # in the order in which they were tried
    rising: bool = True  # whether the result rises with the value: the smallest value is asked for, else the largest
    value: Number | None = None  # the answer: its mean reaches the target
    bracket: tuple[Number, Number] | None = None  # the nearest value tried whose mean fails, and one that reaches it
    interval: tuple[Number | None, Number | None] = (None, None)  # of the answer; None: not bounded on that side
    hump: bool = False  # whether both ends of the range failed where its middle did not
    drop: tuple[Number, Number] | None = None  # two values between which the result changes the other way

    def at(self, value: Number) -> Tried:
        """What was found at a value."""
        return next(tried for tried in self.tried if tried.value == value)

    @property
    def best(self) -> Tried:
        """The value with the highest mean."""
        return max((tried for tried in self.tried if tried.complete), key=lambda tried: tried.mean)


def bisect(
    values: Range, target: float, evaluate: Evaluate, report: Callable[[Tried], None] = lambda tried: None
) -> Finding:
    """Find the smallest value whose result is at least the target, or the largest if the result falls.

    Both ends are tried first; they decide whether the result rises or falls. If neither reaches the target, the middle
    is tried before it is said that there is none. A value with a seed that has no result ends the search.
    """
    tried: dict[Number, Tried] = {}

    def reach(*asked: Number) -> list[bool]:
        for value, results in zip(asked, evaluate(asked), strict=True):
            tried[value] = Tried(value, tuple(results))
            report(tried[value])
        if not all(tried[value].complete for value in asked):
            raise _UndecidedError
        return [tried[value].reaches(target) for value in asked]

    bracket: tuple[Number, Number] | None = None
    value: Number | None = None
    hump = False
    try:
        low, high = values.low, values.high
        low_reaches, high_reaches = reach(low, high)
        middle = values.middle(low, high)
        if not low_reaches and not high_reaches and middle is not None and reach(middle)[0]:
            hump, high, high_reaches = True, middle, True
        if low_reaches and high_reaches:
            rising = not _falls(tried[low], tried[high])
            outcome: Outcome = "all"
            value = low if rising else high
        elif not low_reaches and not high_reaches:
            rising, outcome = not _falls(tried[low], tried[high]), "none"
        else:
            rising, outcome = high_reaches, "found"
            bracket = (low, high) if rising else (high, low)
            while (middle := values.middle(*bracket)) is not None:
                bracket = (bracket[0], middle) if reach(middle)[0] else (middle, bracket[1])
            value = bracket[1]
    except _UndecidedError:
        return Finding("undecided", tuple(tried.values()), bracket=bracket)
    crossing = [tried[value] for value in sorted(tried, reverse=not rising) if value <= high]
    return Finding(
        outcome,
        tuple(tried.values()),
        rising,
        value,
        bracket,
        _bounds(crossing, target, rising) if outcome != "none" else (None, None),
        hump,
        _drop(sorted(tried.values(), key=lambda one: one.value, reverse=not rising)),
    )


class _UndecidedError(Exception):
    """A value has a seed without a result."""


def _rounded(value: float, distance: float) -> float:
    """A value with no more decimals than its distance from the next one deserves."""
    return round(value, 1 - math.floor(math.log10(distance)))


def _falls(low: Tried, high: Tried) -> bool:
    """Whether the result falls from the low end to the high one by more than chance, seed by seed."""
    change = [b - a for a, b in zip(low.results, high.results, strict=True)]
    return sum(change) < 0 and len(change) > 1 and paired_p(change) < LEVEL


def _bounds(crossing: Sequence[Tried], target: float, rising: bool) -> tuple[Number | None, Number | None]:
    """The interval of the answer, from values in order from those that fail to those that reach the target.

    It goes from the last value that is clearly below the target to the first that clearly reaches it.
    """
    clear = [tried for tried in crossing if tried.clearly(target)]
    below = next((tried.value for tried in reversed(clear) if not tried.reaches(target)), None)
    above = next((tried.value for tried in clear if tried.reaches(target)), None)
    return (below, above) if rising else (above, below)


def _drop(ordered: Sequence[Tried]) -> tuple[Number, Number] | None:
    """The two values between which the result falls most where it should rise, if any does by more than chance.

    A paired t test over seeds for every two values, with Bonferroni's correction for their number.
    """
    pairs = list(combinations(ordered, 2))
    worst, found = 0.0, None
    for first, second in pairs:
        change = [b - a for a, b in zip(first.results, second.results, strict=True)]
        fall = first.mean - second.mean
        if len(change) > 1 and fall > worst and paired_p(change) * len(pairs) < LEVEL:
            worst, found = fall, (first.value, second.value)
    return found
