"""The world of a run, built once from a scenario: terrain, clients, radio, graph and walk."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import shapely
from numpy.typing import NDArray

from fedmule.mobility.driving import Driving
from fedmule.mobility.itinerary import Itinerary
from fedmule.mobility.positions import Positions
from fedmule.mobility.terrain import Obstacle, Surface, Terrain
from fedmule.radio.encounters import ByPosition, Encounters
from fedmule.radio.graph import ContactGraph
from fedmule.radio.hearing import Hearing
from fedmule.radio.jamming import JammingZone
from fedmule.radio.link import Radio
from fedmule.radio.obstruction import Obstruction
from fedmule.radio.walks.policy import Policy
from fedmule.radio.walks.random import Walk
from fedmule.simulator.errors import Problem, ScenarioError
from fedmule.simulator.fleet import build_driving, build_routes, build_walks, vehicle_starts
from fedmule.simulator.listing import build_encounters, list_warnings, read_listing
from fedmule.simulator.population import Sites, build_positions, build_sites, compute_flops_per_s, extra_loss_db
from fedmule.simulator.scenario import Scenario
from fedmule.simulator.scenario.parts import Plugins, choose
from fedmule.simulator.streams import Streams


@dataclass(frozen=True)
class World:
    """Everything but learning: terrain, movement, radio and vehicles."""

    terrain: Terrain
    positions: Positions
    hearing: Hearing  # the radio, and what weakens its links
    encounters: Encounters  # who hears whom, and when
    placed: bool  # whether anybody has a position: in a contact list nobody has
    graph: ContactGraph
    walks: tuple[Policy, ...]  # each vehicle's own
    starts: NDArray[np.float64]  # [W,2] where they start
    driving: tuple[Driving, ...]  # how each of them finds its way
    routes: tuple[Itinerary | None, ...]  # those that they follow instead of visiting clients
    late: NDArray[np.bool_]  # [n] who joins late
    sites: Sites
    compute_flops_per_s: NDArray[np.float64]  # [n] of each client's device
    warnings: tuple[str, ...]

    @property
    def radio(self) -> Radio:
        """The radio of vehicles and clients."""
        return self.hearing.radio

    @property
    def obstruction(self) -> Obstruction:
        """What weakens links."""
        return self.hearing.obstruction


def build_terrain(scenario: Scenario) -> Terrain:
    """Build the terrain a scenario describes."""
    terrain = scenario.terrain
    return Terrain(
        terrain.size_m,
        [
            Obstacle(shapely.Polygon(o.polygon, o.holes), o.stops_movement, o.radio_loss_db, o.name)
            for o in terrain.obstacles
        ],
        [Surface(shapely.Polygon(s.polygon, s.holes), s.speed_factor, s.name) for s in terrain.surfaces],
        terrain.origin,
    )


def build_obstruction(scenario: Scenario, terrain: Terrain) -> Obstruction:
    """Collect what weakens links: obstacles of the terrain, and jamming zones."""
    zones = scenario.terrain.jamming_zones
    jammed = [JammingZone(shapely.Polygon(z.polygon, z.holes), z.noise_db, z.name) for z in zones]
    return Obstruction(terrain.obstacles, jammed)


def build_radio(scenario: Scenario, streams: Streams, plugins: Plugins) -> Radio:
    """Make the radio, with its propagation model and its shadowing where it has them."""
    radio: Radio = choose(scenario.radio, "radio", plugins).make(draw=streams.draw("shadowing"))
    return radio


def build_world(scenario: Scenario, streams: Streams, plugins: Plugins) -> World:
    """Build the world at time 0. Raises ScenarioError where that is impossible; lesser problems become warnings."""
    listing = read_listing(scenario)
    terrain = build_terrain(scenario)
    starts = vehicle_starts(scenario, terrain)
    driving = build_driving(scenario, terrain, starts[0])
    routes = build_routes(scenario, terrain, driving)
    starts = np.array([xy if route is None else route.start for xy, route in zip(starts, routes, strict=True)])
    positions = build_positions(scenario, terrain, streams, plugins, listing)
    radio = build_radio(scenario, streams, plugins)
    obstruction = build_obstruction(scenario, terrain)
    hearing = Hearing(radio, obstruction, positions.trajectories, extra_loss_db(scenario))
    _check_duration(scenario, radio)
    if listing is None:
        members, warnings = _reachable(scenario, terrain, positions, starts[0], hearing)
    else:
        members, warnings = np.ones(len(positions), dtype=bool), []
    late = np.arange(len(positions)) >= len(positions) - scenario.clients.late
    if not (members & ~late).any():
        message = "leaves nobody at the start whom the vehicle can reach"
        raise ScenarioError(scenario.name, [Problem("clients.late", message, scenario.clients.late)])
    graph = ContactGraph(positions, radio, obstruction, members, hearing.extra_loss_db)
    encounters: Encounters = ByPosition(hearing, positions, graph)
    if listing is not None:
        encounters = by_list = build_encounters(scenario, listing, radio, hearing.extra_loss_db)
        warnings += list_warnings(scenario, listing, by_list)
    walks = build_walks(scenario, graph, plugins)
    if isinstance(walks[0], Walk) and routes[0] is None:
        warnings += _connectivity(graph, walks[0].stays_in_a_group)
    return World(
        terrain=terrain,
        positions=positions,
        hearing=hearing,
        encounters=encounters,
        placed=listing is None,
        graph=graph,
        walks=walks,
        starts=starts,
        driving=driving,
        routes=routes,
        late=late,
        sites=build_sites(scenario, positions, streams, plugins),
        compute_flops_per_s=compute_flops_per_s(scenario),
        warnings=tuple(warnings),
    )


def _check_duration(scenario: Scenario, radio: Radio) -> None:
    """Raise ScenarioError if a vehicle could go from one contact to the next for ever without any time passing."""
    between, stop = scenario.clients.training == "between_contacts", scenario.stop
    if between and radio.setup_s == 0 and stop.visits is None and stop.total_bytes is None:
        message = (
            'must be more than 0 with clients.training = "between_contacts", or stop.visits must be set: contacts with '
            "clients that train alone (from learning.open_at on) would take no time"
        )
        raise ScenarioError(scenario.name, [Problem("radio.setup_s", message, 0)])


def _reachable(
    scenario: Scenario,
    terrain: Terrain,
    positions: Positions,
    start: NDArray[np.float64],
    hearing: Hearing,
) -> tuple[NDArray[np.bool_], list[str]]:
    """Find the clients the vehicle can come near enough to; warn of the others."""
    area = terrain.areas[terrain.nearest_area(start)]
    xy = positions.true(np.arange(len(positions)))
    gap = np.asarray(shapely.distance(np.asarray(shapely.points(xy)), area))
    members = gap <= scenario.vehicle.approach_m
    if scenario.vehicle.contact == "link" and not members.all():
        beyond = np.flatnonzero(~members)
        nearest = shapely.get_coordinates(shapely.shortest_line(area, shapely.points(xy[beyond])))[::2]
        members[beyond] = hearing.heard(nearest, beyond, xy[beyond])
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


def _connectivity(graph: ContactGraph, stays: bool) -> list[str]:
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
    if groups > 1 and stays and alone < len(graph.reachable):
        return [
            f"vehicle.jump = 0 and the contact graph at the start has {groups} separate groups of clients: "
            f"some clients will never be visited{lasting}"
        ]
    if alone:
        return [f"{alone} of {n} clients have nobody in radio range at the start; only jumps lead to and from them"]
    return []
