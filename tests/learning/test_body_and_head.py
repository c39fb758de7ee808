"""FedPer, FedRep and FedBABU: a shared body, against loops over clients and visits with autograd."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from making import SHARED_BODY

from fedmule.learning.algorithms.base import Payload, Steps
from fedmule.learning.algorithms.body_and_head import below
from fedmule.learning.algorithms.fedrep import head_steps, phases
from fedmule.learning.models.mlp import MLP
from fedmule.learning.models.module import ModuleModel

ETA, STEPS, BODY = 0.3, 5, 6 * 4  # five features, four hidden units, three classes
KEYS = {"local_steps": STEPS, "batch_size": 6, "step_size": ETA}


def network(x: torch.Tensor, features: torch.Tensor) -> torch.Tensor:
    """Scores of the network with one hidden layer, written out."""
    hidden = (features @ x[:20].view(4, 5).T + x[20:24]).relu()
    return hidden @ x[24:36].view(3, 4).T + x[36:39]


def gradient(small: Any, x: torch.Tensor, rows: torch.Tensor) -> tuple[torch.Tensor, float]:
    x = x.clone().requires_grad_()
    loss = torch.nn.functional.cross_entropy(network(x, small.data.features[rows]), small.data.labels[rows])
    return torch.autograd.grad(loss, x)[0], float(loss.detach())


def trained_coordinates(kind: str, step: int) -> slice:
    if kind == "fedper":
        return slice(0, 39)
    return slice(BODY, 39) if kind == "fedrep" and step < 2 else slice(0, BODY)  # a share of 0.4 of 5 steps


@pytest.mark.parametrize("kind", SHARED_BODY)
def test_runs_follow_the_equations(problem: Any, contacts: Any, kind: str) -> None:
    small = problem(kind=kind)
    keys = {**KEYS, "head_share": 0.4, "open_at": 1.0}
    algorithm, twin = small.build(kind, **keys), small.build(kind, **keys)
    y, held = small.start.clone(), [small.start.clone() for _ in range(7)]
    for contact in contacts(7, 25):
        batches, losses, before = twin._batches(contact.clients), [], y
        for i, client in enumerate(contact.clients.tolist()):
            x = held[client].clone()
            x[:BODY] = y[:BODY]
            for step, rows in enumerate(batches[:, i]):
                g, loss = gradient(small, x, rows)
                part = trained_coordinates(kind, step)
                x[part] = x[part] - ETA * g[part]
                losses.append(loss)
            held[client] = x
        samples = torch.from_numpy(small.data.train_count[contact.clients]).double()
        delivered = torch.stack([held[client] for client in contact.clients.tolist()])
        y = torch.cat([(samples @ delivered[:, :BODY]) / samples.sum(), y[BODY:]])
        update = algorithm.update(contact)
        assert update.gradient_steps == STEPS
        assert update.train_loss == pytest.approx(np.mean(losses))
        assert update.token_step_norm == pytest.approx(float((y - before).norm()))
        torch.testing.assert_close(algorithm.token, y, rtol=0, atol=1e-10)
        torch.testing.assert_close(algorithm.models, torch.stack(held), rtol=0, atol=1e-10)
    heads = algorithm.models[:, BODY:]
    if kind == "fedbabu":
        assert torch.equal(heads, small.start[BODY:].repeat(7, 1))
    else:
        assert heads.std(dim=0).max() > 0.01


@pytest.mark.parametrize("kind", ["fedper", "fedrep"])
def test_the_token_is_evaluated_with_each_clients_own_head(problem: Any, contacts: Any, kind: str) -> None:
    algorithm = problem(kind=kind).build(kind, **KEYS)
    for contact in contacts(7, 10):
        algorithm.update(contact)
    tokens = algorithm.tokens(np.arange(7))
    assert torch.equal(tokens[:, :BODY], algorithm.token[:BODY].repeat(7, 1))
    assert torch.equal(tokens[:, BODY:], algorithm.models[:, BODY:])
    assert algorithm.send(np.array([1, 2]), 0.1)[0]["token"].shape == (BODY,)  # no head is sent


def test_fedbabu_fine_tunes_body_and_head_after_the_opening(problem: Any, contact: Any) -> None:
    small = problem(kind="fedbabu")
    keys = {**KEYS, "open_at": 0.5, "fine_tune_step_size": 0.05}
    algorithm, twin = small.build("fedbabu", **keys), small.build("fedbabu", **keys)
    algorithm.update(contact(0, 2, progress=0.1))
    token, who = algorithm.token.clone(), np.array([2, 4])
    assert not torch.equal(token[:BODY], small.start[:BODY])
    twin.participations[2] = 1
    exchange = algorithm.exchange(who, 0.6)
    assert (exchange.bytes_down.tolist(), exchange.bytes_up.tolist()) == ([4 * BODY] * 2, [0, 0])
    algorithm.update(contact(2, 4, progress=0.6))
    for i, client in enumerate(who.tolist()):
        x = token
        for rows in twin._batches(who[[i]])[:, 0]:
            x = x - 0.05 * gradient(small, x, rows)[0]
        torch.testing.assert_close(algorithm.models[client], x, rtol=0, atol=1e-10)
    assert torch.equal(algorithm.token, token)
    assert algorithm.exchange(who, 0.7).bytes_down.tolist() == [0, 0]


@pytest.mark.parametrize("kind", SHARED_BODY)
def test_only_the_body_is_on_the_air(problem: Any, kind: str) -> None:
    small, who = problem(kind=kind), np.array([1, 4])
    plain, heavy = small.build(kind), small.build(kind, payload=Payload(bytes=1_000_000))
    for algorithm, size in ((plain, 4 * BODY), (heavy, round(1_000_000 * BODY / 39))):
        assert algorithm.exchange(who, 0.1).bytes_down.tolist() == [size] * 2
        assert algorithm.exchange(who, 0.1).bytes_up.tolist() == [size] * 2
        assert algorithm.meeting(0.1).bytes_down.tolist() == [size]
        assert algorithm.trained_bytes == 4 * 39
    np.testing.assert_array_equal(plain.exchange(who, 0.1).flops, small.build("fedavg").exchange(who, 0.1).flops)


def test_the_head_is_the_last_layer() -> None:
    module = torch.nn.Sequential(torch.nn.Linear(5, 4), torch.nn.ReLU(), torch.nn.Linear(4, 3))
    for model in (MLP(5, 3, (4,)), ModuleModel(module, (5,))):
        assert (below(model), below(model, 2)) == (BODY, 0)
    assert below(SimpleNamespace(parameters=7)) == 0  # a model that names no layers has one


def test_phases_of_fedrep() -> None:
    assert [head_steps(k, 0.5) for k in (2, 3, 10)] == [1, 2, 5]
    assert (head_steps(10, 0.01), head_steps(10, 0.99)) == (1, 9)
    assert list(phases(0, 5, 2, 5)) == [(0, 2, True), (2, 5, False)]
    assert list(phases(3, 9, 2, 5)) == [(3, 5, False), (5, 7, True), (7, 9, False)]
    for first, last in ((0, 23), (4, 5), (6, 17)):
        each = [head for a, b, head in phases(first, last, 3, 7) for _ in range(a, b)]
        assert each == [step % 7 < 3 for step in range(first, last)]


def test_training_in_portions_changes_nothing(problem: Any) -> None:
    """A head that is trained again after `local_steps` steps, whatever the portions."""
    algorithm = problem(kind="fedrep").build("fedrep", **KEYS)
    clients = np.array([1, 3])
    work = algorithm.start(clients, algorithm.send(clients, 0.0), 0.0)
    once, _ = algorithm.train(work, Steps(clients, np.zeros(2, dtype=np.int64), 0, 13))
    for first, last in ((0, 1), (1, 6), (6, 13)):
        work, _ = algorithm.train(work, Steps(clients, np.zeros(2, dtype=np.int64), first, last))
    assert torch.equal(work["x"], once["x"])


def test_a_module_with_dropout_can_be_divided(problem: Any, contact: Any) -> None:
    torch.manual_seed(0)
    layers = torch.nn.Linear(5, 4), torch.nn.Dropout(0.3), torch.nn.ReLU(), torch.nn.Linear(4, 3)
    model = ModuleModel(torch.nn.Sequential(*layers), (5,))
    small = replace(problem(double=False), model=model, start=model.start(np.random.default_rng(0)))
    runs = [small.build("fedrep", **KEYS) for _ in range(2)]
    for algorithm in runs:
        algorithm.update(contact(0, 3))
    assert torch.equal(runs[0].models, runs[1].models)
    assert (runs[0].models[0] != small.start).any()
