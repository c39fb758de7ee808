"""The hot paths against plain implementations: `python tests/benchmarks/hot_paths.py`.

CPU time, one thread, both sides interleaved; the ratio says how many times as fast ours is. Learning is a whole update
of RWSADMM with batches of 20, given per client and step.
"""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from fedmule.learning.algorithms.base import Contact, Settings, Task
from fedmule.learning.algorithms.tube import Tube
from fedmule.learning.data.client_data import ClientData
from fedmule.learning.evaluate import Evaluator
from fedmule.learning.models.logistic import MLR
from fedmule.learning.models.mlp import MLP
from fedmule.learning.models.module import ModuleModel, cnn
from fedmule.mobility.models.waypoint import Waypoint
from fedmule.mobility.terrain import Terrain
from fedmule.mobility.trajectory import Trajectories, position_at
from fedmule.simulator.scenario.algorithms import RwsadmmKeys
from fedmule.simulator.scenario.parts import choose
from fedmule.simulator.streams import Streams


def ratio(ours: Callable[[], Any], plain: Callable[[], Any], rounds: int) -> tuple[float, float]:
    """Median microseconds of ours, and how many times as long the plain one takes."""
    times: list[tuple[float, float]] = []
    for _ in range(rounds + 1):
        stamps = [time.process_time()]
        for call in (ours, plain):
            call()
            stamps.append(time.process_time())
        times.append((stamps[1] - stamps[0], stamps[2] - stamps[1]))
    both = np.array(times[1:])
    return 1e6 * float(np.median(both[:, 0])), float(np.median(both[:, 1]) / np.median(both[:, 0]))


Variant = Literal["relay", "slack"]
BETA, KAPPA, EPS = 1.0, 0.5, 0.005


def algorithm(
    clients: int, model: Any, shape: tuple[int, ...] = (), prior: float | None = None, variant: Variant = "slack"
) -> Tube:
    """RWSADMM over clients with 60 random samples each."""
    generator = torch.Generator().manual_seed(0)
    width = math.prod(shape) if shape else model.widths[0]
    features = torch.randn(60 * clients, width, generator=generator) / math.sqrt(width)  # so that no step is too long
    labels = torch.randint(10, (60 * clients,), generator=generator)
    data = ClientData(features, labels, 10, 60 * np.arange(clients + 1), np.full(clients, 50), shape=shape)
    data = data.with_prior(prior)
    start = model.start(np.random.default_rng(0))
    settings = Settings(step_size=0.1, batch_size=20, local_steps=10, open_at=2.0)
    task = Task(data, model, settings, start, Streams(0).draw("batches"))
    part = RwsadmmKeys(variant=variant, beta=BETA, kappa=KAPPA, eps=EPS if variant == "slack" else 0.0)
    made: Tube = choose(part, "learning.algorithm", {}).make(task=task)
    return made


class Plain:
    """The same update as a loop over modules, with autograd. `twin` has the data and draws the batches."""

    def __init__(self, twin: Tube, module: torch.nn.Module) -> None:
        self.twin, self.token = twin, twin.token
        vector_to_parameters(self.token, module.parameters())
        self.modules = [copy.deepcopy(module) for _ in twin.models]
        self.duals = [torch.zeros_like(self.token) for _ in twin.models]
        self.contributions: dict[int, Tensor] = {}

    def update(self, clients: NDArray[np.int64]) -> None:
        batches, new = self.twin._batches(clients), {}
        for i, client in enumerate(clients.tolist()):
            self.arrive(client)
            for rows in batches[:, i]:
                self.step(client, rows)
            new[client] = self.contribution(client)
        known = len(self.contributions | new)
        change = sum(c - self.contributions.get(client, self.token) for client, c in new.items())
        self.token = self.token + change / known
        self.contributions |= new

    def arrive(self, client: int) -> None:
        """A client seen before is projected into the tube; a new one takes the token."""
        x, eps = parameters_to_vector(self.modules[client].parameters()).detach(), EPS
        inside = torch.clamp(x, self.token - eps, self.token + eps) if client in self.contributions else self.token
        vector_to_parameters(inside.clone(), self.modules[client].parameters())

    def step(self, client: int, rows: Tensor) -> None:
        eta, module = self.twin.settings.step_size, self.modules[client]
        module.zero_grad()
        scores = module(self.twin.data.features[rows].view(len(rows), *self.twin.data.shape or (-1,)))
        torch.nn.functional.cross_entropy(scores, self.twin.data.labels[rows]).backward()
        at, pace = 0, eta * BETA / (1 + eta * BETA)
        with torch.no_grad():
            for p in module.parameters():
                y, lam = (v[at : at + p.numel()].view_as(p) for v in (self.token, self.duals[client]))
                x = p - eta * p.grad
                q = x - y + lam / BETA
                p.copy_(x - pace * (q - q.clamp(-EPS, EPS)))
                at += p.numel()

    def contribution(self, client: int) -> Tensor:
        x = parameters_to_vector(self.modules[client].parameters()).detach()
        s = (x - self.token + self.duals[client] / BETA).clamp(-EPS, EPS)
        self.duals[client] = self.duals[client] + KAPPA * BETA * (x - self.token - s)
        return x - s + self.duals[client] / BETA


def update_benchmark(active: int, rounds: int, model: Any, module: Any, shape: Any = ()) -> tuple[float, float]:
    """Whole slack updates of S clients, per client and step. From the same start both come to the same models."""
    n = 4 if shape else 20
    ours, plain = algorithm(n, model, shape), Plain(algorithm(n, model, shape), module)
    groups = np.arange(n).reshape(-1, active)  # met in turn

    def our_updates() -> None:
        for clients in groups:
            ours.update(Contact(clients, active, 0.0))

    def plain_updates() -> None:
        for clients in groups:
            plain.update(clients)

    ours.update(Contact(groups[0], active, 0.0))
    plain.update(groups[0])
    theirs = [parameters_to_vector(plain.modules[client].parameters()).detach() for client in groups[0]]
    for found, expected in ((ours.models[groups[0]], torch.stack(theirs)), (ours.token, plain.token)):
        assert float((found - expected).abs().max()) <= 1e-5
    us, times = ratio(our_updates, plain_updates, rounds)
    return us / (n * ours.steps), times


def mlr_benchmark(features: int, active: int, rounds: int) -> tuple[float, float]:
    return update_benchmark(active, rounds, MLR(features, 10), torch.nn.Linear(features, 10))


def mlp_benchmark(active: int, rounds: int) -> tuple[float, float]:
    parts = [part for i, o in ((784, 100), (100, 100)) for part in (torch.nn.Linear(i, o), torch.nn.ReLU())]
    return update_benchmark(
        active, rounds, MLP(784, 10, (100, 100)), torch.nn.Sequential(*parts, torch.nn.Linear(100, 10))
    )


def cnn_benchmark(rounds: int) -> tuple[float, float]:
    """Without dropout, whose masks differ with the order of numbers in memory."""
    module, shape = cnn(784, 10, (1, 28, 28)), (1, 28, 28)
    kept = [torch.nn.Identity() if isinstance(part, torch.nn.Dropout) else part for part in module]
    module = torch.nn.Sequential(*kept)
    return update_benchmark(1, rounds, ModuleModel(copy.deepcopy(module), shape), module, shape)


def visits(of: Tube) -> Callable[[], Any]:
    """Visits to 20 clients in turn, when nobody tries any more whether training alone is better."""
    return lambda: [of.update(Contact(np.array([client]), 1, 0.5)) for client in range(20)]


def prior_benchmark(model: Any, rounds: int) -> tuple[float, float]:
    """Whole updates of one client with a prior, against the same without."""
    with_prior, without = algorithm(20, model, prior=0.5), algorithm(20, model)
    us, times = ratio(visits(with_prior), visits(without), rounds)
    return us / (20 * without.steps), times


def relay_benchmark(model: Any, rounds: int) -> tuple[float, float]:
    """Whole updates of one client with the token handed on, against those with the mean of all contributions."""
    relay, slack = algorithm(20, model, variant="relay"), algorithm(20, model)
    for _ in range(10):  # trials of own labels become rare
        visits(relay)()
    us, times = ratio(visits(relay), visits(slack), rounds)
    return us / (20 * slack.steps), times


def prior_evaluation_benchmark(clients: int, rounds: int) -> tuple[float, float]:
    """The accuracies after a contact of 8 clients, with a prior against without."""
    with_prior, without = (Evaluator(algorithm(clients, MLR(60, 10), prior=prior)) for prior in (0.5, None))

    def after(evaluator: Evaluator) -> Callable[[], None]:
        return lambda: (evaluator.changed(np.arange(8)), evaluator.refresh())

    return ratio(after(with_prior), after(without), rounds)


def positions_benchmark(clients: int, rounds: int) -> tuple[float, float]:
    """Everyone's position at a time against one interpolation per client."""
    walking = Waypoint(Terrain((5e3, 5e3)), clients, Streams(0).draw("mobility"), (0.5, 1.5), (0.0, 60.0), None)
    trajectories = Trajectories(walking)
    trajectories.positions(100.0)
    paths = [trajectories.path(i, 100.0) for i in range(clients)]
    now = np.array([100.0])
    return ratio(lambda: trajectories.positions(100.0), lambda: [position_at(t, xy, now) for t, xy in paths], rounds)


def evaluation_benchmark(clients: int, rounds: int) -> tuple[float, float]:
    """The accuracies after a contact of 8 clients against looking at everyone again."""
    evaluator = Evaluator(algorithm(clients, MLR(60, 10)))

    def after(changed: np.ndarray) -> Callable[[], None]:
        return lambda: (evaluator.changed(changed), evaluator.refresh())

    return ratio(after(np.arange(8)), after(np.arange(clients)), rounds)


def main(rounds: int = 30) -> dict[str, float]:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    results = {}
    for name, (ours_us, times) in {
        "MLR 784 × 10, 1 client": mlr_benchmark(784, 1, rounds),
        "MLR 784 × 10, 10 clients": mlr_benchmark(784, 10, rounds),
        "MLR 60 × 10, 1 client": mlr_benchmark(60, 1, rounds),
        "MLR 60 × 10, 10 clients": mlr_benchmark(60, 10, rounds),
        "MLP 784-100-100-10, 1 client": mlp_benchmark(1, rounds),
        "MLP 784-100-100-10, 10 clients": mlp_benchmark(10, rounds),
        "CNN 28 × 28, 1 client": cnn_benchmark(max(3, rounds // 5)),
        "MLR 60 × 10, handed on, to the mean": relay_benchmark(MLR(60, 10), rounds),
        "MLR 784 × 10, handed on, to the mean": relay_benchmark(MLR(784, 10), rounds),
        "MLP 784-100-100-10, handed on, to the mean": relay_benchmark(MLP(784, 10, (100, 100)), rounds),
        "MLR 60 × 10, with a prior, to without": prior_benchmark(MLR(60, 10), rounds),
        "MLR 784 × 10, with a prior, to without": prior_benchmark(MLR(784, 10), rounds),
        "MLP 784-100-100-10, with a prior, to without": prior_benchmark(MLP(784, 10, (100, 100)), rounds),
        "accuracy with a prior, to without": prior_evaluation_benchmark(1000, rounds),
        "positions of 1,000 moving clients": positions_benchmark(1000, rounds),
        "accuracy after a contact, 1,000 clients": evaluation_benchmark(1000, rounds),
    }.items():
        results[name] = times
        print(f"{name:<42} {ours_us:>10.1f} µs   {times:>6.1f} × as fast as plain")
    return results


if __name__ == "__main__":
    main()
