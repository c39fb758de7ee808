"""What the tables of a scenario demand of each other, beyond what each key may be by itself."""

from __future__ import annotations

from collections.abc import Iterator

from fedmule.simulator.errors import Problem
from fedmule.simulator.scenario import Scenario
from fedmule.simulator.scenario.keys import Part, tables_of


def broken_rules(scenario: Scenario) -> list[Problem]:
    """All problems of a scenario whose keys are valid one by one; every table has its own rules."""
    return list(_broken(scenario, "", scenario))


def _broken(part: Part, at: str, scenario: Scenario) -> Iterator[Problem]:
    yield from part.rules(at, scenario)
    for name, inner in tables_of(part):
        yield from _broken(inner, f"{at}.{name}" if at else name, scenario)
