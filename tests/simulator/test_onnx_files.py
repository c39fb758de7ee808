"""ONNX files give the scores that the run's models give, by another program's arithmetic."""

from __future__ import annotations

import builtins
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnx.reference import ReferenceEvaluator

from fedmule.simulator import api
from fedmule.simulator.cli import main

SHORT = {"stop.visits": 6, "log.track": False}
NET = """
import torch
class Net(torch.nn.Module):
    def __init__(self, features, classes, shape, odd=False):
        super().__init__()
        self.first = torch.nn.Conv2d(1, 3, 3)
        self.last = torch.nn.Linear(108, classes)
        self.odd = odd
    def forward(self, x):
        found = self.last(torch.relu(self.first(x)).flatten(1))
        return found + torch.special.bessel_j0(found.detach()) if self.odd else found
"""


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))


@pytest.mark.parametrize(
    ("keys", "arguments", "which"),
    [
        ({}, ["--client", "3"], {"client": 3}),
        ({"learning.dataset": "digits", "learning.model": "mlp", "learning.prior": True}, [], {}),
        ({"learning.dataset": "digits", "learning.prior": True}, ["--client", "1"], {"client": 1}),
        ({"learning.dataset": "sonar"}, ["--client", "2", "--token"], {"client": 2, "token": True}),
        ({"learning.dataset": "digits", "learning.model": "nets_for_onnx:Net"}, ["--client", "5"], {"client": 5}),
    ],
    ids=["mlr", "mlp, token", "prior", "a client's token", "own module"],
)
def test_scores_are_those_of_the_model(keys: dict[str, Any], arguments: list[str], which: dict[str, Any]) -> None:
    Path("nets_for_onnx.py").write_text(NET)
    run = api.run("smoke", {**SHORT, **keys}, out="run", allow_plugins=True)
    assert main(["export", "run", "model.onnx", *arguments, "--allow-plugins"]) == 0
    content = onnx.load("model.onnx")
    onnx.checker.check_model(content)
    sheet = json.loads((run.folder / "models/model.json").read_text())
    samples = np.random.default_rng(0).uniform(0, sheet["scale"], (7, sheet["features"])).astype(np.float32)
    (found,) = ReferenceEvaluator(content).run(None, {"features": samples})
    with torch.no_grad():
        expected = run.model(allow_plugins=True, **which)(torch.from_numpy(samples)).numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    names = {entry.key: json.loads(entry.value) for entry in content.metadata_props}
    assert names["features"] == sheet["feature_names"]
    assert len(names["classes"]) == sheet["classes"]


def test_what_cannot_be_exported_is_explained(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("nets_for_onnx.py").write_text(NET)
    odd = {"learning.dataset": "digits", "learning.model": {"kind": "nets_for_onnx:Net", "odd": True}}
    api.run("smoke", {**SHORT, **odd}, out="odd", allow_plugins=True)
    api.run("smoke", SHORT, out="run")
    for words, message in (
        (["run", "model.txt"], "must end in .onnx"),
        (["run", "model.onnx", "--client", "99"], "has no client 99"),
        (["nowhere", "model.onnx"], "holds no models"),
        (["odd", "model.onnx"], "allow-plugins"),
        (["odd", "model.onnx", "--allow-plugins"], "cannot be exported"),
    ):
        assert main(["export", *words]) == 2
        assert message in capsys.readouterr().err
    real = builtins.__import__

    def without_onnx(name: str, *others: Any) -> Any:
        if name.startswith("onnx"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return real(name, *others)

    monkeypatch.setattr(builtins, "__import__", without_onnx)
    assert main(["export", "run", "model.onnx"]) == 2
    assert "need the package onnx: pip install 'fedmule[onnx]'" in capsys.readouterr().err
    assert not list(Path().glob("model.*"))
