"""What a learning algorithm is: the cost of an exchange, then an update with exactly the delivered clients."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedmule.learning.data.client_data import ClientData
from fedmule.learning.models.model import Model
from fedmule.learning.steps import Pull, descend, gradient

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]

# draw(ids [m], counters [m], k) -> uniform numbers [m,k] that depend on (id, counter) alone.
Draw = Callable[[IntArray, IntArray, int], FloatArray]

BYTES_PER_NUMBER = 4  # parameters travel as float32


@dataclass(frozen=True)
class Settings:
    """The numbers all algorithms share; those of one algorithm are arguments of its class."""

    step_size: float  # η
    batch_size: int
    local_steps: int  # of a client per visit
    open_at: float  # share of the run after which clients train on their own, for algorithms that let them


@dataclass(frozen=True)
class Task:
    """What an algorithm learns: data, model, the model everyone starts from, random batches and common settings."""

    data: ClientData
    model: Model
    settings: Settings
    start: Tensor  # [d]
    draw: Draw


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
    """Cost of an exchange for each of m clients: bytes and FLOPs."""

    bytes_down: IntArray  # [m]
    bytes_up: IntArray  # [m]
    flops: FloatArray  # [m] the client's computation
    broadcast: bool = True  # the bytes down are the same for all who get any
    charged: bool = True  # False: the exchange takes its time but its bytes are not counted (training alone)


@dataclass(frozen=True)
class Update:
    """Result of an update."""

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
    """Base class of algorithms: stacked client models, the token, batches. Subclass and override `update`.

    Keyword arguments of a subclass are the keys of its own table in a scenario. What the program wants to know before
    an algorithm is built (`gradients_per_visit`, `state_tensors`, `asks_for_sites`) it asks the class.
    """

    state_copies = 1  # how many numbers it keeps for each client and parameter: tensors [n,d]
    needs_sites = False  # whether it must know the site of each client
    carried: tuple[str, ...] = ("token",)  # what the vehicle carries; several vehicles carry one each and average it
    vehicles = 1  # how many do
    counted: int | None = None  # over how many clients the present vehicle's token is a mean, if that is decided for it
    adds_up = False  # whether the token is the mean of the clients' last contributions, so that changes add up
    grows = False  # whether that mean is over those met so far, not over all
    beta: float | None = None  # the penalty β, if it has one

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
        """Gradients a client computes per visit, with these keys of the algorithm's own table."""
        return local_steps

    @classmethod
    def state_tensors(cls, **keys: Any) -> int:
        """Count the tensors [n,d] it will keep, with these keys of its own table."""
        return cls.state_copies

    @classmethod
    def asks_for_sites(cls, **keys: Any) -> bool:
        """Tell whether it must know the site of each client, with these keys of its own table."""
        return cls.needs_sites

    @property
    def steps(self) -> int:
        """Gradients a client computes per visit."""
        return self.gradients_per_visit(self.settings.local_steps)

    def exchange(self, clients: IntArray, progress: float) -> Exchange:
        """Return the cost of an exchange with these clients; progress is the share of the run that is over."""
        size = np.full(len(clients), BYTES_PER_NUMBER * self.model.parameters)
        return Exchange(bytes_down=size, bytes_up=size, flops=self._flops(len(clients)))

    def meeting(self, progress: float) -> Exchange:
        """Return the cost of two vehicles exchanging what they carry; no bytes if there is nothing to exchange."""
        size = np.array([BYTES_PER_NUMBER * self.model.parameters])
        return Exchange(bytes_down=size, bytes_up=size, flops=np.zeros(1))

    def update(self, contact: Contact) -> Update:
        """Update with exactly the delivered clients."""
        raise NotImplementedError

    def introduce(self, client: int, near: IntArray) -> None:
        """Let a client join, near these others as far as is known."""

    def tokens(self, clients: IntArray) -> Tensor:
        """Return what each of these clients would be given now: [d] for all alike, or [S,d]."""
        return self.token

    def constraint(self, progress: float) -> Constraint | None:
        """Return diagnostics of |x − y| ≤ eps, if the algorithm has such a constraint."""
        return None

    # --- for the updates -----------------------------------------------------------------------------------

    def _flops(self, clients: int) -> FloatArray:
        per_step = self.model.flops(self.settings.batch_size) + 6.0 * self.model.parameters
        return np.full(clients, self.steps * per_step)

    def _batches(self, clients: IntArray, count: int | None = None) -> Tensor:
        """Rows [count,S,B] of the batches of the clients' next participation; counts the participation.

        They depend on (client, its own participation count) alone. By default there is one per gradient.
        """
        size, count = self.settings.batch_size, self.steps if count is None else count
        rows = self._draw(clients, self.participations[clients], count * size)
        rows *= self._drawn_from(clients)[:, None]
        index = rows.astype(np.int64)
        index += self.data.first[clients, None]
        self.participations[clients] += 1
        index = np.ascontiguousarray(index.reshape(len(clients), count, size).swapaxes(0, 1))
        return torch.from_numpy(index).to(self.device, non_blocking=True)

    def _drawn_from(self, clients: IntArray) -> IntArray:
        """How many of their samples batches are drawn from, the first ones: all for training."""
        return self.data.train_count[clients]

    def _descend(self, x: Tensor, batches: Tensor, pull: Pull | None = None) -> tuple[Tensor, Tensor | float]:
        """SGD from models x [S,d] over batches [steps,S,B]; returns the models and the mean loss."""
        return descend(self.model, self.data, x, batches, self.settings.step_size, pull)

    def _gradient(self, x: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Gradients [S,d] and losses [S] of models x [S,d] on the samples rows [S,B]."""
        return gradient(self.model, self.data, x, rows)

    def _store(self, index: Tensor, before: Tensor, x: Tensor) -> None:
        """Store the clients' models, and how far they moved."""
        self.models.index_copy_(0, index, x)
        self.last_step_sq.index_copy_(0, index, torch.linalg.vector_norm(x - before, dim=1).square_())

    def _replace_token(self, token: Tensor) -> float:
        """Carry another token from now on; returns how far it moved."""
        moved = float((token - self.token).norm())
        self.token = token
        return moved

    def _divisor(self, counted: int, delivered: int) -> float:
        """What the sum of the delivered clients' changes is divided by, for a token that is a mean over `counted`.

        Where W tokens are averaged, each sees one change in W, so that a change counts W times; yet a token moves no
        further than to the mean of those delivered.
        """
        return max(counted / self.vehicles, delivered) if self.counted is None else self.counted

    def _index(self, clients: IntArray) -> Tensor:
        return torch.from_numpy(clients).to(self.device)
