"""Keys of the vehicles and of where they drive."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag

from fedmule.simulator.errors import Problem
from fedmule.simulator.scenario.keys import (
    Chosen,
    Count,
    OwnClass,
    Part,
    Point,
    Positive,
    Share,
    key,
    on_terrain,
    one_of,
)
from fedmule.simulator.scenario.mobility import RoadKeys

if TYPE_CHECKING:
    from fedmule.simulator.scenario import Scenario


class DegreeWalk(Part):
    makes = "radio.walks.random:Degree"
    kind: Literal["degree"] = key("degree", "to each neighbour with the same probability")


class MetropolisWalk(Part):
    makes = "radio.walks.random:Metropolis"
    kind: Literal["metropolis"] = key("metropolis", "so that in the long run all clients are visited equally often")


class LazyWalk(Part):
    makes = "radio.walks.random:Lazy"
    kind: Literal["lazy"] = key("lazy", "half the time stay, else as degree")


class NearestUnvisitedWalk(Part):
    makes = "radio.walks.rounds:NearestUnvisited"
    kind: Literal["nearest_unvisited"] = key("nearest_unvisited", "to the nearest client not yet visited in this pass")


class OldestFirstWalk(Part):
    makes = "radio.walks.rounds:OldestFirst"
    kind: Literal["oldest_first"] = key("oldest_first", "to the client visited longest ago")


class TourWalk(Part):
    makes = "radio.walks.tour:Tour"
    kind: Literal["tour"] = key("tour", "round a short tour of all clients")


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
        own=OwnWalk,
    )


def _one_or_many(value: Any) -> str:
    return "many" if isinstance(value, list | tuple) and value and isinstance(value[0], list | tuple) else "one"


Points = Annotated[tuple[Point, ...], Field(strict=False)]
Starts = Annotated[Annotated[Point, Tag("one")] | Annotated[Points, Tag("many")], Discriminator(_one_or_many)]


class Vehicle(Part):
    count: Count = key(1, "number of vehicles; each carries a token and chooses its own way")
    speed_mps: Positive = key(10.0, "driving speed, m/s")
    start: Starts | None = key(
        None,
        "where it starts, or a list of positions, one for each; by default the open position nearest the middle, and "
        "several are spread over the terrain",
    )
    approach_m: Annotated[float, Field(ge=0.1)] = key(5.0, "distance within which it has reached a client, m")
    give_up_s: Positive = key(900.0, "time after which it gives up a client that it has not reached, s")
    walk: Walk = key("degree", "where to drive next; degree, metropolis and lazy are random walks by P(k)")
    jump: Share = key(
        0.1, "degree, metropolis, lazy: probability of driving to any client at random instead of a neighbour"
    )
    meeting: Literal["stop", "drive_on", "none"] = key(
        "stop", "how two vehicles that come into range exchange their tokens: they stop, drive on, or never do (none)"
    )
    roads: RoadKeys | None = key(None, "roads it follows except at the ends of its routes, such as { geojson = … }")
    off_road_factor: Annotated[float, Field(gt=0, le=1)] = key(1.0, "factor on its speed off these roads")

    @property
    def starts(self) -> dict[str, tuple[float, float]]:
        """Return the positions given, by their keys: none, one for all vehicles or one for each."""
        positions: Any = self.start or ()
        if self.start is None or isinstance(positions[0], tuple):
            return {f"vehicle.start[{i}]": position for i, position in enumerate(positions)}
        return {"vehicle.start": positions}

    def rules(self, at: str, scenario: Scenario) -> Iterator[Problem]:
        """Check the starts, and what several vehicles cannot do."""
        starts = self.starts
        if f"{at}.start[0]" in starts and len(starts) != self.count:
            message = f"must be one position, or a list of one for each vehicle (vehicle.count = {self.count})"
            yield Problem(f"{at}.start", message, f"{len(starts)} positions")
        for key_, position in starts.items():
            yield from on_terrain(key_, position, scenario.terrain.size_m)
        if self.count > 1 and scenario.learning.server == "star":
            yield Problem(f"{at}.count", 'must be 1 for learning.server = "star": nobody drives', self.count)
