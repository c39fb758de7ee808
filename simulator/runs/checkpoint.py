"""Checkpoints: a run saves its state now and then, so that a run that was killed can be resumed from there."""

from __future__ import annotations

import glob
import os
import time
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from fedmule.learning.files import sync_folder
from fedmule.learning.journal import Journal, JournalArrays
from fedmule.simulator.engine import Simulation
from fedmule.simulator.errors import StateError, UserError
from fedmule.simulator.phase import Phase
from fedmule.simulator.runs.folder import RunLog, folder_name, is_done
from fedmule.simulator.runs.identity import Identity, differences
from fedmule.simulator.runs.state import load_state, save_state
from fedmule.simulator.runs.tables import Mark, check_rows
from fedmule.simulator.scenario import Scenario
from fedmule.simulator.scenario.load import to_toml
from fedmule.simulator.world_state import Snapshots, World

WRITING_SHARE = 0.03  # of host time that writing may take


def checkpoint_file(folder: Path) -> Path:
    """Return the checkpoint's file in a run folder."""
    return folder / "checkpoint" / "state.npz"


def earlier_file(folder: Path) -> Path:
    """Return the file of the checkpoint before."""
    return checkpoint_file(folder).with_name("before.npz")


def last_checkpoint(folder: Path) -> tuple[Checkpoint | None, list[str]]:
    """The newest checkpoint of a run whose state and tables are undamaged, None if there is none; and what is wrong.

    The last but one serves where a power cut or a disk has damaged the last.
    """
    problems: list[str] = []
    for file in (checkpoint_file(folder), earlier_file(folder)):
        if file.exists():
            try:
                found = Checkpoint(file)
                found.check_tables(folder)
                return found, problems
            except StateError as error:
                problems.append(str(error))
    return None, problems


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
        raise UserError(f"{folder}: is not a run folder: there is nothing to resume")
    if there != text:
        raise UserError(f"{folder}: holds a run of another scenario: {_difference(there, text)}")
    return _same_program(folder, identity)


def _same_program(folder: Path, identity: Identity) -> Path:
    """The folder, if this program with these data can resume its run, or if it has not begun."""
    if not (folder / "manifest.json").exists() and not any(folder.glob("*.arrows")):
        return folder
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


def _flat(table: dict[str, object], before: str = "") -> Iterator[tuple[str, object]]:
    """All values with their dotted keys."""
    for name, value in table.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{before}{name}.")
        else:
            yield before + name, value


@dataclass
class Saved:
    """Where a run stood when its checkpoint was written."""

    contacts: int = 0
    host_time_s: float = 0.0
    rows: dict[str, int] = field(default_factory=dict)  # of each table
    streams: dict[str, Mark] = field(default_factory=dict)  # length and checksum of each table's stream


class Checkpoints:
    """Writes a checkpoint every `every_s` seconds of host time, or less often if writing takes long."""

    def __init__(self, simulation: Simulation, log: RunLog, every_s: float) -> None:
        self._simulation = simulation
        self._log = log
        self._every_s = every_s
        self._next_s = time.perf_counter() + every_s
        self.problem: str | None = None  # why there are none
        if every_s:
            simulation.env.after_event = Snapshots(simulation).after_event

    def after_contact(self) -> None:
        """Write a checkpoint if one is due, or if the run was interrupted."""
        interrupted = self._simulation.ledger.stopped_by == "interrupted"
        if self._every_s and self.problem is None and (interrupted or time.perf_counter() >= self._next_s):
            began_s = time.perf_counter()
            try:
                self._write()
            except StateError as error:  # such as a plugin's algorithm that keeps something unusual
                self.problem = f"no checkpoints are written, the run cannot be resumed: {error}"
            now_s = time.perf_counter()
            self._next_s = now_s + max(self._every_s, (now_s - began_s) / WRITING_SHARE)

    def _write(self) -> None:
        file = checkpoint_file(self._log.folder)
        if not file.parent.exists():
            file.parent.mkdir()
            sync_folder(self._log.folder)
        ledger, learner = self._simulation.ledger, self._simulation.learner
        roots = {
            "world": World.pack(self._simulation.snapshot),
            "run": Saved(ledger.contacts, ledger.host_time_s, self._log.lengths(), self._log.sync()),
            "journal": learner.journal.arrays(),
            "ledger": ledger,
            **learner.state(),
        }
        if file.exists():
            os.replace(file, earlier_file(self._log.folder))
        save_state(file, roots, [*learner.constants(), *ledger.constants()])
        self._log.saved()


class Checkpoint:
    """A checkpoint found in a folder; resumes a simulation that was built from the same scenario."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._saved, arrays, self._world = Saved(), JournalArrays(), World()
        load_state(file, {"run": self._saved, "journal": arrays, "world": self._world})
        self._journal = Journal.from_arrays(arrays)

    @property
    def contacts(self) -> int:
        """Contacts made by then."""
        return self._saved.contacts

    @property
    def replayed(self) -> int:
        """Contacts that are replayed: those since the last moment at which nobody exchanged anything."""
        snapshot = self._world.unpack()
        return self.contacts - (0 if snapshot is None else sum(len(past) for past in snapshot.past))

    @property
    def rows(self) -> dict[str, tuple[int, Mark]]:
        """How many rows each table had, and the mark of its stream."""
        return {name: (rows, self._saved.streams[name]) for name, rows in self._saved.rows.items()}

    def check_tables(self, folder: Path) -> None:
        """Raise StateError unless the rows that the tables had by then are there."""
        for name, (rows, mark) in self.rows.items():
            check_rows(folder, name, rows, mark)

    def resume(self, simulation: Simulation) -> None:
        """Let a simulation that has not started yet replay the run's past and continue from this checkpoint."""
        simulation.replay(self._journal, self.contacts, self._restore, self._world.unpack())

    def _restore(self, phase: Phase) -> None:
        """Put the saved state back into the live phase."""
        load_state(self._file, {"ledger": phase.ledger, **phase.learner.state()}, checked=False)
        phase.learner.journal = self._journal
        phase.ledger.resume(self._saved.host_time_s)
