"""CPU time per visit and per contact of the six stories, without start-up: `python tests/benchmarks/visit_cost.py`.

    python tests/benchmarks/visit_cost.py warzone --against v1.2     # a revision, or a folder with another checkout

The scenarios are copies in `frozen`, so that figures stay comparable when those that ship change. Each is run twice:
with visits only, for the cost of a visit, and with contacts in passing, for the cost of a contact of either kind. With
`--against` both programs run by turns, a few visits each. A first round compiles and is not counted.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import subprocess
import sys
import tarfile
import tempfile
import time
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from statistics import median
from typing import Any

STORIES = ("warzone", "earthquake", "wildlife", "underwater", "city", "blackout")
ROOT = Path(__file__).parents[2]
FROZEN = Path(__file__).parent / "frozen"
AT_A_TIME = 10  # contacts of one program before it is the other's turn
KINDS = {"visits": "vehicle.in_passing=false", "contacts": "vehicle.in_passing=true"}


class Program:
    """A checkout of the package, in a process of its own: with two in one process the second is slower."""

    def __init__(self, folder: Path, scratch: Path) -> None:
        scratch.mkdir()
        (scratch / "fedmule").symlink_to(folder.resolve(), target_is_directory=True)
        paths = os.pathsep.join(filter(None, [str(scratch), os.environ.get("PYTHONPATH")]))
        self._process = subprocess.Popen(
            [sys.executable, __file__, "--serve"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": paths},
        )

    def ask(self, **request: Any) -> Any:
        """Send a request and wait for the answer."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps(request), file=self._process.stdin, flush=True)
        return json.loads(self._process.stdout.readline())

    def end(self) -> None:
        """End the process."""
        self._process.communicate()


def serve() -> None:
    """Make runs of this process's package, a few contacts at a time, as requests on standard input say."""
    from fedmule.simulator.engine import Simulation
    from fedmule.simulator.runs.folder import RunLog
    from fedmule.simulator.scenario.load import load_scenario

    answers, sys.stdout = sys.stdout, sys.stderr
    run: Any = None
    for line in sys.stdin:
        request = json.loads(line)
        if "where" in request:
            print(json.dumps(import_module(request["where"]).__file__), file=answers, flush=True)
        if "story" in request:
            scenario = load_scenario(str(FROZEN / f"{request['story']}.toml"), request["overrides"])
            with tempfile.TemporaryDirectory() as folder:
                run, log = Simulation(scenario), RunLog(Path(folder), scenario, "cpu")
                over, spent_s = run.start(log), 0.0
                print(json.dumps({"built": True}), file=answers, flush=True)
                while not over.processed:
                    sys.stdin.readline()
                    until, began_s = run.ledger.contacts + AT_A_TIME, time.process_time()
                    while not over.processed and run.ledger.contacts < until:
                        run.env.step()
                    spent_s += time.process_time() - began_s
                    counts = {"visits": int(run.ledger.visits), "contacts": int(run.ledger.contacts)}
                    result = {**counts, "spent_s": spent_s, "over": bool(over.processed)}
                    print(json.dumps(result), file=answers, flush=True)
                log.release()


def checkout(place: str, scratch: Path) -> Path:
    """A folder with a state of the package: as given, or a revision that is unpacked there."""
    if Path(place).is_dir():
        return Path(place)
    packed = subprocess.run(["git", "-C", str(ROOT), "archive", place], capture_output=True, check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        archive.extractall(scratch / "revision", filter="data")
    return scratch / "revision"


@dataclass
class Run:
    """What a program has spent on a run of a story so far."""

    program: Program
    visits: int = 0
    contacts: int = 0
    spent_s: float = 0.0

    def go_on(self) -> bool:
        """Make some more contacts; False if the run is over."""
        found = self.program.ask()
        self.visits, self.contacts, self.spent_s = found["visits"], found["contacts"], found["spent_s"]
        return not found["over"]


def race(programs: list[Program], story: str, overrides: list[str]) -> list[Run]:
    """Run a story with each program, by turns."""
    for program in programs:
        program.ask(story=story, overrides=overrides)
    left = runs = [Run(program) for program in programs]
    while left:
        left = [run for run in left if run.go_on()]
    return runs


@dataclass(frozen=True)
class Cost:
    """CPU time in one story: of a visit without contacts in passing, and of a contact with them, by program."""

    visits: int
    contacts: int  # visits and contacts in passing
    visit_ms: list[float]
    contact_ms: list[float]


def measure(programs: list[Program], story: str, rounds: int, overrides: tuple[str, ...] = ()) -> Cost:
    """Medians over some rounds after a first one that is not counted."""
    found: dict[str, list[list[Run]]] = {kind: [] for kind in KINDS}
    for _ in range(rounds + 1):
        for kind, override in KINDS.items():
            found[kind].append(race(programs, story, [override, *overrides]))

    def ms(kind: str, number: int) -> float:
        return median(1e3 * runs[number].spent_s / runs[number].contacts for runs in found[kind][1:])

    last = found["contacts"][-1][0]
    each = range(len(programs))
    return Cost(last.visits, last.contacts, [ms("visits", i) for i in each], [ms("contacts", i) for i in each])


def table(costs: dict[str, Cost]) -> str:
    """The results as Markdown."""
    compared = len(next(iter(costs.values())).visit_ms) > 1
    columns = ["scenario", "visits", "contacts"]
    for kind in ("visit", "contact"):
        columns += [f"ms per {kind}", *([f"before, per {kind}", "times faster"] if compared else [])]
    lines = ["| " + " | ".join(columns) + " |", "|---" * len(columns) + "|"]
    for story, cost in costs.items():
        cells = [f"`{story}`", str(cost.visits), str(cost.contacts)]
        for now, *before in (cost.visit_ms, cost.contact_ms):
            cells += [f"{now:.2f}", *(text for ms in before for text in (f"{ms:.2f}", f"{ms / now:.1f}"))]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stories", nargs="*", default=STORIES, metavar="STORY")
    parser.add_argument("--against", metavar="REVISION", help="compare with a revision, or another checkout's folder")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="as in fedmule run")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        return serve()
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        programs = [Program(ROOT, scratch / "own")]
        if given.against:
            programs.append(Program(checkout(given.against, scratch), scratch / "other"))
        print(table({story: measure(programs, story, given.rounds, tuple(given.set)) for story in given.stories}))
        for program in programs:
            program.end()


if __name__ == "__main__":
    main()
