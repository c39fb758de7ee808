"""Malformed files: each is refused in one line that names it, and no file is left half written."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from fractions import Fraction
from itertools import combinations, pairwise
from pathlib import Path

import numpy as np
import pytest

from fedmule.mobility.traces.contacts import find_contacts
from fedmule.mobility.traces.formats import FORMATS, read_trace, writer
from fedmule.mobility.traces.formats.files import written
from fedmule.mobility.traces.trace import Rows, Trace, TraceError
from fedmule.simulator.cli import main


def crossing() -> Trace:
    rows = Rows()
    for node, way in {"0": [(0, 0, 0), (90, 90, 90)], "1": [(0, 90, 0), (90, 0, 90)], "2": [(0, 5, 5)]}.items():
        for t, x, y in way:
            rows.add(node, t, x, y)
    return rows.trace()


XML = '<fcd-export><timestep time="0">{}</timestep></fcd-export>'
HOSTILE = {
    "nested.geojson": b"[" * 100_000,
    "long_number.csv": b"node,t,x,y\n0,0,1,1\n0," + b"9" * 300_000 + b",1,1\n",
    "quote.csv": b'node,t,x,y\n0,0,1,1\n"0,1,1,1\n0,2,1,1\n0,3,1,1\n',
    "before.tcl": b'$node_(0) set X_ 1\n$node_(0) set Y_ 1\n$ns_ at -5.0 "$node_(0) setdest 9 9 1"\n',
    "backwards.tcl": b'$node_(0) set X_ 1\n$node_(0) set Y_ 1\n$ns_ at 5.0 "$node_(0) setdest 9 9 -1"\n',
    "twice.xml": XML.format('<vehicle id="a" x="1" y="1"/><vehicle id="a" x="9" y="9"/>').encode(),
    "latin.path": b"0 0 9 0 9 0 9\n\xe4 0,1,1 9,2,2\n",
    "zeros.csv": b"\0" * 2000,
    "not_packed.txt.gz": b"node,t,x,y\n0,0,1,1\n",
    "cut.csv.gz": gzip.compress(b"node,t,x,y\n" + b"0,0,1,1\n" * 999)[:40],
}
NAMES_A_LINE = {"long_number.csv", "quote.csv", "before.tcl", "backwards.tcl", "twice.xml", "zeros.csv"}


@pytest.mark.parametrize("name", HOSTILE)
def test_it_is_refused_in_one_line_and_leaves_nothing(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path(name).write_bytes(HOSTILE[name])
    for command in (["trace", name, "--out", "out.csv"], ["contacts", name, "--range-m", "10", "--out", "out.csv"]):
        assert main(command) == 2
        told = capsys.readouterr().err
        assert told.startswith(name)
        assert told.count("\n") == 1
        assert len(told) < 250
        assert (", line " in told) == (name in NAMES_A_LINE)
    assert [file.name for file in tmp_path.iterdir()] == [name]


def test_a_damaged_parquet_file_is_reported_in_one_line(tmp_path: Path) -> None:
    file = tmp_path / "t.parquet"
    writer(file)[1](crossing())
    file.write_bytes(file.read_bytes().replace(b"\x15", b"\xff\n", 3))
    with pytest.raises(TraceError) as told:
        read_trace(file)
    assert str(told.value).startswith(str(file))
    assert "\n" not in str(told.value)


def test_a_node_may_have_a_very_long_name(tmp_path: Path) -> None:
    file = tmp_path / "t.csv"
    file.write_text(f"node,t,x,y\n{'9' * 5000},0,1,1\n7,0,2,2\n")
    assert sorted(map(len, read_trace(file).names)) == [1, 5000]


def test_a_person_with_the_id_of_a_vehicle_is_another_node(tmp_path: Path) -> None:
    file = tmp_path / "t.xml"
    file.write_text(XML.format('<vehicle id="0" x="1" y="1"/><person id="0" x="9" y="9"/>'))
    trace = read_trace(file)
    assert trace.names == ["0", "person 0"]
    assert trace.x.tolist() == [1.0, 9.0]


def test_speeds_that_differ_only_by_rounding_can_be_plotted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rows = Rows()
    for k, speed in enumerate((1.0, np.nextafter(1.0, 2.0), 1.0 - 1e-15)):
        rows.add(str(k), 0, 0, k)
        rows.add(str(k), 100, 100 * speed, k)
    writer("t.csv")[1](rows.trace())
    assert main(["trace", "t.csv"]) == 0


@pytest.mark.parametrize("suffix", [kind.suffixes[0] for kind in FORMATS])
def test_a_file_that_cannot_be_completed_leaves_the_old_one(
    suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / f"t{suffix}"
    file.write_text("old")

    def full(*_: object) -> Iterator[None]:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", full)
    with pytest.raises(TraceError, match=r"t\S*: cannot be written: No space left on device"):
        writer(file)[1](crossing())
    assert file.read_text() == "old"
    assert list(tmp_path.iterdir()) == [file]


def test_an_interrupted_writer_leaves_nothing(tmp_path: Path) -> None:
    def interrupted() -> None:
        with written(tmp_path / "t.csv") as file:
            file.write(b"half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert not list(tmp_path.iterdir())


def meetings(trace: Trace, range_m: Fraction) -> dict[tuple[int, int], int]:
    """How often each pair meets, in rational arithmetic: common legs whose least distance² is within range²,
    joined where one ends and the next begins within range."""
    ways = [
        [tuple(map(Fraction, row)) for row in zip(trace.t[a:b], trace.x[a:b], trace.y[a:b], strict=True)]
        for a, b in pairwise(trace.first.tolist())
    ]
    end = Fraction(trace.end_s)
    found = {}
    for a, b in combinations(range(len(ways)), 2):
        begin = max(ways[a][0][0], ways[b][0][0])
        cuts = sorted({row[0] for row in ways[a] + ways[b] if row[0] >= begin} | {begin, end})
        count, within = 0, False
        for t0, t1 in pairwise(cuts if len(cuts) > 1 else cuts * 2):
            (x, y), (to_x, to_y) = (
                [p - q for p, q in zip(_at(ways[a], t), _at(ways[b], t), strict=True)] for t in (t0, t1)
            )
            change = (to_x - x) ** 2 + (to_y - y) ** 2
            least = -(x * (to_x - x) + y * (to_y - y)) / change if change else Fraction(0)
            share = min(max(least, Fraction(0)), Fraction(1))
            nearest = (x + share * (to_x - x)) ** 2 + (y + share * (to_y - y)) ** 2
            if nearest <= range_m**2:
                count += not (within and x**2 + y**2 <= range_m**2)
            within = to_x**2 + to_y**2 <= range_m**2
        if count:
            found[a, b] = count
    return found


def _at(way: list[tuple[Fraction, ...]], t: Fraction) -> tuple[Fraction, Fraction]:
    for (t0, x0, y0), (t1, x1, y1) in pairwise(way):
        if t0 <= t <= t1:
            share = (t - t0) / (t1 - t0)
            return x0 + share * (x1 - x0), y0 + share * (y1 - y0)
    return way[-1][1], way[-1][2]


@pytest.mark.parametrize("range_m", [0, 1, 2, 5])
def test_touching_and_passing_on_a_lattice_is_counted_exactly(range_m: int) -> None:
    """Integer positions and times: equal positions, tangents and meetings at waypoints are frequent."""
    generator = np.random.default_rng(range_m)
    met = 0
    for _ in range(40):
        rows = Rows()
        for node in range(5):
            for t in np.sort(generator.choice(9, generator.integers(1, 6), replace=False)):
                rows.add(str(node), float(t), *generator.integers(0, 5, 2).astype(float))
        trace = rows.trace()
        found = find_contacts(trace, float(range_m))
        pairs, counts = np.unique(np.stack([found.a, found.b]), axis=1, return_counts=True)
        wanted = meetings(trace, Fraction(range_m))
        assert dict(zip(map(tuple, pairs.T.tolist()), counts.tolist(), strict=True)) == wanted
        met += sum(wanted.values())
    assert met > 40
