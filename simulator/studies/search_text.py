"""Searches in words: the question, a line for each value tried, and the answer."""

from __future__ import annotations

import math

from fedmule.simulator.runs.columns import QUANTITIES
from fedmule.simulator.studies.bisection import PARTS, Finding, Number, Tried
from fedmule.simulator.studies.question import GAIN, Question


def question_text(question: Question) -> str:
    """The question, as a title."""
    return f"{question.key} for {_wanted(question)}"


def spacing_text(question: Question) -> str:
    """How finely the range is searched."""
    values = question.values
    if values.grid:
        return f"among {len(values.grid)} values"
    if values.tolerance is not None:
        return f"to within {values.tolerance:g}"
    if values.whole:
        return "among whole numbers"
    if values.geometric:
        return f"by factors, to within {100 * ((values.high / values.low) ** (1 / PARTS) - 1):.0f} % of the value"
    return f"to within {(values.high - values.low) / PARTS:g}"


def tried_text(question: Question, tried: Tried) -> str:
    """A line for a value tried: the value, its mean and interval, and what follows from them."""
    mean = f"{_measured(question, tried)} {_unit(question)}".rstrip() if tried.complete else "no result"
    return f"{shown(tried.value):>10}  {mean:<20}  {tried.decision(question.target)}"


def answer_text(question: Question, finding: Finding) -> str:
    """The answer in plain words."""
    texts = {"found": _found, "all": _all, "none": _none, "undecided": _undecided}
    text = f"{question.key}: {texts[finding.outcome](question, finding)}"
    if finding.hump:
        end = finding.at(question.values.high)
        text += f" It does not rise all the way: {_at(question, end)}, below the target again."
    elif finding.drop is not None:
        first, second = (_at(question, finding.at(value)) for value in finding.drop)
        text += f" It is not monotone: {first}, but {second}; the target may be crossed more than once."
    return text


def shown(value: Number) -> str:
    """A value of the key."""
    return str(value) if isinstance(value, int) else f"{value:.10g}"


def _found(question: Question, finding: Finding) -> str:
    assert finding.bracket is not None
    failing, reaching = (finding.at(value) for value in finding.bracket)
    which = "smallest" if finding.rising else "largest"
    means = f"{_over_seeds(question, reaching)} at {shown(reaching.value)}; {_at(question, failing)}"
    bounds = _bounds(finding, single=reaching.half_width is None)
    return f"{shown(reaching.value)} is the {which} value found with {_wanted(question)} ({means}); {bounds}"


def _bounds(finding: Finding, single: bool) -> str:
    low, high = finding.interval
    if single:
        return "one seed gives no interval: use five or more."
    if low is not None and high is not None:
        return f"the answer lies between {shown(low)} and {shown(high)} with 95 % confidence."
    if low is not None:
        return f"the answer lies above {shown(low)} with 95 % confidence; more seeds would bound it from above."
    if high is not None:
        return f"the answer lies below {shown(high)} with 95 % confidence; more seeds would bound it from below."
    return "these seeds are too few to bound the answer within the range."


def _all(question: Question, finding: Finding) -> str:
    assert finding.value is not None
    end = finding.at(finding.value)
    which = "already the smallest" if finding.rising else "even the largest"
    means = f"{_over_seeds(question, end)}{_doubt(question, end)}"
    return f"{which} value of the range, {shown(end.value)}, has {_wanted(question)} ({means})."


def _none(question: Question, finding: Finding) -> str:
    best, values = finding.best, question.values
    means = f"{_over_seeds(question, best)}, at {shown(best.value)}{_doubt(question, best)}"
    where = f"from {shown(values.low)} to {shown(values.high)}"
    return f"there is none {where} with {_wanted(question)}: the best reached is {means}."


def _undecided(question: Question, finding: Finding) -> str:
    lacking = next(tried for tried in finding.tried if not tried.complete)
    missing = sum(math.isnan(result) for result in lacking.results)
    runs = f"{missing} of {len(lacking.results)} runs"
    text = f"cannot decide at {shown(lacking.value)}: {runs} gave no {question.quantity}"
    if finding.bracket is not None:
        low, high = sorted(finding.bracket)
        text += f"; by the runs before, the answer lies between {shown(low)} and {shown(high)}"
    return f"{text}."


def _doubt(question: Question, tried: Tried) -> str:
    unclear = tried.half_width is not None and not tried.clearly(question.target)
    return ", an interval that includes the target" if unclear else ""


def _wanted(question: Question) -> str:
    target = _scaled(question, question.target)
    amount = f"at least {target:.6g} {_unit(question)}".rstrip()
    if question.quantity == GAIN:
        return f"a gain of {amount} over training alone"
    return f"{QUANTITIES[question.quantity].words} of {amount}"


def _at(question: Question, tried: Tried) -> str:
    return f"{_measured(question, tried)} at {shown(tried.value)}"


def _over_seeds(question: Question, tried: Tried) -> str:
    seeds = len(tried.results)
    return f"{_measured(question, tried)} " + (f"over {seeds} seeds" if seeds > 1 else "with one seed")


def _measured(question: Question, tried: Tried) -> str:
    mean = _number(question, tried.mean)
    return mean if tried.half_width is None else f"{mean} ± {_number(question, tried.half_width)}"


def _number(question: Question, result: float) -> str:
    scaled = _scaled(question, result)
    return f"{scaled:.1f}" if _unit(question) in ("%", "points") else f"{scaled:.4g}"


def _scaled(question: Question, result: float) -> float:
    """A result in the unit in which it is shown: shares in percent, everything else as logged."""
    return 100 * result if _unit(question) in ("%", "points") else result


def _unit(question: Question) -> str:
    if question.quantity == GAIN:
        return "points"
    unit = QUANTITIES[question.quantity].unit
    return "%" if unit == "share" else unit
