"""Every trace format reads the files of its tool, writes what it reads, and reports file and line of errors."""

from __future__ import annotations

import gzip
import math
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fedmule.mobility.traces.formats import FORMATS, activity_file, read_trace, writer
from fedmule.mobility.traces.trace import Rows, Trace, TraceError, positions_at

SAMPLES = Path(__file__).parents[1] / "reference" / "formats"


def walkers() -> Trace:
    """Three nodes that are always present, with rests and waypoints at full seconds."""
    rows = Rows()
    rows.add("0", 0, 10.25, 20.5)
    rows.add("0", 30, 40.5, 20.5)
    rows.add("0", 40, 40.5, 20.5)
    rows.add("0", 60, 100.75, 90)
    rows.add("1", 0, 7, 8)
    rows.add("1", 60, 500, 8)
    rows.add("2", 0, 250, 250)
    return rows.trace()


def passers_by() -> Trace:
    """One node that stays, one that comes late and leaves early, one that returns."""
    rows = Rows()
    rows.add("stays", 0, 10, 20)
    rows.add("stays", 60, 70, 20)
    rows.add("visits", 12, 5, 5)
    rows.add("visits", 33, 50, 50)
    rows.gone("visits", 33)
    rows.add("returns", 3, 1, 1)
    rows.add("returns", 9, 9, 1)
    rows.gone("returns", 9)
    rows.add("returns", 40, 9, 9)
    rows.add("returns", 60, 29, 9)
    return rows.trace()


def written(trace: Trace, path: Path, **options: float) -> Trace:
    _, write = writer(path, **options)
    write(trace)
    return read_trace(path)


def assert_same(ours: Trace, wanted: Trace, within_m: float = 1e-6, times: np.ndarray | None = None) -> None:
    """Assert that two traces have the same nodes at the same positions at any time."""
    assert len(ours) == len(wanted)
    assert (ours.begin_s, ours.end_s) == pytest.approx((wanted.begin_s, wanted.end_s), abs=1e-6)
    times = np.linspace(wanted.begin_s, wanted.end_s, 241) if times is None else times
    order = [wanted.names.index(name) for name in ours.names] if set(ours.names) == set(wanted.names) else slice(None)
    for a, b in zip(positions_at(ours, times), positions_at(wanted, times), strict=True):
        np.testing.assert_allclose(a, b[order], rtol=0, atol=within_m)


@pytest.mark.parametrize("suffix", [kind.suffixes[0] for kind in FORMATS if not kind.degrees])
def test_a_trace_is_read_as_it_was_written(suffix: str, tmp_path: Path) -> None:
    assert_same(written(walkers(), tmp_path / f"trace{suffix}"), walkers(), within_m=1e-3)


@pytest.mark.parametrize("suffix", [kind.suffixes[0] for kind in FORMATS if kind.absence and not kind.degrees])
def test_absences_are_kept_by_formats_that_can_represent_them(suffix: str, tmp_path: Path) -> None:
    times = np.arange(0.0, 61.0) if suffix == ".xml" else None  # samples hold nothing between them
    assert_same(written(passers_by(), tmp_path / f"trace{suffix}"), passers_by(), times=times)


@pytest.mark.parametrize("suffix", [".gpx", ".geojson"])
def test_degrees_become_metres_and_back(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"trace{suffix}"
    _, write = writer(path, origin=(11.5, 48.1))
    write(passers_by())
    assert_same(read_trace(path, origin=(11.5, 48.1)), passers_by(), within_m=1e-4)
    west, south, _, _ = read_trace(path).bounds
    assert (west, south) == (0.0, 0.0)


def test_a_degree_of_latitude_is_111_km_and_of_longitude_less(tmp_path: Path) -> None:
    path = tmp_path / "walk.gpx"
    path.write_text(
        '<gpx xmlns="http://www.topografix.com/GPX/1/1"><trk><name>Ann</name><trkseg>'
        '<trkpt lat="60" lon="10"><time>2024-05-01T10:00:00Z</time></trkpt>'
        '<trkpt lat="61" lon="11"><time>2024-05-01T12:00:00+02:00</time></trkpt>'
        '<trkpt lat="61" lon="11"><time>2024-05-01T10:30:00.5Z</time></trkpt>'
        "</trkseg></trk></gpx>"
    )
    trace = read_trace(path)
    assert trace.names == ["Ann"]
    assert trace.end_s == 1800.5
    assert trace.bounds[2:] == pytest.approx((111_195 / 2, 111_195), abs=1)


@pytest.mark.parametrize("packing", [".gz", ".xz", ".bz2"])
def test_compressed_files_are_read_and_written(packing: str, tmp_path: Path) -> None:
    assert_same(written(walkers(), tmp_path / f"trace.csv{packing}"), walkers())
    assert (tmp_path / f"trace.csv{packing}").read_bytes()[:4] != b"node"


def test_numbers_are_ordered_by_value_and_names_alphabetically(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("t,node,y,x,speed\n0,10,1,2,9\n0,9,3,4,9\n5,9,3,5,9\n")
    trace = read_trace(tmp_path / "a.csv")
    assert trace.names == ["9", "10"]
    assert trace.x.tolist() == [4.0, 5.0, 2.0]
    (tmp_path / "b.csv").write_text("node,t,x,y\nbus,0,1,1\nNA,0,1,1\nant,0,1,1\n")
    assert read_trace(tmp_path / "b.csv").names == ["NA", "ant", "bus"]


# --- files of other tools ----------------------------------------------------------------------------------


def test_bonnmotion_files_agree_with_each_other() -> None:
    movements = read_trace(SAMPLES / "sample.movements")
    assert (len(movements), movements.end_s) == (5, 300.0)
    assert_same(read_trace(SAMPLES / "sample.movements.gz"), movements)
    shifted = read_trace(SAMPLES / "ns2_setdest_from_bonnmotion.ns_movements")
    moved = Trace(shifted.names, shifted.first, shifted.t, shifted.x - 10, shifted.y - 10)
    assert_same(moved, movements)
    sampled = read_trace(SAMPLES / "the_one_external_movement_from_bonnmotion.txt")
    assert_same(sampled, movements, times=np.arange(0.0, 300.0, 10.0))


def test_the_ones_ns2_files_are_read() -> None:
    trace = read_trace(SAMPLES / "ns2_movement_from_the_one.txt")
    x, y = positions_at(trace, np.array([0.0, 10.0]))
    assert x[0].tolist() == pytest.approx([365.43910, 317.25287], abs=1e-4)
    assert y[4].tolist() == pytest.approx([103.36875, 112.42495], abs=1e-4)


def test_vehicles_of_sumo_appear_when_they_should() -> None:
    trace = read_trace(SAMPLES / "sumo_fcd_head.xml", partial=True)
    assert trace.unfinished
    assert trace.names == ["0", "1", "2", "3"]
    x, y = positions_at(trace, np.array([0.0, 1.0, 1.9, 2.0, 8.0]))
    assert x[0, :2].tolist() == [12.30, 25.73]
    assert np.isnan(x[1, :3]).all()
    assert (x[1, 3], y[1, 3]) == (598.40, 587.70)
    assert not np.isnan(x[:, 4]).any()  # the file is truncated: no node is known to have left
    ns2 = read_trace(SAMPLES / "ns2_setdest_from_sumo.tcl", partial=True)
    later = np.array([3.0, 5.0])  # there vehicles set out at the time at which they have arrived here
    np.testing.assert_allclose(positions_at(ns2, later + 1)[0][:2], positions_at(trace, later)[0][:2], atol=0.1)


def test_the_ones_paths_are_separated_by_pauses() -> None:
    trace = read_trace(SAMPLES / "the_one_external_path_sample.path")
    assert (len(trace), trace.end_s) == (2, 4889.0)
    x, y = positions_at(trace, np.array([0.0, 578.0, 947.0, 4889.0]))
    assert x[0].tolist() == [297.908, 85.248, 345.141, 17.727]
    assert y[0, 1] == 293.449


# --- absences in formats with their own conventions ---------------------------------------------------------


def test_activity_files_set_when_nodes_are_present(tmp_path: Path) -> None:
    (tmp_path / "a.path").write_text("1 0 100 0 50 0 50\n0 0,0,0 50,50,0\n1 10,5,5\n")
    (tmp_path / "a.act").write_text("0 20 80\n1 10 100\n")
    x, _ = positions_at(read_trace(tmp_path / "a.path"), np.array([10.0, 20.0, 80.0, 81.0, 100.0]))
    np.testing.assert_array_equal(x, [[math.nan, 20, 50, math.nan, math.nan], [5, 5, 5, 5, 5]])
    (tmp_path / "a.tcl").write_text(
        "$node_(0) set X_ 0\n$node_(0) set Y_ 0\n"
        '$ns_ at 0 "$node_(0) setdest 50 0 1"\n$ns_ at 10 "$node_(0) setdest 10 40 2"\n'
        '$ns_ at 5 "$g(0) start"; # SUMO-ID: a\n$ns_ at 25 "$g(0) stop"\n'
    )
    x, y = positions_at(read_trace(tmp_path / "a.tcl"), np.array([4.0, 5.0, 10.0, 20.0, 25.0, 26.0]))
    np.testing.assert_array_equal(x, [[math.nan, 5, 10, 10, 10, math.nan]])
    np.testing.assert_array_equal(y, [[math.nan, 0, 0, 20, 30, math.nan]])


MOBILITY = "$node_({0}) set X_ 1\n$node_({0}) set Y_ 2\n"
ACTIVITY = '$ns_ at {1} "$g({0}) start"; # SUMO-ID: {0}\n$ns_ at {2} "$g({0}) stop"; # SUMO-ID: {0}\n'


@pytest.mark.parametrize(
    ("mobility", "activity"),
    [
        ("mobility.tcl", "activity.tcl"),
        ("ns2mobility.tcl", "ns2activity.tcl.gz"),
        ("town.tcl.gz", "town.activity.tcl"),
        ("town.ns_movements", "town_activity.ns_movements"),
    ],
)
def test_sumos_activity_script_is_read_with_the_mobility_script(mobility: str, activity: str, tmp_path: Path) -> None:
    def write(name: str, text: str) -> None:
        data = text.encode()
        (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)

    write(mobility, MOBILITY.format("bus#1") + MOBILITY.format("7") + '$ns_ at 9 "$node_(7) setdest 11 2 1"\n')
    assert activity_file(tmp_path / mobility) is None
    times = np.array([1.0, 2.0, 4.0, 4.5, 6.0, 8.0, 8.5])
    assert positions_at(read_trace(tmp_path / mobility), times)[0][1].tolist() == [1] * 7  # without it always present
    write(activity, ACTIVITY.format("bus#1", 2, 4) + ACTIVITY.format("bus#1", 6, 8) + ACTIVITY.format("gone", 0, 1))
    assert activity_file(tmp_path / mobility) == tmp_path / activity
    trace = read_trace(tmp_path / mobility)
    assert trace.names == ["7", "bus#1"]
    nan = math.nan
    np.testing.assert_array_equal(positions_at(trace, times)[0][1], [nan, 1, 1, nan, 1, 1, nan])
    with pytest.raises(TraceError, match=r"activity.*says when nodes start and stop.*Give the script of --ns2mobility"):
        read_trace(tmp_path / activity)


def test_the_samples_of_other_simulators_come_with_their_activity() -> None:
    mobility = SAMPLES / "ns2_setdest_from_sumo.tcl"
    assert activity_file(mobility) == SAMPLES / "ns2_activity_from_sumo.tcl"
    x, _ = positions_at(read_trace(mobility, partial=True), np.array([0.0, 1.9, 2.0]))
    assert np.isnan(x[1]).tolist() == [True, True, False]  # vehicle 1 starts at 2 s
    paths = SAMPLES / "the_one_external_path_sample.path"
    assert activity_file(paths) == SAMPLES / "the_one_external_path_sample.act"
    for name, message in (
        ("the_one_external_path_sample.act", "is an activity file of The ONE, .* give the file of paths"),
        ("ns2_activity_from_sumo.tcl", "it is an activity script of SUMO's traceExporter"),
    ):
        with pytest.raises(TraceError, match=f"{name}: .*{message}"):
            read_trace(SAMPLES / name)


def test_several_activities_of_a_node_and_bad_ones(tmp_path: Path) -> None:
    (tmp_path / "a.path").write_text("1 0 100 0 50 0 50\n0 10,0,0 50,40,0\n")
    (tmp_path / "a.act").write_text("0 60 80\n0 0 5\n0 20 30\n")
    x, _ = positions_at(read_trace(tmp_path / "a.path"), np.array([3.0, 10.0, 20.0, 30.0, 31.0, 60.0, 80.0, 81.0]))
    nan = math.nan
    np.testing.assert_array_equal(x, [[nan, nan, 10, 20, nan, 40, 40, nan]])
    (tmp_path / "a.act").write_text("0 60 8\n")
    with pytest.raises(TraceError, match=r"a\.act, line 1: must not end before it starts: 0 60 8"):
        read_trace(tmp_path / "a.path")


def test_a_node_that_is_never_present_is_left_out_of_scripts(tmp_path: Path) -> None:
    rows = Rows()
    rows.gone("0", 3)
    rows.add("1", 0, 4, 5)
    assert written(rows.trace(), tmp_path / "a.tcl").names == ["1"]


def test_a_vehicle_missing_from_a_step_is_absent_in_it(tmp_path: Path) -> None:
    step = '<timestep time="{}"><vehicle id="a" x="1" y="2"/>{}</timestep>'
    other = '<person id="b" x="3" y="4"/>'
    steps = "".join(step.format(t, other if t in (1, 3) else "") for t in range(5))
    (tmp_path / "a.xml").write_text(f"<fcd-export>{steps}</fcd-export>")
    trace = read_trace(tmp_path / "a.xml")
    x, _ = positions_at(trace, np.array([0.0, 1.0, 1.5, 2.0, 3.0, 4.0]))
    np.testing.assert_array_equal(x[1], [math.nan, 3, math.nan, math.nan, 3, math.nan])


# --- errors are reported -----------------------------------------------------------------------------------

NS2 = "$node_(0) set X_ 1\n$node_(0) set Y_ 1\n"
BAD = {
    "text.csv": ("node,t,x,y\n0,0,1,1\n0,1,one,1\n", "line 3: x must be a number: one"),
    "short.csv": ("node,t,x,y\n0,0,1,1\n0,1,1\n", "line 3: must have 4 values"),
    "header.csv": ("id,t,x,y\n0,0,1,1\n", "line 1: must name the columns node, t, x and y; node"),
    "infinite.csv": ("node,t,x,y\n0,0,inf,1\n", "line 2: x must be a finite number"),
    "half.csv": ("node,t,x,y\n0,0,1,1\n0,4,,1\n", "line 3: x must be a number"),
    "nobody.csv": ("node,t,x,y\n0,0,1,1\n,4,1,1\n", "line 3: has no node"),
    "timeless.csv": ("node,t,x,y\n0,0,1,1\n0,,1,1\n", "line 3: t must be a number"),
    "empty.csv": ("node,t,x,y\n", "contains no rows"),
    "nothing.csv": ("", "line 1: must name the columns"),
    "semicolons.csv": ("node;t;x;y\n0;0,5;1;1\n", "node is missing (columns must be separated by commas"),
    "tabs.csv": ("node\tt\tx\ty\n0\t0\t1\t1\n", "columns must be separated by commas"),
    "spaces.csv": ("node, t, x, y\n0, 0, 1, 1\n", "t is missing (names must be in lower case, without sp"),
    "capitals.csv": ("Node,T,X,Y\n0,0,1,1\n", "names must be in lower case"),
    "twice.csv": ("node,t,x,y,x\n0,0,1,1,2\n", "line 1: must name the columns node, t, x and y; x appears twice"),
    "gone.csv": ("node,t,x,y\n0,0,,\n1,5,,\n", "contains no position"),
    "huge.csv": ("node,t,x,y\na,0,1,1\nb,0,1,-1e300\n", "y of node b must be within ±1e+09 m: -1e+300"),
    "milliseconds.csv": ("node,t,x,y\na,1e12,1,1\n", "t of node a must be within ±1e+11 s"),
    "late.csv": ("node,t,x,y\na,nan,1,1\n", "line 2: t must be a finite number"),
    "half_nan.csv": ("node,t,x,y\na,0,nan,1\n", "line 2: x must be a finite number"),
    "empty.xml": ("", "line 1: is truncated or empty"),
    "other.xml": ("<html><body/></html>", "contains no vehicle of floating car data"),
    "cut.gpx": ("<gpx><trk><trkseg>\n<trkpt", "line 2: is truncated"),
    "pole.gpx": (
        '<gpx><trk><name>Ann</name><trkseg><trkpt lat="99" lon="2"><time>2024-05-01T10:00:00Z</time></trkpt>'
        "</trkseg></trk></gpx>",
        "each point of Ann needs a time, a longitude within ±180 and a latitude within ±90",
    ),
    "nan.geojson": (
        '{"features": [{"geometry": {"type": "Point", "coordinates": [NaN, 2]}, "properties": {"time": 3}}]}',
        "a longitude within ±180",
    ),
    "number.tcl": (NS2 + '$ns_ at 1 "$node_(0) setdest 1 two 3"\n', "line 3: y must be a number: two"),
    "order.tcl": (NS2 + '$ns_ at 1 "$node_(0) jump 1 2 3"\n', "line 3: is neither a start position nor setdest"),
    "nowhere.tcl": ('$ns_ at 1 "$node_(7) setdest 1 2 3"\n', "line 1: the start position of node 7"),
    "groups.movements": ("0 1 1 5 2 2\n0 1 1 5 2\n", "line 2: must be groups of 3 numbers"),
    "back.movements": ("0 1 1 5 2 2 4 1 1\n", "line 1: times must not decrease"),
    "row.one": ("0 9 0 9 0 9\n0 a 1\n", "line 2: must be time id x y"),
    "header.one": ("0 a 1 1\n", "line 1: must be a header"),
    "point.path": ("1 0 9 0 9 0 9\n0 0,1,1 5,2\n", "line 2: must be id t,x,y"),
    "x.xml": ('<fcd-export>\n<timestep time="0">\n<vehicle id="a" x="?" y="1"/>\n', "line 3: x must be a number"),
    "order.xml": ('<a>\n<timestep time="1"/>\n<timestep time="1"/>\n</a>', "line 3: the time must be later"),
    "xml.xml": ("<a>\n<b></a>", "line 2: is not XML"),
    "no.gpx": ('<gpx><trk><trkseg>\n<trkpt lat="1" lon="2"></trkpt></trkseg></trk></gpx>', "line 2: a trkpt has no"),
    "no.geojson": ('{"features": [{"geometry": {"type": "Point", "coordinates": [1, 2]}}]}', "feature 0 has no times"),
    "other.txt": ("hello world\n", "is in none of the formats"),
    "broken.csv.gz": ("no archive", "cannot be read"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_rows_name_file_and_line(name: str, tmp_path: Path) -> None:
    content, message = BAD[name]
    path = tmp_path / name
    path.write_text(content)
    with pytest.raises(TraceError) as error:
        read_trace(path)
    assert str(path) in str(error.value)
    assert message in str(error.value)


def test_an_unknown_suffix_is_reported_at_once(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"suffix must be one of \.csv"):
        writer(tmp_path / "trace.doc")


def test_bad_encodings_and_columns_of_words_are_reported(tmp_path: Path) -> None:
    (tmp_path / "latin.csv").write_bytes("node,t,x,y\nUlm,0,1,1\nKöln,0,1,1\n".encode("latin-1"))
    with pytest.raises(TraceError, match=r"latin\.csv, line 3: is not UTF-8"):
        read_trace(tmp_path / "latin.csv")
    table = pa.table({"node": ["a"], "t": ["soon"], "x": [1.0], "y": [1.0]})
    pq.write_table(table, tmp_path / "words.parquet")
    with pytest.raises(TraceError, match=r"words\.parquet: column t must hold numbers, not string"):
        read_trace(tmp_path / "words.parquet")
    with pytest.raises(TraceError, match="is not a file"):
        read_trace(tmp_path)


@pytest.mark.parametrize("end", ["\r\n", "\r", "\n"])
def test_byte_order_marks_and_line_ends_do_not_matter(end: str, tmp_path: Path) -> None:
    text = "\ufeffnode,t,x,y\nb,9,3,4\nb,2,5,6\na,0,1,1\nb,2,7,8\n".replace("\n", end)
    (tmp_path / "a.csv").write_text(text, encoding="utf-8", newline="")
    trace = read_trace(tmp_path / "a.csv")
    assert trace.names == ["a", "b"]  # rows in any order; two at one time are a jump, in the order of the file
    assert (trace.t.tolist(), trace.x.tolist()) == ([0, 2, 2, 9], [1, 5, 7, 3])


# --- SUMO's floating car data --------------------------------------------------------------------------------
