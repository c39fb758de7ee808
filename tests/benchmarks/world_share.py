"""Where the time of a run goes, for the scenarios that ship: `python tests/benchmarks/world_share.py`.

Events and visits per second of CPU, and the shares of the world (movement, ways, contact graph, hearing, exchanges, the
event loop), of learning (updates, evaluation and training alone) and of the log. A call's time is its own: what it
calls and is timed itself is taken off. Building the world and compiled code are not counted; the first run of a process
warms up.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

from fedmule.simulator import serving
from fedmule.simulator.engine import Simulation
from fedmule.simulator.runs.folder import RunLog
from fedmule.simulator.scenario.load import load_scenario

TALES = ("warzone", "earthquake", "wildlife", "underwater", "city", "blackout")
WORLD = ("movement", "ways", "graph", "hearing", "exchanges", "loop")
PARTS = (*WORLD, "learning", "log")


class Stopwatch:
    """Seconds of CPU by part; nested calls are charged to the innermost."""

    def __init__(self) -> None:
        self.spent_s = dict.fromkeys(PARTS, 0.0)
        self._inside = ["loop"]
        self._since_s = time.process_time()

    def change(self) -> None:
        now_s = time.process_time()
        self.spent_s[self._inside[-1]] += now_s - self._since_s
        self._since_s = now_s

    def watch(self, owner: Any, names: str, part: str) -> None:
        """Charge these methods of an object to a part."""
        for name in names.split():
            object.__setattr__(owner, name, self.timed(getattr(owner, name), part))

    def timed(self, call: Callable[..., Any], part: str) -> Callable[..., Any]:
        """A function like this one whose calls are charged to a part."""

        def timed(*arguments: Any, **named: Any) -> Any:
            self.change()
            self._inside.append(part)
            try:
                return call(*arguments, **named)
            finally:
                self.change()
                self._inside.pop()

        return timed


@dataclass(frozen=True)
class Result:
    """What a run did, and where its seconds of CPU went."""

    visits: int
    events: int
    spent_s: dict[str, float]

    @property
    def total_s(self) -> float:
        return sum(self.spent_s.values())

    @property
    def world_share(self) -> float:
        return sum(self.spent_s[part] for part in WORLD) / self.total_s


def measure(name: str, overrides: tuple[str, ...] = ()) -> Result:
    """One run of a scenario into a folder that is thrown away."""
    scenario = load_scenario(name, list(overrides))
    simulation = Simulation(scenario)
    with tempfile.TemporaryDirectory() as folder:
        log = RunLog(Path(folder), scenario, "cpu")
        watch = Stopwatch()
        world, learner = simulation.world, simulation.learner
        watch.watch(log, "client_track vehicle_track contact meeting clients graph close", "log")
        watch.watch(simulation.ledger, "start visit meeting finish", "log")
        watch.watch(learner.algorithm, "exchange introduce", "learning")
        watch.watch(learner.carried, "update meeting meet", "learning")
        watch.watch(learner.evaluator, "refresh overview token_accuracy", "learning")
        watch.watch(learner, "alone_accuracy", "learning")
        watch.watch(world.positions, "advance within known_within passed after_visit", "movement")
        watch.watch(world.positions.trajectories, "positions path", "movement")
        for driving in {id(driving): driving for driving in world.driving}.values():  # vehicles may share it
            watch.watch(driving, "way", "ways")
        for walk in world.walks:
            watch.watch(walk, "next", "graph")
        watch.watch(world.graph, "neighbours logged", "graph")
        watch.watch(simulation, "_neighbourhood", "graph")
        watch.watch(world.hearing, "heard first_heard expected_link", "hearing")
        over, events = simulation.start(log), 0
        for service in simulation.services:
            watch.watch(service, "_links", "exchanges")
            if isinstance(service, serving.PassingService):
                watch.watch(service._channel, "join relink advance", "exchanges")
        with mock.patch.object(serving, "run_exchange", watch.timed(serving.run_exchange, "exchanges")):
            while not over.processed:
                simulation.env.step()
                events += 1
        for vehicle in simulation.vehicles:
            vehicle.rest()
        world.positions.trajectories.finish(simulation.env.now)
        log.close(simulation.ledger.finish(simulation.env.now, *simulation.count_reports()))
        watch.change()
    return Result(simulation.ledger.visits, events, watch.spent_s)


def table(results: dict[str, Result]) -> str:
    """The results as Markdown."""
    lines = [
        "| scenario | visits | events | events/s | visits/s | world | " + " | ".join(PARTS) + " | s of CPU |",
        "|---" * (len(PARTS) + 7) + "|",
    ]
    for name, run in results.items():
        shares = " | ".join(f"{run.spent_s[part] / run.total_s:.0%}" for part in PARTS)
        lines.append(
            f"| `{name}` | {run.visits} | {run.events} | {run.events / run.total_s:.0f} "
            f"| {run.visits / run.total_s:.0f} | {run.world_share:.0%} | {shares} | {run.total_s:.1f} |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("scenarios", nargs="*", default=TALES, metavar="SCENARIO")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="as in fedmule run")
    given = parser.parse_args()
    measure("smoke")  # compiles, and fills the caches
    print(table({name: measure(name, tuple(given.set)) for name in given.scenarios}))


if __name__ == "__main__":
    main()
