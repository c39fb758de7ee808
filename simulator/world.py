"""The world of a run, built once from a scenario: terrain, clients, radio, graph and walk."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import shapely
from numpy.typing import NDArray

from fedmule.mobility.driving import Driving
from fedmule.mobility.models.movement import Movement, MovementError
from fedmule.mobility.models.registry_gone import MOVEMENTS
from fedmule.mobility.positions import Positions
from fedmule.mobility.road_network import RoadNetwork, grid_lines
from fedmule.mobility.terrain import Obstacle, Surface, Terrain
from fedmule.mobility.traces.trace import TraceError
from fedmule.mobility.trajectory import Trajectories
from fedmule.radio.graph import ContactGraph
from fedmule.radio.jamming import JammingZone
from fedmule.radio.link import Radio
from fedmule.radio.obstruction import Obstruction
from fedmule.radio.propagation import Friis, LogDistance, Nakagami, Shadowing, ThreeLogDistance, TwoRay
from fedmule.radio.radios.acoustic import Acoustic
from fedmule.radio.radios.ble import Ble
from fedmule.radio.radios.disc import Disc
from fedmule.radio.radios.lora import Lora
from fedmule.radio.radios.wifi_direct import WifiDirect
from fedmule.radio.radios.zigbee import Zigbee
from fedmule.radio.walks.policy import Policy
from fedmule.radio.walks.random import Walk
from fedmule.simulator.errors import Problem, ScenarioError
from fedmule.simulator.fleet import build_walks, vehicle_starts
from fedmule.simulator.scenario import FriisPropagation, PhysicalRadio, Scenario, TwoRayPropagation
from fedmule.simulator.scenario.learning import SyntheticDataset
from fedmule.simulator.scenario.mobility import RoadKeys, RoadsMobility
from fedmule.simulator.scenario.plugins import make
from fedmule.simulator.streams import Streams

RADIOS = {
    "disc": Disc,
    "wifi_direct": WifiDirect,
    "zigbee": Zigbee,
    "ble": Ble,
    "lora": Lora,
    "acoustic": Acoustic,
}
PROPAGATIONS = {
    "friis": Friis,
    "log_distance": LogDistance,
    "two_ray": TwoRay,
    "three_log_distance": ThreeLogDistance,
    "nakagami": Nakagami,
}


@dataclass(frozen=True)
class Sites:
    """Where clients are at home, if that matters to anything, and who changes it when."""

    site: NDArray[np.int64] | None = None  # [n] 0 … count − 1: the client's squad, or a group that starts nearby
    count: int = 0
    movers: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    to: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, dtype=np.int64))  # where each mover goes
    change_at_s: float | None = None


@dataclass(frozen=True)
class World:
    """All that is not learning."""

    terrain: Terrain
    positions: Positions
    radio: Radio
    obstruction: Obstruction
    graph: ContactGraph
    walks: tuple[Policy, ...]  # each vehicle's own
    starts: NDArray[np.float64]  # [W,2] where they start
    driving: Driving  # which ways they take
    late: NDArray[np.bool_]  # [n] who is not there at first
    sites: Sites
    warnings: tuple[str, ...]


def build_terrain(scenario: Scenario) -> Terrain:
    terrain = scenario.terrain
    return Terrain(
        terrain.size_m,
        [
            Obstacle(shapely.Polygon(o.polygon, o.holes), o.stops_movement, o.radio_loss_db, o.name)
            for o in terrain.obstacles
        ],
        [Surface(shapely.Polygon(s.polygon), s.speed_factor, s.name) for s in terrain.surfaces],
    )


def build_obstruction(scenario: Scenario, terrain: Terrain) -> Obstruction:
    """The losses of links: obstacles of the terrain, and jamming zones."""
    zones = scenario.terrain.jamming_zones
    return Obstruction(terrain.obstacles, [JammingZone(shapely.Polygon(z.polygon), z.noise_db, z.name) for z in zones])


def build_radio(scenario: Scenario, streams: Streams, plugins: dict[str, Any]) -> Radio:
    """The radio, with its propagation model and its shadowing where it has them."""
    part = scenario.radio
    given: dict[str, Any] = {}
    if isinstance(part, PhysicalRadio):
        path, shadowing = getattr(part, "propagation", None), part.shadowing
        if path is not None:
            if isinstance(path, FriisPropagation | TwoRayPropagation) and path.frequency_mhz is None:
                path = path.model_copy(update={"frequency_mhz": part.carrier_mhz})
            given["propagation"] = make("radio.propagation", path, PROPAGATIONS, plugins)
        if shadowing is not None:
            given["shadowing"] = Shadowing(shadowing.db, shadowing.distance_m, streams.draw("shadowing"))
    radio: Radio = make("radio", part, RADIOS, plugins, **given)
    return radio


def build_world(scenario: Scenario, streams: Streams, plugins: dict[str, Any]) -> World:
    """The world at time 0. Raises ScenarioError where none can be built; lesser doubts become warnings."""
    terrain = build_terrain(scenario)
    starts = vehicle_starts(scenario, terrain)
    driving = _driving(scenario, terrain, starts[0])
    positions = _positions(scenario, terrain, streams, plugins)
    radio = build_radio(scenario, streams, plugins)
    members, warnings = _reachable(scenario, terrain, positions, starts[0])
    late = np.arange(len(positions)) >= len(positions) - scenario.clients.late
    if not (members & ~late).any():
        message = "leaves nobody at first whom the vehicle can reach"
        raise ScenarioError(scenario.name, [Problem("clients.late", message, scenario.clients.late)])
    obstruction = build_obstruction(scenario, terrain)
    graph = ContactGraph(positions, radio, obstruction, members)
    walks = build_walks(scenario, graph, plugins)
    if isinstance(walks[0], Walk):
        warnings += _connectivity(scenario, graph)
    sites = _sites(scenario, positions, streams)
    return World(terrain, positions, radio, obstruction, graph, walks, starts, driving, late, sites, tuple(warnings))


def _driving(scenario: Scenario, terrain: Terrain, start: NDArray[np.float64]) -> Driving:
    vehicle = scenario.vehicle
    try:
        roads = None if vehicle.roads is None else _roads(vehicle.roads, terrain, terrain.nearest_area(start))
    except MovementError as error:
        raise ScenarioError(scenario.name, [Problem(f"vehicle{error.key}", str(error))]) from None
    return Driving(terrain, vehicle.speed_mps, roads, vehicle.off_road_factor)


def _roads(keys: RoadKeys, terrain: Terrain, area: int = 0) -> RoadNetwork:
    lines = keys.lines if keys.block_m is None else grid_lines(terrain.size_m, keys.block_m)
    return RoadNetwork(terrain, lines, area)


def _positions(scenario: Scenario, terrain: Terrain, streams: Streams, plugins: dict[str, Any]) -> Positions:
    clients = scenario.clients
    try:
        given = {}
        if isinstance(clients.mobility, RoadsMobility):
            given["roads"] = _roads(clients.mobility.roads or RoadKeys(block_m=(100.0, 100.0)), terrain)
        movement = make(
            "clients.mobility",
            clients.mobility,
            MOVEMENTS,
            plugins,
            terrain=terrain,
            count=clients.count,
            draw=streams.draw("mobility"),
            **given,
        )
        if scenario.vehicle.count > 1 and type(movement).after_visit is not Movement.after_visit:
            raise MovementError("cannot position everyone anew after a visit where there are several vehicles", ".kind")
        trajectories = Trajectories(movement)
    except (MovementError, TraceError) as error:
        key = f"clients.mobility{getattr(error, 'key', '')}"
        raise ScenarioError(scenario.name, [Problem(key, str(error))]) from None
    first = trajectories.positions(0.0)
    if first.shape != (clients.count, 2) or not np.isfinite(first).all():
        message = (
            f"must return positions for {clients.count} clients: start() gave an array {first.shape}, or not all finite"
        )
        raise ScenarioError(scenario.name, [Problem("clients.mobility.kind", message)])
    return Positions(trajectories, streams.draw("reports"), clients.report_period_s, clients.report_error_m)


def _sites(scenario: Scenario, positions: Positions, streams: Streams) -> Sites:
    learning, movement = scenario.learning, positions.trajectories.movement
    kinds = (learning.algorithm.kind, learning.reference.kind)
    alike = isinstance(learning.dataset, SyntheticDataset) and learning.dataset.alike_at_sites > 0
    if learning.partition_over == "clients" and learning.shift == "none" and "squad_oracle" not in kinds and not alike:
        return Sites()
    squad = getattr(movement, "squad", None)
    if squad is None:
        first = movement.first_positions()
        first = positions.true(np.arange(len(positions))) if first is None else first
        squad = _groups(first, learning.places, streams.generator("places"))
    count = int(squad.max()) + 1
    movers, to = getattr(movement, "regrouped", (np.empty(0, dtype=np.int64),) * 2)
    return Sites(squad, count, movers, to, getattr(movement, "regroup_at_s", None))


def _groups(xy: NDArray[np.float64], count: int, generator: np.random.Generator) -> NDArray[np.int64]:
    """Groups [n] of positions that lie together, at most `count` of them, numbered from 0 without gaps."""
    from scipy.cluster.vq import kmeans2

    distinct = len(np.unique(xy, axis=0))
    _, group = kmeans2(xy, min(count, distinct), minit="++", rng=generator)
    return np.unique(group, return_inverse=True)[1].astype(np.int64)


def _reachable(
    scenario: Scenario, terrain: Terrain, positions: Positions, start: NDArray[np.float64]
) -> tuple[NDArray[np.bool_], list[str]]:
    """Which clients the vehicle can come near enough to, and a warning about the others."""
    area = terrain.areas[terrain.nearest_area(start)]
    xy = positions.true(np.arange(len(positions)))
    gap = np.asarray(shapely.distance(np.asarray(shapely.points(xy)), area))
    members = gap <= scenario.vehicle.approach_m
    there = positions.there(0.0)
    if there is not None:
        members |= ~there  # where they will come is not known yet
    lost = np.flatnonzero(~members)
    if not lost.size:
        return members, []
    where = ", ".join(f"{i} at ({xy[i, 0]:.0f}, {xy[i, 1]:.0f})" for i in lost[:5])
    more = f" and {lost.size - 5} more" if lost.size > 5 else ""
    if lost.size == len(positions):
        message = f"cannot be reached by the vehicle, any of them: walls stand between (client {where}{more})"
        raise ScenarioError(scenario.name, [Problem("clients", message)])
    return members, [f"the vehicle cannot reach client {where}{more}: obstacles stand between; it will not be visited"]


def _connectivity(scenario: Scenario, graph: ContactGraph) -> list[str]:
    """What the contact graph at the start means for the walk."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    n, edges = len(graph.members), graph.edges()
    degree = np.bincount(edges.ravel(), minlength=n)
    alone = int((degree[graph.reachable] == 0).sum())
    adjacency = coo_array((np.ones(len(edges)), (edges[:, 0], edges[:, 1])), shape=(n, n))
    _, label = connected_components(adjacency, directed=False)
    groups = len(np.unique(label[graph.reachable]))
    lasting = "" if graph.still else " unless they move into range of each other"
    # A client without neighbours always jumps, so where everyone is alone everyone is visited.
    if groups > 1 and scenario.vehicle.jump == 0 and alone < len(graph.reachable):
        return [
            f"vehicle.jump = 0 and the contact graph at the start has {groups} separate groups of clients: "
            f"some clients will never be visited{lasting}"
        ]
    if alone:
        return [f"{alone} of {n} clients have nobody in radio range at the start; only jumps lead to and from them"]
    return []
