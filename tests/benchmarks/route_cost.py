"""Cost of a way: CPU time per way of the vehicle, and its mean duration, against the rule of version 0.1.0.

python tests/benchmarks/route_cost.py [--ways 200] [--rounds 5]

That rule took the shortest route round walls, whatever the surfaces, and roads from the position nearest to the vehicle
to the one nearest to its aim. Both rules plan the same ways, those to clients one after the other, in turns.
"""

from __future__ import annotations

import argparse
import time
from itertools import pairwise

import numpy as np
import shapely
from numpy.typing import NDArray

from fedmule.mobility.road_network import RoadNetwork
from fedmule.mobility.terrain import Terrain
from fedmule.simulator.scenario.load import load_scenario
from fedmule.simulator.streams import Streams
from fedmule.simulator.world import World, build_world

FloatArray = NDArray[np.float64]
WORLDS = ("warzone", "wildlife", "earthquake", "city")


class OldRule:
    """The shortest route, or by road from nearest position to nearest position."""

    def __init__(self, terrain: Terrain, speed_mps: float, roads: RoadNetwork | None, off_road: float) -> None:
        self.terrain, self.speed_mps, self.roads, self.off_road = terrain, speed_mps, roads, off_road
        self.edges = shapely.union_all([surface.polygon.boundary for surface in terrain.surfaces])
        shapely.prepare(self.edges)

    def seconds(self, start: FloatArray, goal: FloatArray) -> float:
        goal = self.terrain.within_reach(start, goal)
        if self.roads is None:
            return self.timed(self.shortest(start, goal))
        part = int(np.argmin(self.roads.gaps(start) + self.roads.gaps(goal)))
        (enter, _), (leave, _) = (self.roads.access(self.terrain, position, part) for position in (start, goal))
        on, off = self.shortest(start, enter[0]), self.shortest(leave[0], goal)
        off_m = sum(float(np.hypot(*np.diff(route, axis=0).T).sum()) for route in (on, off))
        if np.hypot(*(goal - start)) <= off_m:
            direct = self.shortest(start, goal)
            if np.hypot(*np.diff(direct, axis=0).T).sum() <= off_m:
                return self.timed(direct) / self.off_road
        by_road = self.roads.routes(enter, leave, part)[0]
        return (self.timed(on) + self.timed(off)) / self.off_road + self.timed(by_road)

    def shortest(self, start: FloatArray, goal: FloatArray) -> FloatArray:
        if self.terrain.clear(start[None], goal[None])[0]:
            return np.stack([start, goal])
        return self.terrain.router.route(start, goal)

    def timed(self, route: FloatArray) -> float:
        """Seconds by the lengths between crossings, each on the topmost surface at its middle."""
        lengths = np.hypot(*np.diff(route, axis=0).T)
        if not self.terrain.surfaces:
            return float(lengths.sum()) / self.speed_mps
        total = 0.0
        for a, b in pairwise(route):
            line, cuts = shapely.LineString([a, b]), [0.0, 1.0]
            if self.edges.intersects(line):
                for surface in self.terrain.surfaces:
                    crossings = shapely.get_coordinates(surface.polygon.boundary.intersection(line))
                    cuts.extend(np.hypot(*(crossings - a).T) / max(line.length, 1e-12))
            for s0, s1 in pairwise(np.unique(np.clip(cuts, 0.0, 1.0))):
                total += (s1 - s0) * line.length / self.factor(a + (b - a) * (s0 + s1) / 2)
        return total / self.speed_mps

    def factor(self, xy: FloatArray) -> float:
        for surface in reversed(self.terrain.surfaces):
            if shapely.contains_xy(surface.polygon, *xy):
                return surface.speed_factor
        return 1.0


def made(name: str) -> tuple[World, OldRule]:
    scenario = load_scenario(name)
    world, keys = build_world(scenario, Streams(0), {}), scenario.vehicle
    return world, OldRule(world.terrain, keys.speed_mps, world.driving[0].roads, keys.off_road_factor)


def ways(world: World, count: int) -> list[tuple[FloatArray, FloatArray]]:
    """Starts and aims: from client to client, on from a random position of each way, as after a report."""
    rng = np.random.default_rng(0)
    here, found = world.starts[0], []
    xy = world.positions.true(np.arange(len(world.positions)))
    while len(found) < count:
        aim = xy[rng.integers(len(xy))]
        for _ in range(2):
            found.append((here, aim))
            seconds, route = world.driving[0].way(here, aim)
            share = rng.random() * seconds[-1]
            here = np.array([np.interp(share, seconds, route[:, axis]) for axis in (0, 1)])
    return found


def compare(name: str, count: int, rounds: int) -> tuple[float, float, float]:
    """Milliseconds per way, how many times as many as by the old rule, and the durations as a share of the old ones."""
    world, old = made(name)
    asked = ways(world, count)
    drive = world.driving[0]
    shares = [drive.way(*ends)[0][-1] / max(old.seconds(*ends), 1e-9) for ends in asked]
    spent: dict[bool, list[float]] = {True: [], False: []}
    for _ in range(rounds):
        for is_old, plan in ((False, drive.way), (True, old.seconds)):
            began = time.process_time()
            for ends in asked:
                plan(*ends)
            spent[is_old].append(time.process_time() - began)
    ours = min(spent[False])
    return 1e3 * ours / len(asked), ours / min(spent[True]), float(np.mean(shares))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ways", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    print("| world | ms per way | × the old rule's | duration ÷ the old rule's |")
    print("|---|---|---|---|")
    for name in WORLDS:
        cost_ms, times, share = compare(name, given.ways, given.rounds)
        print(f"| `{name}` | {cost_ms:.2f} | {times:.2f} | {share:.3f} |", flush=True)


if __name__ == "__main__":
    main()
