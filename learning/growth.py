"""How large the token and what clients hold are: they show that models diverge."""

from __future__ import annotations

import torch

from fedmule.learning.algorithms.base import Algorithm, IntArray


def sizes_of(algorithm: Algorithm, clients: IntArray) -> dict[str, float]:
    """Return the norm of the token, and the largest of these clients' models and duals, by name."""
    index = torch.from_numpy(clients).to(algorithm.device)
    parts = {"the token": algorithm.token, "a model": algorithm.models[index]}
    if algorithm.duals is not None:
        parts["a dual"] = algorithm.duals[index]
    return {name: float(part.norm(dim=-1).max()) for name, part in parts.items()}
