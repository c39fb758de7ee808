"""Parameter studies: what is run, what is skipped, what is said when it goes wrong."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from short_runs import heed_ctrl_c

from fedmule.analysis import load_study
from fedmule.simulator.cli import main
from fedmule.simulator.errors import UserError
from fedmule.simulator.scenario.overrides import expand_range, parse_vary
from fedmule.simulator.studies.plan import StudyFile, combinations, plan_study

SMALL = """
[terrain]
size_m = [200, 200]
[clients]
count = 4
mobility = "static"
[radio]
range_m = 50
[learning]
dataset = { kind = "synthetic", samples = [20, 40] }
evaluate_every = 2
[stop]
visits = 4
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tiny.toml").write_text(SMALL)
    return tmp_path


# --- values ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("5..20:5", [5, 10, 15, 20]),
        ("5..19:5", [5, 10, 15]),
        ("3..3:1", [3]),
        ("-2..2:2", [-2, 0, 2]),
        ("0.1..0.5:0.1", [0.1, 0.2, 0.3, 0.4, 0.5]),
        ("1..2:0.5", [1.0, 1.5, 2.0]),
        ("1..1000:x10", [1, 10, 100, 1000]),
        ("0.01..1:x10", [0.01, 0.1, 1.0]),
        ("1e-3..1e-1:x10", [0.001, 0.01, 0.1]),
    ],
)
def test_ranges_go_from_low_to_high_both_included(text: str, values: list[float]) -> None:
    assert expand_range(text, "key") == values
    assert all(type(a) is type(b) for a, b in zip(expand_range(text, "key"), values, strict=True))
    assert parse_vary(f"key={text}") == ("key", tuple(values))


@given(st.integers(-50, 50), st.integers(1, 9), st.integers(0, 30))
def test_a_range_of_whole_numbers_is_pythons(low: int, step: int, count: int) -> None:
    assert expand_range(f"{low}..{low + step * count}:{step}", "key") == list(range(low, low + step * count + 1, step))


@pytest.mark.parametrize("text", ["5..1:1", "1..5:0", "1..5:-1", "0..5:x2", "1..5:x1", "1..5", "a..b:1", "0..9e9:1"])
def test_ranges_that_lead_nowhere_are_refused(text: str) -> None:
    with pytest.raises(UserError, match=r"vehicle\.speed_mps"):
        expand_range(text, "vehicle.speed_mps")


def test_a_range_that_is_too_long_says_so() -> None:
    with pytest.raises(UserError, match=r'key = "0\.\.9e9:1": gives more than 10000 values'):
        expand_range("0..9e9:1", "key")


def test_lists_on_the_command_line_hold_numbers_words_lists_and_tables() -> None:
    assert parse_vary("a.b=5,10.5, static") == ("a.b", (5, 10.5, "static"))
    assert parse_vary('a=[300, 300],[600,600],"x,y"') == ("a", ([300, 300], [600, 600], "x,y"))
    assert parse_vary('m={kind="waypoint", pause_s=[0,1]},static') == (
        "m",
        ({"kind": "waypoint", "pause_s": [0, 1]}, "static"),
    )
    assert parse_vary("a=1..3:1,10,true") == ("a", (1, 2, 3, 10, True))
    for bad in ("vehicle.speed_mps", "=5", "vehicle.speed_mps="):
        with pytest.raises(UserError, match="must be KEY=a,b,c"):
            parse_vary(bad)


# --- points ---------------------------------------------------------------------------------------------------


def study(**keys: Any) -> StudyFile:
    return StudyFile.model_validate({"scenarios": ["smoke"], **keys})


def seeds_of(**keys: Any) -> list[int]:
    return [point.scenario.seed for point in plan_study(study(**keys)).points]


def test_grids_are_all_combinations_and_zipped_keys_go_together() -> None:
    found = combinations(
        study(
            vary={"vehicle.speed_mps": [5, 10], "radio.range_m": "50..150:50"},
            zip=[{"clients.count": [10, 20], "terrain.size_m": [[100, 100], [200, 200]]}],
        )
    )
    assert len(found) == 2 * 3 * 2
    assert found[0] == {
        "vehicle.speed_mps": 5,
        "radio.range_m": 50,
        "clients.count": 10,
        "terrain.size_m": [100, 100],
    }
    assert {(p["clients.count"], p["terrain.size_m"][0]) for p in found} == {(10, 100), (20, 200)}
    assert combinations(study()) == [{}]


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"zip": [{"clients.count": [1, 2], "radio.range_m": [1]}]}, "clients.count has 2, radio.range_m has 1"),
        ({"vary": {"seed": [1, 2]}}, "seed: cannot be varied like other keys; use seeds"),
        ({"vary": {"clients.count": [5, 5]}}, "clients.count=5 is given twice"),
        ({"vary": {"clients.count": [5]}, "zip": [{"clients.count": [5]}]}, "clients.count: is given twice"),
        ({"vary": {"clients.count": [5]}, "set": {"clients.count": 6}}, "clients.count: is given twice"),
        ({"vary": {"clients.count": "5-7"}}, 'vary.clients.count = "5-7": must be a..b:step'),
    ],
)
def test_what_cannot_be_varied_is_said(keys: dict[str, Any], words: str) -> None:
    with pytest.raises(UserError, match=words.replace("[", r"\[")):
        combinations(study(**keys))


def test_every_wrong_point_is_named_before_anything_runs() -> None:
    with pytest.raises(UserError) as caught:
        plan_study(study(vary={"vehicle.speed_mps": [5, -1], "radio.range_n": [50]}))
    text = str(caught.value)
    assert "vehicle.speed_mps = -1: must be greater than 0 (where vehicle.speed_mps=-1, radio.range_n=50)" in text
    assert "did you mean range_m?" in text


def test_combinations_share_their_seeds_unless_asked_not_to() -> None:
    vary = {"vehicle.speed_mps": [5, 10]}
    assert seeds_of(vary=vary, seeds=3) == [0, 1, 2, 0, 1, 2]
    fresh = seeds_of(vary=vary, seeds=3, common_random_numbers=False)
    assert len(set(fresh)) == 6
    assert seeds_of(vary=vary, seeds=3, common_random_numbers=False) == fresh
    assert seeds_of(seeds=[7, 4]) == [7, 4]


# --- complete studies --------------------------------------------------------------------------------------------


def test_a_study_runs_is_widened_and_continues(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["study", "tiny.toml", "--vary", "vehicle.speed_mps=5,10", "--seeds", "2", "--jobs", "1"]
    assert main(command) == 0
    out, err = capsys.readouterr()
    assert "2 combinations × 2 seeds, the same for every combination" in err
    assert "studies/tiny/index.parquet" in out
    first = load_study("studies/tiny").index
    assert list(first["vehicle.speed_mps"]) == [5, 5, 10, 10]
    assert list(first["seed"]) == [0, 1, 0, 1]
    assert list(first["status"]) == ["done"] * 4
    assert first["sim_time_s"].nunique() == 4  # replications really differ, and so do points
    written = {run: (here / "studies/tiny" / run / "summary.json").stat().st_mtime_ns for run in first["run"]}

    assert main([*command[:2], "--vary", "vehicle.speed_mps=5,10,20", *command[4:]]) == 0
    assert "6 runs, 4 of them done before" in capsys.readouterr().err
    study = load_study("studies/tiny")
    assert study.parameters == ["vehicle.speed_mps"]
    for run, at in written.items():
        assert (here / "studies/tiny" / run / "summary.json").stat().st_mtime_ns == at
    pd.testing.assert_frame_equal(study.index.iloc[:4], first, check_dtype=False)
    contacts = study.contacts(["contact", "visit", "in_passing"], {"vehicle.speed_mps": 20})
    assert list(contacts["visit"][~contacts["in_passing"]]) == [1, 2, 3, 4, 1, 2, 3, 4]
    counts = study.index["contacts"][study.index["vehicle.speed_mps"] == 20]
    assert list(contacts["contact"]) == [contact for count in counts for contact in range(1, count + 1)]
    assert set(contacts["seed"]) == {0, 1}
    assert [run.scenario["vehicle"]["speed_mps"] for run in study.runs({"seed": 1})] == [5, 10, 20]


def test_failures_are_listed_and_do_not_stop_the_rest(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "bad.csv").write_text("x,label\n1,0\nnan,1\n")
    data = '"synthetic",{kind="file", path="bad.csv"}'
    status = main(["study", "tiny.toml", "--vary", f"learning.dataset={data}", "--seeds", "1", "--jobs", "1"])
    out, err = capsys.readouterr()
    assert status == 1
    assert "1 run failed: learning.dataset" in err
    assert "not a finite number" in err
    assert "not run" in out
    index = load_study("studies/tiny").index
    assert list(index["status"]) == ["done", "failed"]
    assert "not a finite number" in index["error"].iloc[1]


def test_a_study_file_holds_the_same(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "sub").mkdir()
    (here / "sub/near.toml").write_text(SMALL)
    (here / "sub/speeds.toml").write_text(
        """
        title = "How fast?"
        scenarios = ["near.toml", "smoke"]
        seeds = [3]
        set = { "stop.visits" = 2, "clients.count" = 5 }
        vary = { "vehicle.speed_mps" = "5..10:5" }
        zip = [{ "radio.range_m" = [30, 60], "vehicle.jump" = [0.0, 0.5] }]
        """
    )
    assert main(["study", "sub/speeds.toml", "--out", "s", "--jobs", "1"]) == 0
    study = load_study("s")
    assert study.parameters == ["scenario", "vehicle.speed_mps", "radio.range_m", "vehicle.jump"]
    assert len(study.index) == 2 * 2 * 2
    assert set(study.index["seed"]) == {3}
    assert set(study.index["visits"]) == {2}
    assert set(study.index["clients"]) == {5}
    assert study.study["title"] == "How fast?"
    assert (study.index.groupby("radio.range_m")["vehicle.jump"].nunique() == 1).all()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("scenarios = []", "scenarios = []: must have at least 1 entries"),
        ('scenarios = ["smoke"]\nvari = { a = [1] }', "vari = {'a': [1]}: unknown key; did you mean vary?"),
        ('scenarios = ["nowhere"]', "nowhere: no such file"),
        ('scenarios = ["smoke"]\nseeds = 0', "seeds"),
        ('scenarios = ["smoke"]\nvary = { "vehicle.speed" = [1] }', "did you mean speed_mps?"),
        ('scenarios = ["smoke"', "not valid TOML"),
    ],
)
def test_a_bad_study_file_is_refused_in_words(
    here: Path, capsys: pytest.CaptureFixture[str], text: str, words: str
) -> None:
    (here / "bad.toml").write_text(text)
    assert main(["study", "bad.toml"]) == 2
    assert words in capsys.readouterr().err
    assert not (here / "studies").exists()


def test_own_classes_need_to_be_allowed(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "mine.py").write_text(
        """
from fedmule.mobility.models.static import Static

class Corner(Static):
    def start(self):
        return super().start() / 2
"""
    )
    command = ["study", "tiny.toml", "--vary", "clients.mobility=mine:Corner,static", "--seeds", "1", "--jobs", "1"]
    assert main(command) == 2
    assert "--allow-plugins" in capsys.readouterr().err
    assert main([*command, "--allow-plugins"]) == 0
    assert list(load_study("studies/tiny").index["status"]) == ["done", "done"]


def test_an_interrupted_study_keeps_what_is_done_in_its_index(here: Path) -> None:
    command = [sys.executable, "-m", "fedmule", "study", "tiny.toml", "--vary", "stop.visits=2,999999"]
    process = subprocess.Popen(
        [*command, "--seeds", "1", "--jobs", "1"], stderr=subprocess.PIPE, preexec_fn=heed_ctrl_c
    )
    deadline = time.monotonic() + 600
    runs = here / "studies/tiny/runs"  # a run that is about to be complete has its summary in a partial folder
    while not list(runs.glob("*.partial-*/contacts.arrows")) or not [
        file for file in runs.glob("*/summary.json") if ".partial-" not in file.parent.name
    ]:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=600) == 130
    assert list(load_study("studies/tiny").index["status"]) == ["done", "missing"]


def test_the_index_of_a_thousand_runs_loads_in_a_moment(tmp_path: Path) -> None:
    """Made by hand from one run's columns."""
    columns = {"run": [f"runs/{i:016x}" for i in range(1000)], "seed": list(range(1000)), "status": ["done"] * 1000}
    pd.DataFrame({**columns, "vehicle.speed_mps": [i % 10 for i in range(1000)]}).to_parquet(tmp_path / "index.parquet")
    (tmp_path / "study.toml").write_text('scenarios = ["smoke"]\nzip = []\nvary = { "vehicle.speed_mps" = [1] }\n')
    began = time.process_time()
    study = load_study(tmp_path)
    assert len(study.done) == 1000
    assert time.process_time() - began < 1.0


def test_runs_that_diverge_or_learn_nothing_do_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With a step of 10⁶ the models of fedavg diverge."""
    monkeypatch.chdir(tmp_path)
    words = ["--vary", "learning.step_size=0.1,1e6", "--set", "learning.algorithm=fedavg", "--set", "stop.visits=9"]
    assert main(["study", "smoke", "--seeds", "2", "--jobs", "1", "--out", "s", *words]) == 3
    said = capsys.readouterr()
    assert "2 runs diverged and do not count" in said.err
    assert "0 of 2, 2 diverged" in said.out
    assert "2 of 4 runs are not in these figures: 2 diverged." in said.out
    study = load_study("s")
    assert list(study.index["status"]) == ["done", "done", "diverged", "diverged"]
    assert study.index["error"].str.contains("learning.step_size = 1e").tolist()[2:] == [True, True]
    assert len(study.done) == 2
    before = sorted(file.stat().st_mtime_ns for file in Path("s/runs").rglob("summary.json"))
    assert main(["study", "smoke", "--seeds", "2", "--jobs", "1", "--out", "s", *words]) == 3
    assert sorted(file.stat().st_mtime_ns for file in Path("s/runs").rglob("summary.json")) == before  # not run again
    earlier = study.index.assign(status="done")  # as an earlier version wrote them
    earlier.to_parquet("s/index.parquet", index=False)
    assert list(load_study("s").index["status"]) == ["done", "done", "diverged", "diverged"]
    for command in ("report", "replay"):
        assert main([command, "s"]) == 0
