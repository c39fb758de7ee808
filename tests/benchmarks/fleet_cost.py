"""What a visit costs with 1 to 50 vehicles: `python tests/benchmarks/fleet_cost.py`.

200 clients walk about on 1 km², and vehicles that hear each other over 60 m (`--range`) meet. CPU time of one thread,
without start-up; the numbers of vehicles by turns, medians over rounds.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from fedmule.simulator.engine import Simulation
from fedmule.simulator.scenario import Scenario


def scenario(count: int, range_m: float, visits: int) -> Scenario:
    return Scenario.model_validate(
        {
            "terrain": {"size_m": [1000, 1000]},
            "vehicle": {"count": count, "in_passing": False},
            "clients": {"count": 200, "mobility": "waypoint"},
            "radio": {"kind": "disc", "range_m": range_m, "rate_mbps": 10.0},
            "learning": {"dataset": {"samples": [20, 40]}, "evaluate_every": 10**6, "alone": False},
            "stop": {"visits": visits},
            "log": {"graph_every": 0, "track": False},
        }
    )


def measure(count: int, range_m: float, visits: int) -> tuple[float, float]:
    """Milliseconds of CPU and meetings, per visit."""
    simulation = Simulation(scenario(count, range_m, visits))
    began = time.process_time()
    summary = simulation.run()
    return 1e3 * (time.process_time() - began) / summary["visits"], summary["meetings"] / summary["visits"]


def compare(counts: list[int], range_m: float, visits: int, rounds: int) -> list[float]:
    """Ratio of the cost per visit with each number of vehicles to that with the first."""
    measure(counts[0], range_m, 20)  # what is compiled or loaded once
    found = np.array([[measure(count, range_m, visits) for count in counts] for _ in range(rounds)])
    ratios = np.median(found[:, :, 0] / found[:, :1, 0], axis=0)
    print("| vehicles | ms per visit | ratio | meetings per visit |\n|---|---|---|---|")
    for count, (cost_ms, meetings), ratio in zip(counts, np.median(found, axis=0), ratios, strict=True):
        print(f"| {count} | {cost_ms:.2f} | {ratio:.2f} | {meetings:.2f} |")
    return [float(ratio) for ratio in ratios]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--counts", type=int, nargs="+", default=[1, 5, 20, 50])
    parser.add_argument("--range", type=float, default=60.0)
    parser.add_argument("--visits", type=int, default=400)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    compare(given.counts, given.range, given.visits, given.rounds)


if __name__ == "__main__":
    main()
