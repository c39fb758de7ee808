"""Plugin classes that a scenario names and that are found in the user's folder."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from fedmule.analysis import load_run
from fedmule.analysis.theory import as_text, theory
from fedmule.simulator.cli import main

MODULE = """
import numpy as np
import torch
from fedmule.learning.algorithms.base import Update
from fedmule.learning.algorithms.fedavg import FedAvg
from fedmule.learning.models.logistic import MLR
from fedmule import Samples
from fedmule.mobility.models.movement import Movement
from fedmule.radio.link import Ladder, Radio
from fedmule.radio.walks.policy import Policy


class Backwards(Policy):
    # To the client with the next lower number.

    def __init__(self, graph, wrong=False):
        super().__init__(graph)
        self.wrong = wrong

    def next(self, here, draws):
        if self.wrong:
            return len(self.graph.members)
        lower = self.graph.reachable[self.graph.reachable < (here.client or 0)]
        return int((lower if lower.size else self.graph.reachable)[-1])


class Row(Movement):
    def __init__(self, terrain, count, draw, gap_m):
        self.positions = np.stack([10 + gap_m * np.arange(count), np.full(count, 10.0)], axis=1)

    def start(self):
        return self.positions


class Whisper(Radio):
    def __init__(self, metres=20.0):
        self.metres = metres

    def ladder(self, loss_db):
        return Ladder(np.array([self.metres]), np.array([1e6]))


class Lazy(FedAvg):
    def __init__(self, *, share=1.0, **parts):
        super().__init__(**parts)
        self.share = share

    def update(self, contact):
        old = self.token
        update = super().update(contact)
        self.token = old + self.share * (self.token - old)
        return update


class Doubled(MLR):
    pass


class Net(torch.nn.Module):
    def __init__(self, features, classes, width=8, norm=False):
        super().__init__()
        self.body = torch.nn.Sequential(torch.nn.Linear(features, width), torch.nn.ReLU())
        self.norm = torch.nn.BatchNorm1d(width) if norm else torch.nn.Identity()
        self.head = torch.nn.Linear(width, classes)

    def forward(self, x):
        return self.head(self.norm(self.body(x)))


def easy(clients, generator, level):
    owner = np.repeat(np.arange(clients), 25)
    points = generator.normal(level, 1, (len(owner), 60))
    return Samples(points, (points[:, 0] > level).astype(int), classes=2, owner=owner)
"""

SCENARIO = """
[clients]
count = 6
mobility = { kind = "own_parts_of_mine:Row", gap_m = 15.0 }
[radio]
kind = "own_parts_of_mine:Whisper"
metres = 25.0
[learning]
algorithm = { kind = "own_parts_of_mine:Lazy", share = 0.5 }
model = "own_parts_of_mine:Doubled"
dataset = { kind = "own_parts_of_mine:easy", level = 0.1 }
[stop]
visits = 8
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "own_parts_of_mine.py").write_text(MODULE)
    (tmp_path / "mine.toml").write_text(SCENARIO)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "own_parts_of_mine", raising=False)
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    sys.modules.pop("own_parts_of_mine", None)


def test_every_part_can_be_a_plugin(folder: Path) -> None:
    assert main(["run", "mine.toml", "--allow-plugins", "--quiet", "--out", "run"]) == 0
    run = load_run("run")
    start = run.track[(run.track["node"] == "client")].groupby("id").first()
    assert list(start["x_m"]) == [10 + 15.0 * i for i in range(6)]
    vehicle = run.contacts[["vehicle_x_m", "vehicle_y_m"]].to_numpy()
    distances_m = np.hypot(*(vehicle[:, None] - start[["x_m", "y_m"]].to_numpy()).transpose(2, 0, 1))
    assert list(run.contacts["neighbours"]) == list((distances_m <= 25).sum(1))
    assert run.contacts["neighbours"].max() == 4  # 15 m apart, and the vehicle stops between them
    assert run.scenario["learning"]["algorithm"] == {"kind": "own_parts_of_mine:Lazy", "share": 0.5}
    assert run.summary["algorithm"] == "own_parts_of_mine:Lazy"


def test_a_plugin_module(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    net = 'learning.model={ kind = "own_parts_of_mine:Net", width = 12 }'
    arguments = ["run", "mine.toml", "--allow-plugins", "--quiet", "--set", net]
    assert main([*arguments, "--out", "a"]) == 0
    torch.manual_seed(5)
    assert main([*arguments, "--out", "b"]) == 0
    a, b = (load_run(name).contacts.drop(columns="host_time_s") for name in ("a", "b"))
    assert a.equals(b)
    assert a["bytes_down"].max() == 4 * (60 * 12 + 12 + 12 * 2 + 2)
    assert main([*arguments, "--set", "learning.model.norm=true"]) == 2
    assert "norm.running_mean" in capsys.readouterr().err


def test_a_plugin_walk(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["run", "mine.toml", "--allow-plugins", "--quiet", "--set"]
    assert main([*arguments, "vehicle.walk=own_parts_of_mine:Backwards", "--out", "run"]) == 0
    run = load_run("run")
    assert list(run.visits["client"]) == [5, 4, 3, 2, 1, 0, 5, 4]
    assert run.scenario["vehicle"]["walk"] == "own_parts_of_mine:Backwards"
    text = as_text(theory(run))
    assert "No P(k): vehicle.walk = own_parts_of_mine:Backwards is not a Markov chain on the contact graph" in text
    assert main([*arguments, 'vehicle.walk={ kind = "own_parts_of_mine:Backwards", wrong = true }']) == 2
    assert 'vehicle.walk.kind = "6": must choose one of graph.reachable' in capsys.readouterr().err
    assert main(["run", "mine.toml", "--set", "vehicle.walk=own_parts_of_mine:Backwards"]) == 2
    assert 'vehicle.walk.kind = "own_parts_of_mine:Backwards"' in capsys.readouterr().err


def test_nothing_is_imported_unless_allowed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "own_parts_of_mine.py").write_text("raise SystemExit('this must not run')")
    assert main(["run", "mine.toml", "--out", "run"]) == 2
    errors = capsys.readouterr().err
    assert errors.count("add --allow-plugins") == 5
    assert main(["check", "mine.toml"]) == 0
    assert "own_parts_of_mine" not in sys.modules
    assert not (folder / "run").exists()


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("own_parts_of_mine:Nobody", 'radio.kind = "own_parts_of_mine:Nobody": cannot be imported'),
        ("no_such_module:X", "cannot be imported: ModuleNotFoundError"),
        ("own_parts_of_mine:Row", "radio.gap_m: is missing, and has no default"),
    ],
)
def test_own_classes_that_do_not_work(
    folder: Path, capsys: pytest.CaptureFixture[str], kind: str, message: str
) -> None:
    assert main(["run", "mine.toml", "--allow-plugins", "--set", f'radio.kind="{kind}"']) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("clients.mobility.gap=2", "clients.mobility.gap = 2: unknown key; did you mean gap_m?"),
        ("learning.model={ kind = 'own_parts_of_mine:Net', width = -1 }", "cannot be made"),
        ("learning.algorithm={ kind = 'own_parts_of_mine:Doubled', features = 1, classes = 2 }", "must be a subclass"),
    ],
)
def test_check_tries_what_classes_are_given(
    folder: Path, capsys: pytest.CaptureFixture[str], change: str, said: str
) -> None:
    assert main(["check", "mine.toml", "--allow-plugins"]) == 0
    assert main(["check", "mine.toml", "--allow-plugins", "--set", change]) == 2
    assert said in capsys.readouterr().err
    assert sorted(path.name for path in folder.iterdir() if path.name != "__pycache__") == [
        "mine.toml",
        "own_parts_of_mine.py",
    ]
