"""Contact lists in three formats, and what is said about bad ones."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedmule.mobility.contact_lists import ContactList, read_contact_list
from fedmule.mobility.contact_lists.readers import ListError
from fedmule.mobility.traces.contacts import find_contacts
from fedmule.mobility.traces.formats import read_trace
from fedmule.mobility.traces.formats.tables import write_contacts
from fedmule.mobility.traces.trace import TraceError

REFERENCE = Path(__file__).parents[1] / "reference"

Named = list[tuple[str, str, float, float]]


def read(path: Path, begin_s: float | None = None, resolution_s: float = 20.0) -> ContactList:
    return read_contact_list(str(path), begin_s, resolution_s, 1.0)


def written(folder: Path, text: str, name: str = "list.csv") -> Path:
    (folder / name).write_text(text)
    return folder / name


def rows(found: ContactList) -> Named:
    c = found.contacts
    times = zip(c.start_s.tolist(), c.end_s.tolist(), strict=True)
    pairs = zip(c.a.tolist(), c.b.tolist(), times, strict=True)
    return [(found.names[a], found.names[b], *span) for a, b, span in pairs]


def test_what_fedmule_contacts_writes(tmp_path: Path) -> None:
    trace = read_trace(REFERENCE / "contacts" / "rwp_n50.csv.xz")
    contacts = find_contacts(trace, 100.0)
    write_contacts(tmp_path / "list.csv", trace.names, contacts)
    found = read(tmp_path / "list.csv")
    assert found.names == trace.names
    assert (found.contacts.a == contacts.a).all()
    assert (found.contacts.b == contacts.b).all()
    begin_s = contacts.start_s.min()
    assert np.abs(found.contacts.start_s + begin_s - contacts.start_s).max() < 1e-8
    assert np.abs(found.contacts.end_s + begin_s - contacts.end_s).max() < 1e-8


def test_columns_in_any_order_and_further_ones(tmp_path: Path) -> None:
    file = written(tmp_path, 'end,note,b,a,start\n9,"x, y",bus,Ann,4\n7,,Bob,bus,5\n')
    assert rows(read(file)) == [("Ann", "bus", 0.0, 5.0), ("Bob", "bus", 1.0, 3.0)]


def test_a_connectivity_report_of_the_one() -> None:
    """Against intervals made from its lines by hand; those still up end with the last event, at 8 s."""
    file = REFERENCE / "formats" / "the_one_connectivity_report_sample.txt"
    ends = {"9 38": 2.0, "7 15": 3.0, "14 27": 7.0, "19 29": 7.0, "31 49": 7.0}
    ups = [line.split()[2:4] for line in file.read_text().splitlines() if line.endswith("up")]
    expected = {(a, b): (0.0, ends.get(f"{a} {b}", 8.0) - 1.0) for a, b in ups}
    assert {(a, b): (start, end) for a, b, start, end in rows(read(file))} == expected
    assert read(file).names[:4] == ["0", "3", "4", "5"]


def test_events_of_the_one_with_messages_and_interfaces(tmp_path: Path) -> None:
    lines = ["# made by hand", "0.5 CONN p1 p2 up btInterface", "1 C M1 p1 p2 500", "2 CONN p2 p1 DOWN"]
    lines += ["3 CONN p1 p3 up", "4 S M1 p1 p3"]
    file = written(tmp_path, "\n".join(lines), "events.txt")
    assert rows(read(file)) == [("p1", "p2", 0.0, 1.5), ("p1", "p3", 2.5, 3.5)]


def test_sociopatterns_rows_stand_for_the_time_before_them(tmp_path: Path) -> None:
    """Consecutive rows of a pair join; the run begins 20 s before the first row."""
    lines = ["1353304100 454 640 MP MP", "1353304100 1 939 2BIO3 2BIO3", "1353304120 640 454 MP MP"]
    lines += ["1353304160 454 640 MP MP", "1353304160 454 1 MP 2BIO3"]
    text = "".join(line.replace(" ", "\t") + "\n" for line in lines)
    (tmp_path / "school.csv.gz").write_bytes(gzip.compress(text.encode()))
    found = read(tmp_path / "school.csv.gz")
    assert rows(found) == [("1", "454", 60, 80), ("1", "939", 0, 20), ("454", "640", 0, 40), ("454", "640", 60, 80)]
    assert found.class_of == {"454": "MP", "640": "MP", "1": "2BIO3", "939": "2BIO3"}
    file = written(tmp_path, "40 7 8\n60 8 7\n", "plain.dat")
    assert rows(read(file, resolution_s=5.0)) == [("7", "8", 0.0, 5.0), ("7", "8", 20.0, 25.0)]
    assert read(file).class_of == {}


def test_the_run_may_begin_later(tmp_path: Path) -> None:
    file = written(tmp_path, "a,b,start,end\n1,2,0,10\n1,3,2,4\n2,3,8,30\n")
    assert rows(read(file, begin_s=5.0)) == [("1", "2", 0.0, 5.0), ("2", "3", 3.0, 25.0)]
    assert rows(read(file, begin_s=-3.0))[0] == ("1", "2", 3.0, 13.0)
    with pytest.raises(TraceError, match="no contact after begin_s = 30"):
        read(file, begin_s=30.0)


@settings(max_examples=40)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 3), st.integers(0, 30), st.integers(0, 6)), min_size=1))
def test_overlapping_contacts_of_a_pair_are_one(given_rows: list[tuple[int, int, int, int]]) -> None:
    """Against sets of moments at which a pair is in contact."""
    import tempfile

    spans = [(str(a), str((a + step) % 4), 2 * start, 2 * (start + long)) for a, step, start, long in given_rows]
    with tempfile.TemporaryDirectory() as folder:
        text = "a,b,start,end\n" + "".join(f"{a},{b},{start},{end}\n" for a, b, start, end in spans)
        found = rows(read(written(Path(folder), text), begin_s=0.0)) if any(s[3] > 0 for s in spans) else []
    moments: dict[tuple[str, str], set[int]] = {}
    for a, b, start, end in spans:
        moments.setdefault((min(a, b), max(a, b)), set()).update(range(start, end + 1) if end > 0 else ())
    seen: dict[tuple[str, str], set[int]] = {}
    for a, b, start_s, end_s in found:
        span = set(range(round(start_s), round(end_s) + 1))
        assert not seen.setdefault((a, b), set()) & span
        seen[a, b] |= span
    assert seen == {pair: span for pair, span in moments.items() if span}


@pytest.mark.parametrize(
    ("text", "messages"),
    [
        ("a,b,start,end\n1,2,5,9\n1,3,7,6.5\n", ["line 3: end must not be before start: 1,3,7,6.5"]),
        ("a,b,start,end\n1,1,5,9\n", ["line 2: node 1 must not be in contact with itself"]),
        ("a,b,start,end\n1,2,five,9\n", ["line 2: start must be a number: five"]),
        ("a,b,start,end\n1,2,5,inf\n", ["line 2: end must be a finite number: inf"]),
        ("a,b,start,end\n1,2,5,1e99\n", ["line 2: end must be within ±1e+11 s: 1e99"]),
        ("a,b,start,end\n1,2,5\n,2,5,6\n", ["line 2: must have 4 values: 1,2,5", "line 3: has no node: ,2,5,6"]),
        ("a,b,start\n1,2,5\n", ["line 1: must name the columns a, b, start and end; end is missing: a,b,start"]),
        ("a,b,a,start,end\n1,2,1,5,6\n", ["line 1: must name the columns a, b, start and end; a appears twice"]),
        ("1 CONN 1 2 up\n3 CONN 1 2 up\n", ["line 2: is up already, since line 1: 3 CONN 1 2 up"]),
        ("1 CONN 1 2 down\n", ["line 1: must not go down before it is up: 1 CONN 1 2 down"]),
        ("2 CONN 1 2 up\n1 CONN 1 2 down\n", ["line 2: times must not decrease: 1 CONN 1 2 down"]),
        (
            "2 CONN 1 2 up\nx CONN 3 4 up\n4 CONN 5 5 up\n5 CONN 1\n",
            ["line 2: time must be a number: x", "line 3: node 5 must not", "line 4: must be time CONN a b up|down"],
        ),
        ("20 1 2\n40 1\n60 3 3\n", ["line 2: must be t i j or t i j Ci Cj: 40 1", "line 3: node 3 must not"]),
        ("a,b,start,end\n", ["contains no contact"]),
        ("# nothing\n", ["contains no contact"]),
        ("node;t;x;y\n", ["must be CSV with the columns a, b, start and end; a connectivity report of The ONE"]),
    ],
)  # fmt: skip
def test_bad_lists_are_located(text: str, messages: list[str], tmp_path: Path) -> None:
    with pytest.raises(TraceError) as error:
        read(written(tmp_path, text))
    lines = str(error.value).splitlines()
    assert len(lines) == len(messages)
    for line, message in zip(lines, messages, strict=True):
        assert line.startswith(str(tmp_path / "list.csv"))
        assert message in line


def test_many_bad_lines_end_with_the_tenth(tmp_path: Path) -> None:
    file = written(tmp_path, "a,b,start,end\n" + "1,2,9,3\n" * 50)
    with pytest.raises(ListError) as error:
        read(file)
    assert len(error.value.messages) == 10


@pytest.mark.parametrize("name", ["gone.csv", "."])
def test_files_that_cannot_be_read(name: str, tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"no such file|is not a file"):
        read(tmp_path / name)


def test_damaged_and_strange_files(tmp_path: Path) -> None:
    packed = gzip.compress(b"a,b,start,end\n" + b"1,2,3,4\n" * 2000)
    for content in (packed[:60], packed[:20] + b"\xff" * 20 + packed[40:], b"no gzip at all"):
        (tmp_path / "list.csv.gz").write_bytes(content)
        with pytest.raises(TraceError, match="cannot be read"):
            read(tmp_path / "list.csv.gz")
    (tmp_path / "list.csv").write_bytes(b"a,b,start,end\nJos\xe9,2,3,4\n")
    with pytest.raises(TraceError, match="line 2: is not UTF-8"):
        read(tmp_path / "list.csv")
