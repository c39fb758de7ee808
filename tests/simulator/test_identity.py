"""A run's identity: another program or other data make another run, and no table mixes the two."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import pytest

from fedmule.analysis import load_run, load_study
from fedmule.simulator.cli import main
from fedmule.simulator.runs import identity
from fedmule.simulator.runs.identity import (
    LIBRARIES,
    NO_RESULTS,
    PACKAGE,
    ROOMS,
    digest_of_file,
    identity_of,
    program_differences,
    program_on_disk,
)
from fedmule.simulator.scenario.load import load_scenario, scenario_of
from fedmule.simulator.studies.batch import run_plan
from fedmule.simulator.studies.plan import StudyFile, plan_study

ROOT = Path(__file__).parents[2]
TINY = """
[terrain]
size_m = [200, 200]
[clients]
count = 4
mobility = "static"
[learning]
algorithm = "fedavg"
dataset = { kind = "synthetic", samples = [20, 40] }
evaluate_every = 2
[stop]
visits = 4
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tiny.toml").write_text(TINY)
    return tmp_path


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the program, to be changed."""
    copy = tmp_path_factory.mktemp("program") / "fedmule"
    ignored = shutil.ignore_patterns("__pycache__", ".*", "tests", "docs")
    shutil.copytree(ROOT, copy, ignore=ignored)
    return copy


def study_by(program: Path, out: str, seeds: int) -> str:
    """Run a study with a program, in a separate process; returns what it printed to stderr."""
    command = [
        sys.executable,
        "-m",
        "fedmule",
        "study",
        "tiny.toml",
        "--seeds",
        str(seeds),
        "--jobs",
        "1",
        "--out",
        out,
    ]
    environment = {**os.environ, "PYTHONPATH": str(program.parent)}
    process = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600, check=True)
    return process.stderr


def results(out: str) -> pd.DataFrame:
    index = load_study(out).index
    return index.drop(columns=[name for name in index if str(name).startswith("host_")])


def test_a_changed_algorithm_runs_everything_again(here: Path, program: Path) -> None:
    study_by(program, "study", 1)
    before = results("study")
    with (program / "learning/algorithms/fedavg.py").open("a") as file:
        file.write("\n\ndef weighted_mean(x, samples):\n    return 0.5 * x.mean(dim=0)\n")
    err = study_by(program, "study", 2)
    study_by(program, "fresh", 2)
    pd.testing.assert_frame_equal(results("study"), results("fresh"), check_exact=True)
    assert results("study")["train_loss"][0] != before["train_loss"][0]
    assert "1 run is out of date and will be run again: the program has changed (learning)" in err


def test_changed_data_run_everything_again(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def write(sign: int) -> None:
        rows = [f"{i},{sign * (i % 7)},{i % 2}\n" for i in range(80)]
        (here / "data.csv").write_text("a,b,label\n" + "".join(rows))

    command = ["study", "tiny.toml", "--set", 'learning.dataset={kind="file", path="data.csv"}', "--jobs", "1"]
    write(1)
    assert main([*command, "--seeds", "1", "--out", "study"]) == 0
    write(-1)
    assert main([*command, "--seeds", "2", "--out", "fresh"]) == 0
    capsys.readouterr()
    assert main([*command, "--seeds", "2", "--out", "study"]) == 0
    pd.testing.assert_frame_equal(results("study"), results("fresh"), check_exact=True)
    assert f"run again: {here / 'data.csv'} has changed" in capsys.readouterr().err


def test_a_changed_module_of_your_own_runs_everything_again(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "corner_helper.py").write_text("SHARE = 0.5\n")
    (here / "corner.py").write_text(
        """
from fedmule.mobility.models.static import Static
from corner_helper import SHARE

class Corner(Static):
    def start(self):
        return SHARE * super().start()
"""
    )
    command = ["study", "tiny.toml", "--set", "clients.mobility=corner:Corner", "--allow-plugins", "--jobs", "1"]
    command += ["--seeds", "1", "--out", "study"]
    assert main(command) == 0
    files = load_run(next((here / "study/runs").iterdir())).manifest["identity"]["files"]
    assert set(files) == {str(here / "corner.py"), str(here / "corner_helper.py")}
    capsys.readouterr()
    (here / "corner_helper.py").write_text("SHARE = 0.25\n")
    assert main(command) == 0
    assert f"run again: {here / 'corner_helper.py'} has changed" in capsys.readouterr().err
    assert main(command) == 0
    assert "has changed" not in capsys.readouterr().err


# --- what belongs to an identity --------------------------------------------------------------------------------


def changed(program: Path, file: str) -> list[str]:
    """The parts of the program that count as changed if a line is added to one of its files."""
    before, path = program_on_disk(program), program / file
    text = path.read_text(encoding="utf-8")
    path.write_text(text + "\n# changed\n", encoding="utf-8")
    after = program_on_disk(program)
    path.write_text(text, encoding="utf-8")
    return [part for part in before if before[part] != after[part]]


@pytest.mark.parametrize(
    "file",
    [
        "simulator/engine.py",
        "simulator/runs/tables.py",
        "mobility/models/static.py",
        "radio/link.py",
        "learning/algorithms/ditto.py",
    ],
)
def test_what_can_affect_results_is_part_of_the_program(program: Path, file: str) -> None:
    assert changed(program, file) == [file.split("/")[0]]


@pytest.mark.parametrize(
    "file",
    [
        "README.md",
        "analysis/plots/curves.py",
        "analysis/replay/parts/study.js",
        "analysis/report/study_report.py",
        "scenarios/smoke.toml",
        "simulator/api.py",
        "simulator/commands/study.py",
        "simulator/runs/progress.py",
        "simulator/studies/batch.py",
    ],
)
def test_pages_plots_and_commands_are_not(program: Path, file: str) -> None:
    assert changed(program, file) == []


def test_a_new_module_and_a_removed_one_change_the_program(program: Path) -> None:
    before = program_on_disk(program)
    (program / "radio/new.py").touch()
    assert program_differences(before, program_on_disk(program)) == ["the program has changed (radio)"]
    (program / "radio/new.py").unlink()
    assert program_on_disk(program) == before


def test_the_program_has_all_its_rooms_and_libraries() -> None:
    assert set(program_on_disk()) == {*ROOMS, *LIBRARIES}
    assert "not installed" not in program_on_disk().values()
    assert all((PACKAGE / name).exists() for name in NO_RESULTS)
    now = program_on_disk()
    assert program_differences({**now, "torch": "1.0"}, now) == [f"torch was 1.0 and is now {now['torch']}"]


def test_image_sets_are_files_of_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEDMULE_DATA", str(tmp_path))
    scenario = load_scenario("paper/mnist_mlr")
    assert identity_of(scenario).files == {"mnist": None}
    (tmp_path / "mnist.npz").write_bytes(b"digits")
    assert identity_of(scenario).files == {"mnist": digest_of_file(tmp_path / "mnist.npz")}


def test_the_trace_of_a_scenario_that_ships_is_a_file_of_its_run() -> None:
    (trace,) = identity_of(load_scenario("city")).files
    assert trace.endswith("city_fleet.xml.gz")


def test_the_activity_file_beside_a_trace_is_a_file_of_its_run(tmp_path: Path) -> None:
    (tmp_path / "town.path").write_text("0 0 9 0 9 0 9\n0 0,1,1 9,2,2\n")
    raw = {"clients": {"count": 1, "mobility": {"kind": "trace", "path": "town.path"}}}
    assert set(identity_of(scenario_of(raw, (), "town", tmp_path)).files) == {str(tmp_path / "town.path")}
    (tmp_path / "town.act").write_text("0 3 5\n")
    files = identity_of(scenario_of(raw, (), "town", tmp_path)).files
    assert set(files) == {str(tmp_path / "town.path"), str(tmp_path / "town.act")}


def test_a_thousand_points_read_their_data_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = tmp_path / "data.csv"
    data.write_bytes(b"1,0\n" * 1_000_000)
    scenario = load_scenario("smoke", {"learning.dataset": {"kind": "file", "path": str(data)}})
    opened: list[Path] = []
    path_open = Path.open
    monkeypatch.setattr(Path, "open", lambda self, *mode: opened.append(self) or path_open(self, *mode))
    began_s = time.process_time()
    found = {identity_of(scenario.model_copy(update={"seed": seed})).scenario for seed in range(1000)}
    assert time.process_time() - began_s < 4.0  # a tenth of it on an idle machine
    assert len(found) == 1000
    assert opened.count(data) == 1


# --- runs that are out of date ----------------------------------------------------------------------------------


def test_a_run_of_an_older_version_is_run_again(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["study", "tiny.toml", "--seeds", "1", "--jobs", "1", "--out", "study"]
    assert main(command) == 0
    (folder,) = (here / "study/runs").iterdir()
    manifest = json.loads((folder / "manifest.json").read_text())
    del manifest["identity"]
    (folder / "manifest.json").write_text(json.dumps(manifest))
    (folder / "old").touch()
    capsys.readouterr()
    assert main(command) == 0
    assert "1 run is out of date and will be run again: it does not record" in capsys.readouterr().err
    assert not (folder / "old").exists()
    assert "identity" in load_run(folder).manifest
    assert [file.name for file in (here / "study/runs").iterdir()] == [folder.name]


def test_what_is_not_run_again_is_stale(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = plan_study(StudyFile(scenarios=("tiny.toml",), vary={"vehicle.speed_mps": (5, 10)}, seeds=1))
    assert set(run_plan(plan, here / "study", jobs=1).index["status"]) == {"done"}
    runs = sorted((here / "study/runs").iterdir())
    other = {**program_on_disk(), "learning": "other"}
    monkeypatch.setattr("fedmule.simulator.studies.batch.program_on_disk", lambda: other)
    capsys.readouterr()
    index = run_plan(plan, here / "study", only=[]).index
    assert list(index["status"]) == ["stale", "stale"]
    assert list(index["error"]) == ["the program has changed (learning)"] * 2
    assert "personal_test_acc_mean" not in index  # no result of another program
    assert "2 runs are out of date and not counted: the program has changed (learning)" in capsys.readouterr().err
    assert sorted((here / "study/runs").iterdir()) == runs  # nothing is removed before it is replaced
    outcome = run_plan(plan, here / "study", only=plan.points[:1], jobs=1)  # by a worker that has this program
    assert "another program or other data than expected" in outcome.failures[0].error
    assert list(outcome.index["status"]) == ["failed", "stale"]


# --- resuming -----------------------------------------------------------------------------------------------------


def test_a_run_of_another_program_is_not_resumed(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ["run", "tiny.toml", "--quiet"]
    assert main([*command, "--out", "run"]) == 0
    assert main(command) == 0
    unfinished = here / "runs/tiny/summary.json"
    unfinished.write_text(unfinished.read_text().replace('"finished": true', '"finished": false'))
    before = (here / "run/contacts.parquet").read_bytes()
    other = {**program_on_disk(), "radio": "other", "simpy": "3.0"}
    monkeypatch.setattr(identity, "this_program", lambda: other)
    installed = program_on_disk()["simpy"]
    for out in (["--out", "run"], []):
        assert main([*command, *out, "--resume"]) == 2
        folder = out[-1] if out else "runs/tiny"
        reason = f"the program has changed (radio); simpy was {installed} and is now 3.0"
        assert f"{folder}: cannot be resumed: {reason}" in capsys.readouterr().err
    assert (here / "run/contacts.parquet").read_bytes() == before
    assert main(command) == 0
    assert (here / "runs/tiny-2").exists()
