"""The vehicles of a scenario: their starts and walk policies."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from fedmule.mobility.terrain import Terrain
from fedmule.radio.graph import ContactGraph
from fedmule.radio.walks.policy import Policy
from fedmule.simulator.errors import Problem, ScenarioError
from fedmule.simulator.scenario import Scenario
from fedmule.simulator.scenario.parts import Plugins, choose


def build_walks(scenario: Scenario, graph: ContactGraph, plugins: Plugins) -> tuple[Policy, ...]:
    """Make a walk policy for each vehicle; they know nothing of each other."""
    keys = scenario.vehicle
    walk = choose(keys.walk, "vehicle.walk", plugins)
    return tuple(walk.make(graph=graph, jump=keys.jump) for _ in range(keys.count))


def vehicle_starts(scenario: Scenario, terrain: Terrain) -> NDArray[np.float64]:
    """Return where the vehicles [W,2] start: all in the same open area."""
    if not terrain.areas:
        raise ScenarioError(
            scenario.name,
            [Problem("terrain.obstacles", "leave no open ground: nobody can stand or move anywhere")],
        )
    given, count = scenario.vehicle.starts, scenario.vehicle.count
    if not given:
        spread = _spread(count, terrain.size_m)
        return np.array(
            [
                xy if area == 0 else terrain.nearest_open(xy)
                for xy, area in zip(spread, terrain.area_of(spread), strict=True)
            ]
        )
    starts = np.array(list(given.values()))
    areas, problems = terrain.area_of(starts), []
    for (key, position), area in zip(given.items(), areas.tolist(), strict=True):
        if area < 0:
            problems.append(Problem(key, "lies in an obstacle that stops movement", list(position)))
        elif areas[0] >= 0 and area != areas[0]:
            message = "must lie in the same open area as the first: obstacles stand between"
            problems.append(Problem(key, message, list(position)))
    if problems:
        raise ScenarioError(scenario.name, problems)
    return starts if len(starts) == count else starts.repeat(count, axis=0)


def _spread(count: int, size_m: tuple[float, float]) -> NDArray[np.float64]:
    """Return the centres [count,2] of equal parts of the terrain, in rows and columns."""
    columns = min(count, max(1, round(math.sqrt(count * size_m[0] / size_m[1]))))
    rows = math.ceil(count / columns)
    number = np.arange(count)
    in_row = np.minimum(columns, count - number // columns * columns)  # the last row may have fewer
    shares = np.stack([(number % columns + 0.5) / in_row, (number // columns + 0.5) / rows], axis=1)
    return np.asarray(shares * np.array(size_m))
