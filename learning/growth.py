"""How large the token and what clients hold are: they show that models diverge."""

from __future__ import annotations

import torch

from fedmule.learning.algorithms.base import Algorithm, IntArray


def sizes_of(algorithm: Algorithm, clients: IntArray) -> dict[str, float]:
    """Return the norm of the token, and the largest of these clients' models and duals, by name."""
    index = torch.from_numpy(clients).to(algorithm.device)
    parts = {"the token": algorithm.token.view(1, -1), "a model": algorithm.models.index_select(0, index)}
    if algorithm.duals is not None:
        parts["a dual"] = algorithm.duals.index_select(0, index)
    largest = torch.stack([torch.linalg.vector_norm(part, dim=1).max() for part in parts.values()])
    return dict(zip(parts, largest.cpu().tolist(), strict=True))  # one read from the device
