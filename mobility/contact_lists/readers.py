"""Readers of contact lists: one class for each format, which takes a file line by line."""

from __future__ import annotations

import csv
from array import array
from collections.abc import Iterator
from pathlib import Path

from fedmule.mobility.traces.formats import MOST_S
from fedmule.mobility.traces.formats.files import number, open_text, wrong
from fedmule.mobility.traces.trace import TraceError

Row = tuple[int, list[str]]  # number of its line, and its fields


class ListError(TraceError):
    """Bad lines of a contact list, with a message for each of the first few."""

    MOST = 10

    def __init__(self, messages: list[str]) -> None:
        self.messages = messages
        super().__init__("\n".join(messages))


class Found:
    """Contacts in the order of a file."""

    def __init__(self) -> None:
        self.code: dict[str, int] = {}  # number of each node by its name
        self.class_of: dict[str, str] = {}
        self.nodes, self.times = array("q"), array("d")  # two for each contact

    def __len__(self) -> int:
        return len(self.times) // 2

    def add(self, a: str, b: str, start_s: float, end_s: float) -> None:
        """Add a contact."""
        code = self.code
        self.nodes.extend((code.setdefault(a, len(code)), code.setdefault(b, len(code))))
        self.times.extend((start_s, end_s))


class Reader:
    """Base class of the readers."""

    form = ""  # what a file of this format looks like

    def __init__(self, path: Path, resolution_s: float) -> None:
        self.path = path
        self.resolution_s = resolution_s
        self.found = Found()

    @classmethod
    def recognises(cls, line: str) -> bool:
        """Whether a file whose first line this is has this format."""
        raise NotImplementedError

    def rows(self) -> Iterator[Row]:
        """All rows; here those whose fields are separated by spaces or tabs. Lines with # are comments."""
        with open_text(self.path) as file:
            for line, text in enumerate(file, 1):
                fields = text.split()
                if fields and not text.startswith("#"):
                    yield line, fields

    def take(self, line: int, fields: list[str]) -> None:
        """Take the next row. Raises TraceError if something is wrong with it."""
        raise NotImplementedError

    def end(self) -> Found:
        """All contacts, after the last row."""
        return self.found

    def time(self, line: int, name: str, text: str) -> float:
        """Parse a time."""
        value = number(self.path, line, name, text)
        if abs(value) > MOST_S:
            raise wrong(self.path, line, f"{name} must be within ±{MOST_S:g} s", text)
        return value

    def check_pair(self, line: int, a: str, b: str, fields: list[str]) -> None:
        """Check that two names are those of different nodes."""
        if not a or not b:
            raise wrong(self.path, line, "has no node", fields)
        if a == b:
            raise wrong(self.path, line, f"node {a} must not be in contact with itself", fields)
        if "\ufffd" in a or "\ufffd" in b:
            raise wrong(self.path, line, "is not UTF-8", fields)


class Intervals(Reader):
    """A table with a row for each contact, as `fedmule contacts` writes it; further columns are ignored."""

    form = "CSV with the columns a, b, start and end"

    def __init__(self, path: Path, resolution_s: float) -> None:
        super().__init__(path, resolution_s)
        self._heading: list[str] = []
        self._columns: list[int] = []

    @classmethod
    def recognises(cls, line: str) -> bool:
        return "," in line

    def rows(self) -> Iterator[Row]:
        with open_text(self.path) as file:
            lines = csv.reader(file)
            try:
                self._heading = next((row for row in lines if row and not row[0].startswith("#")), [])
                self._columns = [self._column(lines.line_num, name) for name in ("a", "b", "start", "end")]
                yield from ((lines.line_num, row) for row in lines if row)
            except csv.Error as error:
                raise TraceError(f"{self.path}, line {lines.line_num + 1}: is not CSV: {error}") from None

    def _column(self, line: int, name: str) -> int:
        if self._heading.count(name) != 1:
            found = "appears twice" if name in self._heading else "is missing"
            message = f"must name the columns a, b, start and end; {name} {found}"
            raise wrong(self.path, line, message, self._heading)
        return self._heading.index(name)

    def take(self, line: int, fields: list[str]) -> None:
        if len(fields) != len(self._heading):
            raise wrong(self.path, line, f"must have {len(self._heading)} values", fields)
        a, b, start, end = (fields[column] for column in self._columns)
        self.check_pair(line, a, b, fields)
        start_s, end_s = self.time(line, "start", start), self.time(line, "end", end)
        if end_s < start_s:
            raise wrong(self.path, line, "end must not be before start", fields)
        self.found.add(a, b, start_s, end_s)


class Connections(Reader):
    """Events of The ONE: connections that go up and down, `time CONN a b up|down`; messages are ignored.

    A connection that is still up when the file ends lasts until its last event.
    """

    form = "a connectivity report of The ONE, with lines time CONN a b up|down"
    MESSAGES = ("C", "S", "DE", "A", "DR", "R")  # created, sending, delivered, aborted, dropped, removed

    def __init__(self, path: Path, resolution_s: float) -> None:
        super().__init__(path, resolution_s)
        self._up: dict[tuple[str, str], tuple[float, int]] = {}  # since when, and the line that said so
        self._last_s = -MOST_S

    @classmethod
    def recognises(cls, line: str) -> bool:
        fields = line.split()
        return len(fields) > 1 and fields[1] == "CONN"

    def take(self, line: int, fields: list[str]) -> None:
        t = self.time(line, "time", fields[0])
        if t < self._last_s:
            raise wrong(self.path, line, "times must not decrease", " ".join(fields))
        self._last_s = t
        if len(fields) > 1 and fields[1] in self.MESSAGES:
            return
        # The event may name the interface after that.
        if len(fields) not in (5, 6) or fields[1] != "CONN" or fields[4].lower() not in ("up", "down"):
            raise wrong(self.path, line, "must be time CONN a b up|down", " ".join(fields))
        a, b = sorted(fields[2:4])
        self.check_pair(line, a, b, fields)
        is_up = self._up.get((a, b))
        if fields[4].lower() == "up":
            if is_up:
                raise wrong(self.path, line, f"is up already, since line {is_up[1]}", " ".join(fields))
            self._up[a, b] = t, line
        else:
            if not is_up:
                raise wrong(self.path, line, "must not go down before it is up", " ".join(fields))
            self.found.add(a, b, self._up.pop((a, b))[0], t)

    def end(self) -> Found:
        for (a, b), (since_s, _) in self._up.items():
            self.found.add(a, b, since_s, self._last_s)
        return self.found


class Sightings(Reader):
    """A SocioPatterns list: a row `t i j` or `t i j Ci Cj` says that i and j were in contact from t − resolution to t.

    Ci and Cj are classes of people; those of a person's first row count.
    """

    form = "a SocioPatterns list, with lines t i j or t i j Ci Cj"

    @classmethod
    def recognises(cls, line: str) -> bool:
        fields = line.split()
        if len(fields) not in (3, 5) or "," in line:
            return False
        try:
            return bool([float(fields[0])])
        except ValueError:
            return False

    def take(self, line: int, fields: list[str]) -> None:
        if len(fields) not in (3, 5):
            raise wrong(self.path, line, "must be t i j or t i j Ci Cj", " ".join(fields))
        t, (i, j) = self.time(line, "t", fields[0]), fields[1:3]
        self.check_pair(line, i, j, fields)
        self.found.add(i, j, t - self.resolution_s, t)
        for node, name in zip((i, j), fields[3:], strict=False):
            self.found.class_of.setdefault(node, name)


READERS: tuple[type[Reader], ...] = (Intervals, Connections, Sightings)
