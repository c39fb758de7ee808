"""Running from Python: the same as the command line, and classes given as they are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from short_runs import same

import fedmule
from fedmule.analysis import load_run, load_study
from fedmule.mobility.models.movement import Movement
from fedmule.simulator.cli import main
from fedmule.simulator.errors import UserError

FEW = {"stop.visits": 6, "clients.count": 4, "learning.evaluate_every": 3}


class Row(Movement):
    """Clients in a row."""

    def __init__(self, terrain: Any, count: int, draw: Any, gap_m: float = 10.0) -> None:
        self.positions = np.stack([20 + gap_m * np.arange(count), np.full(count, 50.0)], axis=1)

    def start(self) -> Any:
        return self.positions


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_simulate_is_fedmule_run(tmp_path: Path) -> None:
    found = fedmule.run("smoke", FEW, seed=3)
    assert found.folder == Path("runs/smoke")
    options = [f"--set={key}={value}" for key, value in FEW.items()]
    assert main(["run", "smoke", *options, "--seed", "3", "--quiet", "--out", "other"]) == 0
    same(found.contacts, load_run("other").contacts)
    same(load_run(found).contacts, found.contacts)  # a run is as good as its folder


def test_a_scenario_may_be_a_dict_with_classes_in_it() -> None:
    tables = {"clients": {"count": 4, "mobility": {"kind": Row, "gap_m": 30.0}}, "stop": {"visits": 4}}
    run = fedmule.run(tables, seed=1, out="mine")
    assert run.scenario["seed"] == 1
    assert run.scenario["clients"]["mobility"]["kind"] == "test_python_api:Row"
    positions = run.track[run.track["node"] == "client"].drop_duplicates("id").sort_values("id")
    assert list(positions["x_m"]) == [20, 50, 80, 110]
    changed = fedmule.run("smoke", {**FEW, "clients.mobility": Row})
    assert changed.scenario["clients"]["mobility"] == "test_python_api:Row"


def test_classes_given_by_name_need_permission() -> None:
    named = {**FEW, "clients.mobility": "test_python_api:Row"}
    with pytest.raises(UserError, match="would run code that is not part of Fedmule"):
        fedmule.run("smoke", named)
    fedmule.run("smoke", named, allow_plugins=True)
    with pytest.raises(UserError, match=r"vehicle\.speed = 3.*did you mean"):
        fedmule.run("smoke", {"vehicle.speed": 3})


def test_a_study_warns_of_runs_that_fail(tmp_path: Path) -> None:
    (tmp_path / "data.csv").write_text("x,label\n1,0\n2,1\n")
    data = ["synthetic", {"kind": "file", "path": str(tmp_path / "data.csv")}]
    with pytest.warns(UserWarning, match="2 of 4 runs failed; the first error: "):
        study = fedmule.study("smoke", {"learning.dataset": data}, seeds=2, set=FEW, jobs=1)
    assert study.folder == Path("studies/smoke")
    assert load_study(study).index.equals(study.index)
    assert list(study.index["status"]) == ["done", "done", "failed", "failed"]
    assert list(study.done["seed"]) == [0, 1]
    assert set(study.done["clients"]) == {4}


def test_a_run_shows_itself_in_short(capsys: pytest.CaptureFixture[str]) -> None:
    run = fedmule.run("smoke", {**FEW, "name": "<b>bold</b>"}, out="r")
    assert capsys.readouterr().out == ""
    text = repr(run)
    assert "personal models" in text
    assert len(text) < 1000
    shown = run._repr_html_()
    assert "&lt;b&gt;bold" in shown
    assert "<b>" not in shown
    assert shown.count("data:image/png;base64,") == 1
    assert run.plot().axes
    assert run.replay() == Path("r/replay.html")
    assert "<html" in Path("r/replay.html").read_text()
    assert run.replay("here.html").exists()


def test_a_study_shows_itself_in_short() -> None:
    study = fedmule.study(
        "smoke", {"vehicle.speed_mps": [5, 10], "radio.range_m": "20..90:10"}, seeds=1, set=FEW, jobs=2
    )
    text = repr(study)
    assert text.startswith("studies/smoke: 16 runs, 16 done\nvehicle.speed_mps")
    assert len(text.splitlines()) == 2 + 1 + 16
    assert "data:image/png" in study._repr_html_()
    compared = fedmule.compare("smoke", seeds=1, set=FEW, jobs=2)
    assert list(compared.index["learning.algorithm"]) == ["local", "rwsadmm", "fedavg_ft"]
    assert compared.plot().axes
    assert compared.replay().exists()
