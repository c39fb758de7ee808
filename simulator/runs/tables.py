"""The tables of a run folder: written so that a killed run can be read."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from fedmule.learning.files import replacing, sync
from fedmule.simulator.errors import StateError
from fedmule.simulator.runs.columns import TABLES

Values = Sequence[object] | NDArray[np.generic]  # of a column
Mark = tuple[int, str]  # length of a stream in bytes, and its checksum
NOTHING: Mark = (0, "")
END_OF_STREAM = b"\xff\xff\xff\xff\x00\x00\x00\x00"  # of Arrow's IPC format

SCHEMAS = {name: pa.schema([(column.name, column.type) for column in columns]) for name, columns in TABLES.items()}

FLUSH_ROWS = 200
FLUSH_S = 2.0
GROUP_ROWS = 1 << 17


class _Stream:
    """A file to append to, which knows its length and a checksum of its content."""

    def __init__(self, path: Path, prefix: bytes) -> None:
        """Continue a file after these first bytes of it; without any, begin it anew."""
        self._file = path.open("r+b" if prefix else "wb")
        self._file.truncate(len(prefix))
        self._file.seek(len(prefix))
        self._hash, self._bytes = hashlib.blake2b(prefix), len(prefix)

    def write(self, data: pa.Buffer | bytes) -> None:
        """Append."""
        self._hash.update(data)
        self._bytes += len(data)
        self._file.write(data)

    def flush(self) -> None:
        """Hand everything to the operating system."""
        self._file.flush()

    def sync(self) -> Mark:
        """Bring everything onto the disk, and return how long the file is, with its checksum."""
        sync(self._file)
        return self._bytes, self._hash.hexdigest()

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class TableWriter:
    """Appends to an Arrow stream during the run; at the end the stream becomes a Parquet file.

    A run that is resumed keeps the first `keep` rows: the stream up to this mark, or those of the Parquet file that was
    written when the run was interrupted. The others are dropped.
    """

    def __init__(self, folder: Path, name: str, keep: int = 0, mark: Mark = NOTHING) -> None:
        self._path = folder / f"{name}.arrows"
        self._parquet = folder / f"{name}.parquet"
        self._schema = SCHEMAS[name]
        self._pending: list[list[Values]] = []  # columns of rows that are added at once
        self._rows = 0  # pending
        self.length = keep  # total rows
        self._flushed_s = time.monotonic()
        prefix = _prefix(self._path, mark) if keep else None
        if prefix:
            self._stream = _Stream(self._path, prefix)
        else:
            kept = _parquet_rows(self._parquet).slice(0, keep) if keep else self._schema.empty_table()
            self._stream = _Stream(self._path, b"")
            self._stream.write(self._schema.serialize())
            for batch in kept.to_batches(max_chunksize=GROUP_ROWS):
                self._stream.write(batch.serialize())
            self._stream.flush()
        if prefix or not keep:
            self.drop_parquet()

    def append(self, columns: Mapping[str, Values]) -> None:
        """Add rows, given as columns of equal length."""
        length = len(next(iter(columns.values())))
        self._pending.append([_frozen(columns[name]) for name in self._schema.names])
        self._rows += length
        self.length += length
        if self._rows >= FLUSH_ROWS or time.monotonic() - self._flushed_s > FLUSH_S:
            self.flush()

    def flush(self) -> None:
        """Hand what is pending to the operating system: a killed run keeps it."""
        if self._pending:
            columns = zip(self._schema.types, *self._pending, strict=True)
            arrays = [_joined(parts, kind) for kind, *parts in columns]
            self._stream.write(pa.RecordBatch.from_arrays(arrays, schema=self._schema).serialize())
            self._stream.flush()
        self._pending, self._rows, self._flushed_s = [], 0, time.monotonic()

    def sync(self) -> Mark:
        """Bring all rows onto the disk: they survive a power cut. Returns how long the stream is, and its checksum."""
        self.flush()
        return self._stream.sync()

    def close(self) -> None:
        """Write the Parquet file; the stream stays until the run's folder is finished."""
        self.flush()
        self._stream.write(END_OF_STREAM)
        self._stream.close()
        with (
            replacing(self._parquet, durable=True) as file,
            pq.ParquetWriter(file, self._schema, compression="zstd", write_page_checksum=True) as writer,
        ):
            for table in _groups(read_stream(self._path), self._schema):
                writer.write_table(table)

    def drop_parquet(self) -> None:
        """Remove the Parquet file of an interruption, once a checkpoint speaks of the stream."""
        self._parquet.unlink(missing_ok=True)


def check_rows(folder: Path, name: str, rows: int, mark: Mark) -> None:
    """Raise StateError unless the first rows of a table are there as they were when its stream had this mark."""
    stream, parquet = folder / f"{name}.arrows", folder / f"{name}.parquet"
    if not rows or _prefix(stream, mark) is not None:
        return
    if not parquet.exists():
        raise StateError(f"{stream}: is not what it was when the checkpoint was written")
    if len(_parquet_rows(parquet)) < rows:
        raise StateError(f"{parquet}: has fewer rows than the checkpoint needs")


def _prefix(stream: Path, mark: Mark) -> bytes | None:
    """The beginning of a stream, if it is that of which the mark speaks."""
    length, digest = mark
    try:
        with stream.open("rb") as file:
            content = file.read(length)
    except OSError:
        return None
    return content if len(content) == length and hashlib.blake2b(content).hexdigest() == digest else None


def _parquet_rows(file: Path) -> pa.Table:
    """The rows of an interrupted run, whose pages have checksums."""
    try:
        return pq.ParquetFile(file, page_checksum_verification=True).read()
    except (OSError, pa.ArrowException) as error:
        raise StateError(f"{file}: cannot be read: {error}") from None


def _frozen(column: Values) -> Values:
    """A copy of an array: the ledger keeps counting in it."""
    return column.copy() if isinstance(column, np.ndarray) else column


def _joined(parts: Sequence[Values], kind: pa.DataType) -> pa.Array:
    """Parts of a column as one array; masked values are null."""
    arrays = [part for part in parts if isinstance(part, np.ndarray)]
    if len(arrays) < len(parts):
        return pa.array([value for part in parts for value in part], type=kind)
    masked = any(isinstance(part, np.ma.MaskedArray) for part in arrays)
    return pa.array((np.ma.concatenate if masked else np.concatenate)(arrays), type=kind)


def read_stream(path: Path) -> Iterator[pa.RecordBatch]:
    """The complete batches of a stream; a batch cut off when its run was killed is left out."""
    with path.open("rb") as file:
        try:
            yield from pa.ipc.open_stream(file)
        except (pa.ArrowInvalid, OSError):
            return


def read_table(folder: Path, name: str, columns: Sequence[str] | None = None) -> pa.Table:
    """A table of a run folder, or some of its columns; of a run that has not ended from its stream."""
    parquet, stream = folder / f"{name}.parquet", folder / f"{name}.arrows"
    wanted = None if columns is None else list(columns)
    if parquet.exists() and ((folder / "summary.json").exists() or not stream.exists()):
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
