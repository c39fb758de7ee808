"""fedmule replay: what it writes where, and what it says when it cannot."""

from __future__ import annotations

import re
import sys
import webbrowser
from pathlib import Path

import pytest

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
