"""Interface of a model: parameters as one vector, a gradient, scores."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from inspect import signature
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from fedmule.learning.data.client_data import ClientData


class Model(Protocol):
    """A model whose parameters are one vector [d].

    Optional attributes:

    - `random = True` (dropout): `gradient` takes a seed for each batch, [S], as its fourth argument.
    - `layers`: the number of parameters of each layer by name, in their order in the vector.
    - `descend(x, data, batches, eta, pull)`: takes all steps of a visit at once, faster than `gradient`; it may return
      None where it cannot.
    - `represent(x, features)`: the inputs [S,B,k] of the last layer of models x [S,d] on batches [S,B,f], in operations
      that autograd can follow; `feddbe` computes its gradients through it.

    With `learning.prior`, the loss is the cross-entropy of scores + prior. `gradient` and `descend` are passed the
    clients' priors [S,c] as `prior` where they have an argument of that name; `scores` never includes it. Where
    `gradient` has none, autograd computes it through `scores`; where that cannot be, the model is refused.
    """

    parameters: int

    def start(self, generator: np.random.Generator) -> Tensor:
        """Return random initial parameters [d]."""
        ...

    def gradient(self, x: Tensor, features: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """Return gradients [S,d] and losses [S] of models x [S,d], each on its own batch [S,B,f], [S,B]."""
        ...

    def scores(self, x: Tensor, features: Tensor) -> Tensor:
        """Return class scores [N,c] of one model x [d] on samples [N,f]."""
        ...

    def flops(self, samples: int) -> float:
        """Return the floating-point operations of one gradient over this many samples."""
        ...

    def smoothness(self, data: ClientData) -> float | None:
        """Return the smoothness constant L of the clients' losses; None if unknown."""
        ...


def takes_prior(function: Callable[..., Any]) -> bool:
    """Tell whether a model's `gradient` or `descend` has an argument `prior`."""
    return _takes_prior(getattr(function, "__func__", function))


@lru_cache(maxsize=64)
def _takes_prior(function: Callable[..., Any]) -> bool:
    return "prior" in signature(function).parameters


def gradient_of_scores(
    model: Model, x: Tensor, features: Tensor, labels: Tensor, prior: Tensor
) -> tuple[Tensor, Tensor]:
    """Return gradients [S,d] and losses [S] of the cross-entropy of scores + prior [S,c], one client at a time."""
    gradients, losses = [], []
    for i in range(len(x)):
        leaf = x[i].detach().clone().requires_grad_()
        loss = torch.nn.functional.cross_entropy(model.scores(leaf, features[i]) + prior[i], labels[i])
        gradients.append(torch.autograd.grad(loss, leaf)[0])
        losses.append(loss.detach())
    return torch.stack(gradients), torch.stack(losses)


def layers(model: Model) -> dict[str, int]:
    """Return the number of parameters of each layer by name, in their order in the vector."""
    return getattr(model, "layers", None) or {"all": model.parameters}


def ends_in_bias(model: Model, data: ClientData) -> bool:
    """Return whether the last parameters are the bias of a linear layer with an output for each class."""
    x, few = model.start(np.random.default_rng(0)).to(data.features), data.features[:2]
    if len(x) < data.classes:
        return False
    shift = torch.arange(1.0, data.classes + 1).to(x)
    shifted = torch.cat([x[: -data.classes], x[-data.classes :] + shift])
    return torch.allclose(model.scores(shifted, few), model.scores(x, few) + shift, rtol=1e-3, atol=1e-3)
