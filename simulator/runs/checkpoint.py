"""Checkpoints: a run writes down its state now and then; from there a run that was killed can go on."""

from __future__ import annotations

import glob
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from fedmule.simulator.engine import Simulation
from fedmule.simulator.errors import StateError, UserError
from fedmule.simulator.lessons import Journal
from fedmule.simulator.runs.folder import RunLog, folder_name, is_done
from fedmule.simulator.runs.identity import Identity, differences
from fedmule.simulator.runs.state import load_state, save_state
from fedmule.simulator.scenario import Scenario
from fedmule.simulator.scenario.load import to_toml

WRITING_SHARE = 0.05  # of the host's time that writing may take


def checkpoint_file(folder: Path) -> Path:
    return folder / "checkpoint" / "state.npz"


def folder_to_resume(out: str | None, scenario: Scenario, identity: Identity) -> Path | None:
    """The folder of a run of this scenario: the one asked for, or the newest unfinished one under its usual name.

    None if there is none yet. Raises UserError if the folder asked for holds something else, or if the run was made by
    another program or with other data.
    """
    text = to_toml(scenario)
    if out is None:
        plain = folder_name(scenario.name)
        named = [folder for folder in Path("runs").glob(f"{glob.escape(plain)}*") if _number(folder.name, plain)]
        named.sort(key=lambda folder: _number(folder.name, plain), reverse=True)
        unfinished = [f for f in named if _scenario_text(f) == text and not is_done(f)]
        folder = next((f for f in unfinished if not differences(f, identity)), None)
        return folder or (_same_program(unfinished[0], identity) if unfinished else None)
    folder = Path(out)
    if not folder.is_dir() or not any(folder.iterdir()):
        return None
    there = _scenario_text(folder)
    if there is None:
        raise UserError(f"{folder}: is not a run folder, there is nothing to resume")
    if there != text:
        raise UserError(f"{folder}: holds a run of another scenario: {_difference(there, text)}")
    return _same_program(folder, identity)


def _same_program(folder: Path, identity: Identity) -> Path:
    """The folder, if this program with these data can resume its run."""
    if changes := differences(folder, identity):
        hint = "start again without --resume, in another folder"
        raise UserError(f"{folder}: cannot be resumed: {'; '.join(changes)}; {hint}")
    return folder


def _scenario_text(folder: Path) -> str | None:
    try:
        return (folder / "scenario.toml").read_text(encoding="utf-8")
    except (OSError, ValueError):
        return None


def _number(name: str, plain: str) -> int:
    """1 for NAME, 2 for NAME-2 and so on; 0 for other names."""
    if name == plain:
        return 1
    rest = name.removeprefix(f"{plain}-")
    return int(rest) if rest != name and rest.isdecimal() else 0


def _difference(there: str, here: str) -> str:
    """The first key whose values differ."""
    old, new = (dict(_flat(tomllib.loads(text))) for text in (there, here))
    key = next((k for k in {**old, **new} if old.get(k) != new.get(k)), "")
    return f"there {key} = {old.get(key)}, here {new.get(key)}"


def _flat(table: dict[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    """All values with their dotted keys."""
    for name, value in table.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{before}{name}.")
        else:
            yield before + name, value


class Checkpoints:
    """Called after every visit; writes a checkpoint every so many host seconds, or more seldom if that takes long."""

    def __init__(self, simulation: Simulation, log: RunLog, every_s: float) -> None:
        self._simulation = simulation
        self._log = log
        self._every_s = every_s
        self._next_s = time.perf_counter() + every_s
        self.problem: str | None = None  # why there are none

    def after_visit(self) -> None:
        interrupted = self._simulation.ledger.stopped_by == "interrupted"
        if self._every_s and self.problem is None and (interrupted or time.perf_counter() >= self._next_s):
            began_s = time.perf_counter()
            try:
                self._write()
            except StateError as error:  # such as an algorithm of the user's own that keeps something odd
                self.problem = f"no checkpoints are written, the run cannot be resumed: {error}"
            now_s = time.perf_counter()
            self._next_s = now_s + max(self._every_s, (now_s - began_s) / WRITING_SHARE)

    def _write(self) -> None:
        file = checkpoint_file(self._log.folder)
        file.parent.mkdir(exist_ok=True)
        ledger = self._simulation.ledger
        whole = SimpleNamespace(visits=ledger.visits, host_time_s=ledger.host_time_s, rows=self._log.lengths())
        roots = {"run": whole, "journal": self._simulation.lessons.journal.arrays(), **_learning(self._simulation)}
        save_state(file, roots, _constants(self._simulation))


class Checkpoint:
    """A checkpoint that was found: leads a simulation that was built alike to the same point."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._run = SimpleNamespace(visits=0, host_time_s=0.0, rows={})
        arrays = SimpleNamespace()
        try:
            load_state(file, {"run": self._run, "journal": arrays})
        except StateError as error:
            raise StateError(f"{error}; without the folder {file.parent} the run starts from its beginning") from None
        self._journal = Journal.from_arrays(arrays)

    @property
    def visits(self) -> int:
        return int(self._run.visits)

    @property
    def rows(self) -> dict[str, int]:
        """How many rows each table had."""
        return dict(self._run.rows)

    def lead(self, simulation: Simulation) -> None:
        """Let the simulation, not started yet, rehearse up to here and then learn on."""
        simulation.rehearse(self._journal, self.visits, lambda: self._restore(simulation))

    def _restore(self, simulation: Simulation) -> None:
        load_state(self._file, _learning(simulation))
        simulation.ledger.take_up(self._run.host_time_s)


def _learning(simulation: Simulation) -> dict[str, Any]:
    """Everything that learning changes."""
    learner = simulation.learner
    return {
        "algorithm": learner.algorithm,
        "carried": learner.carried,
        "evaluator": learner.evaluator,
        "ledger": simulation.ledger,
    }


def _constants(simulation: Simulation) -> list[Any]:
    """What these refer to that does not change, or is kept by itself."""
    learner, ledger = simulation.learner, simulation.ledger
    algorithm = learner.algorithm
    return [algorithm.model, algorithm.data, algorithm, learner.evaluator, *ledger.surroundings()]
