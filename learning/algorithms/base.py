"""What a learning algorithm is: what an exchange weighs, then an update with exactly the delivered clients."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedmule.learning.data.client_data import ClientData

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]

# draw(ids [m], counters [m], k) -> uniform numbers [m,k] that depend on (id, counter) alone.
Draw = Callable[[IntArray, IntArray, int], FloatArray]

BYTES_PER_NUMBER = 4  # parameters travel as float32


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


@dataclass(frozen=True)
class Settings:
    """The numbers an algorithm is run with; each algorithm takes those it knows."""

    step_size: float = 0.1
    batch_size: int = 20
    local_steps: int = 10
    variant: str = "slack"
    beta: float = 1.0
    kappa: float = 0.5
    kappa_decay: float | None = None
    eps: float | tuple[float, ...] = 0.0
    open_at: float = 0.75
    project_on_arrival: bool = True
    growing_mean: bool = True
    token_pace: float | None = None
    rho: float | str = "cv"
    ifca_clusters: int = 8
    fine_tune: bool = False
    ditto_lambda: float = 1.0
    apfl_alpha: float = 0.5
    apfl_adaptive: bool = False
    pfedme_lambda: float = 15.0
    pfedme_step_size: float = 0.005
    pfedme_inner_steps: int = 5
    pfedme_mix: float = 1.0
    per_fedavg_step_size: float = 0.01
    per_fedavg_variant: str = "first_order"
    per_fedavg_delta: float = 0.001


@dataclass(frozen=True)
class Contact:
    """Who took part in an exchange that got through."""

    clients: IntArray  # [S] the delivered clients, ascending
    neighbourhood: int  # how many clients were in range
    progress: float  # the share of the run that is over
    visited: int | None = None  # the client the vehicle drove to; None for an ideal server
    near: IntArray = field(default_factory=lambda: np.empty(0, dtype=np.int64))  # the clients in range, ascending


@dataclass(frozen=True)
class Exchange:
    """What an exchange weighs for each of m clients."""

    bytes_down: IntArray  # [m]
    bytes_up: IntArray  # [m]
    flops: FloatArray  # [m] the client's computation
    broadcast: bool = True  # the bytes down are the same for all who get any
    charged: bool = True  # False: the exchange takes its time but its bytes are not counted (training alone)


@dataclass(frozen=True)
class Update:
    """What an update did."""

    train_loss: float  # mean minibatch loss
    gradient_steps: int  # by each delivered client
    token_step_norm: float  # how far the token moved
    kappa: float | None = None  # the dual step used


@dataclass(frozen=True)
class Constraint:
    """How far clients are from |x − y| ≤ eps, over all clients and coordinates, and what L_β adds for it."""

    violation_max: float
    violation_rms: float
    violated_share: float
    dual_norm: float
    penalty: float  # L_β = mean loss + penalty


class Algorithm:
    """Base of the algorithms: stacked client models, the token, batches. One of one's own overrides `update`."""

    state_copies = 1  # how many numbers it keeps for each client and parameter: tensors [n,d]
    carried: tuple[str, ...] = ("token",)  # what the vehicle carries; several vehicles carry one each and average it
    vehicles = 1  # how many do
    counted: int | None = None  # over how many clients the present vehicle's token is a mean, if that is decided for it
    adds_up = False  # whether the token is the mean of the clients' last contributions, so that changes add up
    grows = False  # whether that mean is over those met so far, not over all

    def __init__(self, data: ClientData, model: Model, settings: Settings, start: Tensor, draw: Draw) -> None:
        self.data = data
        self.model = model
        self.settings = settings
        self.device = start.device
        self.token = start.clone()  # y [d]
        self.models = start.repeat(data.clients, 1)  # x [n,d]
        self.participations = np.zeros(data.clients, dtype=np.int64)
        self.last_step_sq = start.new_zeros(data.clients)  # |x_new − x_old|² at each client's last update
        self._draw = draw

    @property
    def steps(self) -> int:
        """Gradients a client computes per visit."""
        return self.settings.local_steps

    def exchange(self, clients: IntArray, progress: float) -> Exchange:
        """What an exchange with these clients weighs; progress is the share of the run that is over."""
        size = np.full(len(clients), BYTES_PER_NUMBER * self.model.parameters)
        return Exchange(bytes_down=size, bytes_up=size, flops=self._flops(len(clients)))

    def meeting(self, progress: float) -> Exchange:
        """What it weighs when two vehicles exchange what they carry; no bytes: there is nothing to exchange."""
        size = np.array([BYTES_PER_NUMBER * self.model.parameters])
        return Exchange(bytes_down=size, bytes_up=size, flops=np.zeros(1))

    def update(self, contact: Contact) -> Update:
        """Update with exactly the delivered clients."""
        raise NotImplementedError

    def introduce(self, client: int, near: IntArray) -> None:
        """A client joins, and these others are near it as far as is known."""

    def tokens(self, clients: IntArray) -> Tensor:
        """What each of these clients would be given now: [d] for all alike, or [S,d]."""
        return self.token

    def constraint(self, progress: float) -> Constraint | None:
        """Diagnostics of |x − y| ≤ eps, if the algorithm has such a constraint."""
        return None

    # --- for the updates -----------------------------------------------------------------------------------

    def _flops(self, clients: int) -> FloatArray:
        per_step = self.model.flops(self.settings.batch_size) + 6.0 * self.model.parameters
        return np.full(clients, self.steps * per_step)

    def _batches(self, clients: IntArray, count: int | None = None) -> Tensor:
        """Rows [count,S,B] of the batches of the clients' next participation; counts the participation.

        They depend on (client, its own participation count) alone. There is one per gradient unless told.
        """
        size, count = self.settings.batch_size, self.steps if count is None else count
        rows = self._draw(clients, self.participations[clients], count * size)
        rows *= self._drawn_from(clients)[:, None]
        rows = rows.astype(np.int64)
        rows += self.data.first[clients, None]
        self.participations[clients] += 1
        rows = np.ascontiguousarray(rows.reshape(len(clients), count, size).swapaxes(0, 1))
        return torch.from_numpy(rows).to(self.device, non_blocking=True)

    def _drawn_from(self, clients: IntArray) -> IntArray:
        """How many of their samples batches are drawn from, the first ones: all for training."""
        return self.data.train_count[clients]

    def _gradient(self, x: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Gradients [S,d] and losses [S] of models x [S,d] on the samples rows [S,B]."""
        if getattr(self.model, "random", False):
            noisy: Any = self.model
            return noisy.gradient(x, self.data.features[rows], self.data.labels[rows], noise(rows))
        return self.model.gradient(x, self.data.features[rows], self.data.labels[rows])

    def _store(self, index: Tensor, before: Tensor, x: Tensor) -> None:
        """Put back the clients' models, noting how far they moved."""
        self.models.index_copy_(0, index, x)
        self.last_step_sq.index_copy_(0, index, torch.linalg.vector_norm(x - before, dim=1).square_())

    def _replace_token(self, token: Tensor) -> float:
        """Carry another token from now on; returns how far it moved."""
        moved = float((token - self.token).norm())
        self.token = token
        return moved

    def _divisor(self, counted: int, delivered: int) -> float:
        """What the sum of the delivered clients' changes is divided by, for a token that is a mean over `counted`.

        Where W tokens are averaged each is told of one change in W, so that it counts W times; yet a token goes no
        further than to the mean of those delivered.
        """
        return max(counted / self.vehicles, delivered) if self.counted is None else self.counted

    def _index(self, clients: IntArray) -> Tensor:
        return torch.from_numpy(clients).to(self.device)


def noise(rows: Tensor) -> list[int]:
    """A number for each client's batch [S,B], from its rows: what is random in a gradient follows from it alone."""
    words = rows.cpu().numpy().astype(np.uint64)
    odd = 2 * np.arange(1, rows.shape[1] + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(1)
    return [int(word) >> 1 for word in ((words + np.uint64(1)) * odd).sum(axis=1, dtype=np.uint64)]


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


def layers(model: Model) -> dict[str, int]:
    """The model's layers by name, each with its number of parameters, in their order in the vector."""
    return getattr(model, "layers", None) or {"all": model.parameters}


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


def descend(
    algorithm: Algorithm, x: Tensor, batches: Tensor, pull: Pull | None = None
) -> tuple[Tensor, Tensor | float]:
    """SGD over batches [steps,S,B]: x ← x − η g(x), and what pulls it; returns the models [S,d] and the mean loss."""
    eta = algorithm.settings.step_size
    whole = getattr(algorithm.model, "descend", None)
    found = whole(x, algorithm.data, batches, eta, pull) if whole else None
    if found is not None:
        return found
    losses = x.new_zeros(())
    for rows in batches:
        g, loss = algorithm._gradient(x, rows)
        if pull is not None and pull.first:
            x = pull(x) - eta * g
        else:
            x = x - eta * g
            x = pull(x) if pull else x
        losses += loss.mean()
    return x, losses / len(batches)
