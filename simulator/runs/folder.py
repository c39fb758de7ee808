"""The folder a run writes: scenario, manifest, tables, summary."""

from __future__ import annotations

import contextlib
import json
import math
import os
import platform
import re
import shutil
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedmule.mobility.models.movement import Waypoints
from fedmule.simulator.errors import UserError
from fedmule.simulator.runs.tables import TABLES, TableWriter
from fedmule.simulator.scenario import Scenario
from fedmule.simulator.scenario.load import to_toml

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

VERSIONS_OF = ("fedmule", "torch", "numpy", "scipy", "simpy", "shapely", "pyarrow")


def new_folder(out: str | None, name: str) -> Path:
    """An empty folder for a run: the one asked for, or runs/NAME, runs/NAME-2, … Never one that holds anything."""
    try:
        if out is None:
            return _next_free(Path("runs"), folder_name(name))
        folder = Path(out)
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            what = "holds a run already" if (folder / "manifest.json").exists() else "is not empty"
            raise UserError(f"{folder}: {what}; choose another folder with --out")
        (folder / ".writable").touch()
        (folder / ".writable").unlink()
        return folder
    except OSError as error:
        raise UserError(f"{error.filename or out}: cannot write the run there: {error.strerror}") from None


def folder_name(name: str) -> str:
    """A run's name as one of a folder: it must not lead out of the one it is in."""
    return re.sub(r"[^\w.-]+", "-", name).strip(".-") or "run"


def read_manifest(folder: Path) -> dict[str, Any]:
    """The manifest of a run folder; empty if there is none, or it cannot be read."""
    try:
        manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
        return manifest if isinstance(manifest, dict) else {}
    except (OSError, ValueError):
        return {}


def is_done(folder: Path) -> bool:
    """Whether a run folder is there and whole."""
    try:
        return bool(json.loads((folder / "summary.json").read_text(encoding="utf-8"))["finished"])
    except (OSError, ValueError, KeyError):
        return False


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
    """A recorder that keeps nothing: for trying things out."""

    muted = False  # nothing is logged for now

    def client_track(self, waypoints: Waypoints) -> None: ...

    def vehicle_track(self, vehicle: int, times: FloatArray, positions: FloatArray) -> None: ...

    def contact(self, row: dict[str, Any]) -> None: ...

    def meeting(self, row: dict[str, Any]) -> None: ...

    def clients(self, columns: dict[str, Any]) -> None: ...

    def graph(self, visit: int, sim_time_s: float, edges: IntArray) -> None: ...

    def close(self, summary: dict[str, Any]) -> None: ...


class RunLog(NoLog):
    """Writes a run folder: tables while the run goes on, the summary at its end.

    `keep` says how many rows of each table the folder has that stay: where a run is taken up again.
    """

    def __init__(
        self,
        folder: Path,
        scenario: Scenario,
        device: str,
        warnings: tuple[str, ...] = (),
        keep: dict[str, int] | None = None,
        identity: dict[str, Any] | None = None,
    ) -> None:
        self.folder = folder
        self._track = scenario.log.track
        if keep is None:
            write_text(folder / "scenario.toml", to_toml(scenario))
        self._lock = _locked(folder / "scenario.toml")  # until the process ends
        self._manifest: dict[str, Any] = {
            "name": scenario.name,
            "seed": scenario.seed,
            "started": datetime.now(UTC).isoformat(timespec="seconds"),
            "finished": False,
            "stopped_by": None,
            "device": device,
            "host": platform.node(),
            "system": platform.platform(),
            "python": platform.python_version(),
            "versions": {package: _version(package) for package in VERSIONS_OF},
            "identity": identity,
            "warnings": list(warnings),
        }
        if keep is not None:
            started = read_manifest(folder)
            resumed = [*started.get("resumed", []), self._manifest["started"]]
            self._manifest |= {"started": started.get("started"), "resumed": resumed}
        write_json(folder / "manifest.json", self._manifest)
        (folder / "summary.json").unlink(missing_ok=True)
        self._tables = {name: TableWriter(folder, name, (keep or {}).get(name, 0)) for name in TABLES}

    def lengths(self) -> dict[str, int]:
        """The rows of each table so far, all of them handed to the operating system."""
        for table in self._tables.values():
            table.flush()
        return {name: table.length for name, table in self._tables.items()}

    def client_track(self, waypoints: Waypoints) -> None:
        if self._track:
            self._add_track("client", waypoints.client, waypoints.t, waypoints.xy)

    def vehicle_track(self, vehicle: int, times: FloatArray, positions: FloatArray) -> None:
        if self._track:
            self._add_track("vehicle", np.full(len(times), vehicle), times, positions)

    def contact(self, row: dict[str, Any]) -> None:
        self._append("contacts", {name: [value] for name, value in row.items()})

    def meeting(self, row: dict[str, Any]) -> None:
        self._append("meetings", {name: [value] for name, value in row.items()})

    def clients(self, columns: dict[str, Any]) -> None:
        self._append("clients", columns)

    def graph(self, visit: int, sim_time_s: float, edges: IntArray) -> None:
        if len(edges):
            same = {"visit": np.full(len(edges), visit), "sim_time_s": np.full(len(edges), sim_time_s)}
            self._append("graph", {**same, "a": edges[:, 0], "b": edges[:, 1]})

    def close(self, summary: dict[str, Any]) -> None:
        """Turn the streams into Parquet files and say how the run ended."""
        for table in self._tables.values():
            table.close()
        write_json(self.folder / "summary.json", summary)
        ended = {k: summary[k] for k in ("finished", "stopped_by")}
        write_json(self.folder / "manifest.json", {**self._manifest, **ended})
        if summary["finished"]:
            shutil.rmtree(self.folder / "checkpoint", ignore_errors=True)
        self.release()

    def release(self) -> None:
        """Let others write to the folder."""
        if self._lock is not None:
            self._lock.close()

    def _add_track(self, node: str, ids: IntArray, times: FloatArray, positions: FloatArray) -> None:
        self._append(
            "track",
            {
                "sim_time_s": times,
                "node": [node] * len(ids),
                "id": ids,
                "x_m": np.ma.masked_invalid(positions[:, 0]),  # null where there is no position
                "y_m": np.ma.masked_invalid(positions[:, 1]),
            },
        )

    def _append(self, table: str, columns: dict[str, Any]) -> None:
        if not self.muted:
            self._tables[table].append(columns)


def write_text(path: Path, text: str) -> None:
    """Write a file whole or not at all."""
    partial = path.with_name(path.name + ".partial")
    partial.write_text(text, encoding="utf-8")
    os.replace(partial, path)


def write_json(path: Path, content: dict[str, Any]) -> None:
    """JSON has no nan or inf: they become null."""
    clean = {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in content.items()}
    write_text(path, json.dumps(clean, indent=2, allow_nan=False) + "\n")


def _locked(file: Path) -> Any:
    """Hold a file so that no other process writes this run too."""
    try:
        import fcntl
    except ImportError:  # not on this system
        return None
    handle = file.open("rb")
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        handle.close()
        raise UserError(f"{file.parent}: is being run by another process") from None
    return handle


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
