"""The tables of a run folder: their columns, and how they are written so that a killed run can be read."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from fedmule.simulator.errors import StateError

REAL, WHOLE, TEXT = pa.float64(), pa.int64(), pa.string()
IDS = pa.list_(pa.int32())

CONTACTS = pa.schema(
    [
        ("visit", WHOLE),  # 1, 2, …
        ("client", WHOLE),  # the one visited; null, like the vehicle, for a round of an ideal server
        ("sim_time_s", REAL),  # when the contact ended
        ("host_time_s", REAL),  # since the run began, on this computer
        ("vehicle", WHOLE),
        ("vehicle_x_m", REAL),
        ("vehicle_y_m", REAL),
        ("travel_s", REAL),  # since the last contact ended
        ("contact_s", REAL),  # from arrival to the end of the exchange
        ("airtime_s", REAL),  # the channel busy
        ("compute_s", REAL),  # the longest computation of a client
        ("missed", WHOLE),  # clients chased in vain since the last contact
        ("neighbours", WHOLE),  # clients in range, the visited one included
        ("active", WHOLE),  # of them asked to take part
        ("delivered", WHOLE),  # of them whose exchange got through
        ("active_ids", IDS),
        ("delivered_ids", IDS),
        ("bytes_down", WHOLE),  # on the air; a broadcast counts once
        ("bytes_up", WHOLE),
        ("bytes_between", WHOLE),  # by vehicles to each other since the last row
        ("gradient_steps", WHOLE),  # by all delivered clients together
        ("personal_test_acc_mean", REAL),  # null between looks if learning.evaluate_contacts is false, and the next two
        ("personal_test_acc_weighted", REAL),
        ("personal_validation_acc_mean", REAL),  # null also where there is no validation part
        ("token_test_acc", REAL),  # this and what needs all clients: every learning.evaluate_every visits
        ("train_loss", REAL),
        ("violation_max", REAL),
        ("violation_rms", REAL),
        ("violated_share", REAL),
        ("dual_norm", REAL),
        ("lagrangian", REAL),
        ("lyapunov", REAL),
        ("token_step_norm", REAL),
        ("kappa", REAL),
    ]
)
CLIENTS = pa.schema(
    [
        ("visit", WHOLE),  # 0: before the first
        ("sim_time_s", REAL),
        ("client", WHOLE),
        ("test_acc", REAL),
        ("token_test_acc", REAL),  # of the token, on this client's test data
        ("test_samples", WHOLE),
        ("visits", WHOLE),  # times the vehicle came to this client
        ("participations", WHOLE),  # exchanges that got through
        ("gradient_steps", WHOLE),
        ("bytes_down", WHOLE),
        ("bytes_up", WHOLE),
    ]
)
# A trace: waypoints, linear in between; two rows of one node at the same time are a jump. Without a position: not there.
TRACK = pa.schema([("sim_time_s", REAL), ("node", TEXT), ("id", WHOLE), ("x_m", REAL), ("y_m", REAL)])
GRAPH = pa.schema([("visit", WHOLE), ("sim_time_s", REAL), ("a", WHOLE), ("b", WHOLE)])

MEETINGS = pa.schema(
    [
        ("meeting", WHOLE),  # 1, 2, …
        ("sim_time_s", REAL),  # when it ended
        ("visits", WHOLE),  # of all vehicles so far
        ("a", WHOLE),  # the vehicles
        ("b", WHOLE),
        ("a_x_m", REAL),  # where they were when it began
        ("a_y_m", REAL),
        ("b_x_m", REAL),
        ("b_y_m", REAL),
        ("meeting_s", REAL),
        ("airtime_s", REAL),
        ("bytes", WHOLE),  # on the air, both ways
        ("delivered", pa.bool_()),  # whether both tokens got through
    ]
)

TABLES = {"contacts": CONTACTS, "clients": CLIENTS, "track": TRACK, "graph": GRAPH, "meetings": MEETINGS}

FLUSH_ROWS = 200
FLUSH_S = 2.0
GROUP_ROWS = 1 << 17


class TableWriter:
    """Appends to an Arrow stream while the run goes on; at the end the stream becomes a Parquet file.

    With `keep` it goes on after that many rows which the folder has; others that it has are dropped.
    """

    def __init__(self, folder: Path, name: str, keep: int = 0) -> None:
        self._stream = folder / f"{name}.arrows"
        self._parquet = folder / f"{name}.parquet"
        self._schema = TABLES[name]
        kept = read_table(folder, name).slice(0, keep) if keep else self._schema.empty_table()
        if len(kept) < keep:
            raise StateError(f"{self._stream}: has {len(kept)} rows; there must be {keep} to go on")
        partial = self._stream.with_suffix(".arrows.partial")
        self._file = partial.open("wb") if keep else self._stream.open("wb")
        self._writer = pa.ipc.new_stream(self._file, self._schema)
        for batch in kept.to_batches(max_chunksize=GROUP_ROWS):
            self._writer.write_batch(batch)
        self._pending: list[pa.RecordBatch] = []
        self._rows = 0  # pending
        self.length = keep  # rows in all
        self._flushed_s = time.monotonic()
        self._file.flush()
        if keep:
            os.replace(partial, self._stream)
        self._parquet.unlink(missing_ok=True)

    def append(self, columns: Mapping[str, Any]) -> None:
        """Add rows, given as columns of equal length; a missing column is null."""
        length = len(next(iter(columns.values())))
        arrays = [
            pa.array(_own(columns[f.name]), type=f.type) if f.name in columns else pa.nulls(length, f.type)
            for f in self._schema
        ]
        self._pending.append(pa.RecordBatch.from_arrays(arrays, schema=self._schema))
        self._rows += length
        self.length += length
        if self._rows >= FLUSH_ROWS or time.monotonic() - self._flushed_s > FLUSH_S:
            self.flush()

    def flush(self) -> None:
        """Hand what is pending to the operating system: a killed run keeps it."""
        if self._pending:
            self._writer.write_batch(pa.concat_batches(self._pending))
            self._file.flush()
        self._pending, self._rows, self._flushed_s = [], 0, time.monotonic()

    def close(self) -> None:
        self.flush()
        self._writer.close()
        self._file.close()
        partial = self._parquet.with_suffix(".parquet.partial")
        with pq.ParquetWriter(partial, self._schema, compression="zstd") as writer:
            for table in _groups(read_stream(self._stream), self._schema):
                writer.write_table(table)
        os.replace(partial, self._parquet)
        self._stream.unlink()


def _own(column: Any) -> Any:
    """A column that stays as it is: Arrow would look into an array that the run goes on counting in."""
    return column.copy() if isinstance(column, np.ndarray) else column


def read_stream(path: Path) -> Iterator[pa.RecordBatch]:
    """The whole batches of a stream; what was cut off when its run was killed is left out."""
    with path.open("rb") as file:
        try:
            yield from pa.ipc.open_stream(file)
        except (pa.ArrowInvalid, OSError):
            return


def read_table(folder: Path, name: str, columns: Sequence[str] | None = None) -> pa.Table:
    """A table of a run folder, or columns of it, of a finished run or from the stream of one that was not."""
    parquet, stream = folder / f"{name}.parquet", folder / f"{name}.arrows"
    wanted = None if columns is None else list(columns)
    if parquet.exists():
        table = pq.ParquetFile(parquet).read(wanted)  # several times as fast as pq.read_table, which is for many files
    else:
        batches = list(read_stream(stream)) if stream.exists() else []
        # With their own columns: another version of the program may have written them.
        table = pa.Table.from_batches(batches) if batches else TABLES[name].empty_table()
    return table if wanted is None else table.select(wanted)


def _groups(batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.Table]:
    """Batches gathered into larger portions, so that the file has few row groups and memory stays small."""
    gathered: list[pa.RecordBatch] = []
    for batch in batches:
        gathered.append(batch)
        if sum(len(b) for b in gathered) >= GROUP_ROWS:
            yield pa.Table.from_batches(gathered, schema)
            gathered = []
    if gathered:
        yield pa.Table.from_batches(gathered, schema)
