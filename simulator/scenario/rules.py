"""What the tables of a scenario demand of each other, beyond what each key may be by itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fedmule.simulator.errors import Problem
from fedmule.simulator.scenario import Scenario
from fedmule.simulator.scenario.keys import Part, tables_of
from fedmule.simulator.scenario.limits import beyond_limits


def broken_rules(scenario: Scenario) -> list[Problem]:
    """All problems of a scenario whose keys are valid one by one; every table has its own rules."""
    problems = [problem for at, part in _every(scenario) for problem in beyond_limits(at, _values(part))]
    return problems or [problem for at, part in _every(scenario) for problem in part.rules(at, scenario)]


def file_problems(scenario: Scenario) -> list[Problem]:
    """All problems with the files that a scenario names that can be seen without reading them entirely."""
    return [problem for at, part in _every(scenario) for problem in part.file_problems(at)]


def _values(part: Part) -> dict[str, Any]:
    """The values of a table, without tables in it."""
    return {name: getattr(part, name) for name in type(part).model_fields}


def _every(part: Part, at: str = "") -> Iterator[tuple[str, Part]]:
    """Yield a table and all tables in it, by their dotted keys."""
    yield at, part
    for name, inner in tables_of(part):
        yield from _every(inner, f"{at}.{name}" if at else name)
