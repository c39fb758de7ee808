"""The learning of a run, built once from a scenario: data, model, algorithm, evaluator."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from fedmule.learning import memory
from fedmule.learning.algorithms.base import Algorithm, Payload, Settings, Task
from fedmule.learning.alone import Alone
from fedmule.learning.alone_or_together import AloneOrTogether
from fedmule.learning.at_contact import AtContact
from fedmule.learning.between_contacts import BetweenContacts
from fedmule.learning.data import samples
from fedmule.learning.data.client_data import ClientData
from fedmule.learning.data.partition import check_rows, split
from fedmule.learning.data.sites import Shift, SiteData, share_within
from fedmule.learning.effort import RunSize, effort_for
from fedmule.learning.errors import DataError, MemoryShortError
from fedmule.learning.evaluate import Evaluator
from fedmule.learning.learner import Learner
from fedmule.learning.models.protocol import Model, layers
from fedmule.learning.models.trial import try_model, try_prior, wrap
from fedmule.learning.tokens import carried_by
from fedmule.simulator.errors import Problem, ScenarioError, UserError
from fedmule.simulator.population import Sites, compute_flops_per_s
from fedmule.simulator.scenario import Scenario
from fedmule.simulator.scenario.keys import Part
from fedmule.simulator.scenario.learning import ColumnPartition, LabelsPartition
from fedmule.simulator.scenario.parts import Choice, Plugins, choose
from fedmule.simulator.streams import Streams

USUALLY_IN_RANGE = 3  # clients


def build_learner(scenario: Scenario, streams: Streams, plugins: Plugins, sites: Sites) -> Learner:
    """Build data and client state on the device; everyone starts with the same random model."""
    keys = scenario.learning
    device = choose_device(keys.device)
    data = build_data(scenario, streams, plugins, sites.site).with_prior(keys.prior_extra)
    model = build_model(scenario, streams, plugins, data)
    _check_widths(scenario, keys.algorithm, "learning.algorithm", layers(model))
    chosen = choose(keys.algorithm, "learning.algorithm", plugins)
    _check_model(scenario, chosen, keys.algorithm, model, data)
    between = scenario.clients.training == "between_contacts"
    _check_training(scenario, chosen)
    copies = int(chosen.ask("state_tensors")) * (2 if between else 1)  # as much again for what is under way
    copies += bool(chosen.ask("asks_for_alone"))
    memory_bytes = memory.estimate(data.clients, model.parameters, copies, memory.size_of(data))
    try:
        memory.require_memory(memory_bytes - (memory.size_of(data) if device.type == "cpu" else 0), device)
    except MemoryShortError as error:
        raise UserError(str(error)) from None
    data = data.to(device)
    site_data = _site_data(scenario, streams, sites, data)
    task = Task(
        data if site_data is None else site_data.data,
        model,
        Settings(keys.step_size, keys.batch_size, keys.local_steps, keys.open_at, between),
        model.start(streams.generator("model")).to(device),
        streams.draw("batches"),
        Payload(keys.payload_bytes, keys.payload_flops_per_sample),
    )
    algorithm: Algorithm = chosen.make(task=task)
    carried = carried_by(scenario.vehicle.count, algorithm)
    training = AtContact(algorithm, carried)
    if between:
        clients = scenario.clients
        flops_per_s = clients.training_share * compute_flops_per_s(scenario)
        training = BetweenContacts(algorithm, carried, flops_per_s, clients.max_steps)
    alone = _alone(scenario, streams, algorithm, task)
    compared = None if keys.alone is False else alone
    choice = None
    if alone is not None and algorithm.try_at > 0:
        choice = AloneOrTogether(algorithm, alone, replace(task, draw=streams.draw("trials alone")), algorithm.try_at)
    rest = site_data, training, compared, choice
    return Learner(algorithm, carried, Evaluator(algorithm), device, memory_bytes, *rest)


def _check_training(scenario: Scenario, chosen: Choice) -> None:
    """Raise ScenarioError if clients shall compute at other times or take fewer steps than the algorithm can."""
    if scenario.clients.training == "between_contacts" and not chosen.ask("trains_between_contacts"):
        message = (
            "needs an algorithm whose class overrides combine (and start or train, where they differ): "
            f"{scenario.learning.algorithm.kind} overrides update, which is called for training at contacts only"
        )
        raise ScenarioError(scenario.name, [Problem("clients.training", message, scenario.clients.training)])
    if scenario.learning.fit_steps and not chosen.ask("trains_between_contacts"):
        message = (
            "needs an algorithm whose class overrides combine (and start or train, where they differ): "
            f"{scenario.learning.algorithm.kind} overrides update, which takes local_steps"
        )
        raise ScenarioError(scenario.name, [Problem("learning.fit_steps", message, True)])


def _check_model(scenario: Scenario, chosen: Choice, part: Part, model: Model, data: ClientData) -> None:
    """Raise ScenarioError if the algorithm, or the one that it refers to, cannot train this model."""
    with _explained(scenario, chosen.key, getattr(part, "kind", "")):
        chosen.ask("check_model", model, data)
    if isinstance(reference := chosen.keys.get("reference"), Choice):
        _check_model(scenario, reference, part.reference, model, data)  # type: ignore[attr-defined]


def _alone(scenario: Scenario, streams: Streams, algorithm: Algorithm, task: Task) -> Alone | None:
    """Return what trains alone: as many clients, for as many steps, as cost about a tenth of the run.

    Where clients choose between that and the token, anybody may, and those are a sample.
    """
    keys, clients = scenario.learning, scenario.clients.count
    if keys.alone is False and not algorithm.try_at:
        return None
    participants, tests = min(_participants(scenario), clients), task.data.test_count
    run = RunSize(
        train_count=task.data.train_count,
        step_flops=task.model.flops(keys.batch_size) + 6.0 * task.model.parameters,
        visits=scenario.stop.visits,
        driven=keys.server == "vehicle",
        participants=participants,
        steps_per_visit=algorithm.steps,
        evaluated=2 * tests.sum() / keys.evaluate_every + keys.evaluate_contacts * participants * tests.mean(),
        batch_size=keys.batch_size,
    )
    effort = effort_for(run, None if isinstance(keys.alone, bool) else keys.alone)
    sample = np.sort(streams.generator("alone sample").permutation(clients)[: effort.clients])
    own = replace(task, draw=streams.draw("alone"))
    pace = compute_flops_per_s(scenario), algorithm.flops_per_step()
    return Alone(own, np.arange(clients) if algorithm.try_at else sample, effort.steps, *pace, sample)


def _participants(scenario: Scenario) -> int:
    """Return how many clients take part in a visit, about: a vehicle seldom has many in range."""
    active = scenario.learning.active
    wanted = 1 if active == "visited" else scenario.clients.count if active == "all" else active
    return wanted if scenario.learning.server == "star" else min(wanted, USUALLY_IN_RANGE)


def _check_widths(scenario: Scenario, part: Part, at: str, named: Mapping[str, int]) -> None:
    """Raise ScenarioError unless the tube has one width for all layers of the model or one for each."""
    eps = getattr(part, "eps", None)
    if isinstance(eps, tuple) and len(eps) != len(named):
        message = f"must have one width for each layer of the model: {', '.join(named)}"
        raise ScenarioError(scenario.name, [Problem(f"{at}.eps", message, list(eps))])
    if isinstance(reference := getattr(part, "reference", None), Part):
        _check_widths(scenario, reference, f"{at}.reference", named)


def _site_data(scenario: Scenario, streams: Streams, sites: Sites, data: ClientData) -> SiteData | None:
    """Return the data as clients' sites make them, if sites matter."""
    if sites.site is None:
        return None
    keys = scenario.learning
    with _explained(scenario, "learning.shift", keys.shift):
        shift = Shift(keys.shift, sites.count, data, streams.generator("places"))
    # They are changed in place, and the user's own data set may be used again.
    own = replace(data, features=data.features.clone(), labels=data.labels.clone(), site=sites.site.copy())
    return SiteData(own, shift, sites.site, sites.movers)


def build_data(
    scenario: Scenario, streams: Streams, plugins: Plugins, site: NDArray[np.int64] | None = None
) -> ClientData:
    """Build samples, divided among clients or sites, and split each client's into training, validation and test."""
    keys, clients = scenario.learning, scenario.clients.count
    with _explained(scenario, "learning.dataset", keys.dataset.kind):
        pool = choose(keys.dataset, "learning.dataset", plugins).make(
            clients=clients, generator=streams.generator("data"), site=site
        )
        if isinstance(pool, ClientData):  # a data set of the user's own may share itself out
            pool.check(clients)
            if keys.partition or keys.max_train_samples:
                raise DataError(
                    "is divided among clients already: leave learning.partition and learning.max_train_samples out"
                )
            return pool
        if not isinstance(pool, samples.Samples):
            raise DataError(
                f"must make learning.samples.Samples or learning.data.ClientData, not {type(pool).__name__}"
            )
        pool = pool.checked()
    partition = keys.partition or (ColumnPartition() if pool.owner is not None else LabelsPartition())
    generator = streams.generator("partition")
    over = clients if site is None or keys.partition_over == "clients" else int(site.max()) + 1
    with _explained(scenario, "learning.partition", partition.kind):
        rows = choose(partition, "learning.partition", plugins).make(samples=pool, clients=over, generator=generator)
        check_rows(rows, pool, over)
        if site is not None and keys.partition_over == "sites":
            rows = share_within(rows, site, generator)
    shares = {"test_share": keys.test_share, "validation_share": keys.validation_share}
    with _explained(scenario, "learning.partition", partition.kind):
        return split(pool, rows, streams.generator("split"), max_train_samples=keys.max_train_samples, **shares)


def build_model(scenario: Scenario, streams: Streams, plugins: Plugins, data: ClientData) -> Model:
    """Build the model the clients share; a torch module is wrapped."""
    keys = scenario.learning.model
    given = {"features": data.features.shape[1], "classes": data.classes, "shape": data.shape}
    with _explained(scenario, "learning.model", keys.kind):
        with torch.random.fork_rng(devices=[]):  # a module draws its first parameters from torch's own generator
            torch.manual_seed(int(streams.generator("module").integers(2**63)))
            model: Any = choose(keys, "learning.model", plugins).make(**given)
        model = wrap(model, data) if isinstance(model, torch.nn.Module) else model
        try_model(model, data)
    if data.prior is not None:
        with _explained(scenario, "learning.prior", scenario.learning.prior):
            try_prior(model, data)
    checked: Model = model
    return checked


@contextmanager
def _explained(scenario: Scenario, key: str, value: str | float) -> Iterator[None]:
    """Turn an error about data or a model into one that names the scenario's key."""
    try:
        yield
    except DataError as error:
        raise ScenarioError(scenario.name, [Problem(key, str(error), value)]) from None


def label_counts(data: ClientData) -> NDArray[np.int64]:
    """Count the samples of each label of each client [n,classes]."""
    owner = np.repeat(np.arange(data.clients), np.diff(data.first))
    counts = np.zeros((data.clients, data.classes), dtype=np.int64)
    np.add.at(counts, (owner, data.labels.cpu().numpy()), 1)
    return counts


def choose_device(name: str) -> torch.device:
    """Choose the device by name; auto takes a GPU if there is one."""
    if name == "cuda" and not torch.cuda.is_available():
        raise UserError('learning.device = "cuda": no CUDA device was found; use auto or cpu')
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    return torch.device(name)
