"""Traces as tables: CSV and Parquet files with the columns node, t, x and y; and contacts as CSV.

A row whose x and y are empty marks its node as absent from then on.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedmule.mobility.compiler import compiled
from fedmule.mobility.traces.contacts import Contacts
from fedmule.mobility.traces.formats.files import number, open_binary, open_text, written, wrong
from fedmule.mobility.traces.trace import FloatArray, IntArray, Trace, TraceError, trace_of

COLUMNS = ("node", "t", "x", "y")
DECIMALS = 8  # of the times of contacts


def read_csv(path: Path) -> Trace:
    """Read a CSV file; further columns are ignored."""
    import pyarrow as pa
    import pyarrow.csv as pc

    types = {"node": pa.dictionary(pa.int32(), pa.string()), "t": pa.float64(), "x": pa.float64(), "y": pa.float64()}
    options = pc.ConvertOptions(
        column_types=types, include_columns=list(COLUMNS), null_values=[""], strings_can_be_null=True
    )
    heading = _heading(path)
    with open_binary(path) as file:
        try:
            return _gathered(pc.open_csv(file, convert_options=options))
        except (pa.ArrowInvalid, KeyError, TraceError) as error:
            reason = str(error)
    _find_bad_line(path, heading)
    raise TraceError(f"{path}: {reason}")


def read_parquet(path: Path) -> Trace:
    """Read a Parquet file; further columns are ignored."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as file:
            missing = [name for name in COLUMNS if name not in file.schema_arrow.names]
            if missing:
                raise TraceError(f"has no column {missing[0]}; a trace has the columns node, t, x and y")
            return _gathered(_typed(batch) for batch in file.iter_batches(columns=list(COLUMNS)))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, TraceError) as error:
        raise TraceError(f"{path}: {error}") from None


def _typed(batch: Any) -> Any:
    """Rows with nodes as dictionary-encoded strings and everything else as numbers."""
    import pyarrow as pa

    node = batch.column("node").cast(pa.string()).dictionary_encode()
    numbers = []
    for name in COLUMNS[1:]:
        try:
            numbers.append(batch.column(name).cast(pa.float64()))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            raise TraceError(f"column {name} must hold numbers, not {batch.column(name).type}") from None
    return pa.RecordBatch.from_arrays([node, *numbers], names=list(COLUMNS))


def write_csv(path: Path, trace: Trace) -> None:
    """Write a CSV file, one row per waypoint."""
    import pyarrow.csv as pc

    with written(path) as file:
        pc.write_csv(_table(trace), file, pc.WriteOptions(quoting_style="needed"))


def write_parquet(path: Path, trace: Trace) -> None:
    """Write a Parquet file, one row per waypoint."""
    import pyarrow.parquet as pq

    with written(path) as file:
        pq.write_table(_table(trace), file)


def _table(trace: Trace) -> Any:
    import pyarrow as pa

    names: Any = [int(name) for name in trace.names] if all(map(_is_whole, trace.names)) else trace.names
    columns = [pa.array(names).take(pa.array(trace.node)), pa.array(trace.t)]
    columns += [pa.array(column, from_pandas=True) for column in (trace.x, trace.y)]  # nan becomes null
    return pa.table(columns, names=list(COLUMNS))


def _is_whole(name: str) -> bool:
    """Whether a name is an integer in canonical form, unlike 007."""
    return name.isdecimal() and len(name) < 18 and str(int(name)) == name


def _gathered(batches: Iterable[Any]) -> Trace:
    """Trace from batches of rows; only numbers are kept, so memory stays small."""
    code: dict[str, int] = {}
    parts: list[tuple[Any, ...]] = []
    rows = 0
    for batch in batches:
        node = batch.column("node")
        codes = np.array([code.setdefault(name, len(code)) for name in node.dictionary.to_pylist()], dtype=np.int64)
        if node.null_count:
            raise TraceError(f"row {rows + int(np.argmax(~_given(node))) + 1} has no node")
        t, x, y = (_numbers(batch.column(name)) for name in COLUMNS[1:])
        bad = ~np.isfinite(t) | (np.isnan(x) != np.isnan(y)) | np.isinf(x) | np.isinf(y)
        if bad.any():
            raise TraceError(f"row {rows + int(np.flatnonzero(bad)[0]) + 1}: t, x and y must be finite numbers")
        parts.append((codes[_values(node.indices, np.int32)], t, x, y))
        rows += len(t)
    if not rows:
        raise TraceError("contains no rows")
    node, t, x, y = (np.concatenate(column) for column in zip(*parts, strict=True))
    return trace_of(list(code), node, t, x, y)


# Values are taken from Arrow's buffers: its own conversion to NumPy would load pandas.


def _values(column: Any, dtype: Any) -> NDArray[Any]:
    return np.frombuffer(column.buffers()[1], dtype=dtype)[column.offset : column.offset + len(column)]


def _given(column: Any) -> NDArray[np.bool_]:
    """Which values are not null."""
    bits = np.unpackbits(np.frombuffer(column.buffers()[0], dtype=np.uint8), bitorder="little")
    return np.asarray(bits[column.offset : column.offset + len(column)] == 1)


def _numbers(column: Any) -> FloatArray:
    """Numbers, with nan for null."""
    values = _values(column, np.float64)
    return np.where(_given(column), values, np.nan) if column.null_count else values


def _heading(path: Path) -> list[str]:
    """Column names of a CSV file."""
    with open_text(path) as file:
        heading = next(_rows(path, csv.reader(file)), [])
    for name in COLUMNS:
        if heading.count(name) != 1:
            found = "appears twice" if name in heading else f"is missing{_why(heading)}"
            raise wrong(path, 1, f"must name the columns node, t, x and y; {name} {found}", heading or "nothing")
    return heading


def _why(heading: list[str]) -> str:
    """Likely reason why a column is not found."""
    line = ",".join(heading)
    if any(other in line for other in ";\t"):
        return " (columns must be separated by commas, and numbers have decimal points)"
    plain = {name.strip().lower() for name in heading}
    return " (names must be in lower case, without spaces)" if set(COLUMNS) <= plain else ""


def _find_bad_line(path: Path, heading: list[str]) -> None:
    """Go through a CSV file that could not be read, and raise an error for the first bad line."""
    with open_text(path) as file:
        lines = csv.reader(file)
        next(lines)
        for row in _rows(path, lines):
            if not row:
                continue
            if len(row) != len(heading):
                raise wrong(path, lines.line_num, f"must have {len(heading)} values", row)
            if any("\ufffd" in value for value in row):
                raise wrong(path, lines.line_num, "is not UTF-8", row)
            values = dict(zip(heading, row, strict=True))
            if not values["node"]:
                raise wrong(path, lines.line_num, "has no node", row)
            number(path, lines.line_num, "t", values["t"])
            if values["x"] or values["y"]:
                number(path, lines.line_num, "x", values["x"])
                number(path, lines.line_num, "y", values["y"])


def _rows(path: Path, lines: Any) -> Iterator[list[str]]:
    try:
        yield from lines
    except csv.Error as error:
        raise TraceError(f"{path}, line {lines.line_num + 1}: is not CSV: {error}") from None


def write_contacts(path: Path, names: list[str], contacts: Contacts) -> None:
    """Write contacts as CSV: a, b, start and end, with 8 decimals."""
    quoted = [(_quoted(name) + ",").encode() for name in names]
    first = np.concatenate([[0], np.cumsum([len(name) for name in quoted])])
    characters = np.frombuffer(b"".join(quoted), dtype=np.uint8)
    widest = max(map(len, quoted), default=0)
    with written(path) as file:
        file.write(b"a,b,start,end\n")
        for begin in range(0, len(contacts), 1 << 16):
            part = slice(begin, begin + (1 << 16))
            a, b, start_s, end_s = contacts.a[part], contacts.b[part], contacts.start_s[part], contacts.end_s[part]
            digits = 3 + DECIMALS + len(str(math.ceil(max(np.abs(start_s).max(), np.abs(end_s).max()))))
            text = np.empty(len(a) * (2 * widest + 2 * digits), dtype=np.uint8)
            file.write(text[: _format(a, b, start_s, end_s, characters, first, text)].tobytes())


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"' if any(c in name for c in ',"\r\n') else name


@compiled
def _format(
    a: IntArray, b: IntArray, start: FloatArray, end: FloatArray, characters: Any, first: IntArray, text: Any
) -> int:
    """Write rows into `text`; return how many characters they take."""
    at = 0
    for i in range(len(a)):
        for name in (a[i], b[i]):
            for k in range(first[name], first[name + 1]):
                text[at] = characters[k]
                at += 1
        at = _format_number(start[i], text, at)
        text[at] = 44  # ,
        at = _format_number(end[i], text, at + 1)
        text[at] = 10  # end of line
        at += 1
    return at


@compiled
def _format_number(value: float, text: Any, at: int) -> int:
    """Write a number with its decimals; return where it ends."""
    if value < 0:
        text[at] = 45  # -
        at += 1
        value = -value
    integer = math.floor(value)
    rest = round((value - integer) * 10.0**DECIMALS)
    units = integer
    if rest == 10**DECIMALS:
        units, rest = units + 1, 0
    size = 1
    shrunk = units // 10
    while shrunk:
        shrunk //= 10
        size += 1
    for k in range(size - 1, -1, -1):
        text[at + k] = 48 + units % 10
        units //= 10
    at += size
    text[at] = 46  # .
    for k in range(DECIMALS, 0, -1):
        text[at + k] = 48 + rest % 10
        rest //= 10
    return at + DECIMALS + 1
