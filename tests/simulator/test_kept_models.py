"""What a run has learnt is kept, read back without executing anything, and predicts as it did in the run."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from fedmule.simulator import api
from fedmule.simulator.cli import main
from fedmule.simulator.engine import Simulation
from fedmule.simulator.errors import UserError
from fedmule.simulator.runs import models
from fedmule.simulator.scenario.load import load_scenario

SHORT = {"stop.visits": 12, "learning.evaluate_every": 6, "log.track": False}
NET = """
import torch
class Net(torch.nn.Module):
    def __init__(self, features, classes, shape, width=6):
        super().__init__()
        self.first = torch.nn.Conv2d(1, width, 3)
        self.last = torch.nn.Linear(width * 36, classes)
    def forward(self, x):
        return self.last(torch.relu(self.first(x)).flatten(1))
"""


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))


def data_of(run: Any, plugins: dict[str, Any] | None = None) -> Any:
    """The clients' data, with features as they were before they were scaled."""
    scale = json.loads((run.folder / "models/model.json").read_text())["scale"]
    data = Simulation(load_scenario(str(run.folder)), plugins).learner.algorithm.data
    return data, data.features * scale


def read_back(run: Any, plugins: dict[str, Any] | None = None, **which: Any) -> np.ndarray:
    """Accuracy [n] of the models read back on each client's test data."""
    data, features = data_of(run, plugins)
    accuracy = []
    for client in range(data.clients):
        rows = slice(data.test_first[client], data.first[client + 1])
        scores = run.model(client=client, **which)(features[rows])
        accuracy.append(float((scores.argmax(dim=1) == data.labels[rows]).double().mean()))
    return np.array(accuracy)


def last_accuracies(run: Any) -> np.ndarray:
    rows = run.clients[run.clients["contact"] == run.clients["contact"].max()]
    return rows.sort_values("client")["test_acc"].to_numpy()


@pytest.mark.parametrize(
    "keys",
    [
        {},
        {"learning.model": "mlp"},
        {"learning.dataset": "digits", "learning.prior": True, "learning.model": {"kind": "mlp", "hidden": [20]}},
        {"learning.dataset": "sonar", "learning.algorithm": "ditto"},
        {"learning.algorithm": "ifca"},
        {"learning.algorithm": {"kind": "rwsadmm", "token": "neighbourhood"}},
        {"vehicle.count": 2, "learning.algorithm": {"kind": "rwsadmm", "variant": "slack"}},
        {"clients.training": "between_contacts"},
    ],
    ids=["mlr", "mlp", "digits, prior", "sonar, ditto", "ifca", "neighbourhood", "two vehicles", "between"],
)
def test_models_read_back_are_as_accurate_as_in_the_run(keys: dict[str, Any]) -> None:
    run = api.run("smoke", {**SHORT, **keys})
    np.testing.assert_allclose(read_back(run), last_accuracies(run), atol=1e-12)
    assert read_back(run, token=True).mean() == pytest.approx(run.summary["token_test_acc"], abs=1e-9)
    assert not (run.folder / "models.partial").exists()


def test_a_module_of_your_own_needs_to_be_allowed() -> None:
    Path("nets.py").write_text(NET)
    keys = {**SHORT, "learning.dataset": "digits", "learning.model": {"kind": "nets:Net", "width": 4}}
    run = api.run("smoke", keys, allow_plugins=True)
    with pytest.raises(UserError, match="allow-plugins"):
        run.model(client=0)
    plugins = {"learning.model": __import__("nets").Net}
    np.testing.assert_allclose(read_back(run, plugins, allow_plugins=True), last_accuracies(run), atol=1e-12)
    model = run.model(allow_plugins=True)
    assert {name for name, _ in model.network.named_parameters()} == {
        "first.weight", "first.bias", "last.weight", "last.bias"
    }  # fmt: skip


def test_predictions_for_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    generator = np.random.default_rng(0)
    heat = generator.normal(size=200)
    species = np.where(heat > 0, "elk", "deer")
    table = pd.DataFrame({"heat": heat, "noise": generator.normal(size=200), "label": species})
    table["client"] = np.arange(200) % 8
    table.to_csv("herd.csv", index=False)
    keys = {
        "learning.dataset": {"kind": "file", "path": str(Path("herd.csv").resolve())},
        "clients.count": 8,
        "learning.step_size": 0.5,
    }
    run = api.run("smoke", {**SHORT, "stop.visits": 60, **keys}, out="r")
    new = pd.DataFrame({"place": ["a", "b"], "noise": [0.0, 0.0], "heat": [0.3, -0.3], "label": ["elk", "elk"]})
    new.to_csv("new.csv", index=False)
    assert main(["predict", "r", "new.csv", "--client", "3"]) == 0
    assert "50.0 % agree with the column label" in capsys.readouterr().out
    found = pd.read_csv("new-predicted.csv")
    assert list(found.columns) == ["place", "label", "predicted", "probability"]
    assert list(found["predicted"]) == ["elk", "deer"]
    scores = run.model(client=3)(torch.tensor([[0.3, 0.0], [-0.3, 0.0]]))
    np.testing.assert_allclose(found["probability"], torch.softmax(scores, 1).amax(1).detach(), rtol=1e-5)
    assert main(["predict", "r", "new.csv", "--out", "token.csv"]) == 0
    assert not pd.read_csv("token.csv")["probability"].equals(found["probability"])


@pytest.fixture
def kept() -> Path:
    return api.run("smoke", {**SHORT, "learning.dataset": "sonar"}, out="kept").folder


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["kept", "nothing.csv"], "no such file"),
        (["kept", "other.csv"], "has no column 'band_"),
        (["kept", "text.csv"], "row 1, column 'band_"),
        (["kept", "good.csv", "--client", "99"], "has no client 99; clients are 0 to 11"),
        (["kept", "good.csv", "--out", "good.csv"], "would overwrite the samples"),
        (["none", "good.csv"], "holds no models"),
    ],
)
def test_what_cannot_be_predicted_is_explained(
    kept: Path, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    names = json.loads((kept / "models/model.json").read_text())["feature_names"]
    good = pd.DataFrame(np.zeros((2, 60)), columns=names)
    good.to_csv("good.csv", index=False)
    good.drop(columns=names[7]).to_csv("other.csv", index=False)
    good.astype(object).assign(**{names[5]: [0.0, "loud"]}).to_csv("text.csv", index=False)
    before = Path("good.csv").read_bytes()
    assert main(["predict", *arguments]) == 2
    assert message in capsys.readouterr().err
    assert Path("good.csv").read_bytes() == before
    assert not list(Path().glob("*-predicted.csv"))


def test_a_folder_that_is_broken_or_of_another_program(kept: Path) -> None:
    sheet = kept / "models/model.json"
    good = json.loads(sheet.read_text())
    for text, message in (
        ("{", "cannot be read"),
        (json.dumps({"name": "theirs"}), "is not the models of a Fedmule run"),
        (json.dumps({**good, "format": 99}), "a version that this one does not know"),
        (json.dumps({**good, "clients": "many"}), "do not fit together"),
        (json.dumps({**good, "more": 1}), "other entries"),
        (json.dumps({**good, "model": {"kind": "os:system"}}), "allow-plugins"),
        (json.dumps({**good, "model": {"kind": "mlp"}}), "other parameters"),
        (json.dumps({**good, "features": 59, "feature_names": good["feature_names"][1:]}), "has the shape"),
    ):
        sheet.write_text(text)
        with pytest.raises(UserError, match=message):
            models.load_model(kept, 0)
    sheet.write_text(json.dumps(good))
    for name in ("clients.safetensors", "tokens.safetensors"):
        file = kept / "models" / name
        file.write_bytes(file.read_bytes()[:40])
        with pytest.raises(UserError, match=f"{name}: cannot be read"):
            models.load_model(kept, 0, token=name.startswith("tokens"))


def test_models_are_kept_where_they_are_small_or_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    def has_models(**keys: Any) -> bool:
        return (api.run("smoke", {**SHORT, **keys}).folder / "models").exists()

    assert has_models()
    assert not has_models(**{"log.models": False})
    monkeypatch.setattr(models, "SMALL", 1000)
    assert not has_models()
    assert has_models(**{"log.models": True})


def test_studies_keep_models_only_if_asked() -> None:
    for wanted, out in ((None, "a"), (True, "b")):
        changes = {**SHORT, **({} if wanted is None else {"log.models": wanted})}
        study = api.study("smoke", {"vehicle.speed_mps": [5]}, seeds=1, set=changes, out=out, jobs=1)
        assert len(list(study.folder.glob("runs/*/models"))) == (wanted is True)


def test_the_same_seed_keeps_the_same_models() -> None:
    first, again = (api.run("smoke", SHORT, out=out).folder for out in ("one", "two"))
    for name in ("model.json", "clients.safetensors", "tokens.safetensors"):
        assert (first / "models" / name).read_bytes() == (again / "models" / name).read_bytes()
    shutil.rmtree(first)
