"""The vehicles of a scenario: their starts, walk policies and routes."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fedmule.mobility.driving import Driving
from fedmule.mobility.itinerary import Itinerary
from fedmule.mobility.models.movement import NOWHERE_X_M, MovementError
from fedmule.mobility.terrain import Terrain
from fedmule.mobility.traces.trace import TraceError
from fedmule.mobility.trajectory import Way
from fedmule.radio.graph import ContactGraph
from fedmule.radio.walks.policy import Policy
from fedmule.simulator.errors import Problem, ScenarioError
from fedmule.simulator.scenario import Scenario
from fedmule.simulator.scenario.parts import Plugins, choose


def build_walks(scenario: Scenario, graph: ContactGraph, plugins: Plugins) -> tuple[Policy, ...]:
    """Make a walk policy for each vehicle; they know nothing of each other."""
    return tuple(
        choose(keys.walk, f"{at if own_walk else 'vehicle'}.walk", plugins).make(graph=graph, jump=keys.jump)
        for (at, keys), own_walk in zip(scenario.vehicle.each(), _own_walks(scenario), strict=True)
    )


def _own_walks(scenario: Scenario) -> list[bool]:
    """Whether each vehicle's walk stands in its own table."""
    fleet = scenario.vehicle.fleet
    return [own.walk is not None for own in fleet] if fleet else [False] * scenario.vehicle.count


def build_driving(scenario: Scenario, terrain: Terrain, start: NDArray[np.float64]) -> tuple[Driving, ...]:
    """Make each vehicle's way of routing, over the roads that they share."""
    vehicle = scenario.vehicle
    try:
        roads = None
        if vehicle.roads is not None:
            area = terrain.nearest_area(start)
            roads = choose(vehicle.roads, "vehicle.roads", {}).make(terrain=terrain, area=area)
    except MovementError as error:
        raise ScenarioError(scenario.name, [Problem(f"vehicle{error.key}", str(error))]) from None
    return tuple(Driving(terrain, own.speed_mps, roads, own.off_road_factor) for _, own in vehicle.each())


def build_routes(scenario: Scenario, terrain: Terrain, driving: Sequence[Driving]) -> tuple[Itinerary | None, ...]:
    """Make the route of each vehicle that has one."""
    routes: list[Itinerary | None] = []
    for (at, own), drives in zip(scenario.vehicle.each(), driving, strict=True):
        name = own.route_key()
        if name is None:
            routes.append(None)
            continue
        if own.follows is not None:  # without positions it is always at the same place: nowhere
            routes.append(Itinerary(Way.standing(np.array([NOWHERE_X_M, 0.0]))))
            continue
        key = f"{at}.{name}"
        try:
            made = choose(getattr(own, name), key, {}).make(terrain=terrain, driving=drives, speed_mps=own.speed_mps)
        except (MovementError, TraceError) as error:
            place = getattr(error, "key", ".path")
            raise ScenarioError(scenario.name, [Problem(f"{key}{place}", str(error))]) from None
        routes.append(made)
    return tuple(routes)


def vehicle_starts(scenario: Scenario, terrain: Terrain) -> NDArray[np.float64]:
    """Return where the vehicles [W,2] start, unless they follow routes: all in the same open area."""
    if not terrain.areas:
        raise ScenarioError(
            scenario.name,
            [Problem("terrain.obstacles", "leave no open ground: nobody can stand or move anywhere")],
        )
    given, count = scenario.vehicle.starts, scenario.vehicle.count
    spread = _spread(count, terrain.size_m)
    usual = [
        xy if area == 0 else terrain.nearest_open(xy) for xy, area in zip(spread, terrain.area_of(spread), strict=True)
    ]
    own = {
        f"vehicle.fleet[{number}].start": member.start
        for number, member in enumerate(scenario.vehicle.fleet)
        if member.start is not None
    }
    if own:
        fallback = list(given.values()) * (count if len(given) == 1 else 1) or [tuple(xy) for xy in usual]
        keys = [f"vehicle.fleet[{number}].start" for number in range(count)]
        given = {key: own.get(key, other) for key, other in zip(keys, fallback, strict=True)}
    if not given:
        return np.array(usual)
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
