"""The tables of a run folder: written so that a killed run can be read."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from fedmule.simulator.errors import StateError
from fedmule.simulator.runs.columns import TABLES

Values = Sequence[object] | NDArray[np.generic]  # of a column

SCHEMAS = {name: pa.schema([(column.name, column.type) for column in columns]) for name, columns in TABLES.items()}

FLUSH_ROWS = 200
FLUSH_S = 2.0
GROUP_ROWS = 1 << 17


class TableWriter:
    """Appends to an Arrow stream during the run; at the end the stream becomes a Parquet file.

    The first `keep` rows that the folder has are kept, the others dropped.
    """

    def __init__(self, folder: Path, name: str, keep: int = 0) -> None:
        self._stream = folder / f"{name}.arrows"
        self._parquet = folder / f"{name}.parquet"
        self._schema = SCHEMAS[name]
        kept = read_table(folder, name).slice(0, keep) if keep else self._schema.empty_table()
        if len(kept) < keep:
            raise StateError(f"{self._stream}: has {len(kept)} rows; the checkpoint needs {keep}")
        partial = self._stream.with_suffix(".arrows.partial")
        self._file = partial.open("wb") if keep else self._stream.open("wb")
        self._writer = pa.ipc.new_stream(self._file, self._schema)
        for batch in kept.to_batches(max_chunksize=GROUP_ROWS):
            self._writer.write_batch(batch)
        self._pending: list[pa.RecordBatch] = []
        self._rows = 0  # pending
        self.length = keep  # total rows
        self._flushed_s = time.monotonic()
        self._file.flush()
        if keep:
            os.replace(partial, self._stream)
        self._parquet.unlink(missing_ok=True)

    def append(self, columns: Mapping[str, Values]) -> None:
        """Add rows, given as columns of equal length."""
        length = len(next(iter(columns.values())))
        arrays = [pa.array(_frozen(columns[field.name]), type=field.type) for field in self._schema]
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
        """Turn the stream into a Parquet file."""
        self.flush()
        self._writer.close()
        self._file.close()
        partial = self._parquet.with_suffix(".parquet.partial")
        with pq.ParquetWriter(partial, self._schema, compression="zstd") as writer:
            for table in _groups(read_stream(self._stream), self._schema):
                writer.write_table(table)
        os.replace(partial, self._parquet)
        self._stream.unlink()


def _frozen(column: Values) -> Values:
    """A copy of an array: Arrow would share its memory, and the ledger keeps counting in it."""
    return column.copy() if isinstance(column, np.ndarray) else column


def read_stream(path: Path) -> Iterator[pa.RecordBatch]:
    """The complete batches of a stream; a batch cut off when its run was killed is left out."""
    with path.open("rb") as file:
        try:
            yield from pa.ipc.open_stream(file)
        except (pa.ArrowInvalid, OSError):
            return


def read_table(folder: Path, name: str, columns: Sequence[str] | None = None) -> pa.Table:
    """A table of a run folder, or some of its columns; of an unfinished run from its stream."""
    parquet, stream = folder / f"{name}.parquet", folder / f"{name}.arrows"
    wanted = None if columns is None else list(columns)
    if parquet.exists():
        table = pq.ParquetFile(parquet).read(wanted)  # much faster than pq.read_table, which is for many files
    else:
        batches = list(read_stream(stream)) if stream.exists() else []
        # With the columns they have: another version of the program may have written them.
        table = pa.Table.from_batches(batches) if batches else SCHEMAS[name].empty_table()
    return table if wanted is None else table.select(wanted)


def _groups(batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.Table]:
    """Batches joined into larger tables, so that the file has few row groups and memory stays small."""
    gathered: list[pa.RecordBatch] = []
    for batch in batches:
        gathered.append(batch)
        if sum(len(b) for b in gathered) >= GROUP_ROWS:
            yield pa.Table.from_batches(gathered, schema)
            gathered = []
    if gathered:
        yield pa.Table.from_batches(gathered, schema)
