"""CPU time per visit and per contact of the six stories, without start-up: `python tests/benchmarks/visit_cost.py`.

    python tests/benchmarks/visit_cost.py warzone --against v1.2     # a revision, or a folder with another checkout

The scenarios are copies in `frozen`, so that figures stay comparable when those that ship change. Each is run twice:
with visits only, for the cost of a visit, and with contacts in passing, for the cost of a contact of either kind. With
`--against` both programs run in this process by turns, a few visits each. A first round compiles and is not counted.
"""

from __future__ import annotations

import argparse
import importlib
import io
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from types import ModuleType
from typing import Any

STORIES = ("warzone", "earthquake", "wildlife", "underwater", "city", "blackout")
ROOT = Path(__file__).parents[2]
FROZEN = Path(__file__).parent / "frozen"
AT_A_TIME = 10  # contacts of one program before it is the other's turn
KINDS = {"visits": "vehicle.in_passing=false", "contacts": "vehicle.in_passing=true"}


class Program:
    """A checkout of the package. Its modules are those that `import fedmule` finds while it is `active`."""

    def __init__(self, folder: Path, scratch: Path) -> None:
        self._modules: dict[str, ModuleType] = {}
        scratch.mkdir()
        (scratch / "fedmule").symlink_to(folder.resolve(), target_is_directory=True)
        self._path = str(scratch)

    @contextmanager
    def active(self) -> Iterator[None]:
        """Make this the package `fedmule` for the moment."""
        others = _modules()
        for name in others:
            del sys.modules[name]
        sys.modules.update(self._modules)
        sys.path.insert(0, self._path)
        try:
            yield
        finally:
            sys.path.remove(self._path)
            self._modules = _modules()
            for name in self._modules:
                del sys.modules[name]
            sys.modules.update(others)


def _modules() -> dict[str, ModuleType]:
    return {name: each for name, each in sys.modules.items() if name.partition(".")[0] == "fedmule"}


def checkout(place: str, scratch: Path) -> Path:
    """A folder with a state of the package: as given, or a revision that is unpacked there."""
    if Path(place).is_dir():
        return Path(place)
    packed = subprocess.run(["git", "-C", str(ROOT), "archive", place], capture_output=True, check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        archive.extractall(scratch / "revision", filter="data")
    return scratch / "revision"


class Run:
    """A run of a story that is made a few contacts at a time."""

    def __init__(self, program: Program, story: str, overrides: list[str], folder: Path) -> None:
        self._program = program
        self.spent_s = 0.0
        with program.active():
            scenario = _part("simulator.scenario.load").load_scenario(str(FROZEN / f"{story}.toml"), overrides)
            self._simulation = _part("simulator.engine").Simulation(scenario)
            folder.mkdir(parents=True)
            self._log = _part("simulator.runs.folder").RunLog(folder, scenario, "cpu")
            self._over = self._simulation.start(self._log)

    @property
    def visits(self) -> int:
        return int(self._simulation.ledger.visits)

    @property
    def contacts(self) -> int:
        return int(self._simulation.ledger.contacts)

    def go_on(self) -> bool:
        """Make some more contacts; False if the run is over."""
        until = self.contacts + AT_A_TIME
        with self._program.active():
            began_s = time.process_time()
            while not self._over.processed and self._simulation.ledger.contacts < until:
                self._simulation.env.step()
            self.spent_s += time.process_time() - began_s
        return not self._over.processed

    def close(self) -> None:
        with self._program.active():
            self._log.release()


def _part(name: str) -> Any:
    return importlib.import_module(f"fedmule.{name}")


def race(programs: list[Program], story: str, overrides: list[str], scratch: Path) -> list[Run]:
    """Run a story with each program, by turns."""
    runs = [Run(program, story, overrides, scratch / str(i)) for i, program in enumerate(programs)]
    left = runs
    while left:
        left = [run for run in left if run.go_on()]
    for run in runs:
        run.close()
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
            with tempfile.TemporaryDirectory() as scratch:
                found[kind].append(race(programs, story, [override, *overrides], Path(scratch)))

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
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        programs = [Program(ROOT, scratch / "own")]
        if given.against:
            programs.append(Program(checkout(given.against, scratch), scratch / "other"))
        print(table({story: measure(programs, story, given.rounds, tuple(given.set)) for story in given.stories}))


if __name__ == "__main__":
    main()
