"""FedALA: mixtures of a client's model and the token, against a loop over clients and visits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional

from fedmule.learning.algorithms.fedala import FedALA, initialised, weight_step
from fedmule.learning.errors import DataError
from fedmule.learning.models.mlp import MLP

ETA, STEPS, LEARNT, RATE = 0.3, 4, 3, 20.0


def test_the_step_follows_the_gradient_with_respect_to_the_weights() -> None:
    generator = torch.Generator().manual_seed(1)
    x, y, target = (torch.randn(2, 9, dtype=torch.float64, generator=generator) for _ in range(3))
    a = torch.full((2, 4), 0.5, dtype=torch.float64).requires_grad_()
    mixed = initialised(x, y, a)
    assert torch.equal(mixed[:, :5], y[:, :5])
    loss = (mixed - target).square().sum() / 2
    by_weights = torch.autograd.grad(loss, a)[0]
    stepped = weight_step(a.detach(), x, y, (mixed - target).detach(), 0.05)
    torch.testing.assert_close(stepped, (a - 0.05 * by_weights).detach().clamp(0, 1))
    far = weight_step(a.detach(), x, y, (mixed - target).detach(), 1e9)
    assert ((far == 0) | (far == 1)).all()


@pytest.mark.parametrize("layers", [1, 2])
def test_runs_follow_the_equations(problem: Any, contacts: Any, layers: int) -> None:
    small = problem(kind="fedper")  # with a hidden layer
    data, low = small.data, {1: 24, 2: 0}[layers]
    keys = {"local_steps": STEPS, "batch_size": 6, "step_size": ETA, "top_layers": layers}
    keys |= {"weight_steps": LEARNT, "weight_step_size": RATE}
    algorithm, twin = small.build("fedala", **keys), small.build("fedala", **keys)

    def gradient(x: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        x = x.clone().requires_grad_()
        z = (data.features[rows] @ x[:20].view(4, 5).T + x[20:24]).relu()
        loss = functional.cross_entropy(z @ x[24:36].view(3, 4).T + x[36:], data.labels[rows])
        return torch.autograd.grad(loss, x)[0]

    y, own, weights = small.start.clone(), {}, torch.ones(7, 39 - low, dtype=torch.float64)
    for contact in contacts(7, 25):
        batches, delivered = twin._batches(contact.clients, LEARNT + STEPS), []
        for i, client in enumerate(contact.clients.tolist()):
            before, a = own.get(client, y), weights[client].clone()
            for rows in batches[:LEARNT, i]:
                g = gradient(torch.cat([y[:low], before[low:] + (y - before)[low:] * a]), rows)
                a = (a - RATE * (y - before)[low:] * g[low:]).clamp(0, 1)
            x = torch.cat([y[:low], before[low:] + (y - before)[low:] * a])
            for rows in batches[LEARNT:, i]:
                x = x - ETA * gradient(x, rows)
            own[client], weights[client] = x, a
            delivered.append(x)
        samples = torch.from_numpy(data.train_count[contact.clients]).double()
        y = samples @ torch.stack(delivered) / samples.sum()
        update = algorithm.update(contact)
        assert update.gradient_steps == LEARNT + STEPS
        torch.testing.assert_close(algorithm.token, y, rtol=0, atol=1e-9)
        torch.testing.assert_close(algorithm.weights, weights, rtol=0, atol=1e-9)
        for client, x in own.items():
            torch.testing.assert_close(algorithm.models[client], x, rtol=0, atol=1e-9)
    assert ((weights > 0) & (weights < 1)).any()
    assert (weights == 1).any()


def test_at_the_first_visit_it_is_fedavg(problem: Any, contact: Any) -> None:
    small = problem()
    ours = small.build("fedala", local_steps=3, weight_steps=1)
    ours.token = torch.ones_like(ours.token)  # others have trained it
    ours.update(contact(2))
    assert (ours.weights == 1).all()
    x = torch.ones_like(ours.token).unsqueeze(0)
    for rows in small.build("fedala", local_steps=3)._batches(np.array([2]), 4)[1:]:
        x = x - ours.settings.step_size * small.model.gradient(x, small.data.features[rows], small.data.labels[rows])[0]
    torch.testing.assert_close(ours.models[2], x[0])


def test_there_must_be_as_many_layers(problem: Any) -> None:
    FedALA.check_model(MLP(5, 3, (4,)), problem().data, top_layers=2)
    with pytest.raises(DataError, match=r"top_layers = 3: learning\.model has 2"):
        FedALA.check_model(MLP(5, 3, (4,)), problem().data, top_layers=3)
