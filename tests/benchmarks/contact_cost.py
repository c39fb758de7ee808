"""What one contact costs with 100 to 100,000 clients at constant density: `python tests/benchmarks/contact_cost.py`.

CPU time, one thread, the sizes interleaved in rounds. The look-up of clients' positions, and the planning of their
walks, are shown apart; `with it` is the ratio of the costs of a contact with the look-up.
"""

from __future__ import annotations

import argparse
import math
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from fedmule.simulator.engine import Simulation
from fedmule.simulator.scenario import Scenario

NEIGHBOURS = 8  # on average within the radio's range
RANGE_M = 100.0
WARM_UP = 20


def scenario(n: int, mobility: str) -> Scenario:
    side = math.sqrt(n * math.pi * RANGE_M**2 / NEIGHBOURS)
    return Scenario.model_validate(
        {
            "terrain": {"size_m": [side, side]},
            # Without jumps the walk stays local: a drive's length does not depend on the size of the terrain.
            "vehicle": {"jump": 0.0},
            "clients": {"count": n, "mobility": mobility},
            "radio": {"kind": "disc", "range_m": RANGE_M},
            "learning": {
                "dataset": {"samples": [20, 40]},
                "evaluate_every": 10**9,
                "active": 8,
                "alone": False,
                "algorithm": {"kind": "rwsadmm", "try_at": 0.0},
            },
            "stop": {"visits": 10**9},
            "log": {"graph_every": 0, "track": False},
        }
    )


def memory_mb() -> float:
    """What this process holds; nan where the system does not say."""
    status = Path("/proc/self/statm")
    return int(status.read_text().split()[1]) * 4096 / 2**20 if status.exists() else math.nan


class Case:
    """A simulation that goes on a few contacts at a time and adds up what they cost."""

    def __init__(self, n: int, mobility: str) -> None:
        self.n = n
        before = memory_mb()
        began = time.process_time()
        self.simulation = Simulation(scenario(n, mobility))
        self.simulation.start()
        self.look_up_s = 0.0
        positions = self.simulation.world.positions
        for name in ("advance", "within", "known_within", "passed"):
            setattr(positions, name, self._timed(getattr(positions, name)))
        self.go_on(WARM_UP)
        self.build_s = time.process_time() - began
        self.memory_mb = memory_mb() - before
        self.rounds: list[tuple[float, float]] = []

    @property
    def state_mb(self) -> float:
        algorithm: Any = self.simulation.learner.algorithm
        tensors = [algorithm.models, algorithm.duals, algorithm.data.features, algorithm.data.labels]
        if choice := self.simulation.learner.choice:
            tensors.append(choice.alone.models)
        return sum(t.numel() * t.element_size() for t in tensors) / 2**20

    def go_on(self, contacts: int) -> None:
        ledger = self.simulation.ledger
        goal = ledger.visits + contacts
        while ledger.visits < goal:
            self.simulation.env.step()

    def measure(self, contacts: int) -> None:
        self.look_up_s = 0.0
        began = time.process_time()
        self.go_on(contacts)
        self.rounds.append(((time.process_time() - began) / contacts, self.look_up_s / contacts))

    def _timed(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*arguments: Any) -> Any:
            began = time.process_time()
            answer = call(*arguments)
            self.look_up_s += time.process_time() - began
            return answer

        return timed


def compare(sizes: list[int], mobility: str, contacts: int, rounds: int) -> list[tuple[int, float, float, float]]:
    """For each size: clients, milliseconds per contact without the look-up, of the look-up, ratio to the first size."""
    cases = [Case(n, mobility) for n in sizes]
    for _ in range(rounds):
        for case in cases:
            case.measure(contacts)
    print(f"\n{mobility} clients, ms of CPU per contact (median of {rounds} rounds of {contacts})")
    headings = (
        ("contact", 9),
        ("ratio", 7),
        ("look-up of positions", 18),
        ("with it", 9),
        ("build s", 9),
        ("state MB", 9),
        ("grew MB", 8),
    )
    print(" ".join([f"{'clients':>8}"] + [f"{name:>{width}}" for name, width in headings]))
    results = []
    first = np.array(cases[0].rounds)
    for case in cases:
        times = np.array(case.rounds)
        cost = np.median(times[:, 0] - times[:, 1])
        look_up = np.median(times[:, 1])
        ratio = np.median((times[:, 0] - times[:, 1]) / (first[:, 0] - first[:, 1]))
        both = np.median(times[:, 0] / first[:, 0])
        results.append((case.n, 1e3 * cost, 1e3 * look_up, float(ratio)))
        print(
            f"{case.n:>8} {1e3 * cost:>9.2f} {ratio:>7.2f} {1e3 * look_up:>18.3f} {both:>9.2f} {case.build_s:>9.1f} "
            f"{case.state_mb:>9.0f} {case.memory_mb:>8.0f}"
        )
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=[100, 1_000, 10_000, 100_000])
    parser.add_argument("--contacts", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--mobility", choices=["static", "waypoint"], help="only this one (default: both)")
    arguments = parser.parse_args()
    if arguments.mobility:
        compare(arguments.sizes, arguments.mobility, arguments.contacts, arguments.rounds)
        return
    for mobility in ("static", "waypoint"):  # each in a process of its own, so that memory is what it needs
        subprocess.run([sys.executable, *sys.argv, "--mobility", mobility], check=True)


if __name__ == "__main__":
    main()
