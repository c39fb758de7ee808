"""Training several clients one after the other, and what they have computed taken apart and put together."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

if TYPE_CHECKING:
    from fedmule.learning.algorithms.base import Algorithm, FloatArray, Steps, Work


def part_of(work: Work, i: int) -> Work:
    """Return one client's part of what several have computed."""
    return {name: part if part.dim() == 1 else part[i : i + 1].clone() for name, part in work.items()}


def joined(works: list[Work]) -> Work:
    """Return what several clients have computed, from the parts of each."""
    return {name: _rows([work[name] for work in works]) for name in works[0]}


def train_each(algorithm: Algorithm, work: Work, steps: Steps) -> tuple[Work, FloatArray]:
    """Train clients one after the other, so that the loss of each is known; return what they have, and losses [S]."""
    works, losses = [], np.empty(len(steps.clients))
    for i in range(len(losses)):
        trained, loss = algorithm.train(part_of(work, i), steps.of(i))
        works.append(trained)
        losses[i] = float(loss)
    return joined(works), losses


def _rows(parts: list[Tensor]) -> Tensor:
    if parts[0].dim() == 1 and all(part is parts[0] for part in parts):
        return parts[0]
    return torch.cat([part.reshape(-1, part.shape[-1]) for part in parts])
