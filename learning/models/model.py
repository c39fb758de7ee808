"""What a model is: parameters as one vector, a gradient, scores."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from torch import Tensor

from fedmule.learning.data.client_data import ClientData


class Model(Protocol):
    """A model whose parameters are one vector [d]; see MLP for what each part means.

    One with `random = True` (dropout) takes as a fourth argument of `gradient` a number for each batch, [S].
    One with several `layers` names them, each with its number of parameters, in their order in the vector.
    One with a method `descend(x, data, batches, eta, pull)` takes all steps of a visit itself, faster than `gradient`
    would; it may return None where it cannot.
    """

    parameters: int

    def start(self, generator: np.random.Generator) -> Tensor: ...

    def gradient(self, x: Tensor, features: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]: ...

    def scores(self, x: Tensor, features: Tensor) -> Tensor: ...

    def flops(self, samples: int) -> float: ...

    def smoothness(self, data: ClientData) -> float | None: ...


def layers(model: Model) -> dict[str, int]:
    """The model's layers by name, each with its number of parameters, in their order in the vector."""
    return getattr(model, "layers", None) or {"all": model.parameters}
