"""Keys of the vehicles and of where they drive."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BeforeValidator, Discriminator, Field, Tag, model_validator

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
    Share,
    key,
    on_terrain,
    one_of,
)
from fedmule.simulator.scenario.mobility import ORIGIN_OF_TRACE, Line, RoadKeys, files_of_trace

if TYPE_CHECKING:
    from fedmule.simulator.scenario import Scenario


class LevyKeys(Part):
    makes = "radio.walks.jumps:LevyJumps"
    chance: Share = key(0.3, "probability that a move is a jump of several hops")
    hop_on: Share = key(0.5, "probability of each hop after the first")
    most_hops: Annotated[int, Field(ge=1, le=100)] = key(5, "hops at most")


# A number is short for { chance = number }.
Levy = Annotated[
    LevyKeys,
    BeforeValidator(
        lambda value: {"chance": value} if type(value) in (int, float) else value,
        json_schema_input_type=LevyKeys | Share,
    ),
]
LEVY = (
    "jumps of several hops along the contact graph, and beyond it where it is not connected; a number is short for "
    "{ chance = number }"
)


class DegreeWalk(Part):
    makes = "radio.walks.random:Degree"
    kind: Literal["degree"] = key("degree", "to each neighbour with the same probability")
    levy: Levy | None = key(None, LEVY)


class MetropolisWalk(Part):
    makes = "radio.walks.random:Metropolis"
    kind: Literal["metropolis"] = key("metropolis", "so that in the long run all clients are visited equally often")
    levy: Levy | None = key(None, LEVY)


class LazyWalk(Part):
    makes = "radio.walks.random:Lazy"
    kind: Literal["lazy"] = key("lazy", "half the time stay, else as degree")
    levy: Levy | None = key(None, LEVY)


class NearestUnvisitedWalk(Part):
    makes = "radio.walks.rounds:NearestUnvisited"
    kind: Literal["nearest_unvisited"] = key("nearest_unvisited", "to the nearest client not yet visited in this pass")


class OldestFirstWalk(Part):
    makes = "radio.walks.rounds:OldestFirst"
    kind: Literal["oldest_first"] = key("oldest_first", "to the client visited longest ago")


class TourWalk(Part):
    makes = "radio.walks.tour:Tour"
    kind: Literal["tour"] = key("tour", "round a short tour of all clients")


class ExpectedGainWalk(Part):
    makes = "radio.walks.expected_gain:ExpectedGain"
    kind: Literal["expected_gain"] = key("expected_gain", "to where the most gain per second is expected")


class OwnWalk(OwnClass):
    """A walk policy of the user's own."""

    provided = ("graph", "jump")


if TYPE_CHECKING:
    Walk = Chosen
else:
    Walk = one_of(
        "degree",
        DegreeWalk,
        MetropolisWalk,
        LazyWalk,
        NearestUnvisitedWalk,
        OldestFirstWalk,
        TourWalk,
        ExpectedGainWalk,
        own=OwnWalk,
    )


def _one_or_many(value: Any) -> str:
    return "many" if isinstance(value, list | tuple) and value and isinstance(value[0], list | tuple) else "one"


Points = Annotated[tuple[Point, ...], Field(strict=False)]
Starts = Annotated[Annotated[Point, Tag("one")] | Annotated[Points, Tag("many")], Discriminator(_one_or_many)]


class StopKeys(Part):
    makes = "mobility.itinerary:Stop"
    at: Point = Field(description="[x, y] of a position on the route")
    wait_s: NotNegative = key(60.0, "how long it waits there on every pass, s")


class RouteKeys(Part):
    makes = "mobility.itinerary:along_route"
    points: Line = Field(description='way-points [[x, y], …]; or { geojson = "round.geojson" } with one line')
    end: Literal["closed", "there_and_back", "once"] = key(
        "closed", "what it does at the last point: back to the first, the same way back, or stay there"
    )
    stops: Annotated[tuple[StopKeys, ...], Field(strict=False)] = key((), "where it waits on the way")

    def rules(self, at: str, scenario: Scenario) -> Iterator[Problem]:
        """Check that the route lies on the terrain and leads somewhere."""
        for i, point in enumerate(self.points):
            yield from on_terrain(f"{at}.points[{i}]", point, scenario.terrain.size_m)
        if len(set(self.points)) == 1:
            yield Problem(f"{at}.points", "must have at least 2 different points", self.points)


class DepartureKeys(Part):
    makes = "mobility.itinerary:Departure"
    at: Point = Field(description="[x, y] of the stop")
    arrive_s: NotNegative = Field(description="when it arrives, s")
    depart_s: NotNegative = Field(description="when it departs, s")


class TimetableKeys(Part):
    makes = "mobility.itinerary:by_timetable"
    stops: Annotated[tuple[DepartureKeys, ...], Field(strict=False, min_length=2)] = Field(
        description="stops in order of time: { at = [x, y], arrive_s = …, depart_s = … }"
    )
    period_s: Positive | None = key(None, "time after which it all begins again; by default it stays at the last, s")

    def rules(self, at: str, scenario: Scenario) -> Iterator[Problem]:
        """Check that time runs forwards."""
        last_s, last = 0.0, "the beginning"
        for i, stop in enumerate(self.stops):
            here = f"{at}.stops[{i}]"
            yield from on_terrain(f"{here}.at", stop.at, scenario.terrain.size_m)
            if stop.arrive_s < last_s:
                yield Problem(f"{here}.arrive_s", f"must not be before {last}, {last_s:g} s", stop.arrive_s)
            if stop.depart_s < stop.arrive_s:
                yield Problem(f"{here}.depart_s", f"must not be before its arrival, {stop.arrive_s:g} s", stop.depart_s)
            last_s, last = max(stop.depart_s, last_s), "the departure from the stop before"
        if self.period_s is not None and self.period_s < last_s - self.stops[0].arrive_s:
            message = f"must be at least the {last_s - self.stops[0].arrive_s:g} s from first arrival to last departure"
            yield Problem(f"{at}.period_s", message, self.period_s)


class VehicleTraceKeys(Part):
    makes = "mobility.itinerary:as_recorded"
    path: str = Field(description="the trace, in any format that clients.mobility can read")
    node: str | None = key(None, "which node of the trace it is; by default the first")
    shift_m: Point = key((0.0, 0.0), "added to all its positions, m")
    origin: LonLat | None = key(None, ORIGIN_OF_TRACE)

    def files(self) -> dict[str, str]:
        """Return the trace, and the file that says when its nodes are present, if there is one."""
        return files_of_trace(self.path)


ROUTES = ("route", "timetable", "trace")
OWN_WAYS = (*ROUTES, "follows")
OF_POSITIONS = ("contact", "search", "walk", "roads", "start", *ROUTES)  # keys that mean nothing without positions


class OwnWay(Part):
    """Keys that can differ between vehicles."""

    def route_key(self) -> str | None:
        """Return which of the keys gives it a route of its own, if one does."""
        return next((name for name in OWN_WAYS if getattr(self, name) is not None), None)

    def rules(self, at: str, scenario: Scenario) -> Iterator[Problem]:
        """Check that a vehicle has at most one route, and no start beside it."""
        given = [name for name in ROUTES if getattr(self, name) is not None]
        if len(given) > 1:
            yield Problem(f"{at}.{given[1]}", f"must not be given beside {at}.{given[0]}", None)
        if given and getattr(self, "start", None) is not None:
            yield Problem(f"{at}.start", f"must not be given beside {at}.{given[0]}, which says where it starts")


class FleetMember(OwnWay):
    speed_mps: Positive | None = key(None, "its speed; by default vehicle.speed_mps, m/s")
    start: Point | None = key(None, "where it starts; by default as vehicle.start")
    walk: Walk | None = key(None, "where it drives next; by default vehicle.walk")
    jump: Share | None = key(None, "by default vehicle.jump")
    route: RouteKeys | None = key(None, "a route of its own, which it follows instead of visiting clients")
    timetable: TimetableKeys | None = key(None, "a timetable that it keeps instead of visiting clients")
    trace: VehicleTraceKeys | None = key(None, "a trace that it follows instead of visiting clients")
    follows: str | None = key(None, "the node that it is of a contact list (clients.mobility)")

    def rules(self, at: str, scenario: Scenario) -> Iterator[Problem]:
        """Check its route and its start."""
        yield from super().rules(at, scenario)
        if self.start is not None:
            yield from on_terrain(f"{at}.start", self.start, scenario.terrain.size_m)


class Vehicle(OwnWay):
    count: Count = key(1, "number of vehicles; each carries a token and chooses its own way")
    speed_mps: Positive = key(10.0, "driving speed, m/s")
    start: Starts | None = key(
        None,
        "where it starts, or a list of positions, one for each; by default the open position nearest the middle, and "
        "several are spread over the terrain",
    )
    contact: Literal["link", "approach"] = key(
        "link",
        "where it exchanges with the client it drives to: as soon as it hears it and no way nearer would pay, or only "
        "within approach_m",
    )
    approach_m: Annotated[float, Field(ge=0.1)] = key(
        5.0, "distance within which it drives no nearer to a client, or with contact = approach has reached it, m"
    )
    search: Literal["wait", "ahead", "give_up"] = key(
        "wait",
        "what it does where it arrives and hears nobody: wait for the next report, the same but aim ahead by the last "
        "two reports, or give up",
    )
    in_passing: bool = key(True, "whether it also exchanges with whoever it hears while it drives or waits")
    give_up_s: Positive = key(900.0, "time after which it gives up a client that it has not reached, s")
    walk: Walk = key("degree", "where to drive next; degree, metropolis and lazy are random walks by P(k)")
    jump: Share = key(
        0.1, "degree, metropolis, lazy: probability of driving to any client at random instead of a neighbour"
    )
    meeting: Literal["stop", "drive_on", "none"] = key(
        "stop", "how two vehicles that come into range exchange their tokens: they stop, drive on, or never do (none)"
    )
    route: RouteKeys | None = key(None, "a route that it follows instead of visiting clients: a ferry, a patrol")
    timetable: TimetableKeys | None = key(None, "a timetable that it keeps instead of visiting clients: a bus")
    trace: VehicleTraceKeys | None = key(None, "a trace that it follows instead of visiting clients")
    follows: str | None = key(None, "the node that it is, where clients.mobility is a contact list")
    fleet: Annotated[tuple[FleetMember, ...], Field(strict=False)] = key(
        (),
        "a table for each vehicle, where vehicles differ: speed_mps, start, walk, jump, route, timetable, trace, "
        "follows",
    )
    roads: RoadKeys | None = key(None, "roads, on which it is faster, such as { geojson = … }")
    off_road_factor: Annotated[float, Field(gt=0, le=1)] = key(0.3, "factor on its speed off these roads")

    @model_validator(mode="before")
    @classmethod
    def _count_fleet(cls, given: Any) -> Any:
        if isinstance(given, dict) and isinstance(given.get("fleet"), list | tuple) and given["fleet"]:
            return {"count": len(given["fleet"]), **given}
        return given

    @property
    def starts(self) -> dict[str, tuple[float, float]]:
        """Return the positions given, by their keys: none, one for all vehicles or one for each."""
        positions: Any = self.start or ()
        if self.start is None or isinstance(positions[0], tuple):
            return {f"vehicle.start[{i}]": position for i, position in enumerate(positions)}
        return {"vehicle.start": positions}

    def each(self) -> tuple[tuple[str, Vehicle], ...]:
        """Return the dotted key of each vehicle's table, and its keys."""
        if not self.fleet:
            return (("vehicle", self),) * self.count
        found = []
        for number, own in enumerate(self.fleet):
            given = {name: getattr(own, name) for name in type(own).model_fields if getattr(own, name) is not None}
            if own.route_key() is not None or own.walk is not None:
                given = {**dict.fromkeys(OWN_WAYS), **given}
            found.append((f"vehicle.fleet[{number}]", self.model_copy(update=given)))
        return tuple(found)

    def following(self) -> tuple[tuple[str, str], ...]:
        """Return the dotted key of the table of each vehicle that is a node of a contact list, and the node."""
        return tuple((name, own.follows) for name, own in self.each() if own.follows is not None)

    def rules_for_list(self, without: str) -> Iterator[Problem]:
        """Yield what is wrong where clients.mobility is a contact list; `without` says why most keys make no sense."""
        usual, first = type(self)(), dict[str, str]()
        for name, own in dict(self.each()).items():
            if own.follows is None:
                yield Problem(f"{name}.follows", "must be given: the node of the contact list that the vehicle is")
            for other in OF_POSITIONS:
                if getattr(own, other) != getattr(usual, other):
                    yield Problem(f"{name}.{other}", f"must be left out {without}")
        for name, node in self.following():
            if node in first:
                message = f"must be another node than that of {first[node]}; give each vehicle its own in vehicle.fleet"
                yield Problem(f"{name}.follows", message, node)
                break
            first[node] = name if self.fleet else "the first vehicle"

    def rules(self, at: str, scenario: Scenario) -> Iterator[Problem]:
        """Check the starts, the fleet, and what several vehicles cannot do."""
        yield from super().rules(at, scenario)
        starts = self.starts
        if f"{at}.start[0]" in starts and len(starts) != self.count:
            message = f"must be one position, or a list of one for each vehicle (vehicle.count = {self.count})"
            yield Problem(f"{at}.start", message, f"{len(starts)} positions")
        for key_, position in starts.items():
            yield from on_terrain(key_, position, scenario.terrain.size_m)
        if self.fleet and len(self.fleet) != self.count:
            message = f"must be left out, or the number of vehicles in vehicle.fleet, {len(self.fleet)}"
            yield Problem(f"{at}.count", message, self.count)
        if self.count > 1 and scenario.learning.server == "star":
            yield Problem(f"{at}.count", 'must be 1 for learning.server = "star": nobody drives', self.count)
        routes = [f"{name}.{own.route_key()}" for name, own in self.each() if own.route_key() is not None]
        if routes and not self.in_passing:
            message = f"must be true with {routes[0]}: a vehicle with a route exchanges in passing only"
            yield Problem(f"{at}.in_passing", message, self.in_passing)
        if scenario.clients.contact_list is None:
            for name in dict(self.following()):
                yield Problem(f"{name}.follows", 'must be left out unless clients.mobility is of kind "contacts"')
        if len(routes) == self.count and scenario.stop.sim_time_s is None:
            yield Problem("stop.sim_time_s", f"must be given with {routes[0]}: a vehicle with a route makes no visits")
