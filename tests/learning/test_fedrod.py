"""FedRoD: the balanced softmax loss and the two heads, by autograd."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional

from fedmule.learning.algorithms.fedrod import FedRoD, balanced
from fedmule.learning.errors import DataError
from fedmule.learning.models.logistic import MLR
from fedmule.learning.models.mlp import MLP
from fedmule.learning.models.module import ModuleModel

ETA, STEPS, BODY = 0.3, 3, 24


def hidden(w: torch.Tensor, features: torch.Tensor) -> torch.Tensor:
    return (features @ w[:20].view(4, 5).T + w[20:24]).relu()


def head(h: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
    return z @ h[:12].view(3, 4).T + h[12:]


def balanced_loss(scores: torch.Tensor, labels: torch.Tensor, counts: torch.Tensor) -> torch.Tensor:
    """−log(N_y exp(s_y) / Σ_c N_c exp(s_c)), mean over samples."""
    weighted = counts * scores.exp()
    return -(weighted.gather(1, labels[:, None])[:, 0] / weighted.sum(dim=1)).log().mean()


def test_runs_follow_the_equations_with_two_separate_heads(problem: Any, contacts: Any) -> None:
    small = problem(kind="fedper")  # with a hidden layer
    keys = {"local_steps": STEPS, "batch_size": 6, "step_size": ETA}
    algorithm, twin, data = small.build("fedrod", **keys), small.build("fedrod", **keys), small.data
    y, heads = small.start.clone(), torch.zeros(7, 15, dtype=torch.float64)
    models, absent = small.start.repeat(7, 1), 0
    for contact in contacts(7, 25):
        batches, delivered, losses = twin._batches(contact.clients, STEPS), [], []
        for i, client in enumerate(contact.clients.tolist()):
            own = data.labels[data.first[client] : data.first[client] + data.train_count[client]]
            counts = torch.tensor([float((own == c).sum()) for c in range(3)], dtype=torch.float64)
            absent += int((counts == 0).any())
            w, p = y.clone(), heads[client].clone()
            for rows in batches[:, i]:
                w.requires_grad_(), p.requires_grad_()
                z = hidden(w, data.features[rows])
                generic = balanced_loss(head(w[24:], z), data.labels[rows], counts)
                to_w = torch.autograd.grad(generic, w, retain_graph=True)[0]
                both = head(w[24:], z).detach() + head(p, z.detach())
                personal = functional.cross_entropy(both, data.labels[rows])
                to_p = torch.autograd.grad(personal, p)[0]
                w, p = (w - ETA * to_w).detach(), (p - ETA * to_p).detach()
                losses.append(float(personal.detach()))
            delivered.append(w)
            heads[client] = p
            models[client] = torch.cat([w[:24], w[24:] + p])
        samples = torch.from_numpy(data.train_count[contact.clients]).double()
        y = samples @ torch.stack(delivered) / samples.sum()
        update = algorithm.update(contact)
        assert update.gradient_steps == 2 * STEPS
        assert update.train_loss == pytest.approx(np.mean(losses))
        torch.testing.assert_close(algorithm.token, y, rtol=0, atol=1e-9)
        torch.testing.assert_close(algorithm.models, models, rtol=0, atol=1e-9)
        torch.testing.assert_close(algorithm.heads, heads, rtol=0, atol=1e-9)
    assert absent > 0  # clients without samples of some class, whose scores then do not count


def test_a_shifted_bias_is_the_balanced_loss(problem: Any) -> None:
    small = problem()
    x, rows = small.start.unsqueeze(0), torch.arange(6).unsqueeze(0)
    counts = torch.tensor([[3.0, 1.0, 8.0]], dtype=torch.float64)
    _, loss = small.model.gradient(balanced(x, counts), small.data.features[rows], small.data.labels[rows])
    scores = small.model.scores(x[0], small.data.features[rows[0]])
    expected = balanced_loss(scores, small.data.labels[rows[0]], counts[0])
    assert float(loss) == pytest.approx(float(expected))


class Backwards(MLR):
    """A model whose bias comes first in the vector."""

    def scores(self, x: torch.Tensor, features: torch.Tensor) -> torch.Tensor:
        return super().scores(torch.cat([x[3:], x[:3]]), features)


def test_models_without_a_bias_for_each_class_at_the_end_are_refused(problem: Any) -> None:
    small = problem(double=False)
    module = torch.nn.Sequential(torch.nn.Linear(5, 4), torch.nn.Tanh(), torch.nn.Linear(4, 3))
    for model in (MLR(5, 3), MLP(5, 3, (4, 4)), ModuleModel(module, (5,))):
        FedRoD.check_model(model, small.data)
    bare = ModuleModel(torch.nn.Linear(5, 3, bias=False), (5,))
    for model in (bare, Backwards(5, 3)):
        with pytest.raises(DataError, match="bias of a linear layer"):
            FedRoD.check_model(model, small.data)


def test_labels_are_counted_anew_where_they_change(problem: Any, contact: Any) -> None:
    small = problem()
    algorithm = replace(small, data=replace(small.data, labels=small.data.labels.clone())).build("fedrod")
    algorithm.data.labels[:] = 2
    assert algorithm._label_counts(np.array([1]))[0].tolist() == [0, 0, float(small.data.train_count[1])]
    algorithm.update(contact(0, 1))
    assert torch.isfinite(algorithm.models).all()
