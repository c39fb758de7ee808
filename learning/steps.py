"""Stochastic gradient steps for many clients at once, with an optional pull towards a token."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fedmule.learning.data.client_data import ClientData
from fedmule.learning.models.protocol import Model, gradient_of_scores, layers, takes_prior


@dataclass(frozen=True)
class Pull:
    """Pull on models at each step: x ← x − strength·(q − clip(q, ±eps)) with q = x − anchor."""

    anchor: Tensor  # [S,d] or [d]
    strength: float
    eps: float | Tensor = 0.0  # half-width of the tube around the anchor, for all coordinates or for each [d]
    first: bool = False  # pull at the point where the gradient is taken, before the step; otherwise after the step

    def __call__(self, x: Tensor) -> Tensor:
        """Return the models x [S,d] after the pull."""
        q = x - self.anchor
        q -= clip(q, self.eps)
        return torch.sub(x, q, alpha=self.strength)

    def on(self, x: Tensor, client: int) -> Callable[[], Any]:
        """Return a function that pulls x [d], the model of one of the S clients, in place."""
        own = self if self.anchor.dim() == 1 else replace(self, anchor=self.anchor[client])
        if kernels := kernels_for(x, own.anchor):
            model, anchor = x.numpy(), own.anchor.numpy()
            strength, eps = model.dtype.type(self.strength), kernels.widths(self.eps, model)
            return lambda: kernels.pull(model, anchor, strength, eps)
        return lambda: x.copy_(own(x))


def widths(model: Model, eps: float | tuple[float, ...], like: Tensor) -> float | Tensor:
    """Return the half-width of a tube for all coordinates, or [d] from one half-width per layer."""
    if isinstance(eps, tuple):
        return torch.cat([like.new_full((n,), e) for n, e in zip(layers(model).values(), eps, strict=True)])
    return eps


def clip(q: Tensor, eps: float | Tensor) -> Tensor:
    """Limit q to ±eps."""
    return torch.clamp(q, -eps, eps) if isinstance(eps, Tensor) else q.clamp(-eps, eps)


def kernels_for(*tensors: Tensor) -> Any:
    """Return the compiled loops if they support these tensors: contiguous, on a CPU, all float32 or all float64."""
    number = tensors[0].dtype
    if number not in (torch.float32, torch.float64):
        return None
    for tensor in tensors:  # asked several times per update: a loop, since a generator takes twice as long
        if not (tensor.is_cpu and tensor.dtype is number and tensor.is_contiguous()):
            return None
    return _kernels()


@cache
def _kernels() -> Any:
    from fedmule.learning import kernels  # slow to import, so only where needed

    return kernels


def gradient(model: Any, data: ClientData, x: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
    """Return gradients [S,d] and losses [S] of models x [S,d] on the samples rows [S,B], with the clients' priors."""
    batch = data.features[rows], data.labels[rows]
    seeds = [noise_seeds(rows)] if getattr(model, "random", False) else []
    found: tuple[Tensor, Tensor]
    if data.prior is None:
        found = model.gradient(x, *batch, *seeds)
    elif takes_prior(model.gradient):
        found = model.gradient(x, *batch, *seeds, prior=data.prior.of(rows[:, 0]))
    else:
        found = gradient_of_scores(model, x, *batch, data.prior.of(rows[:, 0]))
    return found


def scores(model: Model, data: ClientData, x: Tensor, rows: Tensor | slice) -> Tensor:
    """Return class scores [N,c] of one model x [d] on these rows of the data, with the prior of each row's client."""
    found = model.scores(x, data.features[rows])
    return found if data.prior is None else found + data.prior.of(rows)


def losses(found: Tensor, labels: Tensor) -> Tensor:
    """Return the cross-entropy [N] of scores [N,c]."""
    if found.is_cpu and (kernels := kernels_for(found)):
        return torch.from_numpy(kernels.judge(found.numpy(), labels.numpy())[1])
    return torch.nn.functional.cross_entropy(found, labels, reduction="none")


def noise_seeds(rows: Tensor) -> list[int]:
    """Return a seed for each client's batch, from its rows [S,B] alone, for randomness in a gradient."""
    words = rows.cpu().numpy().astype(np.uint64)
    odd = 2 * np.arange(1, rows.shape[1] + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(1)
    return [int(word) >> 1 for word in ((words + np.uint64(1)) * odd).sum(axis=1, dtype=np.uint64)]


def descend(
    model: Model, data: ClientData, x: Tensor, batches: Tensor, eta: float, pull: Pull | None = None
) -> tuple[Tensor, Tensor | float]:
    """Run SGD over batches [steps,S,B], x ← x − η g(x) and the pull; return the models [S,d] and the mean loss."""
    own = getattr(model, "descend", None)  # all steps of a visit at once, if the model can
    if own and (data.prior is None or takes_prior(own)):
        prior = {} if data.prior is None else {"prior": data.prior.of(batches[0, :, 0])}
        found: tuple[Tensor, Tensor | float] | None = own(x, data, batches, eta, pull, **prior)
        if found is not None:
            return found
    losses = x.new_zeros(())
    for rows in batches:
        g, loss = gradient(model, data, x, rows)
        if pull is not None and pull.first:
            x = pull(x) - eta * g
        else:
            x = x - eta * g
            x = pull(x) if pull else x
        losses += loss.mean()
    return x, losses / len(batches)
