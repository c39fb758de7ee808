"""fedmule replay: what it writes where, and what it says when it cannot."""

from __future__ import annotations

import json
import re
import sys
import webbrowser
from pathlib import Path

import pytest
from PIL import Image

from fedmule.simulator.cli import main
from fedmule.simulator.studies.batch import run_plan
from fedmule.simulator.studies.plan import StudyFile, plan_study

RUN = ["run", "smoke", "--quiet", "--set", "stop.visits=4"]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def links(file: Path) -> list[str]:
    return re.findall(r'"link":"([^"]*)"', file.read_text(encoding="utf-8"))


def test_a_page_is_written_and_nobody_is_asked(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*RUN, "--out", "run"]) == 0
    assert main(["replay", "run"]) == 0  # pytest's input is no terminal
    assert "written to run/replay.html" in capsys.readouterr().out
    assert main(["replay", "run", "--out", "pages/smoke.html", "--no-open"]) == 0
    assert (here / "pages/smoke.html").read_text() == (here / "run/replay.html").read_text()
    assert not list(here.glob("**/*.partial"))


@pytest.mark.parametrize(("answer", "opened"), [("", True), ("y", True), ("n", False), ("what?", False)])
def test_on_a_terminal_it_asks(here: Path, monkeypatch: pytest.MonkeyPatch, answer: str, opened: bool) -> None:
    asked: list[str] = []
    seen: list[str] = []
    assert main([*RUN, "--out", "run"]) == 0
    monkeypatch.setattr(webbrowser, "open", lambda url: bool(seen.append(url)) or True)
    monkeypatch.setattr("builtins.input", lambda question: asked.append(question) or answer)
    for stream in (sys.stdin, sys.stdout):
        monkeypatch.setattr(stream, "isatty", lambda: True, raising=False)
    assert main(["replay", "run"]) == 0
    assert len(asked) == 1
    assert seen == ([(here / "run/replay.html").as_uri()] if opened else [])
    assert main(["replay", "run", "--no-open"]) == 0
    assert len(asked) == 1
    assert main(["replay", "run", "--open"]) == 0
    assert (len(asked), len(seen)) == (1, opened + 1)


def test_what_cannot_be_replayed_is_explained(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "empty").mkdir()
    star, silent = ["--set", "learning.server=star"], ["--set", "log.track=false"]
    assert main([*RUN, "--out", "star", *star, "--set", "learning.algorithm=fedavg"]) == 0
    assert main([*RUN, "--out", "silent", *silent]) == 0
    assert main([*RUN, "--out", "run"]) == 0
    capsys.readouterr()
    for arguments, message in [
        (["nowhere"], "nowhere: no such folder"),
        (["empty"], "empty: has neither a run's manifest.json nor a study's index.parquet"),
        (["star"], 'star: cannot be replayed: learning.server = "star": no vehicle drove'),
        (["silent"], "silent: cannot be replayed: log.track = false"),
        (["run", "--runs"], "--runs is for studies"),
        (["run", "--out", "empty"], "--out empty: is a folder"),
    ]:
        assert main(["replay", *arguments]) == 2
        assert message in capsys.readouterr().err
    assert not list(here.glob("**/*.html"))


def test_a_study_links_the_pages_of_its_runs(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    vary = {"vehicle.speed_mps": (5, 10), "log.track": (True, False)}
    keys, study = {"scenarios": ("smoke",), "set": {"stop.visits": 4}, "seeds": 1}, here / "studies/smoke"
    assert not run_plan(plan_study(StudyFile(name="smoke", vary=vary, **keys)), study, jobs=1).failures
    assert main(["replay", str(study)]) == 0
    assert links(study / "replay.html") == []
    assert main(["replay", str(study), "--runs"]) == 0
    assert capsys.readouterr().err.count("log.track = false") == 2
    assert len(links(study / "replay.html")) == 2
    assert main(["replay", str(study), "--out", "elsewhere/page.html"]) == 0
    for file in (study / "replay.html", here / "elsewhere/page.html"):
        for link in links(file):
            assert (file.parent / link).resolve().is_file()
            assert not link.startswith("/")


def test_two_runs_are_written_here(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Not into the folder of either."""
    assert main([*RUN, "--out", "runs/slow"]) == 0
    assert main([*RUN, "--out", "runs/fast", "--set", "vehicle.speed_mps=20"]) == 0
    before = {folder: sorted((here / "runs" / folder).iterdir()) for folder in ("slow", "fast")}
    assert main(["replay", "runs/slow", "runs/fast"]) == 0
    assert "written to replay-slow-fast.html" in capsys.readouterr().out
    html = (here / "replay-slow-fast.html").read_text()
    assert "vehicle speed, m/s: 10 | 20" in html
    assert main(["replay", "runs/slow", "runs/fast", "--out", "both.html"]) == 0
    assert (here / "both.html").read_text() == html
    assert {folder: sorted((here / "runs" / folder).iterdir()) for folder in before} == before


def test_pictures_are_written_instead_of_a_page(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*RUN, "--out", "run"]) == 0
    assert main(["replay", "run", "--png", "new/a.PNG", "--at", "0:00:05", "--client", "1"]) == 0
    assert main(["replay", "run", "--png", "a.png", "--gif", "a.gif", "--seconds", "0.5"]) == 0
    assert "written to a.gif" in capsys.readouterr().out
    assert not (here / "run/replay.html").exists()
    assert main(["replay", "run", "--png", "a.png", "--at", "0"]) == 0  # in place of the picture
    assert sorted(path.name for path in here.iterdir()) == ["a.gif", "a.png", "new", "run"]
    for name, size in (("new/a.PNG", 1500), ("a.png", 1500), ("a.gif", 1000)):
        with Image.open(here / name) as picture:
            assert picture.width == size


def test_what_cannot_be_drawn_is_explained(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(here))  # without ffmpeg
    assert main([*RUN, "--out", "run"]) == 0
    assert main([*RUN, "--out", "silent", "--set", "log.track=false"]) == 0
    vary = {"vehicle.speed_mps": (5, 10)}
    keys, study = {"scenarios": ("smoke",), "set": {"stop.visits": 4}, "seeds": 1}, here / "study"
    assert not run_plan(plan_study(StudyFile(name="smoke", vary=vary, **keys)), study, jobs=1).failures
    end_s = json.loads((here / "run/summary.json").read_text())["sim_time_s"]
    (here / "notes.html").write_text("<html>my notes on Fedmule")
    (here / "notes.png").write_text("my notes")
    (here / "file").touch()
    capsys.readouterr()
    for arguments, message in [
        (["run", "run", "run"], "a page shows one run, or two side by side, not 3"),
        (["run", "study"], "study: is a study; only runs can be shown side by side"),
        (["study", "--png", "a.png"], "study: is a study"),
        (["study", "--client", "1"], "study: is a study"),
        (["run", "run", "--gif", "a.gif"], "draw one run, not two"),
        (["run", "--client", "99"], "--client: there is no client 99: they are 0 to "),
        (["run", "--client", "-1", "--png", "a.png"], "--client: there is no client -1: they are 0 to "),
        (["run", "--png", "a.png", "--at", str(end_s + 1)], f"the run ends at 0:0{int(end_s) // 60}:"),
        (["run", "--at", "5"], "--at: is the moment of a picture; give --png FILE too"),
        (["run", "--seconds", "5"], "--seconds: is the length of an animation"),
        (["run", "--gif", "a.gif", "--seconds", "1000"], "--seconds 1000: must be at most 60"),
        (["run", "--mp4", "a.mp4"], "--mp4: needs ffmpeg"),
        (["run", "--png", "a.jpg"], "--png a.jpg: must end in .png"),
        (["run", "--gif", "run"], "--gif run: is a folder"),
        (["run", "--gif", "file/a.gif"], "--gif file/a.gif: cannot be written"),
        (["run", "--png", "notes.png"], "--png notes.png: exists already and is something else"),
        (["run", "--out", "notes.html"], "--out notes.html: exists already and is something else"),
        (["silent", "--gif", "a.gif"], "silent: cannot be replayed: log.track = false"),
        (["nowhere", "--gif", "a.gif"], "nowhere: no such folder"),
    ]:
        assert main(["replay", *arguments]) == 2
        assert message in capsys.readouterr().err
    assert (here / "notes.html").read_text() == "<html>my notes on Fedmule"
    assert (here / "notes.png").read_text() == "my notes"
    assert sorted(p.name for p in here.iterdir()) == ["file", "notes.html", "notes.png", "run", "silent", "study"]


def test_a_run_without_contacts_has_no_animation(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*RUN, "--out", "run", "--set", "stop.sim_time_s=0.001"]) == 0
    assert main(["replay", "run", "--png", "a.png"]) == 0
    capsys.readouterr()
    assert main(["replay", "run", "--gif", "a.gif"]) == 2
    assert "run: has no contact yet: there is nothing to animate" in capsys.readouterr().err
    assert not (here / "a.gif").exists()


@pytest.mark.parametrize("time", ["", "x", "-5", "1:99:00", "0:20", "nan"])
def test_times_that_are_none_are_refused(here: Path, time: str) -> None:
    with pytest.raises(SystemExit) as status:
        main(["replay", "run", "--png", "a.png", f"--at={time}"])
    assert status.value.code == 2
