"""Diagnostics of |x − y| ≤ eps over all clients."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from torch import Tensor

from fedmule.learning.algorithms.base import Constraint, IntArray

CHUNK = 4096  # clients evaluated together; bounds the memory


def measure(
    models: Tensor,
    tokens: Callable[[IntArray], Tensor],
    duals: Tensor,
    eps: float | Tensor,
    penalty: Callable[[slice], Tensor],
) -> Constraint:
    """Measure how far models [n,d] lie outside the tube, and average penalty(rows), a sum over rows, over clients."""
    n = len(models)
    worst, squares, outside, added = 0.0, 0.0, 0, 0.0
    for first in range(0, n, CHUNK):
        rows = slice(first, min(first + CHUNK, n))
        excess = ((models[rows] - tokens(np.arange(rows.start, rows.stop))).abs() - eps).clamp(min=0)
        worst = max(worst, float(excess.max()))
        squares += float(excess.square().sum())
        outside += int((excess > 0).sum())
        added += float(penalty(rows))
    return Constraint(
        violation_max=worst,
        violation_rms=math.sqrt(squares / models.numel()),
        violated_share=outside / models.numel(),
        dual_norm=float(duals.norm()),
        penalty=added / n,
    )
