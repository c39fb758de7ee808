"""Stochastic gradient steps: batches of many clients at once, and what pulls their models to a token."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fedmule.learning.data.client_data import ClientData
from fedmule.learning.models.model import Model, layers


@dataclass(frozen=True)
class Pull:
    """What draws models back at each step: x ← x − strength·(q − clip(q, ±eps)) with q = x − anchor."""

    anchor: Tensor  # [S,d] or [d]
    strength: float
    eps: float | Tensor = 0.0  # half-width of the tube round the anchor, of all coordinates or of each [d]
    first: bool = False  # where the gradient is taken, before the step down it; else after that step

    def __call__(self, x: Tensor) -> Tensor:
        q = x - self.anchor
        q -= clip(q, self.eps)
        return torch.sub(x, q, alpha=self.strength)

    def on(self, x: Tensor, client: int) -> Callable[[], Any]:
        """What pulls one of the S models, x [d], in place."""
        own = self if self.anchor.dim() == 1 else replace(self, anchor=self.anchor[client])
        if kernels := kernels_for(x, own.anchor):
            model, anchor = x.numpy(), own.anchor.numpy()
            strength, eps = model.dtype.type(self.strength), kernels.widths(self.eps, model)
            return lambda: kernels.pull(model, anchor, strength, eps)
        return lambda: x.copy_(own(x))


def widths(model: Model, eps: float | tuple[float, ...], like: Tensor) -> float | Tensor:
    """Half-widths of a tube, given for all coordinates or for each layer; [d] in the latter case."""
    if isinstance(eps, tuple):
        return torch.cat([like.new_full((n,), e) for n, e in zip(layers(model).values(), eps, strict=True)])
    return eps


def clip(q: Tensor, eps: float | Tensor) -> Tensor:
    """q within ±eps."""
    return torch.clamp(q, -eps, eps) if isinstance(eps, Tensor) else q.clamp(-eps, eps)


def kernels_for(*tensors: Tensor) -> Any:
    """The compiled loops, if they can take these tensors: on a CPU, contiguous, all in single or double precision."""
    number = tensors[0].dtype
    if number not in (torch.float32, torch.float64):
        return None
    if not all(t.is_cpu and t.dtype == number and t.is_contiguous() for t in tensors):
        return None
    from fedmule.learning import kernels  # takes a while, so only where it is needed

    return kernels


def gradient(model: Model, data: ClientData, x: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
    """Gradients [S,d] and losses [S] of models x [S,d] on the samples rows [S,B]."""
    if getattr(model, "random", False):
        noisy: Any = model
        found: tuple[Tensor, Tensor] = noisy.gradient(x, data.features[rows], data.labels[rows], noise(rows))
        return found
    return model.gradient(x, data.features[rows], data.labels[rows])


def noise(rows: Tensor) -> list[int]:
    """A number for each client's batch [S,B], from its rows: what is random in a gradient follows from it alone."""
    words = rows.cpu().numpy().astype(np.uint64)
    odd = 2 * np.arange(1, rows.shape[1] + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(1)
    return [int(word) >> 1 for word in ((words + np.uint64(1)) * odd).sum(axis=1, dtype=np.uint64)]


def descend(
    model: Model, data: ClientData, x: Tensor, batches: Tensor, eta: float, pull: Pull | None = None
) -> tuple[Tensor, Tensor | float]:
    """SGD over batches [steps,S,B]: x ← x − η g(x), then the pull; returns the models [S,d] and the mean loss."""
    own = getattr(model, "descend", None)  # all steps of a visit at once, where the model can
    found: tuple[Tensor, Tensor | float] | None = own(x, data, batches, eta, pull) if own else None
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
