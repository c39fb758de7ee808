"""Numbers that clients report beside their models at a contact, for vehicles that ask for them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from fedmule.learning.algorithms.base import Algorithm, FloatArray, IntArray, Update


@dataclass(frozen=True)
class Reports:
    """What the delivered clients of a contact report; nan: nothing. Numbers beside a model are not charged."""

    losses: FloatArray  # [S] mean loss of the minibatches that each has trained on
    dual_norms: FloatArray  # [S] Euclidean norm of its dual after the contact


def losses_of(update: Update | None, clients: int) -> FloatArray:
    """Return the loss of each of the S clients of an update; where only their mean is known, that; nan for none."""
    if update is None:
        return np.full(clients, np.nan)
    if update.losses is not None:
        return update.losses
    return np.full(clients, np.nan if update.train_loss is None else update.train_loss)


def reports_of(algorithm: Algorithm, clients: IntArray, update: Update | None) -> Reports:
    """Return what these clients [S] report after an update. Duals are the algorithm's attribute `duals` [n,d]."""
    norms: NDArray[np.float64] = np.full(len(clients), np.nan)
    duals = getattr(algorithm, "duals", None)
    if duals is not None and len(clients):
        index = torch.from_numpy(clients).to(duals.device)
        norms = torch.linalg.vector_norm(duals.index_select(0, index), dim=1).cpu().double().numpy()
    return Reports(losses_of(update, len(clients)), norms)
