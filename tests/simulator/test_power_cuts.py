"""After a power cut at any moment, or damage of files, a run resumes from what is whole and ends with the same bits."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from short_runs import run, same

from fedmule.analysis import Run, load_run
from fedmule.simulator.runs.checkpoint import Checkpoints, checkpoint_file, earlier_file
from fedmule.simulator.runs.run import run_scenario
from fedmule.simulator.scenario import Scenario

Small = Callable[..., Scenario]
TABLES = ("contacts", "clients", "track", "graph", "meetings")
SAVED = (4, 8, 12)  # contacts after which a checkpoint is written


class Killed(Exception):
    """Raised in place of a computer that stops."""


class Disk:
    """What would be left of a folder if the power were cut: only what was synced, files and names apart."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.contents: dict[int, bytes] = {}  # of files, by inode
        self.names: dict[str, dict[str, int]] = {}  # of folders, by path

    def sync(self, handle: int) -> None:
        """Note what fsync brings onto the disk."""
        path = Path(os.readlink(f"/proc/self/fd/{handle}"))
        if path.is_dir():
            self.names[str(path)] = {entry.name: entry.inode() for entry in os.scandir(path)}
        else:
            self.contents[os.fstat(handle).st_ino] = path.read_bytes()

    def after_the_cut(self, folder: Path) -> Path:
        """Make a folder as the disk has it; a file whose content was never synced is empty."""
        self._copy(self.root, folder)
        return folder

    def _copy(self, source: Path, target: Path) -> None:
        target.mkdir()
        for name, inode in self.names.get(str(source), {}).items():
            if str(source / name) in self.names or (source / name).is_dir():
                self._copy(source / name, target / name)
            else:
                (target / name).write_bytes(self.contents.get(inode, b""))


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Disk:
    found, fsync = Disk(tmp_path / "run"), os.fsync

    def recorded(handle: int) -> None:
        fsync(handle)
        found.sync(handle)

    monkeypatch.setattr(os, "fsync", recorded)
    return found


def with_checkpoints(monkeypatch: pytest.MonkeyPatch, at: int | None, then: Callable[[], None]) -> None:
    """Write checkpoints after some contacts; after contact `at` do something else and stop."""

    def after_contact(self: Any) -> None:
        contacts = self._simulation.ledger.contacts
        if contacts in SAVED:
            self._write()
        if contacts == at:
            then()
            raise Killed

    monkeypatch.setattr(Checkpoints, "after_contact", after_contact)


def alike(a: Run, b: Run) -> None:
    for table in TABLES:
        same(getattr(a, table), getattr(b, table))
    assert {**a.summary, "host_time_s": 0} == {**b.summary, "host_time_s": 0}


@pytest.mark.parametrize("at", [1, 3, 4, 5, 8, 11, 12, 13])
def test_what_was_synced_is_enough(
    small: Small, tmp_path: Path, disk: Disk, monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    with monkeypatch.context() as patch:
        with_checkpoints(patch, at, lambda: None)
        with pytest.raises(Killed):
            run_scenario(small(), str(tmp_path / "run"))
    left = disk.after_the_cut(tmp_path / "left")
    assert checkpoint_file(left).exists() == (at >= SAVED[0])
    run_scenario(small(), str(left), resume=True)
    alike(run(small(), tmp_path / "complete"), load_run(left))


def test_the_power_is_cut_while_anything_is_synced(
    small: Small, tmp_path: Path, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every state between two syncs, from the first on that has the scenario."""
    states: list[Path] = []
    sync = disk.sync

    def and_keep(handle: int) -> None:
        sync(handle)
        if "scenario.toml" in disk.names.get(str(disk.root), {}):
            states.append(disk.after_the_cut(tmp_path / f"state{len(states)}"))

    monkeypatch.setattr(disk, "sync", and_keep)
    with monkeypatch.context() as patch:
        with_checkpoints(patch, None, lambda: None)
        complete = run(small(), tmp_path / "run")
    monkeypatch.undo()
    assert len(states) > 30
    for state in states:
        run_scenario(small(), str(state), resume=True)
        alike(complete, load_run(state))
        assert load_run(state).finished
        assert not [file for file in state.rglob("*") if file.suffix in (".arrows", ".npz", ".partial")]


def flip(file: Path, at: float) -> None:
    """Change a byte of a file, at this share of its length."""
    content = bytearray(file.read_bytes())
    content[int(at * (len(content) - 1))] ^= 0x55
    file.write_bytes(content)


def cut(file: Path, at: float) -> None:
    """Keep this share of a file."""
    content = file.read_bytes()
    file.write_bytes(content[: int(at * len(content))])


@pytest.mark.parametrize("harm", [flip, cut])
@pytest.mark.parametrize("at", [0.0, 0.1, 0.5, 0.9])
@pytest.mark.parametrize(
    "files",
    [
        ["checkpoint/state.npz"],
        ["checkpoint/state.npz", "checkpoint/before.npz"],
        ["contacts.arrows"],
        ["track.arrows"],
    ],
    ids=lambda files: " ".join(Path(file).stem for file in files),
)
def test_damage_is_seen_and_what_is_older_is_used(
    small: Small,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    files: list[str],
    at: float,
    harm: Callable[[Path, float], None],
) -> None:
    folder = tmp_path / "run"
    with monkeypatch.context() as patch:
        with_checkpoints(patch, 12, lambda: None)
        with pytest.raises(Killed):
            run_scenario(small(), str(folder))
    assert earlier_file(folder).exists()
    for file in files:
        harm(folder / file, at)
    run_scenario(small(), str(folder), resume=True)
    assert "what is older is used" in capsys.readouterr().err
    alike(run(small(), tmp_path / "complete"), load_run(folder))


def test_the_last_checkpoint_but_one_is_used(
    small: Small, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with monkeypatch.context() as patch:
        with_checkpoints(patch, 13, lambda: None)
        with pytest.raises(Killed):
            run_scenario(small(), str(tmp_path / "run"))
    flip(checkpoint_file(tmp_path / "run"), 0.5)
    run_scenario(small(), str(tmp_path / "run"), resume=True, quiet=False)
    assert "resuming after contact 8\n" in capsys.readouterr().err
    alike(run(small(), tmp_path / "complete"), load_run(tmp_path / "run"))


@pytest.mark.parametrize("stage", ["streams", "parquet"])
def test_an_interrupted_run_that_is_killed_again(
    small: Small, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stage: str
) -> None:
    """After Ctrl-C rows are in Parquet files; resumed and killed before another checkpoint, they are still there."""
    after_contact = Checkpoints.after_contact

    def stop(self: Any) -> None:
        if self._simulation.ledger.contacts == 7:
            self._simulation.ledger.interrupt()
        after_contact(self)

    with monkeypatch.context() as patch:
        patch.setattr(Checkpoints, "after_contact", stop)
        run(small(), tmp_path / "run")
    with monkeypatch.context() as patch:
        with_checkpoints(patch, 11 if stage == "parquet" else 13, lambda: None)
        patch.setattr("test_power_cuts.SAVED", () if stage == "parquet" else (12,))
        with pytest.raises(Killed):
            run_scenario(small(), str(tmp_path / "run"), resume=True)
    assert (tmp_path / "run/contacts.parquet").exists() == (stage == "parquet")
    shutil.copytree(tmp_path / "run", tmp_path / "again")
    run_scenario(small(), str(tmp_path / "again"), resume=True)
    alike(run(small(), tmp_path / "complete"), load_run(tmp_path / "again"))
