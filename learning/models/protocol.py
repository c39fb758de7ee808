"""Interface of a model: parameters as one vector, a gradient, scores."""

from __future__ import annotations

from typing import Protocol

import numpy as np
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
      that autograd can follow.
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


def layers(model: Model) -> dict[str, int]:
    """Return the number of parameters of each layer by name, in their order in the vector."""
    return getattr(model, "layers", None) or {"all": model.parameters}
