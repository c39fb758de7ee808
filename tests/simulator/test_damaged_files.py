"""Damaged files of every kind are refused with a message, or read; never with a traceback."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import fuzz
import pytest

from fedmule.analysis import load_run, load_study
from fedmule.simulator.cli import main
from fedmule.simulator.errors import UserError

# Traces that ended in tracebacks once.
PAST = {
    "point.gpx": b'<gpx><trk><trkpt lat="47.0" lon="8.0"><time>2020-01-01T00:00:00Z</time></trkpt></trk></gpx>',
    "deflate.movements.gz": gzip.compress(b"0 1 2 3\n" * 40, mtime=0)[:10] + b"\xff" * 30,
    "encoding.xml": b'<?xml version="1.0" encoding="UTD-8"?><fcd-export></fcd-export>',
}


def test_hundreds_of_damaged_files() -> None:
    """At least one of every kind; more with python tests/benchmarks/fuzz.py --count 20000."""
    assert fuzz.fuzz(400, seed=1) == {}


@pytest.mark.parametrize("name", PAST)
def test_what_failed_once(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / name).write_bytes(PAST[name])
    assert main(["trace", str(tmp_path / name)]) == 2
    assert name in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "harm", "said"),
    [
        ("contacts.parquet", lambda b: b[:-9], r"contacts\.parquet: has changed since the run ended"),
        ("summary.json", lambda b: b.replace(b"0", b"1", 1), r"summary\.json: has changed"),
        ("scenario.toml", lambda b: b + b"\n", r"scenario\.toml: has changed"),
        ("manifest.json", lambda b: b[:100], r"run: cannot be read, a file is damaged"),
        ("manifest.json", lambda b: b"[]", r"manifest\.json: holds no table"),
    ],
)
def test_a_damaged_run_is_not_loaded(
    tmp_path: Path, name: str, harm: Callable[[bytes], bytes], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for file, content in fuzz.run_files().items():
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_bytes(content)
    assert load_run(tmp_path / "run").finished
    file = tmp_path / "run" / name
    file.write_bytes(harm(file.read_bytes()))
    with pytest.raises(UserError, match=said):
        load_run(tmp_path / "run")
    for command in ("replay", "report"):
        assert main([command, str(tmp_path / "run")]) == 2
        assert capsys.readouterr().err


@pytest.mark.parametrize(
    ("old", "new"), [("vehicle.speed_mps", "vehicle.rpeed_mps"), ("vehicle.speed_mps", "vehicle.speed1e400_mps")]
)
def test_a_study_that_names_what_its_index_lacks(
    tmp_path: Path, old: str, new: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "run").mkdir()
    for file, content in fuzz.study_files().items():
        (tmp_path / file).write_bytes(content.replace(old.encode(), new.encode()) if "toml" in file else content)
    for command in ("replay", "report", "verify"):
        assert main([command, str(tmp_path / "run")]) == 2
        assert "run: cannot be read, a file is damaged" in capsys.readouterr().err


@pytest.mark.parametrize("lacking", ["title", "name"])
def test_a_study_without_a_title(tmp_path: Path, lacking: str) -> None:
    (tmp_path / "run").mkdir()
    for file, content in fuzz.study_files().items():
        (tmp_path / file).write_bytes(content.replace(f"{lacking} =".encode(), b"other ="))
    assert main(["replay", str(tmp_path / "run")]) == 0


def test_numbers_that_no_float_can_hold(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "data.csv").write_bytes(fuzz.TABLE.replace(b"\n3,", b"\n" + b"9" * 400 + b","))
    dataset = f'learning.dataset={{ kind = "file", path = "{tmp_path / "data.csv"}" }}'
    assert main(["run", "smoke", "--quiet", "--out", str(tmp_path / "out"), "--set", dataset]) == 2
    assert "data.csv" in capsys.readouterr().err
    (tmp_path / "s.toml").write_bytes(fuzz.STUDY.replace(b"= 2\n", b"= " + b"9" * 400 + b"\n"))
    assert main(["study", str(tmp_path / "s.toml"), "--out", str(tmp_path / "s")]) == 2
    assert "plans 9,999" in capsys.readouterr().err


def test_a_damaged_study_is_not_loaded(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    for file, content in fuzz.study_files().items():
        (tmp_path / file).write_bytes(content)
    assert len(load_study(tmp_path / "run").done) == 2
    whole = (tmp_path / "run/index.parquet").read_bytes()
    (tmp_path / "run/index.parquet").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(UserError, match="run: cannot be read, a file is damaged"):
        load_study(tmp_path / "run")
