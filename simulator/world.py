"""The world of a run, built once from a scenario: terrain, clients, radio, graph and walk."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import shapely
from numpy.typing import NDArray

from fedmule.mobility.driving import Driving
from fedmule.mobility.models.movement import Movement, MovementError
from fedmule.mobility.positions import Positions
from fedmule.mobility.terrain import Obstacle, Surface, Terrain
from fedmule.mobility.traces.trace import TraceError
from fedmule.mobility.trajectory import Trajectories
from fedmule.radio.graph import ContactGraph
from fedmule.radio.jamming import JammingZone
from fedmule.radio.link import Radio
from fedmule.radio.obstruction import Obstruction
from fedmule.radio.walks.policy import Policy
from fedmule.radio.walks.random import Walk
from fedmule.simulator.errors import Problem, ScenarioError
from fedmule.simulator.fleet import build_walks, vehicle_starts
from fedmule.simulator.scenario import Scenario
from fedmule.simulator.scenario.parts import Plugins, choose
from fedmule.simulator.streams import Streams


@dataclass(frozen=True)
class Sites:
    """The site of each client, if sites matter, and who moves to another site when."""

    site: NDArray[np.int64] | None = None  # [n] 0 … count − 1: the client's squad, or a group that starts nearby
    count: int = 0
    movers: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    to: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, dtype=np.int64))  # where each mover goes
    change_at_s: float | None = None


@dataclass(frozen=True)
class World:
    """Everything but learning: terrain, movement, radio and vehicles."""

    terrain: Terrain
    positions: Positions
    radio: Radio
    obstruction: Obstruction
    graph: ContactGraph
    walks: tuple[Policy, ...]  # each vehicle's own
    starts: NDArray[np.float64]  # [W,2] where they start
    driving: Driving  # how they route
    late: NDArray[np.bool_]  # [n] who joins late
    sites: Sites
    warnings: tuple[str, ...]


def build_terrain(scenario: Scenario) -> Terrain:
    """Build the terrain a scenario describes."""
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
    """Collect what weakens links: obstacles of the terrain, and jamming zones."""
    zones = scenario.terrain.jamming_zones
    return Obstruction(terrain.obstacles, [JammingZone(shapely.Polygon(z.polygon), z.noise_db, z.name) for z in zones])


def build_radio(scenario: Scenario, streams: Streams, plugins: Plugins) -> Radio:
    """Make the radio, with its propagation model and its shadowing where it has them."""
    radio: Radio = choose(scenario.radio, "radio", plugins).make(draw=streams.draw("shadowing"))
    return radio


def build_world(scenario: Scenario, streams: Streams, plugins: Plugins) -> World:
    """Build the world at time 0. Raises ScenarioError where that is impossible; lesser problems become warnings."""
    terrain = build_terrain(scenario)
    starts = vehicle_starts(scenario, terrain)
    driving = _driving(scenario, terrain, starts[0])
    positions = _positions(scenario, terrain, streams, plugins)
    radio = build_radio(scenario, streams, plugins)
    _check_duration(scenario, radio)
    members, warnings = _reachable(scenario, terrain, positions, starts[0])
    late = np.arange(len(positions)) >= len(positions) - scenario.clients.late
    if not (members & ~late).any():
        message = "leaves nobody at the start whom the vehicle can reach"
        raise ScenarioError(scenario.name, [Problem("clients.late", message, scenario.clients.late)])
    obstruction = build_obstruction(scenario, terrain)
    graph = ContactGraph(positions, radio, obstruction, members)
    walks = build_walks(scenario, graph, plugins)
    if isinstance(walks[0], Walk):
        warnings += _connectivity(scenario, graph)
    sites = _sites(scenario, positions, streams, plugins)
    return World(terrain, positions, radio, obstruction, graph, walks, starts, driving, late, sites, tuple(warnings))


def _check_duration(scenario: Scenario, radio: Radio) -> None:
    """Raise ScenarioError if a vehicle could go from one contact to the next for ever without any time passing."""
    between, stop = scenario.clients.training == "between_contacts", scenario.stop
    if between and radio.setup_s == 0 and stop.visits is None and stop.total_bytes is None:
        message = (
            'must be more than 0 with clients.training = "between_contacts", or stop.visits must be set: contacts with '
            "clients that train alone (from learning.open_at on) would take no time"
        )
        raise ScenarioError(scenario.name, [Problem("radio.setup_s", message, 0)])


def _driving(scenario: Scenario, terrain: Terrain, start: NDArray[np.float64]) -> Driving:
    vehicle = scenario.vehicle
    try:
        roads = None
        if vehicle.roads is not None:
            area = terrain.nearest_area(start)
            roads = choose(vehicle.roads, "vehicle.roads", {}).make(terrain=terrain, area=area)
    except MovementError as error:
        raise ScenarioError(scenario.name, [Problem(f"vehicle{error.key}", str(error))]) from None
    return Driving(terrain, vehicle.speed_mps, roads, vehicle.off_road_factor)


def _positions(scenario: Scenario, terrain: Terrain, streams: Streams, plugins: Plugins) -> Positions:
    clients = scenario.clients
    try:
        movement = choose(clients.mobility, "clients.mobility", plugins).make(
            terrain=terrain, count=clients.count, draw=streams.draw("mobility")
        )
        if scenario.vehicle.count > 1 and type(movement).after_visit is not Movement.after_visit:
            raise MovementError("cannot redraw positions after a visit where there are several vehicles", ".kind")
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


def _sites(scenario: Scenario, positions: Positions, streams: Streams, plugins: Plugins) -> Sites:
    learning, movement = scenario.learning, positions.trajectories.movement
    if not (
        learning.partition_over == "sites"
        or learning.shift != "none"
        or learning.dataset.needs_sites()
        or choose(learning.algorithm, "learning.algorithm", plugins).ask("asks_for_sites")
    ):
        return Sites()
    squad = getattr(movement, "squad", None)
    if squad is None:
        first = movement.first_positions()
        first = positions.true(np.arange(len(positions))) if first is None else first
        squad = _groups(first, learning.sites, streams.generator("places"))
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
    """Find the clients the vehicle can come near enough to; warn of the others."""
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
        message = f"are all out of the vehicle's reach: obstacles stand between (client {where}{more})"
        raise ScenarioError(scenario.name, [Problem("clients", message)])
    return members, [f"the vehicle cannot reach client {where}{more}: obstacles stand between; it will not be visited"]


def _connectivity(scenario: Scenario, graph: ContactGraph) -> list[str]:
    """Warn of clients that the walk can hardly reach, by the contact graph at the start."""
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
