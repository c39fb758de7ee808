"""Keys of the mobility models and of roads."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from fedmule.simulator.errors import Problem
from fedmule.simulator.scenario.keys import (
    Chosen,
    Count,
    LonLat,
    NotNegative,
    OwnClass,
    Part,
    Point,
    Positive,
    PositiveSpan,
    Share,
    Span,
    key,
    on_terrain,
    one_of,
    ordered,
)

if TYPE_CHECKING:
    from fedmule.simulator.scenario import Scenario

Line = Annotated[tuple[Point, ...], Field(strict=False, min_length=2)]


MOST_CROSSINGS = 1_000_000
STREETS_M = (100.0, 100.0)  # where no roads are given


def too_many_crossings(key: str, block_m: tuple[float, float], size_m: tuple[float, float]) -> Iterator[Problem]:
    """Yield a problem if a grid of streets has more crossings than can be walked."""
    crossings = (size_m[0] / block_m[0] + 1) * (size_m[1] / block_m[1] + 1)
    if crossings > MOST_CROSSINGS:
        message = f"makes {crossings:.2g} crossings on this terrain, more than {MOST_CROSSINGS:,}"
        yield Problem(key, message, list(block_m))


class RoadKeys(Part):
    makes = "mobility.road_network:road_network"
    lines: Annotated[tuple[Line, ...], Field(strict=False)] = key(
        (),
        'lines [[x, y], …], joined where a point of one lies on another; or { geojson = "town.geojson" }',
    )
    block_m: PositiveSpan | None = key(None, "instead of lines streets in a grid: width and height of a block, m")

    @model_validator(mode="after")
    def _one_of_both(self) -> RoadKeys:
        if bool(self.lines) == (self.block_m is not None):
            raise PydanticCustomError("roads", "must have either lines or block_m")
        return self

    def rules(self, at: str, scenario: Scenario) -> Iterator[Problem]:
        """Check the number of crossings."""
        if self.block_m is not None:
            yield from too_many_crossings(f"{at}.block_m", self.block_m, scenario.terrain.size_m)


class MobilityKeys(Part):
    """Common rules of the mobility models."""

    kind: str
    redraws: ClassVar[bool] = False  # whether it redraws all positions after some visits

    def rules_for(self, at: str, count: int, scenario: Scenario) -> Iterator[Problem]:
        """Yield what is wrong with this table, whose dotted key is `at`, for a number of clients: all, or a group."""
        for name in ("speed_mps", "pause_s"):
            span = getattr(self, name, None)
            if isinstance(span, tuple):
                yield from ordered(f"{at}.{name}", span)


def _at_most_clients(key: str, value: int, count: int) -> Iterator[Problem]:
    if value > count:
        yield Problem(key, f"must be at most the number of clients, {count}", value)


class StaticMobility(MobilityKeys):
    makes = "mobility.models.static:Static"
    kind: Literal["static"] = key("static", "nobody moves")
    positions: Annotated[tuple[Point, ...], Field(strict=False)] = key(
        (), "one [x, y] per client; by default random on open ground"
    )

    def rules_for(self, at: str, count: int, scenario: Scenario) -> Iterator[Problem]:
        """Check that there is a position on the terrain for each client."""
        if self.positions and len(self.positions) != count:
            message = f"must have one position for each of the {count} clients"
            yield Problem(f"{at}.positions", message, f"{len(self.positions)} positions")
        for i, position in enumerate(self.positions):
            yield from on_terrain(f"{at}.positions[{i}]", position, scenario.terrain.size_m)


class WaypointMobility(MobilityKeys):
    makes = "mobility.models.waypoint:Waypoint"
    kind: Literal["waypoint"] = key("waypoint", "random waypoint: walk to a random position, pause, and so on")
    speed_mps: PositiveSpan = key((0.5, 1.5), "lowest and highest walking speed, m/s")
    pause_s: Span = key((0.0, 60.0), "shortest and longest pause, s")
    home_m: Positive | None = key(
        None, "goals are at most this far from a home of each client's own, a random position; by default anywhere, m"
    )


class RandomWalkMobility(MobilityKeys):
    makes = "mobility.models.random_walk:RandomWalk"
    kind: Literal["random_walk"] = key("random_walk", "straight on for a step, then another direction and speed")
    speed_mps: PositiveSpan = key((0.5, 1.5), "lowest and highest walking speed, m/s")
    step_s: Positive = key(60.0, "duration of a step, s")
    step_m: Positive | None = key(None, "length of a step, instead of step_s, m")


class GaussMarkovMobility(MobilityKeys):
    makes = "mobility.models.gauss_markov:GaussMarkov"
    kind: Literal["gauss_markov"] = key("gauss_markov", "velocity is correlated from one step to the next")
    speed_mps: Positive = key(1.0, "mean speed, m/s")
    memory: Annotated[float, Field(ge=0, lt=1)] = key(0.85, "correlation of the velocity from one step to the next")
    step_s: Positive = key(10.0, "duration of a step, s")


class ManhattanMobility(MobilityKeys):
    makes = "mobility.models.manhattan:Manhattan"
    kind: Literal["manhattan"] = key("manhattan", "streets in a grid: straight on, left or right at every crossing")
    block_m: PositiveSpan = key((100.0, 100.0), "width and height of a block, m")
    turn: Share = key(0.5, "probability of turning at a crossing, left or right alike")
    speed_mps: PositiveSpan = key((0.5, 1.5), "lowest and highest speed, m/s")

    def rules_for(self, at: str, count: int, scenario: Scenario) -> Iterator[Problem]:
        """Check the number of crossings."""
        yield from super().rules_for(at, count, scenario)
        yield from too_many_crossings(f"{at}.block_m", self.block_m, scenario.terrain.size_m)


class RoadsMobility(MobilityKeys):
    makes = "mobility.models.roads:Roads"
    kind: Literal["roads"] = key("roads", "by road, on fastest paths, to random positions")
    roads: RoadKeys | None = key(None, "which roads, such as { geojson = … }; by default streets 100 m apart")
    speed_mps: PositiveSpan = key((3.0, 14.0), "lowest and highest speed, m/s")
    pause_s: Span = key((0.0, 300.0), "shortest and longest pause, s")
    home_m: Positive | None = key(
        None, "goals are at most this far from a home of each client's own, a random position; by default anywhere, m"
    )

    def rules_for(self, at: str, count: int, scenario: Scenario) -> Iterator[Problem]:
        """Check the number of crossings where no roads are given."""
        yield from super().rules_for(at, count, scenario)
        if self.roads is None:
            yield from too_many_crossings(f"{at}.roads.block_m", STREETS_M, scenario.terrain.size_m)

    def arguments(self) -> dict[str, Any]:
        """Make streets where no roads are given."""
        return {**super().arguments(), "roads": self.roads or RoadKeys(block_m=STREETS_M)}


class SquadsMobility(MobilityKeys):
    makes = "mobility.models.squads:Squads"
    kind: Literal["squads"] = key("squads", "groups that move together with a leader")
    squads: Count = key(5, "number of groups; clients are divided equally")
    spread_m: Positive = key(20.0, "largest distance of the others from the leader, m")
    speed_mps: PositiveSpan = key((0.5, 1.5), "lowest and highest walking speed, m/s")
    pause_s: Span = key((60.0, 300.0), "shortest and longest pause between moves, s")
    regroup_at_s: NotNegative | None = key(None, "when some clients change squad; by default never, s")
    regroup_share: Share = key(0.5, "share of the clients that change; leaders stay")

    def rules_for(self, at: str, count: int, scenario: Scenario) -> Iterator[Problem]:
        """Check the number of squads."""
        yield from super().rules_for(at, count, scenario)
        yield from _at_most_clients(f"{at}.squads", self.squads, count)
        if self.regroup_at_s is not None and self.squads == 1:
            message = "must not be given with a single squad: there is no other to change to"
            yield Problem(f"{at}.regroup_at_s", message, self.regroup_at_s)


class PatrolMobility(MobilityKeys):
    makes = "mobility.models.patrol:Patrol"
    kind: Literal["patrol"] = key("patrol", "one route, walked repeatedly; starts are spread over it")
    route: Annotated[tuple[Point, ...], Field(strict=False)] = key(
        (), "points [[x, y], …]; by default a rectangle a quarter of the terrain off its borders"
    )
    turn_back: bool = key(False, "walk back and forth instead of in circles")
    speed_mps: PositiveSpan = key((0.5, 1.5), "lowest and highest speed from one point to the next, m/s")
    pause_s: Span = key((0.0, 60.0), "shortest and longest stop at a point, s")

    def rules_for(self, at: str, count: int, scenario: Scenario) -> Iterator[Problem]:
        """Check that the route has two points at least, all on the terrain."""
        yield from super().rules_for(at, count, scenario)
        if len(self.route) == 1:
            yield Problem(f"{at}.route", "must have at least 2 points", self.route)
        for i, point in enumerate(self.route):
            yield from on_terrain(f"{at}.route[{i}]", point, scenario.terrain.size_m)


class HerdMobility(MobilityKeys):
    makes = "mobility.models.herd:Herd"
    kind: Literal["herd"] = key("herd", "wildlife: herds that rest, graze and walk")
    herds: Count = key(2, "number of herds; clients are divided equally")
    spread_m: Positive = key(25.0, "standard deviation of an animal's position about the centre along each axis, m")
    # Red deer are active for 8 hours a day, in bouts of 42 minutes (Kamler et al., Journal of Mammalogy 2007).
    rest_s: Positive = key(4800.0, "mean duration of a rest, s")
    graze_s: Positive = key(2100.0, "mean duration of grazing, s")
    walk_s: Positive = key(420.0, "mean duration of a walk, s")
    graze_mps: Positive = key(0.1, "speed at which a grazing herd moves on, m/s")
    walk_mps: Positive = key(0.8, "speed of a walking herd, m/s")
    stop_s: Positive = key(120.0, "mean time for which an animal feeds at one spot, s")
    stride_m: Positive = key(10.0, "mean distance from one such spot to the next within the herd, m")
    top_speed_mps: Positive = key(4.0, "top speed of an animal, m/s")

    def rules_for(self, at: str, count: int, scenario: Scenario) -> Iterator[Problem]:
        """Check the number of herds."""
        yield from _at_most_clients(f"{at}.herds", self.herds, count)


class DriftMobility(MobilityKeys):
    makes = "mobility.models.drift:Drift"
    kind: Literal["drift"] = key("drift", "under water, with the currents of steady eddies")
    eddies: Count = key(6, "number of eddies, at random positions, turning left and right alternately")
    eddy_m: Positive = key(150.0, "radius of an eddy, where it turns fastest, m")
    speed_mps: Positive = key(0.3, "strongest current, m/s")
    diffusion_m2ps: NotNegative = key(0.0, "spread by turbulence: variance along an axis grows by twice this, m²/s")
    moored: Share = key(0.0, "share of the clients that are moored and stay")


class RedrawnMobility(MobilityKeys):
    makes = "mobility.models.redrawn:Redrawn"
    redraws = True
    kind: Literal["redrawn"] = key("redrawn", "random positions, redrawn every few visits, all connected")
    every_visits: Count = key(10, "visits until all positions are redrawn")
    neighbours: Annotated[int, Field(ge=0)] = key(5, "least number of neighbours of a client")
    neighbour_range_m: Positive = key(100.0, "distance within which clients are neighbours, m")

    def rules_for(self, at: str, count: int, scenario: Scenario) -> Iterator[Problem]:
        """Check that there are enough clients, and one vehicle."""
        if self.neighbours >= count:
            message = f"must be less than the number of clients, {count}"
            yield Problem(f"{at}.neighbours", message, self.neighbours)
        if scenario.vehicle.count > 1:
            message = f'must be 1 for {at} = "redrawn": positions are redrawn after a visit'
            yield Problem("vehicle.count", message, scenario.vehicle.count)


ORIGIN_OF_TRACE = (
    "[lon, lat] of (0, 0) where the file has degrees; by default terrain.origin, or else the file's south-west corner"
)


def files_of_trace(path: str) -> dict[str, str]:
    """Return the files that a trace consists of, by key."""
    from fedmule.mobility.traces.formats import activity_file

    activity = activity_file(path)
    return {"path": path} | ({} if activity is None else {"activity": str(activity)})


def unpacks_too_far(at: str, path: str) -> Iterator[Problem]:
    """Yield a problem if an archive cannot be read, or unpacks to far more than its size."""
    from fedmule.mobility.traces.formats.files import UNREADABLE, one_line, open_binary

    if Path(path).is_file():
        try:
            open_binary(Path(path)).close()
        except UNREADABLE as error:
            why = one_line(getattr(error, "strerror", None) or error)
            yield Problem(f"{at}.path", f"{path}: cannot be read: {why}")


class TraceMobility(MobilityKeys):
    makes = "mobility.models.recorded:Recorded"
    kind: Literal["trace"] = key("trace", "as recorded: the first nodes of a trace file, which may come and go")
    path: str = Field(description="the trace: CSV, Parquet, SUMO FCD, ns-2, BonnMotion, The ONE, GPX or GeoJSON")
    shift_m: Point = key((0.0, 0.0), "added to all its positions, m")
    origin: LonLat | None = key(None, ORIGIN_OF_TRACE)

    def files(self) -> dict[str, str]:
        """Return the trace, and the file that says when its nodes are present, if there is one."""
        return files_of_trace(self.path)

    def file_problems(self, at: str) -> Iterator[Problem]:
        """Yield a problem if the trace is an archive that unpacks to far more than its size."""
        yield from unpacks_too_far(at, self.path)


class ContactsMobility(MobilityKeys):
    makes = "mobility.contact_lists:read_contact_list"
    kind: Literal["contacts"] = key(
        "contacts", "no positions, but a list of who met whom and when; vehicles are nodes of it too (vehicle.follows)"
    )
    path: str = Field(
        description="the list: CSV with the columns a, b, start and end, a connectivity report of The ONE, or a "
        "SocioPatterns list"
    )
    begin_s: float | None = key(None, "time of the list at which the run begins; by default its first, s")
    resolution_s: Positive = key(20.0, "of a SocioPatterns list: the time up to its own that a row stands for, s")
    distance_m: Positive = key(1.0, "distance at which those in contact exchange, for the radio's data rate, m")

    def files(self) -> dict[str, str]:
        """The list."""
        return {"path": self.path}

    def file_problems(self, at: str) -> Iterator[Problem]:
        """Yield a problem if the list is an archive that unpacks to far more than its size."""
        yield from unpacks_too_far(at, self.path)

    def rules(self, at: str, scenario: Scenario) -> Iterator[Problem]:
        """Check that every vehicle is a node of the list, and that nothing depends on positions."""
        if scenario.clients.contact_list is not self:
            yield Problem(f"{at}.kind", "must be that of all clients, in clients.mobility", self.kind)
            return
        without = "with a contact list, which has no positions"
        for i, group in enumerate(scenario.clients.groups or ()):
            if group.mobility is not None:
                yield Problem(f"clients.groups[{i}].mobility", f"must be left out {without}", group.mobility.kind)
        if scenario.learning.server != "vehicle":
            yield Problem("learning.server", 'must be "vehicle" with a contact list', scenario.learning.server)
        if getattr(scenario.radio, "shadowing", None) is not None:
            yield Problem("radio.shadowing", f"must be left out {without}")
        for name in ("obstacles", "surfaces", "jamming_zones"):
            if given := getattr(scenario.terrain, name):
                yield Problem(f"terrain.{name}", f"must be left out {without}", f"{len(given)} of them")
        yield from scenario.vehicle.rules_for_list(without)


class OwnMobility(OwnClass):
    """A mobility model of the user's own."""

    provided = ("terrain", "count", "draw")


if TYPE_CHECKING:
    Mobility = Chosen
else:
    Mobility = one_of(
        "squads",
        StaticMobility,
        WaypointMobility,
        RandomWalkMobility,
        GaussMarkovMobility,
        ManhattanMobility,
        RoadsMobility,
        SquadsMobility,
        PatrolMobility,
        HerdMobility,
        DriftMobility,
        RedrawnMobility,
        TraceMobility,
        ContactsMobility,
        own=OwnMobility,
    )
