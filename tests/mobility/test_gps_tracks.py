"""GPX and GeoJSON keep who is present when, and understand the times and places that other programs write."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedmule.mobility.traces.formats import read_trace, writer
from fedmule.mobility.traces.trace import Rows, Trace, TraceError, positions_at

ORIGIN = (11.5, 48.1)
SUFFIXES = [".gpx", ".geojson", ".gpx.gz"]

eighths = st.integers(0, 80).map(lambda k: k / 8)  # times that microseconds hold exactly
metres = st.floats(0, 5000)
stays = st.lists(
    st.tuples(eighths, st.lists(st.tuples(eighths, metres, metres), min_size=1, max_size=4), eighths), max_size=3
)


@st.composite
def traces(draw: st.DrawFn) -> Trace:
    """Nodes that come and go, stay for a moment only, jump, and are said to be absent several times over."""
    rows = Rows()

    def absent(name: str, t: float) -> float:
        for _ in range(draw(st.integers(0, 2))):
            rows.gone(name, t)
            t += 0.125
        return t

    for name in range(draw(st.integers(1, 4))):
        t = draw(eighths)
        t = absent(str(name), t)
        for pause, points, rest in draw(stays):
            t += pause
            for seconds, x, y in points:
                t += seconds
                rows.add(str(name), t, x, y)
            t += rest
            t = absent(str(name), t)
    rows.add("stays", draw(eighths), 10.0, 20.0)
    return rows.trace()


@pytest.mark.parametrize("suffix", SUFFIXES)
@settings(max_examples=40, deadline=None)
@given(trace=traces())
def test_nodes_come_and_go_as_they_were_written(suffix: str, trace: Trace) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"trace{suffix}"
        _, write = writer(path, origin=ORIGIN)
        write(trace)
        again = read_trace(path, ORIGIN)
    # A node that is never present has no track.
    seen = [i for i in range(len(trace)) if not np.isnan(trace.x[trace.first[i] : trace.first[i + 1]]).all()]
    assert again.names == [trace.names[i] for i in seen]
    assert (again.t >= 0).all()
    moments = np.unique(trace.t)
    times = np.sort(np.concatenate([moments, moments[1:] - 1e-3, moments[:-1] + 1e-3, moments - 0.06]))
    times = times[times <= trace.end_s]
    for ours, wanted in zip(positions_at(again, times), positions_at(trace, times), strict=True):
        np.testing.assert_allclose(ours, wanted[seen], rtol=0, atol=1e-6)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_tracks_do_not_grow_and_are_valid(suffix: str, tmp_path: Path) -> None:
    rows = Rows()
    rows.add("a", 1, 0, 0)
    rows.gone("a", 1)
    rows.add("a", 4, 3, 3)
    rows.add("a", 9, 5, 5)
    rows.add("b", -5, 1, 1)  # before 1970 there is no date: it becomes 0
    first, again = (tmp_path / f"{name}{suffix}" for name in ("first", "again"))
    writer(first, origin=ORIGIN)[1](rows.trace())
    trace = read_trace(first, ORIGIN)
    assert (trace.begin_s, trace.end_s) == (0, 14)
    writer(again, origin=ORIGIN)[1](trace)
    assert len(read_trace(again, ORIGIN).t) == len(trace.t)
    if suffix == ".geojson":
        lines = [line for f in json.loads(first.read_text())["features"] for line in f["geometry"]["coordinates"]]
        assert [len(line) for line in lines] == [2, 2, 2]  # a line needs two positions, one for a moment too


def test_sumos_own_tracks_agree_with_its_floating_car_data(tmp_path: Path) -> None:
    """Its exporter writes one segment for each vehicle, with the seconds of the simulation as times."""
    steps = {"0": [(0.0, 8.0, 50.0), (1.0, 8.0001, 50.0)], "1": [(1.0, 8.0, 50.001), (2.0, 8.0, 50.0012)]}
    tracks = "".join(
        f"  <trk><name>{name}</name><trkseg>\n"
        + "".join(f'    <trkpt lon="{lon}" lat="{lat}"><time>{t}</time></trkpt>\n' for t, lon, lat in points)
        + "  </trkseg></trk>\n"
        for name, points in steps.items()
    )
    (tmp_path / "sumo.gpx").write_text(f'<?xml version="1.0" encoding="UTF-8"?>\n<gpx version="1.0">\n{tracks}</gpx>\n')
    rows = "".join(
        f'<timestep time="{t}">'
        + "".join(
            f'<vehicle id="{name}" x="{lon}" y="{lat}" speed="9"/>'
            for name, points in steps.items()
            for at, lon, lat in points
            if at == t
        )
        + "</timestep>"
        for t in (0.0, 1.0, 2.0)
    )
    (tmp_path / "sumo.xml").write_text(
        f'<!-- <fcd-output.geo value="true"/> --><fcd-export>{rows}</fcd-export>', encoding="utf-8"
    )
    ours, wanted = (read_trace(tmp_path / f"sumo.{suffix}", (8.0, 50.0)) for suffix in ("gpx", "xml"))
    assert (ours.names, ours.begin_s, ours.end_s) == (["0", "1"], 0.0, 2.0)
    times = np.array([0.0, 0.5, 1.0, 1.5, 2.0])
    np.testing.assert_allclose(positions_at(ours, times), positions_at(wanted, times), atol=1e-9)


def test_dates_begin_at_zero_and_simulated_seconds_stay(tmp_path: Path) -> None:
    line = '<trkpt lat="1" lon="2"><time>{}</time></trkpt>'
    for name, times, begin_s in (
        ("dates", ("2024-05-01T10:00:00Z", "2024-05-01T10:00:09Z"), 0.0),
        ("seconds", ("5.5", "14.5"), 5.5),
    ):
        points = "".join(line.format(t) for t in times)
        (tmp_path / f"{name}.gpx").write_text(f"<gpx><trk><trkseg>{points}</trkseg></trk></gpx>")
        trace = read_trace(tmp_path / f"{name}.gpx")
        assert (trace.begin_s, trace.end_s) == (begin_s, begin_s + 9)


FIJI = {
    "fiji.gpx": "<gpx><trk><trkseg>{}</trkseg></trk></gpx>".format(
        "".join(f'<trkpt lat="-17" lon="{lon}"><time>{t}</time></trkpt>' for t, lon in enumerate((179.9, -179.9)))
    ),
    "fiji.geojson": json.dumps(
        {
            "features": [
                {"geometry": {"type": "Point", "coordinates": [lon, -17]}, "properties": {"time": t, "id": "boat"}}
                for t, lon in enumerate((179.9, -179.9))
            ]
        }
    ),
    "fiji.xml": '<!-- <fcd-output.geo value="true"/> --><fcd-export>{}</fcd-export>'.format(
        "".join(
            f'<timestep time="{t}"><vehicle id="a" x="{lon}" y="-17"/></timestep>'
            for t, lon in enumerate((179.9, -179.9))
        )
    ),
}


@pytest.mark.parametrize("name", FIJI)
def test_a_trace_across_the_date_line_is_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(FIJI[name])
    with pytest.raises(TraceError, match=r"fiji.*: crosses the date line: its longitudes go from -179.9 to 179.9"):
        read_trace(tmp_path / name)


def test_sumos_tracks_in_metres_are_refused_with_the_cure(tmp_path: Path) -> None:
    point = '<trkpt lon="12.3" lat="598.4"><time>0.0</time></trkpt>'
    (tmp_path / "a.gpx").write_text(f"<gpx><trk><name>0</name><trkseg>{point}</trkseg></trk></gpx>")
    with pytest.raises(TraceError, match=r"a\.gpx: each point of 0 .*fcd-output\.geo"):
        read_trace(tmp_path / "a.gpx")


@pytest.mark.parametrize("origin", [(179.999, 0.0), (0.0, 89.999)])
def test_a_trace_is_not_written_across_the_date_line_or_a_pole(origin: tuple[float, float], tmp_path: Path) -> None:
    rows = Rows()
    rows.add("a", 0, 0, 0)
    rows.add("a", 9, 500, 500)
    with pytest.raises(TraceError, match=r"a\.gpx: cannot hold it with .* beyond the date line or a pole"):
        writer(tmp_path / "a.gpx", origin=origin)[1](rows.trace())
