"""The learning of a run, built once from a scenario: data, model, algorithm, evaluator."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from learning import samples
from learning.algorithm import Algorithm, Model, Settings, layers
from learning.apfl import APFL
from learning.clusters import IFCA, SquadOracle
from learning.data import ClientData
from learning.ditto import Ditto
from learning.errors import DataError
from learning.evaluate import Evaluator
from learning.fedavg import FedAvg
from learning.local import Local
from learning.mlp import MLP
from learning.mlr import MLR
from learning.module import ModuleModel, cnn
from learning.neighbourhood import Neighbourhood
from learning.partition import by_column, by_dirichlet, by_labels, evenly, split
from learning.per_fedavg import PerFedAvg
from learning.pfedme import PFedMe
from learning.places import PlacedData, Shift, share_within
from learning.rwsadmm import Slack
from learning.rwsadmm_paper import Derived, Printed
from learning.synthetic import synthetic
from learning.walkman import Walkman
from simulator.errors import Problem, ScenarioError, UserError
from simulator.learning_keys import ColumnPartition, LabelsPartition
from simulator.plugins import make
from simulator.scenario import Scenario
from simulator.streams import Streams
from simulator.world import Homes

DATASETS: dict[str, Any] = {
    "synthetic": synthetic,
    "mnist": samples.mnist,
    "fashion_mnist": samples.fashion_mnist,
    "cifar10": samples.cifar10,
    "file": samples.from_file,
}
PARTITIONS: dict[str, Any] = {
    "labels": by_labels,
    "dirichlet": by_dirichlet,
    "iid": evenly,
    "column": by_column,
}
MODELS: dict[str, Any] = {"mlr": MLR, "mlp": MLP, "cnn": cnn}
VARIANTS = {"slack": Slack, "derived": Derived, "printed": Printed}


@dataclass(frozen=True)
class Learner:
    algorithm: Algorithm
    evaluator: Evaluator
    device: torch.device
    placed: PlacedData | None = None

    def move(self, clients: NDArray[np.int64], places: NDArray[np.int64]) -> None:
        """These clients go to other places for good: their data become like those there."""
        if self.placed is not None:
            self.placed.move(clients, places)
            self.evaluator.look_again(clients)


def build_learner(scenario: Scenario, streams: Streams, plugins: dict[str, Any], homes: Homes) -> Learner:
    """Data and client state on the device, everyone with the same random model."""
    keys = scenario.learning
    device = choose_device(keys.device)
    data = build_data(scenario, streams, plugins, homes.place)
    placed = None
    if homes.place is not None:
        try:
            shift = Shift(keys.shift, homes.count, data, streams.generator("places"))
        except DataError as error:
            raise ScenarioError(scenario.name, [Problem("learning.shift", str(error), keys.shift)]) from None
        # PlacedData changes them in place: a data set of the user's own may be needed again as it is.
        features, labels = data.features.to(device, copy=True), data.labels.to(device, copy=True)
        data = replace(data, features=features, labels=labels, place=homes.place.copy())
        placed = PlacedData(data, shift, homes.place, homes.movers)
    data = data.to(device)
    model = build_model(scenario, streams, plugins, data)
    named = layers(model)
    if isinstance(keys.eps, tuple) and len(keys.eps) != len(named):
        message = f"must have one width for each layer of the model: {', '.join(named)}"
        raise ScenarioError(scenario.name, [Problem("learning.eps", message, list(keys.eps))])
    parts = {
        "data": data,
        "model": model,
        "settings": Settings(**{f.name: getattr(keys, f.name) for f in fields(Settings)}),
        "start": model.start(streams.generator("model")).to(device),
        "draw": streams.draw("batches"),
    }
    kinds: dict[str, Any] = {
        "rwsadmm": Neighbourhood if keys.token == "neighbourhood" else VARIANTS[keys.variant],
        "ifca": IFCA,
        "squad_oracle": SquadOracle,
        "fedavg": FedAvg,
        "ditto": Ditto,
        "apfl": APFL,
        "pfedme": PFedMe,
        "per_fedavg": PerFedAvg,
        "walkman": Walkman,
        "local": Local,
    }
    if keys.algorithm.kind == "local":
        parts["reference"] = make("learning.reference", keys.reference, kinds, plugins, **parts)
    algorithm = make("learning.algorithm", keys.algorithm, kinds, plugins, **parts)
    return Learner(algorithm, Evaluator(algorithm), device, placed)


def build_data(
    scenario: Scenario, streams: Streams, plugins: dict[str, Any], place: NDArray[np.int64] | None = None
) -> ClientData:
    """Samples, shared out among the clients (over their places, if asked) and split into their parts."""
    keys, clients = scenario.learning, scenario.clients.count
    given = {"clients": clients, "generator": streams.generator("data")}
    try:
        pool = make("learning.dataset", keys.dataset, DATASETS, plugins, **given)
        if isinstance(pool, ClientData):  # a data set of the user's own may share itself out
            return pool
        partition = keys.partition or (ColumnPartition() if pool.owner is not None else LabelsPartition())
        generator = streams.generator("partition")
        over = int(place.max()) + 1 if place is not None and keys.partition_over == "places" else clients
        given = {"samples": pool, "clients": over, "generator": generator}
        rows = make("learning.partition", partition, PARTITIONS, plugins, **given)
        if place is not None and keys.partition_over == "places":
            rows = share_within(rows, place, generator)
        shares = {"test_share": keys.test_share, "validation_share": keys.validation_share}
        return split(pool, rows, streams.generator("split"), max_train_samples=keys.max_train_samples, **shares)
    except DataError as error:
        raise ScenarioError(scenario.name, [Problem("learning.dataset", str(error))]) from None


def build_model(scenario: Scenario, streams: Streams, plugins: dict[str, Any], data: ClientData) -> Model:
    """The model the clients share; a torch module is wrapped."""
    keys = scenario.learning.model
    given: dict[str, Any] = {"features": data.features.shape[1], "classes": data.classes}
    if keys.kind == "cnn":
        given["shape"] = data.shape
    try:
        with torch.random.fork_rng(devices=[]):  # a module draws its first parameters from torch's own generator
            torch.manual_seed(int(streams.generator("module").integers(2**63)))
            model = make("learning.model", keys, MODELS, plugins, **given)
        if isinstance(model, torch.nn.Module):
            return ModuleModel(model, data.shape or (given["features"],))
        return model
    except DataError as error:
        raise ScenarioError(scenario.name, [Problem("learning.model", str(error), keys.kind)]) from None


def label_counts(data: ClientData) -> NDArray[np.int64]:
    """How many samples of each label each client has [n,classes]."""
    owner = np.repeat(np.arange(data.clients), np.diff(data.first))
    counts = np.zeros((data.clients, data.classes), dtype=np.int64)
    np.add.at(counts, (owner, data.labels.cpu().numpy()), 1)
    return counts


def choose_device(name: str) -> torch.device:
    """auto: a GPU if there is one."""
    if name == "cuda" and not torch.cuda.is_available():
        raise UserError('learning.device = "cuda": no CUDA device was found; use auto or cpu')
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    return torch.device(name)
