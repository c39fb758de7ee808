"""Digests of what a run has found, and whether a folder still holds it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from fedmule.simulator.runs.columns import TABLES

HOST = "host_"  # columns that differ between two runs of one scenario
SUMMARY, SCENARIO, MODELS = "summary.json", "scenario.toml", "models"

Digests = dict[str, str]  # of columns as `table.column`, of values of the summary, and of files


def digests_of(folder: Path) -> Digests:
    """Return the digests of a run that has ended; raise OSError or ValueError where something cannot be read."""
    return dict(_all(folder))


def damage(folder: Path, recorded: Digests) -> list[str]:
    """Say what in a run's folder is not what it was when the run ended; nothing if all is well."""
    try:
        found = digests_of(folder)
    except (OSError, ValueError, pa.ArrowException) as error:
        return [f"cannot be read: {error}"]
    return [f"{what} has changed" for what in recorded if found.get(what) != recorded[what]]


def changed_file(folder: Path, recorded: Digests) -> str | None:
    """Return the first file that is not what it was when the run ended; None if all are."""
    for name in recorded:
        if ":" not in name:
            try:
                found = _digest((folder / name).read_bytes())
            except OSError:
                found = ""
            if found != recorded[name]:
                return name
    return None


def differences(before: Digests, after: Digests) -> list[str]:
    """The results that two runs of one scenario should share and do not."""
    names = [name for name in {**before, **after} if not _differs_anyway(name)]
    return [name for name in names if before.get(name) != after.get(name)]


def _differs_anyway(name: str) -> bool:
    return name.partition(":")[2].startswith(HOST) or name.endswith(".parquet") or name == SUMMARY


def _all(folder: Path) -> Iterator[tuple[str, str]]:
    for name in TABLES:
        file = folder / f"{name}.parquet"
        table = pq.ParquetFile(file).read()
        for column in table.column_names:
            yield f"{name}:{column}", _digest(_content(table[column].combine_chunks()))
    summary: dict[str, Any] = json.loads((folder / SUMMARY).read_text(encoding="utf-8"))
    for key, value in summary.items():
        yield f"{SUMMARY}:{key}", _digest(json.dumps(value).encode())
    tables = [folder / f"{name}.parquet" for name in TABLES]
    for file in [folder / SCENARIO, folder / SUMMARY, *tables, *sorted((folder / MODELS).glob("*"))]:
        yield str(file.relative_to(folder)), _digest(file.read_bytes())


def _content(column: pa.Array) -> pa.Buffer:
    """A column as bytes."""
    with pa.BufferOutputStream() as sink:
        batch = pa.table({"": column})
        with pa.ipc.new_stream(sink, batch.schema) as writer:
            writer.write_table(batch)
        return sink.getvalue()


def _digest(content: bytes | pa.Buffer) -> str:
    return hashlib.sha256(content).hexdigest()[:16]
