"""Base class of learning algorithms: what is sent, what clients compute from it, and how their results are combined."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedmule.learning.data.client_data import ClientData
from fedmule.learning.models.protocol import Model
from fedmule.learning.one_by_one import train_each
from fedmule.learning.steps import Pull, descend, gradient

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]

# draw(ids [m], counters [m], k) -> uniform numbers [m,k]; each row depends only on its (id, counter).
Draw = Callable[[IntArray, IntArray, int], FloatArray]

BYTES_PER_NUMBER = 4  # parameters travel as float32

Parcel = dict[str, Tensor]  # what a client is sent, by name

# What S clients have computed so far, by name: rows [S,·], or one tensor [d] that is the same for all of them. "x" is
# always there: the model that each client holds.
Work = dict[str, Tensor]


@dataclass(frozen=True)
class Settings:
    """Hyper-parameters that all algorithms share; those of a single algorithm are arguments of its class."""

    step_size: float  # η
    batch_size: int
    local_steps: int  # per client and visit
    open_at: float  # share of the run after which clients train alone, for algorithms that let them
    between_contacts: bool = False  # clients compute between contacts instead of at contacts


@dataclass(frozen=True)
class Payload:
    """Cost of the network one has in mind while a small model is trained; None: as the trained model."""

    bytes: int | None = None  # of one model on the air
    flops_per_sample: float | None = None  # of one sample's share of a gradient step


@dataclass(frozen=True)
class Task:
    """Inputs of an algorithm: data, model, common settings, the parameters all clients start from, random batches."""

    data: ClientData
    model: Model
    settings: Settings
    start: Tensor  # [d]
    draw: Draw
    payload: Payload = Payload()


@dataclass(frozen=True)
class Contact:
    """Clients that took part in a completed exchange."""

    clients: IntArray  # [S] the delivered clients, ascending
    neighbourhood: int  # number of clients in range
    progress: float  # share of the run that is over
    visited: int | None = None  # the client the vehicle drove to; None for an ideal server
    near: IntArray = field(default_factory=lambda: np.empty(0, dtype=np.int64))  # the clients in range, ascending
    ended_s: float = math.nan  # when it ended, in simulated time
    sent: Sequence[Parcel] | None = None  # [S] what each client was sent; None: what it would be sent now
    steps: int | None = None  # local steps that clients take; None: `local_steps`


@dataclass(frozen=True)
class Steps:
    """Local steps that clients take from what they were sent in one participation; they determine the batches."""

    clients: IntArray  # [S]
    participation: IntArray  # [S] its number for each client: 0, 1, …
    first: int  # steps taken before
    last: int  # steps taken afterwards

    def of(self, i: int) -> Steps:
        """Return the steps of the i-th client alone."""
        return replace(self, clients=self.clients[[i]], participation=self.participation[[i]])


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

    train_loss: float | None  # mean minibatch loss; None: nobody had computed anything
    gradient_steps: int | IntArray  # per delivered client, the same for all or [S]
    token_step_norm: float  # how far the token moved
    kappa: float | None = None  # the dual step used
    age_s: float | None = None  # how old the tokens were from which the results handed over started, mean over clients
    losses: FloatArray | None = None  # [S] of each client, nan where it had computed nothing; None: not known


@dataclass(frozen=True)
class Constraint:
    """Violation of |x − y| ≤ eps over all clients and coordinates, and the penalty that L_β adds for it."""

    violation_max: float
    violation_rms: float
    violated_share: float
    dual_norm: float
    penalty: float  # L_β = mean loss + penalty


class Algorithm:
    """Base class of algorithms: stacked client models, the token, batches.

    Subclass and override `start`, `train` and `combine`: what clients start from, what they compute, what becomes of
    it. A class that overrides `update` instead can be used for training at contacts only.

    The keyword arguments of a subclass are the keys of its own table in a scenario. The program calls the class methods
    (`gradients_per_visit`, `state_tensors`, `asks_for_sites`, …) before it builds an algorithm.
    """

    state_copies = 1  # number of tensors [n,d] it keeps
    needs_sites = False  # whether it needs the site of each client
    one_for_all = False  # whether a contact changes the models of all clients, those of others too
    carried: tuple[str, ...] = ("token",)  # attributes that the vehicle carries; each of several vehicles has its own
    vehicles = 1
    counted: int | None = None  # clients that the current vehicle's token averages over, if set from outside
    adds_up = False  # whether the token is the mean of the clients' last contributions, so changes can be summed
    grows = False  # whether that mean is over the clients met so far instead of all clients
    beta: float | None = None  # penalty β, if the algorithm has one
    usual_beta: float | None = None  # the one it has by default
    duals: Tensor | None = None  # [n,d], if the algorithm has them
    losses_of_each = False  # whether the loss of each client is asked for, not only their mean
    added: NDArray[np.bool_] | None = None  # [n] has added its own labels to the token it took, if clients may do so
    try_at = 0.0  # share of the run by which clients choose between the token and training alone; 0: they do not

    def __init__(self, task: Task) -> None:
        self.data = task.data
        self.model = task.model
        self.settings = task.settings
        self.payload = task.payload
        self.device = task.start.device
        self.token = task.start.clone()  # y [d]
        self.models = task.start.repeat(task.data.clients, 1)  # x [n,d]
        self.participations = np.zeros(task.data.clients, dtype=np.int64)
        self.withheld = np.zeros(task.data.clients, dtype=np.int64)  # last training samples that nobody learns from now
        self.last_step_sq = task.start.new_zeros(task.data.clients)  # |x_new − x_old|² at each client's last update
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

    @classmethod
    def asks_for_alone(cls, **keys: Any) -> bool:
        """Return whether clients choose between the token and training alone, given the keys of its own table."""
        return False

    @classmethod
    def trains_between_contacts(cls, **keys: Any) -> bool:
        """Return whether clients can compute between contacts: not where `update` alone says what they do."""
        makers = [next(c for c in cls.__mro__ if name in vars(c)) for name in ("combine", "update")]
        return issubclass(*makers)

    @classmethod
    def check_model(cls, model: Model, data: ClientData, **keys: Any) -> None:
        """Raise a DataError if the algorithm cannot train this model, given the keys of its own table."""

    @property
    def steps(self) -> int:
        """Gradients a client computes per visit."""
        return self.gradients(self.settings.local_steps)

    @property
    def kappa(self) -> float | None:
        """The dual step κ of the next update, if there is one."""
        return None

    def gradients(self, local_steps: int) -> int:
        """Return the gradients a client computes in this many local steps, one or more."""
        return self.gradients_per_visit(local_steps)

    def flops_saved(self, local_steps: int) -> float:
        """Return the FLOPs that a client saves if it takes this many steps instead of `local_steps`."""
        return (self.steps - self.gradients(local_steps)) * self.flops_per_step()

    def preparation_flops(self, clients: IntArray, progress: float) -> FloatArray:
        """Return the FLOPs [S] of each client before its first step, with what it would be sent now."""
        return np.zeros(len(clients))

    @property
    def model_bytes(self) -> int:
        """Bytes of one model on the air."""
        return self.trained_bytes if self.payload.bytes is None else self.payload.bytes

    @property
    def trained_bytes(self) -> int:
        """Bytes of the parameters that are trained."""
        return BYTES_PER_NUMBER * self.model.parameters

    def flops_per_step(self) -> float:
        """Return the FLOPs of one gradient step: over a batch, and applied to the parameters."""
        samples, given = self.settings.batch_size, self.payload.flops_per_sample
        return self.model.flops(samples) + 6.0 * self.model.parameters if given is None else samples * given

    def flops_per_sample(self) -> float:
        """Return the FLOPs of one sample's gradient: about those of three forward passes."""
        given = self.payload.flops_per_sample
        return self.model.flops(1) if given is None else given

    def exchange(self, clients: IntArray, progress: float) -> Exchange:
        """Return the cost of an exchange with these clients; `progress` is the share of the run that is over."""
        size = np.full(len(clients), self.model_bytes)
        return Exchange(bytes_down=size, bytes_up=size, flops=self._flops(len(clients)))

    def meeting(self, progress: float) -> Exchange:
        """Return the cost of two vehicles exchanging what they carry; zero bytes if there is nothing to exchange."""
        size = np.array([self.model_bytes])
        return Exchange(bytes_down=size, bytes_up=size, flops=np.zeros(1))

    # --- an update, in its parts ---------------------------------------------------------------------------

    def update(self, contact: Contact) -> Update:
        """Update with exactly the delivered clients: each trains on what it was sent, and the results are combined."""
        if contact.sent is None:
            sent = self.send(contact.clients, contact.progress, contact.visited, contact.near)
            given = contact.clients, contact.neighbourhood, contact.progress, contact.visited, contact.near
            contact = Contact(*given, contact.ended_s, sent, contact.steps)  # a third of the time of `replace`
        self.meet(contact)
        participation, kappa = self.participations[contact.clients], self.kappa
        count = self.settings.local_steps if contact.steps is None else contact.steps
        work, steps = self.take(contact), Steps(contact.clients, participation, 0, count)
        if self.losses_of_each and len(contact.clients) > 1:
            work, losses = train_each(self, work, steps)
            gradients, moved = self.gradients(count), self.combine(contact, work)
            return Update(float(losses.mean()), gradients, moved, kappa, losses=losses)
        work, loss = self.train(work, steps)
        return Update(float(loss), self.gradients(count), self.combine(contact, work), kappa)

    def send(
        self, clients: IntArray, progress: float, visited: int | None = None, near: IntArray | None = None
    ) -> list[Parcel]:
        """Return what each of these clients is sent now; `visited` and `near` are those of the contact that begins."""
        tokens = self.tokens(clients)
        if tokens.dim() == 1:  # a copy: an algorithm may change its token in place
            return [{"token": tokens.clone()}] * len(clients)
        return [{"token": token} for token in tokens]

    def meet(self, contact: Contact) -> None:
        """Note that a contact got through, before its clients take what they were sent."""

    def take(self, contact: Contact) -> Work:
        """Let the delivered clients take what they were sent, and count the participation; return where they start."""
        assert contact.sent is not None
        work = self.start(contact.clients, contact.sent, contact.progress)
        self.took(contact.clients, work, contact.progress)
        return work

    def took(self, clients: IntArray, work: Work, progress: float) -> None:
        """Note that clients have taken what they were sent and start from `work`."""
        self.participations[clients] += 1

    def start(self, clients: IntArray, sent: Sequence[Parcel], progress: float) -> Work:
        """Return what clients start from with what they were sent; changes nothing."""
        raise NotImplementedError

    def train(self, work: Work, steps: Steps) -> tuple[Work, Tensor | float]:
        """Return what clients have after these steps, and their mean loss; changes nothing."""
        raise NotImplementedError

    def keeps(self, clients: IntArray, progress: float) -> NDArray[np.bool_]:
        """Return for which of these clients [S] the results of training between contacts are used at a contact now."""
        return np.ones(len(clients), dtype=bool)

    def frozen(self, progress: float) -> bool:
        """Return whether the token does not move any more, whatever clients send."""
        return False

    def combine(self, contact: Contact, work: Work) -> float:
        """Store what the clients of a contact hand over, move the token, and return how far it moved."""
        raise NotImplementedError

    def introduce(self, client: int, near: IntArray) -> None:
        """Add a client that joins late; `near` are the clients known to be close to it."""

    @property
    def adds_labels(self) -> bool:
        """Whether clients that take the token for good now add their own label frequencies to it."""
        return False

    def wrong_with_own_labels(self, client: int) -> NDArray[np.bool_] | None:
        """Return which samples held out a client's last token with its own labels got wrong; None: not tried."""
        return None

    def forget(self, clients: IntArray) -> None:
        """Forget what these clients have reported about their data, which have changed."""

    def tokens(self, clients: IntArray) -> Tensor:
        """Return the token each of these clients would receive now: [d] if it is the same for all, else [S,d]."""
        return self.token

    def constraint(self, progress: float) -> Constraint | None:
        """Return diagnostics of |x − y| ≤ eps, if the algorithm has such a constraint."""
        return None

    # --- for the updates -----------------------------------------------------------------------------------

    def _flops(self, clients: int) -> FloatArray:
        return np.full(clients, self.steps * self.flops_per_step())

    def _rows(self, work: Work, steps: Steps, first: int, last: int) -> Tensor:
        """Draw batches number first … last − 1 of the clients' participations, rows [last − first,S,B].

        A client's batches depend only on the client and the number of its participation; more have fewer as a prefix.
        """
        from fedmule.learning.kernels import rows_of  # slow to import, so only where needed

        size, pool = self.settings.batch_size, self._batch_pool(work, steps)
        numbers = self._draw(steps.clients, steps.participation, last * size)
        rows = rows_of(numbers, pool, self.data.first[steps.clients], first, size)
        return torch.from_numpy(rows).to(self.device, non_blocking=True)

    def _batches(self, clients: IntArray, count: int | None = None) -> Tensor:
        """Draw the batches of the clients' next participation, rows [count,S,B], and count the participation.

        For classes that override `update`. The default is one batch per gradient.
        """
        count = self.steps if count is None else count
        rows = self._rows({}, Steps(clients, self.participations[clients], 0, count), 0, count)
        self.participations[clients] += 1
        return rows

    def _batch_pool(self, work: Work, steps: Steps) -> IntArray:
        """Return how many of each client's training samples, from the first on, batches are drawn from."""
        return self.data.train_count[steps.clients] - self.withheld[steps.clients]

    def _together(self, parts: Sequence[Tensor]) -> Tensor:
        """Return tensors [d] of several clients as one [d] if they are the same, else as rows [S,d]."""
        same = all(part is parts[0] for part in parts)
        return parts[0] if same else torch.stack(tuple(parts))

    def _token_sent(self, sent: Sequence[Parcel]) -> Tensor:
        """Return the tokens that clients were sent: [d] if it is the same for all, else [S,d]."""
        return self._together([parcel["token"] for parcel in sent])

    def _copies(self, token: Tensor, clients: int) -> Tensor:
        """Return the tokens of this many clients as rows [S,d]."""
        return token.repeat(clients, 1) if token.dim() == 1 else token

    def train_alone(self, x: Tensor, steps: Steps) -> Tensor:
        """Return models x [S,d] after these steps on the clients' own data, with nothing that pulls them."""
        return self._descend(x, self._rows({}, steps, steps.first, steps.last))[0]

    def _descend(
        self, x: Tensor, batches: Tensor, pull: Pull | None = None, eta: float | None = None
    ) -> tuple[Tensor, Tensor | float]:
        """Run SGD from models x [S,d] over batches [steps,S,B]; return the models and the mean loss."""
        return descend(self.model, self.data, x, batches, self.settings.step_size if eta is None else eta, pull)

    def _gradient(self, x: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Return gradients [S,d] and losses [S] of models x [S,d] on the samples rows [S,B]."""
        return gradient(self.model, self.data, x, rows)

    def _keep(self, clients: IntArray, x: Tensor) -> None:
        """Store the clients' models x [S,d] and their squared distances from the models before."""
        index = self._index(clients)
        self._store(index, self.models.index_select(0, index), x)

    def _store(self, index: Tensor, before: Tensor, x: Tensor) -> None:
        """Store the clients' models x [S,d] and their squared distances from `before`."""
        self.models.index_copy_(0, index, x)
        self.last_step_sq.index_copy_(0, index, torch.linalg.vector_norm(x - before, dim=1).square_())

    def _replace_token(self, token: Tensor) -> float:
        """Replace the token; return how far it moved."""
        before, self.token = self.token, token
        return float((token - before).norm())

    def _divisor(self, counted: int, delivered: int) -> float:
        """Return the divisor of the summed changes of the delivered clients, for a token that is a mean over `counted`.

        Each of W averaged tokens sees only one change in W, so a change counts W times; but a token never moves
        beyond the mean of the delivered contributions.
        """
        return max(counted / self.vehicles, delivered) if self.counted is None else self.counted

    def _index(self, clients: IntArray) -> Tensor:
        return torch.from_numpy(clients).to(self.device)
