"""What keys of a scenario demand of each other, beyond what each may be by itself."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import shapely

from fedmule.simulator.errors import Problem
from fedmule.simulator.scenario import JammingZone, Obstacle, Scenario, Surface
from fedmule.simulator.scenario.keys import OwnClass
from fedmule.simulator.scenario.learning import SyntheticDataset
from fedmule.simulator.scenario.mobility import (
    HerdMobility,
    PatrolMobility,
    PlacedAnewMobility,
    SquadsMobility,
    StaticMobility,
)


def cross_check(scenario: Scenario) -> list[Problem]:
    """All problems of a scenario whose keys are fine one by one."""
    problems: list[Problem] = []
    terrain, clients = scenario.terrain, scenario.clients
    named: dict[str, Sequence[Obstacle | Surface | JammingZone]] = {
        "obstacles": terrain.obstacles,
        "surfaces": terrain.surfaces,
        "jamming_zones": terrain.jamming_zones,
    }
    for name, shapes in named.items():
        for i, shape in enumerate(shapes):
            fault = _fault(shape, terrain.size_m)
            if fault:
                problems.append(Problem(f"terrain.{name}[{i}].polygon", fault, _name(shape)))
    problems += _several(scenario)
    positions = list(scenario.vehicle.starts.items())
    mobility = clients.mobility
    if isinstance(mobility, StaticMobility) and mobility.positions:
        if len(mobility.positions) != clients.count:
            message = f"must have one position for each of the {clients.count} clients"
            problems.append(Problem("clients.mobility.positions", message, f"{len(mobility.positions)} positions"))
        positions += [(f"clients.mobility.positions[{i}]", position) for i, position in enumerate(mobility.positions)]
    if isinstance(mobility, PatrolMobility):
        if len(mobility.route) == 1:
            problems.append(Problem("clients.mobility.route", "must have at least 2 points", mobility.route))
        positions += [(f"clients.mobility.route[{i}]", position) for i, position in enumerate(mobility.route)]
    for key, position in positions:
        if position and not (0 <= position[0] <= terrain.size_m[0] and 0 <= position[1] <= terrain.size_m[1]):
            size = f"{terrain.size_m[0]:g} × {terrain.size_m[1]:g} m"
            problems.append(Problem(key, f"must lie on the terrain of {size}", list(position)))
    for key in ("speed_mps", "pause_s") if not isinstance(mobility, OwnClass) else ():
        span = getattr(mobility, key, None)
        if isinstance(span, tuple):
            problems += _ordered(f"clients.mobility.{key}", span)
    if isinstance(mobility, HerdMobility) and mobility.herds > clients.count:
        message = f"must be at most the number of clients, {clients.count}"
        problems.append(Problem("clients.mobility.herds", message, mobility.herds))
    if isinstance(mobility, SquadsMobility) and mobility.squads > clients.count:
        message = f"must be at most the number of clients, {clients.count}"
        problems.append(Problem("clients.mobility.squads", message, mobility.squads))
    if isinstance(mobility, SquadsMobility) and mobility.regroup_at_s is not None and mobility.squads == 1:
        message = "must not be given with a single squad: there is no other to change to"
        problems.append(Problem("clients.mobility.regroup_at_s", message, mobility.regroup_at_s))
    if isinstance(mobility, PlacedAnewMobility) and mobility.neighbours >= clients.count:
        message = f"must be less than the number of clients, {clients.count}"
        problems.append(Problem("clients.mobility.neighbours", message, mobility.neighbours))
    if clients.late >= clients.count:
        problems.append(
            Problem("clients.late", f"must be less than the number of clients, {clients.count}", clients.late)
        )
    learning = scenario.learning
    if learning.server == "star" and learning.active == "visited":
        message = 'must be "all" or a number for server = "star": nobody is visited'
        problems.append(Problem("learning.active", message, "visited"))
    if learning.reference.kind == "local":
        problems.append(Problem("learning.reference", "must be an algorithm that exchanges models", "local"))
    if learning.token == "neighbourhood" and (learning.variant != "slack" or learning.server == "star"):
        message = 'must be "global" unless variant = "slack" and server = "vehicle"'
        problems.append(Problem("learning.token", message, "neighbourhood"))
    if learning.variant != "slack" and math.isinf(max(np.atleast_1d(learning.eps))):
        message = f'must be finite for variant = "{learning.variant}"'
        problems.append(Problem("learning.eps", message, learning.eps))
    if learning.test_share + learning.validation_share >= 1:
        message = f"must be less than 1 together with test_share = {learning.test_share:g}, to leave some for training"
        problems.append(Problem("learning.validation_share", message, learning.validation_share))
    if isinstance(learning.dataset, SyntheticDataset):
        data = learning.dataset
        problems += _ordered("learning.dataset.samples", data.samples)
        if data.alike + data.alike_at_sites > 1:
            message = f"must be at most 1 together with alike = {data.alike:g}"
            problems.append(Problem("learning.dataset.alike_at_sites", message, data.alike_at_sites))
    return problems


def _several(scenario: Scenario) -> list[Problem]:
    """What cannot be with several vehicles."""
    count, starts, learning = scenario.vehicle.count, scenario.vehicle.starts, scenario.learning
    problems = []
    if "vehicle.start[0]" in starts and len(starts) != count:
        message = f"must be one position, or a list of one for each vehicle (vehicle.count = {count})"
        problems.append(Problem("vehicle.start", message, f"{len(starts)} positions"))
    if count == 1:
        return problems
    if learning.server == "star":
        problems.append(Problem("vehicle.count", 'must be 1 for learning.server = "star": nobody drives', count))
    if isinstance(scenario.clients.mobility, PlacedAnewMobility):
        message = 'must be 1 for clients.mobility = "placed_anew": everyone is placed anew after a visit'
        problems.append(Problem("vehicle.count", message, count))
    carries = learning.reference if learning.algorithm.kind == "local" else learning.algorithm
    if carries.kind == "rwsadmm" and learning.token == "neighbourhood":
        message = 'must be "global" for several vehicles: one alone can know what everyone contributed'
        problems.append(Problem("learning.token", message, "neighbourhood"))
    if carries.kind == "rwsadmm" and learning.variant == "printed":
        message = 'must be "slack" or "derived" for several vehicles: the printed rule has one token'
        problems.append(Problem("learning.variant", message, "printed"))
    return problems


def _ordered(key: str, span: tuple[float, float]) -> list[Problem]:
    if span[0] <= span[1]:
        return []
    return [Problem(key, "must be [lowest, highest]", list(span))]


def _name(shape: Obstacle | Surface | JammingZone) -> str:
    return shape.name or str([list(corner) for corner in shape.polygon])


def _fault(shape: Obstacle | Surface | JammingZone, size_m: tuple[float, float]) -> str | None:
    polygon = shapely.Polygon(shape.polygon, shape.holes if isinstance(shape, Obstacle) else [])
    if not polygon.is_valid:
        return f"is not a simple polygon: {shapely.is_valid_reason(polygon)}"
    if polygon.area == 0:
        return "has no area"
    if not polygon.intersects(shapely.box(0, 0, *size_m)):
        return f"lies off the terrain of {size_m[0]:g} × {size_m[1]:g} m"
    return None
