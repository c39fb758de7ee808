"""Contact lists: who met whom and when, without positions; recognise their format and read them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from fedmule.mobility.contact_lists.readers import READERS, Found, ListError, Reader
from fedmule.mobility.traces.formats.files import UNREADABLE, one_line, open_text
from fedmule.mobility.traces.trace import TraceError, sorted_names

if TYPE_CHECKING:
    from fedmule.mobility.traces.contacts import Contacts


@dataclass(frozen=True)
class ContactList:
    """Contacts of named nodes in seconds of the run, which begins at time 0."""

    path: str
    names: list[str]  # [n] integers in numerical order, other names sorted alphabetically
    contacts: Contacts  # between indices of `names`; those of a pair neither overlap nor adjoin
    class_of: dict[str, str]  # of each node, where the list has classes
    distance_m: float  # at which nodes in contact exchange: the list does not say how near they are

    @property
    def end_s(self) -> float:
        """Time at which the last contact ends."""
        return float(self.contacts.end_s.max())


def read_contact_list(path: str, begin_s: float | None, resolution_s: float, distance_m: float) -> ContactList:
    """Read a contact list, which may be compressed (.gz, .xz, .bz2).

    The run begins at `begin_s` of the list, by default with its first contact. `resolution_s` is the time that a row of
    a SocioPatterns list stands for. Raises ListError with all bad lines, or TraceError.
    """
    file = Path(path)
    if not file.is_file():
        raise TraceError(f"{file}: is not a file" if file.exists() else f"{file}: no such file")
    try:
        reader = _reader_of(file)(file, resolution_s)
        found = _read(reader)
    except UNREADABLE as error:  # for example, a damaged archive
        raise TraceError(f"{file}: cannot be read: {one_line(getattr(error, 'strerror', None) or error)}") from None
    if not len(found):
        raise TraceError(f"{file}: contains no contact")
    names, contacts = _contacts(found)
    begin = float(contacts.start_s.min()) if begin_s is None else begin_s
    contacts = _from_time(contacts, begin)
    if not len(contacts):
        raise TraceError(f"{file}: contains no contact after begin_s = {begin:g}")
    return ContactList(path, names, contacts, found.class_of, distance_m)


def _reader_of(path: Path) -> type[Reader]:
    """The reader that recognises the first line with content."""
    with open_text(path) as file:
        line = next((line.strip() for line in file if line.strip() and not line.startswith("#")), "")
    if not line:
        raise TraceError(f"{path}: contains no contact")
    for reader in READERS:
        if reader.recognises(line):
            return reader
    raise TraceError(f"{path}: must be {'; '.join(reader.form for reader in READERS[:-1])}; or {READERS[-1].form}")


def _read(reader: Reader) -> Found:
    """All contacts of a file. Raises ListError with its bad lines, if there are any."""
    bad: list[str] = []
    for line, fields in reader.rows():
        try:
            reader.take(line, fields)
        except TraceError as error:
            bad.append(str(error))
            if len(bad) == ListError.MOST:
                break
    if bad:
        raise ListError(bad)
    return reader.end()


def _contacts(found: Found) -> tuple[list[str], Contacts]:
    """The nodes, sorted, and the contacts between them; those of a pair that overlap or adjoin become one."""
    from fedmule.mobility.traces.contacts import merged  # imported late: it loads a compiler

    names, order = sorted_names(list(found.code))
    rank = np.empty(len(names), dtype=np.int64)
    rank[order] = np.arange(len(names))
    ends = rank[np.frombuffer(found.nodes, dtype=np.int64).reshape(-1, 2)]
    times = np.frombuffer(found.times, dtype=np.float64).reshape(-1, 2)
    return names, merged(np.sort(ends, axis=1), times.copy(), len(names))


def _from_time(contacts: Contacts, begin_s: float) -> Contacts:
    """The contacts that last beyond a time, which becomes time 0."""
    later = contacts.end_s > begin_s
    start_s = np.maximum(contacts.start_s[later] - begin_s, 0.0)
    return replace(
        contacts, a=contacts.a[later], b=contacts.b[later], start_s=start_s, end_s=contacts.end_s[later] - begin_s
    )
