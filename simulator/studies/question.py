"""The question of a search: which key, within which range, for how much of which quantity."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fedmule.simulator.errors import ScenarioError, UserError
from fedmule.simulator.runs.column_kinds import REAL, WHOLE
from fedmule.simulator.runs.columns import SUMMARY
from fedmule.simulator.scenario import Scenario
from fedmule.simulator.scenario.keys import Part
from fedmule.simulator.scenario.load import find_scenario, load_scenario
from fedmule.simulator.scenario.overrides import NUMBER, expand_range
from fedmule.simulator.studies.bisection import Number, Range
from fedmule.simulator.studies.plan import Changes, Plan, StudyFile, plan_study

GAIN = "gain_over_alone"  # of the summary: personal accuracy minus that of training alone, as a share

RANGE = re.compile(rf"({NUMBER})\.\.({NUMBER})(:x?{NUMBER})?")
BY = "must be KEY=a..b or KEY=a..b:step, such as vehicle.speed_mps=1..20"


@dataclass(frozen=True)
class Question:
    """The smallest value of `key` with which `quantity` is at least `target`."""

    scenario: str
    key: str
    values: Range
    quantity: str  # a number of summary.json
    target: float  # in the quantity's own unit
    seeds: int
    changes: Changes

    @property
    def folder(self) -> Path:
        """Where its runs go unless another folder is named."""
        return Path("studies") / f"{find_scenario(self.scenario).stem}-{self.key}"

    def plan(self, values: Sequence[Number], name: str = "", title: str = "") -> Plan:
        """The study of some values. Raises UserError if the scenario does not allow one of them."""
        return plan_study(
            StudyFile(
                name=name or find_scenario(self.scenario).stem,
                title=title,
                scenarios=(self.scenario,),
                set=self.changes,
                vary={self.key: tuple(values)},
                seeds=self.seeds,
            )
        )


def ask(
    scenario: str,
    by: str,
    target: float,
    *,
    quantity: str = GAIN,
    seeds: int = 5,
    tolerance: float | None = None,
    changes: Changes | None = None,
) -> Question:
    """Check a question: `by` is KEY=a..b or KEY=a..b:step, and both ends must be allowed by the scenario."""
    key, values, on_grid = _parse_by(by)
    _check_quantity(quantity)
    if not math.isfinite(target):
        raise UserError(f"{quantity} = {target}: must be a number")
    whole = _is_whole(scenario, key, (values[0], values[-1]), changes or {}, by)
    typed = tuple(value if whole else float(value) for value in values)
    span = Range(typed[0], typed[-1], whole, typed if on_grid else (), tolerance)
    question = Question(scenario, key, span, quantity, target, seeds, dict(changes or {}))
    question.plan((span.low, span.high))
    return question


def target_of(gain: float | None, at_least: float | None, quantity: str | None) -> tuple[str, float]:
    """The quantity and the target asked for: `gain` is in points over training alone, `at_least` in its own unit."""
    if (gain is None) == (at_least is None):
        raise UserError("find: either a gain in points is needed, or at least how much of a quantity")
    if at_least is not None:
        return quantity or GAIN, at_least
    if quantity not in (None, GAIN):
        raise UserError(f"--quantity {quantity}: --gain is for {GAIN}; say --at-least how much of it instead")
    return GAIN, (gain or 0.0) / 100


def _parse_by(by: str) -> tuple[str, list[Number], bool]:
    """The key, the ends of the range or all values of its grid, and whether it is a grid."""
    key, equals, text = (part.strip() for part in by.partition("="))
    match = RANGE.fullmatch(text.replace(" ", ""))
    if not equals or not key or match is None:
        raise UserError(f"--by {by}: {BY}")
    low, high = match[1], match[2]
    if float(low) > float(high):
        raise UserError(f"--by {by}: must go from low to high: {key}={high}..{low}{match[3] or ''}")
    values = expand_range(text, f"--by {key}") if match[3] else [_number(low), _number(high)]
    if len(values) < 2 or values[0] == values[-1] or not math.isfinite(float(high) - float(low)):
        raise UserError(f"--by {by}: there is nothing to search between {values[0]} and {values[-1]}; {BY}")
    return key, values, match[3] is not None


def _number(text: str) -> Number:
    return int(text) if re.fullmatch(r"[-+]?\d+", text) else float(text)


def _check_quantity(name: str) -> None:
    known = [column.name for column in SUMMARY if column.type in (REAL, WHOLE)]
    if name not in known:
        near = difflib.get_close_matches(name, known, n=1)
        hint = f"did you mean {near[0]}?" if near else f"one of {', '.join(known)}"
        raise UserError(f"--quantity {name}: must be a number of a run's summary; {hint}")


def _is_whole(scenario: str, key: str, ends: Sequence[Number], changes: Changes, by: str) -> bool:
    """Whether a key takes whole numbers only. Raises UserError if it does not take both ends of the range."""
    if key in changes:
        raise UserError(f"--by {by}: {key} is set to {changes[key]} too")
    found: list[Any] = []
    for end in ends:
        try:
            found.append(_value_at(load_scenario(scenario, {**changes, key: end}), key))
        except ScenarioError as error:
            usual = _value_at(load_scenario(scenario, changes), key)
            if usual is None or _is_number(usual):
                problems = [replace(p, source=f"--by {by}") if p.key == key else p for p in error.problems]
                raise ScenarioError(scenario, problems) from None
            found.append(usual)
    for value in found:
        if not _is_number(value):
            kind = (
                "a table" if isinstance(value, Part) else "a list" if isinstance(value, tuple) else str(value).lower()
            )
            raise UserError(f"--by {by}: {key} is not a number, but {getattr(value, 'kind', kind)}")
    return all(isinstance(value, int) for value in found)


def _value_at(scenario: Scenario, key: str) -> Any:
    """The value of a dotted key in a scenario; None if it is not there."""
    found: Any = scenario
    for name in key.split("."):
        if isinstance(found, tuple) and name.isdecimal():
            found = found[int(name)] if int(name) < len(found) else None
        elif isinstance(found, Mapping):
            found = found.get(name)
        else:
            found = getattr(found, name, None)
    return found


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
