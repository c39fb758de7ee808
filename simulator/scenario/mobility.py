"""What a scenario file may say about how clients move, kind by kind."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, Tag, model_validator
from pydantic_core import PydanticCustomError

from fedmule.simulator.scenario.keys import (
    Count,
    NotNegative,
    Own,
    Part,
    Point,
    Positive,
    PositiveSpan,
    Share,
    Span,
    by_kind,
    key,
    short_for,
)

Line = Annotated[tuple[Point, ...], Field(strict=False, min_length=2)]


class RoadKeys(Part):
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


class StaticMobility(Part):
    kind: Literal["static"] = key("static", "nobody moves")
    positions: Annotated[tuple[Point, ...], Field(strict=False)] = key(
        (), "one [x, y] per client; by default random on open ground"
    )


class WaypointMobility(Part):
    kind: Literal["waypoint"] = key("waypoint", "random waypoint: walk to a random position, pause, go on")
    speed_mps: PositiveSpan = key((0.5, 1.5), "lowest and highest walking speed, m/s")
    pause_s: Span = key((0.0, 60.0), "shortest and longest pause, s")


class RandomWalkMobility(Part):
    kind: Literal["random_walk"] = key("random_walk", "straight on for a step, then another direction and speed")
    speed_mps: PositiveSpan = key((0.5, 1.5), "lowest and highest walking speed, m/s")
    step_s: Positive = key(60.0, "how long a step takes, s")
    step_m: Positive | None = key(None, "how long a step is, instead of step_s, m")


class GaussMarkovMobility(Part):
    kind: Literal["gauss_markov"] = key("gauss_markov", "velocity remembers itself for a while")
    speed_mps: Positive = key(1.0, "mean speed, m/s")
    memory: Annotated[float, Field(ge=0, lt=1)] = key(0.85, "correlation of the velocity from one step to the next")
    step_s: Positive = key(10.0, "how long a step takes, s")


class ManhattanMobility(Part):
    kind: Literal["manhattan"] = key("manhattan", "streets in a grid: straight on, left or right at every crossing")
    block_m: PositiveSpan = key((100.0, 100.0), "width and height of a block, m")
    turn: Share = key(0.5, "probability of turning at a crossing, left or right alike")
    speed_mps: PositiveSpan = key((0.5, 1.5), "lowest and highest speed, m/s")


class RoadsMobility(Part):
    kind: Literal["roads"] = key("roads", "by road, the shortest way, to random positions on it")
    roads: RoadKeys | None = key(None, "which roads, such as { geojson = … }; by default streets 100 m apart")
    speed_mps: PositiveSpan = key((3.0, 14.0), "lowest and highest speed, m/s")
    pause_s: Span = key((0.0, 300.0), "shortest and longest pause, s")


class SquadsMobility(Part):
    kind: Literal["squads"] = key("squads", "groups that move together with a leader")
    squads: Count = key(5, "how many groups; clients are shared out equally")
    spread_m: Positive = key(20.0, "how far from the leader the others stand, m")
    speed_mps: PositiveSpan = key((0.5, 1.5), "lowest and highest walking speed, m/s")
    pause_s: Span = key((60.0, 300.0), "shortest and longest pause between moves, s")
    regroup_at_s: NotNegative | None = key(None, "when some clients change squad; by default nobody ever does, s")
    regroup_share: Share = key(0.5, "share of the clients that change; leaders stay")


class PatrolMobility(Part):
    kind: Literal["patrol"] = key("patrol", "one route, walked over and over; starts are spread over it")
    route: Annotated[tuple[Point, ...], Field(strict=False)] = key(
        (), "points [[x, y], …]; by default a rectangle a quarter of the terrain off its borders"
    )
    turn_back: bool = key(False, "back and forth instead of round and round")
    speed_mps: PositiveSpan = key((0.5, 1.5), "lowest and highest speed from one point to the next, m/s")
    pause_s: Span = key((0.0, 60.0), "shortest and longest stop at a point, s")


class HerdMobility(Part):
    kind: Literal["herd"] = key("herd", "wildlife: herds that rest, graze and walk")
    herds: Count = key(2, "how many herds; clients are shared out equally")
    spread_m: Positive = key(25.0, "standard deviation of an animal's position about the centre along each axis, m")
    memory_s: Positive = key(300.0, "after which an animal's position in the herd has lost all but 1/e, s")
    rest_s: Positive = key(3600.0, "mean duration of a rest, s")
    graze_s: Positive = key(3600.0, "mean duration of grazing, s")
    walk_s: Positive = key(900.0, "mean duration of a walk, s")
    graze_mps: Positive = key(0.1, "speed of a grazing herd, m/s")
    walk_mps: Positive = key(0.8, "speed of a walking herd, m/s")
    top_speed_mps: Positive = key(4.0, "no animal is faster, m/s")
    step_s: Positive = key(30.0, "how long a step takes, s")


class DriftMobility(Part):
    kind: Literal["drift"] = key("drift", "under water, with the currents of steady eddies")
    eddies: Count = key(6, "how many eddies, at random positions, turning left and right by turns")
    eddy_m: Positive = key(150.0, "radius of an eddy, where it turns fastest, m")
    speed_mps: Positive = key(0.3, "strongest current, m/s")
    diffusion_m2ps: NotNegative = key(0.0, "spread by turbulence: variance along an axis grows by twice this, m²/s")
    moored: Share = key(0.0, "share of the clients that are moored and stay")


class PlacedAnewMobility(Part):
    kind: Literal["placed_anew"] = key("placed_anew", "random places, drawn anew every few visits, all connected")
    every_visits: Count = key(10, "visits until everyone is placed anew")
    neighbours: Annotated[int, Field(ge=0)] = key(5, "neighbours everyone has at least")
    neighbour_range_m: Positive = key(100.0, "how near a neighbour is, m")


class TraceMobility(Part):
    kind: Literal["trace"] = key("trace", "as recorded: the first nodes of a trace file, which may come and go")
    path: str = Field(description="the trace: CSV, Parquet, SUMO FCD, ns-2, BonnMotion, The ONE, GPX or GeoJSON")
    shift_m: Point = key((0.0, 0.0), "added to all its positions, m")
    origin: Point | None = key(None, "[lon, lat] of (0, 0) where the file has degrees; by default its south-west")


Mobility = Annotated[
    Annotated[StaticMobility, Tag("static")]
    | Annotated[WaypointMobility, Tag("waypoint")]
    | Annotated[RandomWalkMobility, Tag("random_walk")]
    | Annotated[GaussMarkovMobility, Tag("gauss_markov")]
    | Annotated[ManhattanMobility, Tag("manhattan")]
    | Annotated[RoadsMobility, Tag("roads")]
    | Annotated[SquadsMobility, Tag("squads")]
    | Annotated[PatrolMobility, Tag("patrol")]
    | Annotated[HerdMobility, Tag("herd")]
    | Annotated[DriftMobility, Tag("drift")]
    | Annotated[PlacedAnewMobility, Tag("placed_anew")]
    | Annotated[TraceMobility, Tag("trace")]
    | Own,
    by_kind,
    short_for("squads"),
]
