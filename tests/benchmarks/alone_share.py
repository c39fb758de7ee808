"""How much of a run's CPU time training alone takes: `python tests/benchmarks/alone_share.py`.

Every scenario that ships, and some with larger models. A run is everything from its scenario to its closed folder, in
one process, after a first run that compiles. At most a tenth is the aim; `learning/effort.py` has the rule.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedmule.learning.alone import Alone
from fedmule.simulator.runs.run import run_scenario
from fedmule.simulator.scenario.load import load_scenario

RUNS: tuple[tuple[str, ...], ...] = (
    *((name,) for name in ("smoke", "warzone", "earthquake", "wildlife", "underwater", "city", "blackout")),
    ("smoke", "learning.model=mlp"),
    ("warzone", "learning.model=mlp"),
    ("smoke", "learning.algorithm=local"),
    ("smoke", "learning.server=star", "learning.active=5"),
    ("smoke", "clients.count=300", "stop.visits=200"),
    ("smoke", "clients.compute_flops_per_s=1e4"),
)


@dataclass(frozen=True)
class Share:
    """What training alone did in a run, and its seconds of CPU."""

    clients: int
    sample: int
    longest: int
    gradient_steps: int
    alone_s: float
    total_s: float

    @property
    def share(self) -> float:
        return self.alone_s / self.total_s


def measure(name: str, overrides: tuple[str, ...] = ()) -> Share:
    """One run of a scenario into a folder that is thrown away."""
    spent, made = [0.0], []

    def timed(call: Callable[..., Any]) -> Callable[..., Any]:
        def inside(self: Alone, *arguments: Any) -> Any:
            began_s = time.process_time()
            try:
                return call(self, *arguments)
            finally:
                spent[0] += time.process_time() - began_s
                made[:] = [self]

        return inside

    methods = {name: getattr(Alone, name) for name in ("__init__", "accuracy", "leave", "arrive")}
    for method, call in methods.items():
        setattr(Alone, method, timed(call))
    try:
        with tempfile.TemporaryDirectory() as folder:
            began_s = time.process_time()
            summary = run_scenario(load_scenario(name, list(overrides)), str(Path(folder) / "run"))
            total_s = time.process_time() - began_s
    finally:
        for method, call in methods.items():
            setattr(Alone, method, call)
    alone = made[0]
    counts = summary["clients"], len(alone.clients), alone.longest, alone.gradient_steps
    return Share(*counts, spent[0], total_s)


def table(results: dict[str, Share]) -> str:
    """The results as Markdown."""
    lines = ["| run | clients | alone | longest plan | gradient steps alone | s of CPU | alone |", "|---" * 7 + "|"]
    for name, run in results.items():
        lines.append(
            f"| {name} | {run.clients} | {run.sample} | {run.longest} | {run.gradient_steps} | {run.total_s:.2f} "
            f"| {run.share:.1%} |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("scenario", nargs="?", help="one scenario instead of all")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="as in fedmule run")
    given = parser.parse_args()
    measure("smoke")  # compiles, and fills the caches
    runs = ((given.scenario, *given.set),) if given.scenario else RUNS
    print(table({" ".join(run): measure(run[0], run[1:]) for run in runs}))


if __name__ == "__main__":
    main()
