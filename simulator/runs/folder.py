"""The folder a run writes: scenario, manifest, tables, summary."""

from __future__ import annotations

import contextlib
import json
import math
import re
import shutil
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fedmule.learning.files import clear_unfinished, replacing, sync_folder
from fedmule.mobility.models.movement import Waypoints
from fedmule.simulator.errors import UserError
from fedmule.simulator.runs import lock
from fedmule.simulator.runs.columns import TABLES, ClientRows, ContactRow, GraphRows, MeetingRow, Summary, TrackRows
from fedmule.simulator.runs.digests import digests_of
from fedmule.simulator.runs.machine import made_with
from fedmule.simulator.runs.models import write_models
from fedmule.simulator.runs.tables import Mark, TableWriter
from fedmule.simulator.runs.trackers import Tracker
from fedmule.simulator.scenario import Scenario
from fedmule.simulator.scenario.load import to_toml
from fedmule.simulator.scenario.renamed import FORMAT

if TYPE_CHECKING:
    from fedmule.learning.learner import Learner

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


def new_folder(out: str | None, name: str) -> Path:
    """An empty folder for a run: the one asked for, or the first free one of runs/NAME, runs/NAME-2 and so on."""
    try:
        if out is None:
            return _next_free(Path("runs"), folder_name(name))
        folder = Path(out)
        folder.mkdir(parents=True, exist_ok=True)
        if any(file.name != lock.NAME for file in folder.iterdir()):
            what = "holds a run already" if (folder / "manifest.json").exists() else "is not empty"
            raise UserError(f"{folder}: {what}; choose another folder with --out")
        (folder / ".writable").touch()
        (folder / ".writable").unlink()
        sync_folder(folder.parent)
        return folder
    except OSError as error:
        raise UserError(f"{error.filename or out}: cannot write the run there: {error.strerror}") from None


def folder_name(name: str) -> str:
    """A run's name as the name of a folder, which must not lead out of the folder it is in."""
    return re.sub(r"[^\w.-]+", "-", name).strip(".-") or "run"


def read_manifest(folder: Path) -> dict[str, Any]:
    """The manifest of a run folder; empty if there is none or it cannot be read."""
    try:
        manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
        return manifest if isinstance(manifest, dict) else {}
    except (OSError, ValueError):
        return {}


def is_done(folder: Path) -> bool:
    """Whether a folder holds a finished run."""
    try:
        return bool(json.loads((folder / "summary.json").read_text(encoding="utf-8"))["finished"])
    except (OSError, ValueError, KeyError):
        return False


def finish_folder(folder: Path, manifest: Mapping[str, Any], summary: Mapping[str, Any]) -> None:
    """Do what is left to do once the summary is written: the manifest says so, and what a resumed run needs can go."""
    ended = {"finished": summary["finished"], "stopped_by": summary["stopped_by"], "digests": digests_of(folder)}
    write_json(folder / "manifest.json", {**manifest, **ended}, durable=True)
    for name in TABLES:
        (folder / f"{name}.arrows").unlink(missing_ok=True)
    if summary["finished"]:
        shutil.rmtree(folder / "checkpoint", ignore_errors=True)


def _next_free(parent: Path, name: str) -> Path:
    parent.mkdir(exist_ok=True)
    number = 1
    while True:
        folder = parent / (name if number == 1 else f"{name}-{number}")
        with contextlib.suppress(FileExistsError):
            folder.mkdir()
            return folder
        number += 1


class NoLog:
    """A log that keeps nothing: for trying things out, and for a past that is in the log already."""

    def client_track(self, waypoints: Waypoints) -> None:
        """Log waypoints of clients."""

    def vehicle_track(self, vehicle: int, times: FloatArray, positions: FloatArray) -> None:
        """Log waypoints of a vehicle: times [k] and positions [k,2]."""

    def contact(self, row: ContactRow) -> None:
        """Log a visit."""

    def meeting(self, row: MeetingRow) -> None:
        """Log a meeting of two vehicles."""

    def clients(self, rows: ClientRows) -> None:
        """Log an evaluation of all clients."""

    def graph(self, visit: int, sim_time_s: float, edges: IntArray) -> None:
        """Log the contact graph after a visit: edges [m,2]."""

    def learnt(self, learner: Learner, now_s: float) -> None:
        """Keep what was learnt, at the end of a run."""

    def close(self, summary: Summary) -> None:
        """End the log with the run's summary."""


class RunLog(NoLog):
    """Writes a run folder: tables during the run, the summary at its end.

    `keep` is for a run that is resumed: how many rows of each table in the folder stay, and the marks of their streams.
    Contacts and the end of the run are entered in `trackers` too.
    """

    def __init__(
        self,
        folder: Path,
        scenario: Scenario,
        device: str,
        warnings: tuple[str, ...] = (),
        keep: dict[str, tuple[int, Mark]] | None = None,
        identity: dict[str, Any] | None = None,
        keep_models: bool | None = False,
        range_m: float | None = None,
        trackers: Sequence[Tracker] = (),
    ) -> None:
        self.folder = folder
        self._scenario, self._keep_models = scenario, keep_models
        self._track = scenario.log.track
        self._trackers = trackers
        self._lock = lock.FolderLock(folder)  # until the log is closed
        if keep is None:
            if (folder / "scenario.toml").exists():  # of a run that has begun, and ended, in this moment
                self._lock.release()
                raise UserError(f"{folder}: holds a run already; choose another folder with --out")
            write_text(folder / "scenario.toml", to_toml(scenario), durable=True)
        self._manifest: dict[str, Any] = {
            "format": FORMAT,
            "name": scenario.name,
            "seed": scenario.seed,
            "started": datetime.now(UTC).isoformat(timespec="seconds"),
            "finished": False,
            "stopped_by": None,
            "range_m": range_m,
            "device": device,
            **made_with(),
            "identity": identity,
            "warnings": list(warnings),
        }
        if keep is not None:
            started = read_manifest(folder)
            resumed = [*started.get("resumed", []), self._manifest["started"]]
            self._manifest |= {"started": started.get("started"), "resumed": resumed}
        clear_unfinished(folder)
        write_json(folder / "manifest.json", self._manifest, durable=True)
        (folder / "summary.json").unlink(missing_ok=True)
        self._tables = {name: TableWriter(folder, name, *(keep or {}).get(name, ())) for name in TABLES}

    def lengths(self) -> dict[str, int]:
        """The number of rows of each table so far."""
        return {name: table.length for name, table in self._tables.items()}

    def sync(self) -> dict[str, Mark]:
        """Bring all tables onto the disk; returns the length and the checksum of each stream."""
        marks = {name: table.sync() for name, table in self._tables.items()}
        sync_folder(self.folder)
        return marks

    def saved(self) -> None:
        """Note that a checkpoint speaks of the streams as they are."""
        for table in self._tables.values():
            table.drop_parquet()

    def client_track(self, waypoints: Waypoints) -> None:
        if self._track:
            self._add_track("client", waypoints.client, waypoints.t, waypoints.xy)

    def vehicle_track(self, vehicle: int, times: FloatArray, positions: FloatArray) -> None:
        if self._track:
            self._add_track("vehicle", np.full(len(times), vehicle), times, positions)

    def contact(self, row: ContactRow) -> None:
        self._tables["contacts"].append({name: [value] for name, value in vars(row).items()})
        for tracker in self._trackers:
            tracker.contact(row)

    def meeting(self, row: MeetingRow) -> None:
        self._tables["meetings"].append({name: [value] for name, value in vars(row).items()})

    def clients(self, rows: ClientRows) -> None:
        alone = np.ma.masked_invalid(rows.alone_test_acc)  # null for clients that do not train alone
        site = [None] * len(rows.client) if rows.site is None else rows.site
        self._tables["clients"].append({**vars(rows), "alone_test_acc": alone, "site": site})

    def graph(self, visit: int, sim_time_s: float, edges: IntArray) -> None:
        if len(edges):
            when = np.full(len(edges), visit), np.full(len(edges), sim_time_s)
            self._tables["graph"].append(vars(GraphRows(*when, a=edges[:, 0], b=edges[:, 1])))

    def learnt(self, learner: Learner, now_s: float) -> None:
        write_models(self.folder, self._scenario, learner, now_s, self._keep_models)

    def close(self, summary: Summary) -> None:
        """Turn the streams into Parquet files and write how the run ended."""
        for table in self._tables.values():
            table.close()
        write_json(self.folder / "summary.json", summary, durable=True)
        finish_folder(self.folder, self._manifest, summary)
        for tracker in self._trackers:
            tracker.close(summary)
        self.release()

    def release(self) -> None:
        """Let others write to the folder, and end the trackers."""
        for tracker in self._trackers:
            tracker.release()
        self._trackers = ()
        self._lock.release()

    def _add_track(self, node: str, ids: IntArray, times: FloatArray, positions: FloatArray) -> None:
        if not np.isfinite(positions).all():
            positions = np.ma.masked_invalid(positions)  # null where there is no position
        columns = TrackRows(times, [node] * len(ids), ids, positions[:, 0], positions[:, 1])
        self._tables["track"].append(vars(columns))


def write_text(path: Path, text: str, durable: bool = False) -> None:
    """Write a file completely or not at all."""
    write_bytes(path, text.encode(), durable)


def write_bytes(path: Path, content: bytes, durable: bool = False) -> None:
    """Write a file completely or not at all."""
    with replacing(path, durable) as file:
        file.write(content)


def write_json(path: Path, content: Mapping[str, object], durable: bool = False) -> None:
    """Write a JSON file; nan and inf, which JSON does not have, become null."""
    clean = {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in content.items()}
    write_text(path, json.dumps(clean, indent=2, allow_nan=False) + "\n", durable)
