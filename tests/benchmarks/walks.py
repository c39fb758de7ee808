"""Walk policies: visits and simulated time until everyone was visited, and how evenly visits fall afterwards.

python tests/benchmarks/walks.py [--seeds 5] [--visits 400] [--in-passing]

The policies alone make the difference: models are small, and the vehicle serves nobody in passing unless asked to; only
visits are counted. In the static world it drives up to every client that a policy chooses. In the war zone reports are
too rare and too late for that: it stops as soon as a link pays.
"""

from __future__ import annotations

import argparse
import math

import numpy as np

from fedmule.simulator.engine import Simulation
from fedmule.simulator.runs.columns import ContactRow
from fedmule.simulator.runs.folder import NoLog
from fedmule.simulator.scenario import Scenario
from fedmule.simulator.scenario.load import load_scenario

POLICIES = ("degree", "metropolis", "lazy", "nearest_unvisited", "oldest_first", "tour")
# As little learning as possible, in place of all that a scenario says about it: its payload too.
FEW = {"kind": "synthetic", "samples": [5, 5]}
LEARNING = {"dataset": FEW, "local_steps": 1, "alone": False, "evaluate_every": 10_000, "open_at": 1.0}
WORLDS = ("warzone", "static")


class Rows(NoLog):
    """Keeps the contacts."""

    def __init__(self) -> None:
        self.contacts: list[ContactRow] = []

    def contact(self, row: ContactRow) -> None:
        self.contacts.append(row)


def scenario(world: str, policy: str, seed: int, visits: int, in_passing: bool = False) -> Scenario:
    keys = {"learning": LEARNING, "vehicle.walk": policy, "vehicle.in_passing": in_passing, "stop": {"visits": visits}}
    if world == "warzone":
        return load_scenario("warzone", keys, seed)
    static = {"clients": {"count": 40, "mobility": {"kind": "static"}}, "terrain": {"size_m": [1000.0, 1000.0]}}
    disc = {"radio": {"kind": "disc", "range_m": 250.0, "setup_s": 3.0}, "vehicle.contact": "approach"}
    return load_scenario("smoke", {**keys, **static, **disc}, seed)


def measure(chosen: Scenario) -> tuple[float, float, float, float]:
    """Visits and hours until everyone was visited, seconds from visit to visit, and the oldest age at the end."""
    rows = Rows()
    Simulation(chosen).run(rows)
    visits = [row for row in rows.contacts if not row.in_passing]
    clients = np.array([row.client for row in visits])
    first = np.array([np.append(np.flatnonzero(clients == c), math.inf)[0] for c in range(chosen.clients.count)])
    last = [len(clients) - np.append(-1, np.flatnonzero(clients == c))[-1] for c in range(chosen.clients.count)]
    covered = first.max()
    hours = visits[int(covered)].sim_time_s / 3600 if math.isfinite(covered) else math.nan
    return covered + 1, hours, visits[-1].sim_time_s / len(clients), max(last)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--visits", type=int, default=400)
    parser.add_argument("--in-passing", action="store_true", help="also serve whoever is heard on the way")
    given = parser.parse_args()
    print("| world | policy | everyone visited after visits | after h | s per visit | oldest age at the end, visits |")
    print("|---|---|---|---|---|---|")
    for world in WORLDS:
        for policy in POLICIES:
            runs = np.array(
                [measure(scenario(world, policy, s, given.visits, given.in_passing)) for s in range(given.seeds)]
            )
            done = np.isfinite(runs[:, 0])
            never = f" ({int((~done).sum())} of {given.seeds} never)" if not done.all() else ""
            covered, hours = runs[done, :2].mean(axis=0) if done.any() else (math.nan, math.nan)
            when = f"{covered:.0f}{never} | {hours:.2f}" if done.any() else "never | –"
            rest = f"{runs[:, 2].mean():.1f} | {runs[:, 3].mean():.0f}"
            print(f"| {world} | `{policy}` | {when} | {rest} |", flush=True)


if __name__ == "__main__":
    main()
