"""fedmule find: the answer, the folder it leaves, and what is said when it goes wrong."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import fedmule
from fedmule.analysis import load_study
from fedmule.analysis.report import content_of
from fedmule.simulator.cli import main
from fedmule.simulator.errors import Problem, UserError
from fedmule.simulator.scenario import Scenario
from fedmule.simulator.studies import search
from fedmule.simulator.studies.batch import Failure, Outcome
from fedmule.simulator.studies.index import run_folder, write_study
from fedmule.simulator.studies.plan import Plan, Point

SMALL = """
[terrain]
size_m = [200, 200]
obstacles = [{ polygon = [[80, 0], [120, 0], [120, 100], [80, 100]] }]
[vehicle]
start = [20, 50]
[clients]
count = 4
mobility = "static"
[learning]
dataset = { kind = "synthetic", samples = [20, 40] }
evaluate_every = 2
[stop]
visits = 3
"""

GAIN = "gain_over_alone"
SPEED = ["--by", "vehicle.speed_mps=1..20"]


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tiny.toml").write_text(SMALL)


class Gains:
    """Stands in for runs: a study whose gain, in points, is a function of scenario and seed; remembers what it ran."""

    def __init__(self, function: Callable[[Scenario], float | None]) -> None:
        self.function = function
        self.ran: list[tuple[float, int]] = []

    def run_plan(self, plan: Plan, out: Path, *, only: Iterable[Point], **how: Any) -> Outcome:
        asked, rows, failures = list(only), [], []
        for point in plan.points:
            gain = self.function(point.scenario)
            if point in asked:
                self.ran.append((point.scenario.vehicle.speed_mps, point.scenario.seed))
                if gain is None:
                    failures.append(Failure(point, "the engine broke down"))
            status = {"status": "done" if gain is not None else "failed", "error": None}
            names = {"scenario": point.source, "seed": point.scenario.seed, "replication": point.replication}
            result = {GAIN: None if gain is None else gain / 100}
            rows.append(
                {"run": f"runs/{run_folder(out, point.scenario).name}", **names, **point.parameters, **status, **result}
            )
        index = pd.DataFrame(rows)
        write_study(out, plan.study, index)
        return Outcome(index, failures)


@pytest.fixture
def gains(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[Scenario], float | None]], Gains]:
    def install(function: Callable[[Scenario], float | None]) -> Gains:
        made = Gains(function)
        monkeypatch.setattr(search, "run_plan", made.run_plan)
        return made

    return install


def answer_of(capsys: pytest.CaptureFixture[str], *options: str) -> str:
    assert main(["find", "smoke", *SPEED, *options]) == 0
    return capsys.readouterr().out


# --- answers ------------------------------------------------------------------------------------------------------


def test_the_smallest_speed_is_found(gains: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = gains(lambda s: s.vehicle.speed_mps - 1.2 + 0.5 * (s.seed - 2))
    assert main(["find", "smoke", "--by", "vehicle.speed_mps=1..20", "--gain", "5"]) == 0
    out, err = capsys.readouterr()
    assert out == (
        "vehicle.speed_mps: 6.4 is the smallest value found with a gain of at least 5 points over training alone "
        "(5.2 ± 1.0 over 5 seeds at 6.4; 4.6 ± 1.0 at 5.8); the answer lies between 1 and 8.2 with 95 % confidence.\n"
    )
    assert err.splitlines() == [
        "vehicle.speed_mps=1..20, to within 0.95, 5 seeds for each value → studies/smoke-vehicle.speed_mps",
        "         1  -0.2 ± 1.0 points     below",
        "        20  18.8 ± 1.0 points     reaches it",
        "      10.5  9.3 ± 1.0 points      reaches it",
        "       5.8  4.6 ± 1.0 points      below, within the noise",
        "       8.2  7.0 ± 1.0 points      reaches it",
        "         7  5.8 ± 1.0 points      reaches it, within the noise",
        "       6.4  5.2 ± 1.0 points      reaches it, within the noise",
        "written to studies/smoke-vehicle.speed_mps/find.json and studies/smoke-vehicle.speed_mps/figures/find.png",
    ]
    assert made.ran[:10] == [(speed, seed) for speed in (1, 20) for seed in range(5)]  # the same seeds for each value
    assert len(made.ran) == 7 * 5

    folder = tmp_path / "studies/smoke-vehicle.speed_mps"
    study = load_study(folder)
    assert study.values("vehicle.speed_mps") == [1, 5.8, 6.4, 7, 8.2, 10.5, 20]
    assert study.study["title"] == "vehicle.speed_mps for a gain of at least 5 points over training alone"
    found = json.loads((folder / "find.json").read_text())
    assert [tried["value"] for tried in found["tried"]] == [1, 20, 10.5, 5.8, 8.2, 7, 6.4]
    assert found["tried"][2]["results"] == pytest.approx([0.083, 0.088, 0.093, 0.098, 0.103])
    assert (found["answer"]["value"], found["answer"]["interval"]) == (6.4, [1.0, 8.2])
    assert found["answer"]["text"] == out.strip()
    assert (folder / "figures/find.png").stat().st_size > 5000


@pytest.mark.parametrize(
    ("gain", "words"),
    [
        (
            lambda s: 3 + s.vehicle.speed_mps / 100 + s.seed / 10,
            "there is none from 1 to 20 with a gain of at least 5 points over training alone: the best reached is "
            "3.4 ± 0.2 over 5 seeds, at 20.",
        ),
        (
            lambda s: 4.9 + 2 * (s.seed - 2),
            "the best reached is 4.9 ± 3.9 over 5 seeds, at 1, an interval that includes the target.",
        ),
        (
            lambda s: 6 + s.vehicle.speed_mps,
            "already the smallest value of the range, 1, has a gain of at least 5 points over training alone "
            "(7.0 ± 0.0 over 5 seeds).",
        ),
        (
            lambda s: 40 - s.vehicle.speed_mps,
            "even the largest value of the range, 20, has a gain of at least 5 points",
        ),
        (
            lambda s: 12 - s.vehicle.speed_mps,
            "7 is the largest value found with a gain of at least 5 points over training alone (5.0 ± 0.0 over 5 seeds "
            "at 7; 4.4 ± 0.0 at 7.6); the answer lies between 7 and 7.6 with 95 % confidence.",
        ),
        (
            lambda s: 9 - abs(s.vehicle.speed_mps - 10),
            "6.4 is the smallest value found with a gain of at least 5 points over training alone (5.4 ± 0.0 over 5 "
            "seeds at 6.4; 4.8 ± 0.0 at 5.8); the answer lies between 5.8 and 6.4 with 95 % confidence. It does not "
            "rise all the way: -1.0 ± 0.0 at 20, below the target again.",
        ),
        (
            lambda s: s.vehicle.speed_mps + (25 if s.vehicle.speed_mps == 10.5 else 0),
            "It is not monotone: 35.5 ± 0.0 at 10.5, but 20.0 ± 0.0 at 20; the target may be crossed more than once.",
        ),
        (
            lambda s: s.vehicle.speed_mps - 1.2 + 9 * (s.seed - 2),
            "these seeds are too few to bound the answer within the range.",
        ),
        (
            lambda s: s.vehicle.speed_mps - 1.2 + 4 * (s.seed - 2),
            "the answer lies below 20 with 95 % confidence; more seeds would bound it from below.",
        ),
    ],
)
def test_other_answers(
    gains: Any, capsys: pytest.CaptureFixture[str], gain: Callable[[Scenario], float], words: str
) -> None:
    gains(gain)
    assert words in answer_of(capsys, "--gain", "5", "--quiet")


def test_one_seed(gains: Any, capsys: pytest.CaptureFixture[str]) -> None:
    gains(lambda s: s.vehicle.speed_mps - 1.2)
    words = "(5.2 with one seed at 6.4; 4.6 at 5.8); one seed gives no interval: use five or more."
    assert words in answer_of(capsys, "--gain", "5", "--seeds", "1")


def test_steps_and_tolerances(gains: Any, capsys: pytest.CaptureFixture[str]) -> None:
    made = gains(lambda s: s.vehicle.speed_mps)
    assert main(["find", "smoke", "--by", "vehicle.speed_mps=1..20:3", "--gain", "5", "--seeds", "2"]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("vehicle.speed_mps: 7 is the smallest")
    assert "among 7 values" in err
    assert {speed for speed, _ in made.ran} <= {1, 4, 7, 10, 13, 16, 19}
    assert answer_of(capsys, "--gain", "5", "--tolerance", "8").startswith("vehicle.speed_mps: 5.8 is")
    assert answer_of(capsys, "--at-least", "0.05").startswith("vehicle.speed_mps: 5.2 is")  # the quantity's own unit


# --- runs ---------------------------------------------------------------------------------------------------------


def test_a_search_of_whole_numbers_runs_and_continues(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A run has as many visits as stop.visits says, so the answer is known."""
    options = ["--quantity", "visits", "--at-least", "3.5", "--seeds", "2", "--jobs", "1", "--out", "f"]
    assert main(["find", "tiny.toml", "--by", "stop.visits=1..5", *options, "--quiet"]) == 0
    out, err = capsys.readouterr()
    assert out == (
        "stop.visits: 4 is the smallest value found with visits of at least 3.5 (4 ± 0 over 2 seeds at 4; 3 ± 0 at 3); "
        "the answer lies between 3 and 4 with 95 % confidence.\n"
    )
    assert err == ""
    study = load_study("f")
    assert list(study.index["stop.visits"]) == [1, 1, 3, 3, 4, 4, 5, 5]
    assert set(study.index["status"]) == {"done"}
    assert pd.api.types.is_integer_dtype(study.index["stop.visits"])
    written = {run: Path("f", run, "summary.json").stat().st_mtime_ns for run in study.index["run"]}
    before = Path("f/find.json").read_bytes()
    assert main(["find", "tiny.toml", "--by", "stop.visits=1..5", *options, "--quiet"]) == 0
    assert capsys.readouterr().out == out
    assert Path("f/find.json").read_bytes() == before
    assert {run: Path("f", run, "summary.json").stat().st_mtime_ns for run in study.index["run"]} == written
    content = content_of(Path("f"))
    assert [item.name for item in content.items] == ["find", "effect", "accuracy"]
    assert content.findings[0] == out.strip().replace("stop.visits", "Stop visits", 1)


def test_from_python_where_the_quantity_falls() -> None:
    """Three visits cost driving time in inverse proportion to speed."""
    found = fedmule.find(
        "tiny.toml", "vehicle.speed_mps=1..9:2", quantity="travel_s", at_least=40.0, seeds=2, jobs=1,
        set={"learning.evaluate_every": 3},
    )  # fmt: skip
    study = load_study(found.folder)
    assert found.folder == Path("studies/tiny-vehicle.speed_mps")
    travel = study.index.groupby("vehicle.speed_mps")["travel_s"].mean()
    assert found.value == max(speed for speed in travel.index if travel[speed] >= 40)
    assert list(found.table["value"]) == list(travel.index)
    assert list(found.table["mean"]) == pytest.approx(list(travel))
    assert "is the largest value found with driving time of at least 40 s" in str(found)
    assert found.outcome == "found"
    with pytest.raises(UserError, match="either a gain in points is needed, or at least how much"):
        fedmule.find("tiny.toml", "vehicle.speed_mps=1..9")


def test_runs_that_fail_end_the_search(capsys: pytest.CaptureFixture[str]) -> None:
    """The middle of the range lies in the obstacle."""
    command = ["find", "tiny.toml", "--by", "vehicle.start.0=20..180", "--quantity", "visits", "--at-least", "9"]
    assert main([*command, "--seeds", "1", "--jobs", "1"]) == 1
    out, err = capsys.readouterr()
    assert out == "vehicle.start.0: cannot decide at 100: 1 of 1 runs gave no visits.\n"
    assert "1 run failed: vehicle.start = [100.0, 50.0]: lies in an obstacle that stops movement" in err
    index = load_study("studies/tiny-vehicle.start.0").index
    assert list(index["status"]) == ["done", "failed", "done"]
    assert json.loads(Path("studies/tiny-vehicle.start.0/find.json").read_text())["answer"]["outcome"] == "undecided"


def test_a_failure_keeps_what_is_known(gains: Any, capsys: pytest.CaptureFixture[str]) -> None:
    gains(lambda s: None if s.vehicle.speed_mps == 5.8 and s.seed == 1 else s.vehicle.speed_mps)
    assert main(["find", "smoke", *SPEED, "--gain", "5"]) == 1
    out, err = capsys.readouterr()
    assert out == (
        "vehicle.speed_mps: cannot decide at 5.8: 1 of 5 runs gave no gain_over_alone; by the runs before, the answer "
        "lies between 1 and 10.5.\n"
    )
    assert "1 run failed: the engine broke down" in err
    with pytest.warns(UserWarning, match="1 of 20 runs failed; the first error: the engine broke down"):
        assert fedmule.find("smoke", SPEED[1], gain=5).value is None


def test_values_that_the_scenario_refuses_are_named_and_nothing_is_lost(
    gains: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(scenario: Scenario) -> list[Problem]:
        speed = scenario.vehicle.speed_mps
        return [Problem("vehicle.speed_mps", "is not allowed here", speed)] if 5 < speed < 6 else []

    gains(lambda s: s.vehicle.speed_mps)
    monkeypatch.setattr("fedmule.simulator.scenario.load.broken_rules", refuse)
    assert main(["find", "smoke", *SPEED, "--gain", "5", "--quiet"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err == "vehicle.speed_mps = 5.8: is not allowed here (where vehicle.speed_mps=5.8)\n"
    found = json.loads(Path("studies/smoke-vehicle.speed_mps/find.json").read_text())
    assert [tried["value"] for tried in found["tried"]] == [1, 20, 10.5]
    assert found["answer"] is None
    assert len(load_study("studies/smoke-vehicle.speed_mps").done) == 15


def test_an_interrupted_search_continues(
    gains: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(scenario: Scenario) -> float:
        if scenario.vehicle.speed_mps == 8.2:
            raise KeyboardInterrupt
        return scenario.vehicle.speed_mps

    gains(interrupted)
    assert main(["find", "smoke", *SPEED, "--gain", "6", "--out", "a", "--quiet"]) == 130
    assert len(json.loads(Path("a/find.json").read_text())["tried"]) == 4
    gains(lambda s: s.vehicle.speed_mps)
    for folder in ("a", "b"):
        assert main(["find", "smoke", *SPEED, "--gain", "6", "--out", folder, "--quiet"]) == 0
    assert Path("a/find.json").read_bytes() == Path("b/find.json").read_bytes()


# --- what is refused ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--by", "vehicle.sped_mps=1..20"], "vehicle.sped_mps = 1: unknown key; did you mean speed_mps?"),
        (["--by", "vehicle.walk=1..20"], "--by vehicle.walk=1..20: vehicle.walk is not a number, but degree"),
        (["--by", "vehicle=1..20"], "vehicle is not a number, but a table"),
        (["--by", "terrain.size_m=1..20"], "terrain.size_m is not a number, but a list"),
        (["--by", "learning.evaluate_contacts=0..1"], "learning.evaluate_contacts is not a number, but true"),
        (["--by", "vehicle.speed_mps=20..1"], "must go from low to high: vehicle.speed_mps=1..20"),
        (["--by", "vehicle.speed_mps=5..5"], "--by vehicle.speed_mps=5..5: there is nothing to search between"),
        (["--by", "vehicle.speed_mps=1..5:9"], "there is nothing to search between 1 and 1"),
        (["--by", "vehicle.speed_mps=1..5:0"], "--by vehicle.speed_mps"),
        (["--by", "vehicle.speed_mps="], "--by vehicle.speed_mps=: must be KEY=a..b"),
        (["--by", "vehicle.speed_mps=nan..5"], "--by vehicle.speed_mps=nan..5: must be KEY=a..b"),
        (["--by", "vehicle.speed_mps=1..1e999"], "there is nothing to search between 1 and inf"),
        (["--by", "vehicle.speed_mps=1,5"], "--by vehicle.speed_mps=1,5: must be KEY=a..b"),
        (["--by", "vehicle.count=0..3"], "--by vehicle.count=0..3: vehicle.count = 0: must be at least 1"),
        (["--by", "vehicle.count=1..3.5"], "vehicle.count = 3.5: must be a whole number"),
        (["--by", "vehicle.speed_mps=-3..3"], "vehicle.speed_mps = -3: must be greater than 0"),
        (["--by", "seed=0..3"], "seed: cannot be varied like other keys"),
        ([*SPEED, "--by", "radio.range_m=1..3"], "--by radio.range_m=1..3: only one key can be searched"),
        ([*SPEED, "--set", "vehicle.speed_mps=3"], "vehicle.speed_mps is set to 3 too"),
        ([*SPEED, "--set", "clients.count=0"], "--set: clients.count = 0: must be at least 1"),
        ([*SPEED, "--quantity", "visits"], "--quantity visits: --gain is for gain_over_alone"),
    ],
)
def test_questions_that_make_no_sense_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], words: str
) -> None:
    assert main(["find", "tiny.toml", *options, "--gain", "5"]) == 2
    assert words in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["tiny.toml"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--gain", "many"], "argument --gain: many: must be a number"),
        (["--gain", "nan"], "argument --gain: nan: must be a number"),
        (["--gain", "5", "--at-least", "5"], "not allowed with argument"),
        ([], "one of the arguments --gain --at-least is required"),
        (["--gain", "5", "--tolerance", "0"], "argument --tolerance: 0: must be greater than 0"),
        (["--gain", "5", "--seeds", "0"], "argument --seeds: 0: must be a whole number, 1 or more"),
    ],
)
def test_bad_options_are_refused(capsys: pytest.CaptureFixture[str], options: list[str], words: str) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["find", "tiny.toml", *SPEED, *options])
    assert ended.value.code == 2
    assert words in capsys.readouterr().err


def test_unknown_quantities_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["find", "tiny.toml", *SPEED, "--quantity", "visit", "--at-least", "3"]) == 2
    assert "--quantity visit: must be a number of a run's summary; did you mean visits?" in capsys.readouterr().err
    assert main(["find", "tiny.toml", *SPEED, "--quantity", "stopped_by", "--at-least", "3"]) == 2
    assert "--quantity stopped_by: must be a number of a run's summary; one of" in capsys.readouterr().err
