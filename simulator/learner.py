"""The learning of a run, built once from a scenario: data, model, algorithm, evaluator."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import torch

from learning.algorithm import Algorithm, Settings
from learning.evaluate import Evaluator
from learning.fedavg import FedAvg
from learning.local import Local
from learning.mlr import MLR
from learning.rwsadmm import Slack
from learning.rwsadmm_paper import Derived, Printed
from learning.synthetic import synthetic
from learning.walkman import Walkman
from simulator.errors import UserError
from simulator.plugins import make
from simulator.scenario import Scenario
from simulator.streams import Streams

DATASETS = {"synthetic": synthetic}
MODELS = {"mlr": MLR}
VARIANTS = {"slack": Slack, "derived": Derived, "printed": Printed}


@dataclass(frozen=True)
class Learner:
    algorithm: Algorithm
    evaluator: Evaluator
    device: torch.device


def build_learner(scenario: Scenario, streams: Streams, plugins: dict[str, Any]) -> Learner:
    """Data and client state on the device, everyone with the same random model."""
    keys = scenario.learning
    device = choose_device(keys.device)
    data = make(
        "learning.dataset",
        keys.dataset,
        DATASETS,
        plugins,
        clients=scenario.clients.count,
        generator=streams.generator("data"),
    ).to(device)
    model = make("learning.model", keys.model, MODELS, plugins, features=data.features.shape[1], classes=data.classes)
    parts = {
        "data": data,
        "model": model,
        "settings": Settings(**{f.name: getattr(keys, f.name) for f in fields(Settings)}),
        "start": model.start(streams.generator("model")).to(device),
        "draw": streams.draw("batches"),
    }
    kinds: dict[str, Any] = {
        "rwsadmm": VARIANTS[keys.variant],
        "fedavg": FedAvg,
        "walkman": Walkman,
        "local": Local,
    }
    if keys.algorithm.kind == "local":
        parts["reference"] = make("learning.reference", keys.reference, kinds, plugins, **parts)
    algorithm = make("learning.algorithm", keys.algorithm, kinds, plugins, **parts)
    return Learner(algorithm, Evaluator(algorithm), device)


def choose_device(name: str) -> torch.device:
    """auto: a GPU if there is one."""
    if name == "cuda" and not torch.cuda.is_available():
        raise UserError('learning.device = "cuda": no CUDA device was found; use auto or cpu')
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    return torch.device(name)
