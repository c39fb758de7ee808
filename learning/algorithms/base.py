"""Base class of learning algorithms: the cost of an exchange, then an update with exactly the delivered clients."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedmule.learning.data.client_data import ClientData
from fedmule.learning.models.protocol import Model
from fedmule.learning.steps import Pull, descend, gradient

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]

# draw(ids [m], counters [m], k) -> uniform numbers [m,k]; each row depends only on its (id, counter).
Draw = Callable[[IntArray, IntArray, int], FloatArray]

BYTES_PER_NUMBER = 4  # parameters travel as float32


@dataclass(frozen=True)
class Settings:
    """Hyper-parameters that all algorithms share; those of a single algorithm are arguments of its class."""

    step_size: float  # η
    batch_size: int
    local_steps: int  # per client and visit
    open_at: float  # share of the run after which clients train alone, for algorithms that let them


@dataclass(frozen=True)
class Task:
    """Inputs of an algorithm: data, model, common settings, the parameters all clients start from, random batches."""

    data: ClientData
    model: Model
    settings: Settings
    start: Tensor  # [d]
    draw: Draw


@dataclass(frozen=True)
class Contact:
    """Clients that took part in a completed exchange."""

    clients: IntArray  # [S] the delivered clients, ascending
    neighbourhood: int  # number of clients in range
    progress: float  # share of the run that is over
    visited: int | None = None  # the client the vehicle drove to; None for an ideal server
    near: IntArray = field(default_factory=lambda: np.empty(0, dtype=np.int64))  # the clients in range, ascending


@dataclass(frozen=True)
class Exchange:
    """Cost of an exchange for each of m clients: bytes and FLOPs."""

    bytes_down: IntArray  # [m]
    bytes_up: IntArray  # [m]
    flops: FloatArray  # [m] the client's computation
    broadcast: bool = True  # every client that receives anything receives the same bytes
    charged: bool = True  # False: the exchange takes time but its bytes are not counted (training alone)


@dataclass(frozen=True)
class Update:
    """Result of an update."""

    train_loss: float  # mean minibatch loss
    gradient_steps: int  # per delivered client
    token_step_norm: float  # how far the token moved
    kappa: float | None = None  # the dual step used


@dataclass(frozen=True)
class Constraint:
    """Violation of |x − y| ≤ eps over all clients and coordinates, and the penalty that L_β adds for it."""

    violation_max: float
    violation_rms: float
    violated_share: float
    dual_norm: float
    penalty: float  # L_β = mean loss + penalty


class Algorithm:
    """Base class of algorithms: stacked client models, the token, batches. Subclass and override `update`.

    The keyword arguments of a subclass are the keys of its own table in a scenario. The program calls the class methods
    (`gradients_per_visit`, `state_tensors`, `asks_for_sites`) before it builds an algorithm.
    """

    state_copies = 1  # number of tensors [n,d] it keeps
    needs_sites = False  # whether it needs the site of each client
    carried: tuple[str, ...] = ("token",)  # attributes that the vehicle carries; each of several vehicles has its own
    vehicles = 1
    counted: int | None = None  # clients that the current vehicle's token averages over, if set from outside
    adds_up = False  # whether the token is the mean of the clients' last contributions, so changes can be summed
    grows = False  # whether that mean is over the clients met so far instead of all clients
    beta: float | None = None  # penalty β, if the algorithm has one

    def __init__(self, task: Task) -> None:
        start = task.start
        self.data = task.data
        self.model = task.model
        self.settings = task.settings
        self.device = start.device
        self.token = start.clone()  # y [d]
        self.models = start.repeat(task.data.clients, 1)  # x [n,d]
        self.participations = np.zeros(task.data.clients, dtype=np.int64)
        self.last_step_sq = start.new_zeros(task.data.clients)  # |x_new − x_old|² at each client's last update
        self._draw = task.draw

    @classmethod
    def gradients_per_visit(cls, local_steps: int, **keys: Any) -> int:
        """Return the gradients a client computes per visit, given the keys of the algorithm's own table."""
        return local_steps

    @classmethod
    def state_tensors(cls, **keys: Any) -> int:
        """Return the number of tensors [n,d] the algorithm will keep, given the keys of its own table."""
        return cls.state_copies

    @classmethod
    def asks_for_sites(cls, **keys: Any) -> bool:
        """Return whether the algorithm needs the site of each client, given the keys of its own table."""
        return cls.needs_sites

    @property
    def steps(self) -> int:
        """Gradients a client computes per visit."""
        return self.gradients_per_visit(self.settings.local_steps)

    @property
    def flops_per_step(self) -> float:
        """FLOPs of one plain gradient step on a client's device."""
        return self.model.flops(self.settings.batch_size) + 6.0 * self.model.parameters

    def exchange(self, clients: IntArray, progress: float) -> Exchange:
        """Return the cost of an exchange with these clients; `progress` is the share of the run that is over."""
        size = np.full(len(clients), BYTES_PER_NUMBER * self.model.parameters)
        return Exchange(bytes_down=size, bytes_up=size, flops=self._flops(len(clients)))

    def meeting(self, progress: float) -> Exchange:
        """Return the cost of two vehicles exchanging what they carry; zero bytes if there is nothing to exchange."""
        size = np.array([BYTES_PER_NUMBER * self.model.parameters])
        return Exchange(bytes_down=size, bytes_up=size, flops=np.zeros(1))

    def update(self, contact: Contact) -> Update:
        """Update with exactly the delivered clients."""
        raise NotImplementedError

    def introduce(self, client: int, near: IntArray) -> None:
        """Add a client that joins late; `near` are the clients known to be close to it."""

    def tokens(self, clients: IntArray) -> Tensor:
        """Return the token each of these clients would receive now: [d] if it is the same for all, else [S,d]."""
        return self.token

    def constraint(self, progress: float) -> Constraint | None:
        """Return diagnostics of |x − y| ≤ eps, if the algorithm has such a constraint."""
        return None

    # --- for the updates -----------------------------------------------------------------------------------

    def _flops(self, clients: int) -> FloatArray:
        return np.full(clients, self.steps * self.flops_per_step)

    def _batches(self, clients: IntArray, count: int | None = None) -> Tensor:
        """Draw the batches of the clients' next participation, rows [count,S,B], and count the participation.

        A client's batches depend only on the client and its participation count. The default is one batch per gradient.
        """
        size, count = self.settings.batch_size, self.steps if count is None else count
        rows = self._draw(clients, self.participations[clients], count * size)
        rows *= self._batch_pool(clients)[:, None]
        index = rows.astype(np.int64)
        index += self.data.first[clients, None]
        self.participations[clients] += 1
        index = np.ascontiguousarray(index.reshape(len(clients), count, size).swapaxes(0, 1))
        return torch.from_numpy(index).to(self.device, non_blocking=True)

    def _batch_pool(self, clients: IntArray) -> IntArray:
        """Return how many of each client's training samples, from the first on, batches are drawn from."""
        return self.data.train_count[clients]

    def _descend(self, x: Tensor, batches: Tensor, pull: Pull | None = None) -> tuple[Tensor, Tensor | float]:
        """Run SGD from models x [S,d] over batches [steps,S,B]; return the models and the mean loss."""
        return descend(self.model, self.data, x, batches, self.settings.step_size, pull)

    def _gradient(self, x: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Return gradients [S,d] and losses [S] of models x [S,d] on the samples rows [S,B]."""
        return gradient(self.model, self.data, x, rows)

    def _store(self, index: Tensor, before: Tensor, x: Tensor) -> None:
        """Store the clients' models x [S,d] and their squared distances from `before`."""
        self.models.index_copy_(0, index, x)
        self.last_step_sq.index_copy_(0, index, torch.linalg.vector_norm(x - before, dim=1).square_())

    def _replace_token(self, token: Tensor) -> float:
        """Replace the token; return how far it moved."""
        moved = float((token - self.token).norm())
        self.token = token
        return moved

    def _divisor(self, counted: int, delivered: int) -> float:
        """Return the divisor of the summed changes of the delivered clients, for a token that is a mean over `counted`.

        Each of W averaged tokens sees only one change in W, so a change counts W times; but a token never moves
        beyond the mean of the delivered contributions.
        """
        return max(counted / self.vehicles, delivered) if self.counted is None else self.counted

    def _index(self, clients: IntArray) -> Tensor:
        return torch.from_numpy(clients).to(self.device)
