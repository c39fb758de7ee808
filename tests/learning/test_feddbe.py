"""FedDBE: a personal bias of the features and the pull of their mean, by autograd on the objective itself."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional

from fedmule.learning.algorithms.feddbe import FedDBE
from fedmule.learning.errors import DataError
from fedmule.learning.models.logistic import MLR
from fedmule.learning.models.mlp import MLP
from fedmule.learning.models.module import ModuleModel
from fedmule.learning.tokens import carried_by

ETA, STEPS, KAPPA, MU = 0.3, 4, 5.0, 0.3


def features_of(w: torch.Tensor, samples: torch.Tensor) -> torch.Tensor:
    return (samples @ w[:20].view(4, 5).T + w[20:24]).relu()


def test_runs_follow_the_equations(problem: Any, contacts: Any) -> None:
    small = problem(kind="feddbe")
    keys = {"local_steps": STEPS, "batch_size": 6, "step_size": ETA, "strength": KAPPA, "momentum": MU}
    algorithm, twin, data = small.build("feddbe", **keys), small.build("feddbe", **keys), small.data
    y, models = small.start.clone(), small.start.repeat(7, 1)
    biases, means, first_means = torch.zeros(7, 4, dtype=torch.float64), {}, {}
    for contact in contacts(7, 30):
        batches, delivered, losses = twin._batches(contact.clients), [], []
        common = sum(data.train_count[c] * r for c, r in first_means.items()) if first_means else 0
        common = common / sum(data.train_count[c] for c in first_means) if first_means else 0
        for i, client in enumerate(contact.clients.tolist()):
            w, b, r = y.clone(), biases[client].clone(), means.get(client)
            for rows in batches[:, i]:
                w.requires_grad_(), b.requires_grad_()
                z = features_of(w, data.features[rows])
                loss = functional.cross_entropy((z + b) @ w[24:36].view(3, 4).T + w[36:], data.labels[rows])
                r = z.mean(dim=0) if r is None else (1 - MU) * r + MU * z.mean(dim=0)
                pull = KAPPA * ((r - common) ** 2).mean() if client in first_means else 0.0
                to_w, to_b = torch.autograd.grad(loss + pull, (w, b))
                w, b, r = (w - ETA * to_w).detach(), (b - ETA * to_b).detach(), r.detach()
                losses.append(float(loss.detach()))
            biases[client], means[client] = b, r
            models[client] = torch.cat([w[:36], w[36:] + w[24:36].view(3, 4) @ b])
            delivered.append(w)
        for client in contact.clients.tolist():
            first_means.setdefault(client, means[client])
        samples = torch.from_numpy(data.train_count[contact.clients]).double()
        y = samples @ torch.stack(delivered) / samples.sum()
        update = algorithm.update(contact)
        assert update.gradient_steps == STEPS
        assert update.train_loss == pytest.approx(np.mean(losses))
        torch.testing.assert_close(algorithm.token, y, rtol=0, atol=1e-9)
        torch.testing.assert_close(algorithm.models, models, rtol=0, atol=1e-9)
        torch.testing.assert_close(algorithm.biases, biases, rtol=0, atol=1e-9)
    assert len(first_means) == 7
    assert biases.abs().max() > 0.01


def test_vehicles_that_meet_pool_the_means_of_their_clients(problem: Any, contact: Any) -> None:
    algorithm = problem(kind="feddbe").build("feddbe")
    carried = carried_by(2, algorithm)
    carried.update(0, contact(0, 1))
    carried.update(1, contact(4))
    carried.meet(0, 1)
    samples = torch.from_numpy(algorithm.data.train_count[[0, 1, 4]]).double()
    expected = samples @ algorithm.means[[0, 1, 4]] / samples.sum()
    with carried.held_by(1):
        torch.testing.assert_close(algorithm.send(np.array([2]), 0.5)[0]["mean"], expected)


def test_models_that_do_not_give_features_are_refused(problem: Any) -> None:
    for model in (MLR(5, 3), ModuleModel(torch.nn.Linear(5, 3), (5,))):
        with pytest.raises(DataError, match="gives the features below its last layer"):
            FedDBE.check_model(model, problem().data)


class Scaled(MLP):
    """Gives other features than those its last layer is applied to."""

    def represent(self, x: torch.Tensor, features: torch.Tensor) -> torch.Tensor:
        return 2 * super().represent(x, features)


def test_a_last_layer_that_is_not_linear_in_the_features_is_refused(problem: Any) -> None:
    data = problem().data
    FedDBE.check_model(MLP(5, 3, (4,)), data)
    with pytest.raises(DataError, match="linear layer of what `represent` gives"):
        FedDBE.check_model(Scaled(5, 3, (4,)), data)


def test_a_prior_is_added_to_the_scores(problem: Any, contact: Any) -> None:
    """One step of a client that is new, with κ = 0: by autograd on the loss with the logarithms of its frequencies."""
    made = problem(kind="feddbe")
    made = replace(made, data=made.data.with_prior(0.5))
    keys = {"local_steps": 1, "batch_size": 6, "step_size": ETA, "strength": 0.0}
    algorithm, (rows,) = made.build("feddbe", **keys), made.build("feddbe", **keys)._batches(np.array([2]))[:, 0]
    w, data, first = made.start.clone().requires_grad_(), made.data, int(made.data.first[2])
    counts = torch.bincount(data.labels[first : first + int(data.train_count[2])], minlength=3).double() + 0.5
    scores = features_of(w, data.features[rows]) @ w[24:36].view(3, 4).T + w[36:] + (counts / counts.sum()).log()
    functional.cross_entropy(scores, data.labels[rows]).backward()
    algorithm.update(contact(2))
    torch.testing.assert_close(algorithm.token, made.start - ETA * w.grad, rtol=0, atol=1e-9)
