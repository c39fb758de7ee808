"""The learning of a run, built once from a scenario: data, model, algorithm, evaluator."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from fedmule.learning import memory
from fedmule.learning.algorithms.apfl import APFL
from fedmule.learning.algorithms.base import Model, Settings, layers
from fedmule.learning.algorithms.clusters import IFCA, SquadOracle
from fedmule.learning.algorithms.ditto import Ditto
from fedmule.learning.algorithms.fedavg import FedAvg
from fedmule.learning.algorithms.local import Local
from fedmule.learning.algorithms.neighbourhood import Neighbourhood
from fedmule.learning.algorithms.per_fedavg import PerFedAvg
from fedmule.learning.algorithms.pfedme import PFedMe
from fedmule.learning.algorithms.published import Derived, Printed
from fedmule.learning.algorithms.rwsadmm import Slack
from fedmule.learning.algorithms.walkman import Walkman
from fedmule.learning.data import samples
from fedmule.learning.data.client_data import ClientData
from fedmule.learning.data.partition import by_column, by_dirichlet, by_labels, check_rows, evenly, split
from fedmule.learning.data.sites import Shift, SiteData, share_within
from fedmule.learning.data.synthetic import synthetic
from fedmule.learning.errors import DataError, MemoryShortError
from fedmule.learning.evaluate import Evaluator
from fedmule.learning.learner import Learner
from fedmule.learning.models.mlp import MLP
from fedmule.learning.models.mlr import MLR
from fedmule.learning.models.module import cnn
from fedmule.learning.models.trial import try_model, wrap
from fedmule.learning.tokens import carried_by
from fedmule.simulator.errors import Problem, ScenarioError, UserError
from fedmule.simulator.scenario import Scenario
from fedmule.simulator.scenario.keys import OwnClass
from fedmule.simulator.scenario.learning import ColumnPartition, LabelsPartition, Learning, SyntheticDataset
from fedmule.simulator.scenario.plugins import make
from fedmule.simulator.streams import Streams
from fedmule.simulator.world import Sites

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


def build_learner(scenario: Scenario, streams: Streams, plugins: dict[str, Any], sites: Sites) -> Learner:
    """Data and client state on the device, everyone with the same random model."""
    keys = scenario.learning
    device = choose_device(keys.device)
    data = build_data(scenario, streams, plugins, sites.site)
    model = build_model(scenario, streams, plugins, data)
    named = layers(model)
    if isinstance(keys.eps, tuple) and len(keys.eps) != len(named):
        message = f"must have one width for each layer of the model: {', '.join(named)}"
        raise ScenarioError(scenario.name, [Problem("learning.eps", message, list(keys.eps))])
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
    copies = _state_copies("learning.algorithm", keys.algorithm, kinds, plugins)
    if keys.algorithm.kind == "local":
        copies += _state_copies("learning.reference", keys.reference, kinds, plugins)
    memory_bytes = memory.estimate(data.clients, model.parameters, copies, memory.size_of(data))
    try:
        memory.make_room(memory_bytes - (memory.size_of(data) if device.type == "cpu" else 0), device)
    except MemoryShortError as error:
        raise UserError(str(error)) from None
    data = data.to(device)
    site_data = _site_data(scenario, streams, sites, data)
    parts = {
        "data": data if site_data is None else site_data.data,
        "model": model,
        "settings": settings_of(keys),
        "start": model.start(streams.generator("model")).to(device),
        "draw": streams.draw("batches"),
    }
    if keys.algorithm.kind == "local":
        parts["reference"] = make("learning.reference", keys.reference, kinds, plugins, **parts)
    algorithm = make("learning.algorithm", keys.algorithm, kinds, plugins, **parts)
    carried = carried_by(scenario.vehicle.count, algorithm, keys.merge)
    return Learner(algorithm, carried, Evaluator(algorithm), device, memory_bytes, site_data)


def settings_of(keys: Learning) -> Settings:
    """The numbers an algorithm is run with; β by what has worked, where it is not given."""
    settings = Settings(**{f.name: getattr(keys, f.name) for f in fields(Settings)})
    one_step = keys.algorithm.kind == "walkman" or keys.reference.kind == "walkman" or keys.variant != "slack"
    return settings if keys.beta is not None else replace(settings, beta=10.0 if one_step else 0.3)


def _site_data(scenario: Scenario, streams: Streams, sites: Sites, data: ClientData) -> SiteData | None:
    """The data as clients' sites make them, if sites matter."""
    if sites.site is None:
        return None
    keys = scenario.learning
    with _explained(scenario, "learning.shift", keys.shift):
        shift = Shift(keys.shift, sites.count, data, streams.generator("places"))
    # They are changed in place: a data set of the user's own may be needed again as it is.
    own = replace(data, features=data.features.clone(), labels=data.labels.clone(), site=sites.site.copy())
    return SiteData(own, shift, sites.site, sites.movers)


def _state_copies(key: str, part: Any, kinds: dict[str, Any], plugins: dict[str, Any]) -> int:
    """How many tensors [n,d] the algorithm a table chooses will keep."""
    return int(getattr(plugins[key] if isinstance(part, OwnClass) else kinds[part.kind], "state_copies", 1))


def build_data(
    scenario: Scenario, streams: Streams, plugins: dict[str, Any], site: NDArray[np.int64] | None = None
) -> ClientData:
    """Samples, shared out among the clients (over their sites, if asked) and split into their parts."""
    keys, clients = scenario.learning, scenario.clients.count
    given: dict[str, Any] = {"clients": clients, "generator": streams.generator("data")}
    if isinstance(keys.dataset, SyntheticDataset):
        given["site"] = site
    with _explained(scenario, "learning.dataset", keys.dataset.kind):
        pool = make("learning.dataset", keys.dataset, DATASETS, plugins, **given)
        if isinstance(pool, ClientData):  # a data set of the user's own may share itself out
            pool.check(clients)
            if keys.partition or keys.max_train_samples:
                raise DataError("shares itself out: leave learning.partition and learning.max_train_samples out")
            return pool
        if not isinstance(pool, samples.Samples):
            raise DataError(
                f"must make learning.samples.Samples or learning.data.ClientData, not {type(pool).__name__}"
            )
        pool = pool.checked()
    partition = keys.partition or (ColumnPartition() if pool.owner is not None else LabelsPartition())
    generator = streams.generator("partition")
    over = clients if site is None or keys.partition_over == "clients" else int(site.max()) + 1
    given = {"samples": pool, "clients": over, "generator": generator}
    with _explained(scenario, "learning.partition", partition.kind):
        rows = make("learning.partition", partition, PARTITIONS, plugins, **given)
        check_rows(rows, pool, over)
        if site is not None and keys.partition_over == "sites":
            rows = share_within(rows, site, generator)
    shares = {"test_share": keys.test_share, "validation_share": keys.validation_share}
    return split(pool, rows, streams.generator("split"), max_train_samples=keys.max_train_samples, **shares)


def build_model(scenario: Scenario, streams: Streams, plugins: dict[str, Any], data: ClientData) -> Model:
    """The model the clients share; a torch module is wrapped."""
    keys = scenario.learning.model
    given: dict[str, Any] = {"features": data.features.shape[1], "classes": data.classes}
    if keys.kind == "cnn":
        given["shape"] = data.shape
    with _explained(scenario, "learning.model", keys.kind):
        with torch.random.fork_rng(devices=[]):  # a module draws its first parameters from torch's own generator
            torch.manual_seed(int(streams.generator("module").integers(2**63)))
            model: Any = make("learning.model", keys, MODELS, plugins, **given)
        model = wrap(model, data) if isinstance(model, torch.nn.Module) else model
        try_model(model, data)
    checked: Model = model
    return checked


@contextmanager
def _explained(scenario: Scenario, key: str, value: str) -> Iterator[None]:
    """Say of wrong data or a model that does not fit where the scenario asks for it."""
    try:
        yield
    except DataError as error:
        raise ScenarioError(scenario.name, [Problem(key, str(error), value)]) from None


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
