"""Floating car data as SUMO writes them: degrees or metres, truncated, large."""

from __future__ import annotations

import gzip
import math
import subprocess
import sys
from pathlib import Path

import pytest

from fedmule.mobility.projection import METRES_PER_DEGREE
from fedmule.mobility.traces.formats import read_trace
from fedmule.mobility.traces.trace import TraceError

SAMPLES = Path(__file__).parents[1] / "reference" / "formats"

GEO = '<!-- by SUMO\n<output>\n    <fcd-output value="f.xml"/>\n    <fcd-output.geo value="true"/>\n</output>\n-->\n'


def fcd(folder: Path, told: str, heading: str = "", scale: float = 1.0, at: tuple[float, float] = (0.0, 0.0)) -> Path:
    """One vehicle going east at 10 m/s and one going north at 5, from a position on, in metres times `scale`."""
    steps = []
    for t in range(11):
        a, b = (at[0] + 10 * t * scale, at[1]), (at[0], at[1] + 5 * t * scale)
        rows = [f'<vehicle id="{i}" x="{x!r}" y="{y!r}"{told}/>' for i, (x, y) in zip("ab", (a, b), strict=True)]
        steps.append(f'<timestep time="{t}.00">\n{"".join(rows)}\n</timestep>\n')
    (folder / "fcd.xml").write_text(f"{heading}<fcd-export>\n{''.join(steps)}</fcd-export>\n")
    return folder / "fcd.xml"


@pytest.mark.parametrize(
    ("told", "heading", "origin"),
    [("", GEO, None), (' speed="8.0"', "", None), ("", "", (0.0, 10.0)), (' speed="8.0"', GEO, (0.0, 10.0))],
)
def test_floating_car_data_in_degrees_become_metres(
    told: str, heading: str, origin: tuple[float, float] | None, tmp_path: Path
) -> None:
    trace = read_trace(fcd(tmp_path, told, heading, scale=1 / METRES_PER_DEGREE, at=(0.5, 10.5)), origin)
    low_x, low_y, high_x, high_y = trace.bounds
    east = math.cos(math.radians(10.0 if origin else 10.5))
    assert (high_x - low_x, high_y - low_y) == pytest.approx((100 * east, 50), rel=1e-6)
    assert (low_x, low_y) == pytest.approx(
        (0.5 * METRES_PER_DEGREE * east, 0.5 * METRES_PER_DEGREE) if origin else (0, 0), abs=1e-6
    )


@pytest.mark.parametrize("told", ["", ' speed="8.0"', ' speed="0.0"'])
@pytest.mark.parametrize("origin", [None, (11.5, 48.1)])
def test_floating_car_data_in_metres_stay_as_they_are(
    told: str, origin: tuple[float, float] | None, tmp_path: Path
) -> None:
    heading = GEO.replace("true", "false")
    assert read_trace(fcd(tmp_path, told, heading), origin).bounds == (0, 0, 100, 50)


@pytest.mark.parametrize("left_off", [5, 20, 40, 60, 100, 140])
def test_floating_car_data_may_be_truncated_anywhere(left_off: int, tmp_path: Path) -> None:
    path = fcd(tmp_path, "")
    path.write_bytes(path.read_bytes()[:-left_off])
    with pytest.raises(TraceError, match=r"is truncated; fedmule trace .* --partial --out FILE keeps what is there"):
        read_trace(path)
    trace = read_trace(path, partial=True)
    assert trace.unfinished
    assert 8 <= trace.end_s <= 10


def test_large_floating_car_data_need_little_memory(tmp_path: Path) -> None:
    """12 MB of typical SUMO output, then twice as much: the second half needs less memory than its own size."""
    vehicle = 'angle="90.00" type="DEFAULT_VEHTYPE" speed="13.89" pos="5.10" lane="E0_0" slope="0.00"/>\n'
    step = "".join(f'        <vehicle id="veh{i}" x="{i}.25" y="{3 * i}.50" {vehicle}' for i in range(400))
    code = (
        "import resource, sys; from fedmule.mobility.traces.formats import read_trace\n"
        "trace = read_trace(sys.argv[1]); "
        "print(len(trace.t), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
    )
    path, peaks, sizes = tmp_path / "fcd.xml.gz", [], []
    for steps in (220, 440):
        with gzip.open(path, "wt", compresslevel=1) as file:
            size = file.write("<fcd-export>\n")
            for t in range(steps):
                size += file.write(f'    <timestep time="{t}.00">\n{step}    </timestep>\n')
            file.write("</fcd-export>\n")
        done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True)
        waypoints, peak = map(int, done.stdout.split())
        assert waypoints == 400 * steps
        sizes.append(size)
        peaks.append(1024 * peak)
    assert sizes[0] > 12e6
    assert peaks[1] - peaks[0] < 0.9 * (sizes[1] - sizes[0])
