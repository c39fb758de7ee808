"""Cost of a town: its terrain, routes and links among 10,000 houses: `python tests/benchmarks/town_cost.py`.

    python tests/benchmarks/town_cost.py --against v1.2 --before 1     # a revision, or a folder with another checkout

CPU time, one thread. Routes are between random positions of the largest open area, after one that is not counted. Every
route is checked: no leg meets a wall. Contacts are those of a vehicle among 30 clients in the middle of the town, where
all houses or only the nearest 100 weaken links. With `--against`, the other program is measured too in its own process,
with `--before` routes of the shortest distance only: they may take minutes each.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray
from towns import houses, open_positions
from visit_cost import checkout

from fedmule.mobility.terrain import Obstacle, Surface, Terrain
from fedmule.simulator.engine import Simulation
from fedmule.simulator.scenario import Scenario

FloatArray = NDArray[np.float64]

PITCH_M = 20.0
SHORTEST_M = 180.0
NEAR = 100  # houses
CLIENTS = 30


@dataclass(frozen=True)
class Cost:
    """CPU time in one town."""

    corners: int
    build_s: float
    first_s: float  # the first route, with everything that is made for it
    grew_mb: float  # memory, with all routes
    route_ms: dict[float, list[float]]  # by distance in m
    longest_m: dict[float, float]  # of the routes
    contact_ms: tuple[float, float]  # among NEAR houses and among all


def measure(rows: int, distances_m: list[float], routes: int, contacts: int, surfaces: bool = False) -> Cost:
    """Build a town of rows × rows houses, and find routes of some lengths."""
    polygons, side_m = houses(rows, pitch_m=PITCH_M), rows * PITCH_M
    obstacles = [Obstacle(polygon, True, 12.0) for polygon in polygons]
    on_ground = [Surface(polygons[0].buffer(side_m / 4), 0.6)] if surfaces else []
    before_mb, began_s = _memory_mb(), time.process_time()
    terrain = Terrain((side_m, side_m), obstacles, on_ground)
    build_s = time.process_time() - began_s
    draw, found, longest = np.random.default_rng(0), {}, {}
    first_s = 0.0
    for distance_m in distances_m:
        spent = []
        for start, goal in _pairs(terrain, distance_m, routes + (not first_s), draw):
            began_s = time.process_time()
            route = terrain.route(start, goal)
            spent.append(time.process_time() - began_s)
            if not terrain.clear(route[:-1], route[1:]).all():
                raise AssertionError(f"a wall stands in the route from {start} to {goal}")
            longest[distance_m] = max(longest.get(distance_m, 0.0), float(np.hypot(*np.diff(route, axis=0).T).sum()))
        first_s = first_s or spent.pop(0)
        found[distance_m] = [1e3 * each for each in spent]
    grew_mb = _memory_mb() - before_mb
    contact_ms = contact_costs(polygons, side_m, contacts) if contacts else (np.nan, np.nan)
    return Cost(len(terrain.router.corners), build_s, first_s, grew_mb, found, longest, contact_ms)


def _pairs(
    terrain: Terrain, distance_m: float, count: int, draw: np.random.Generator
) -> list[tuple[FloatArray, FloatArray]]:
    """Starts and goals as far apart."""
    found: list[tuple[FloatArray, FloatArray]] = []
    while len(found) < count:
        starts, angles = open_positions(terrain, 20, draw), draw.uniform(0, 2 * np.pi, 20)
        goals = starts + distance_m * np.stack([np.cos(angles), np.sin(angles)], axis=1)
        found += [(a, b) for a, b, area in zip(starts, goals, terrain.area_of(goals), strict=True) if area == 0]
    return found[:count]


def contact_costs(polygons: list[Any], side_m: float, contacts: int, rounds: int = 5) -> tuple[float, float]:
    """Milliseconds per contact among the nearest houses and among all, by turns, as medians over rounds."""
    middle = np.array([side_m / 2, side_m / 2])
    apart = [np.hypot(*(np.array(polygon.centroid.coords[0]) - middle)) for polygon in polygons]
    near = [polygons[i] for i in np.argsort(apart)[:NEAR]]
    draw = np.random.default_rng(0)
    positions = (middle + draw.uniform(-80, 80, (CLIENTS, 2))).tolist()
    cases = [_simulation(some, side_m, positions) for some in (near, polygons)]
    spent: list[list[float]] = [[], []]
    for _ in range(rounds + 1):
        for case, times in zip(cases, spent, strict=True):
            until, began_s = case.ledger.visits + contacts, time.process_time()
            while case.ledger.visits < until:
                case.env.step()
            times.append(1e3 * (time.process_time() - began_s) / contacts)
    return median(spent[0][1:]), median(spent[1][1:])


def _simulation(polygons: list[Any], side_m: float, positions: list[list[float]]) -> Simulation:
    """A vehicle among clients that stand among houses that stop radio only."""
    shapes = [np.array(polygon.exterior.coords)[:-1].tolist() for polygon in polygons]
    scenario = Scenario.model_validate(
        {
            "terrain": {
                "size_m": [side_m, side_m],
                "obstacles": [{"polygon": shape, "stops_movement": False, "radio_loss_db": 12} for shape in shapes],
            },
            "clients": {"count": len(positions), "mobility": {"kind": "static", "positions": positions}},
            "vehicle": {"start": positions[0], "jump": 1.0},
            "learning": {"dataset": {"samples": [20, 40]}, "evaluate_every": 10**9},
            "stop": {"visits": 10**9},
            "log": {"graph_every": 0, "track": False},
        }
    )
    simulation = Simulation(scenario)
    simulation.start()
    return simulation


def _memory_mb() -> float:
    """The most this process has held so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10


def table(cost: Cost, other: Cost | None = None) -> str:
    """A table of two columns, or three."""
    rows = [
        ("terrain, s", f"{cost.build_s:.2f}", other and f"{other.build_s:.2f}"),
        ("first route, s", f"{cost.first_s:.2f}", other and f"{other.first_s:.2f}"),
    ]
    for distance_m, spent in cost.route_ms.items():
        before = other.route_ms.get(distance_m) if other else None
        rows.append(
            (
                f"a route of {distance_m:,.0f} m, ms (median; most)",
                f"{median(spent):.2f}; {max(spent):.2f}",
                before and f"{median(before):,.0f}; {max(before):,.0f}",
            )
        )
    rows.append(("memory, MB", f"{cost.grew_mb:.0f}", other and f"{other.grew_mb:.0f}"))
    for i, name in enumerate((f"a contact among {NEAR} houses, ms", "a contact among all, ms")):
        rows.append((name, f"{cost.contact_ms[i]:.2f}", other and f"{other.contact_ms[i]:.2f}"))
    head = ["| | now | before |", "|---|---|---|"] if other else ["| | now |", "|---|---|"]
    lines = [f"| {a} | {b} |" + (f" {c or '–'} |" if other else "") for a, b, c in rows]
    return "\n".join([f"{cost.corners:,} corners", "", *head, *lines])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100, help="rows of houses, and houses in a row (100)")
    parser.add_argument("--routes", type=int, default=20, help="routes of each length (20)")
    parser.add_argument("--contacts", type=int, default=20, help="contacts in a round (20)")
    parser.add_argument("--surfaces", action="store_true", help="with a slow surface")
    parser.add_argument("--against", metavar="PLACE", help="a revision, or a folder with another checkout")
    parser.add_argument("--before", type=int, default=1, help="its routes (1)")
    parser.add_argument("--json", action="store_true", help="routes of the shortest distance only, as JSON")
    given = parser.parse_args()
    side_m = given.rows * PITCH_M
    further = [] if given.json else [d for d in (500.0, 1000.0) if d < 0.9 * side_m] + [0.95 * side_m]
    measure(4, [50.0], 2, 1, given.surfaces)  # compile
    own = measure(given.rows, [SHORTEST_M, *further], given.routes, given.contacts, given.surfaces)
    print(json.dumps(asdict(own)) if given.json else table(own, other_program(given) if given.against else None))


def other_program(given: argparse.Namespace) -> Cost:
    """What another program costs, by this script in a process of its own."""
    command = [sys.executable, __file__, "--json", "--rows", given.rows, "--routes", given.before]
    command += ["--contacts", given.contacts] + ["--surfaces"] * given.surfaces
    with tempfile.TemporaryDirectory() as scratch:
        (Path(scratch) / "link").mkdir()
        (Path(scratch) / "link" / "fedmule").symlink_to(checkout(given.against, Path(scratch)).resolve())
        paths = os.pathsep.join(filter(None, [f"{scratch}/link", os.environ.get("PYTHONPATH")]))
        done = subprocess.run(
            [str(part) for part in command], env={**os.environ, "PYTHONPATH": paths}, capture_output=True, text=True
        )
    if done.returncode:
        sys.exit(done.stderr)
    found = json.loads(done.stdout)
    by_distance = {name: {float(d): v for d, v in found[name].items()} for name in ("route_ms", "longest_m")}
    return Cost(**{**found, **by_distance})


if __name__ == "__main__":
    main()
