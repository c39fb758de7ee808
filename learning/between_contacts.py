"""Training between contacts: clients go on with what they were given, and hand over the result at the next contact."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from torch import Tensor

from fedmule.learning.algorithms.base import Algorithm, Contact, Exchange, FloatArray, IntArray, Steps, Update, Work
from fedmule.learning.at_contact import AtContact
from fedmule.learning.one_by_one import joined, part_of
from fedmule.learning.tokens import Carried

AT_ONCE = 16  # steps computed together


class BetweenContacts(AtContact):
    """Clients that train on what they were given at their last contact, each at the pace of its own processor.

    At a contact a client hands over what it has when the contact begins; the results are combined; then it has what was
    sent to it at the beginning, and trains on that from the end of the contact on.

    Steps are computed when a contact or an evaluation asks for them, one client at a time and always in the same
    portions, so that it makes no difference who asks and how often. A point at the end of a portion is kept.
    """

    def __init__(self, algorithm: Algorithm, carried: Carried, flops_per_s: FloatArray, max_steps: int) -> None:
        super().__init__(algorithm, carried)
        n = algorithm.data.clients
        self._flops_per_s = flops_per_s  # [n] that each client spends on training
        self._max_steps = max_steps
        self._given_s = np.full(n, np.nan)  # when it could begin with what it was given; nan: nothing yet
        self._token_s = np.full(n, np.nan)  # when that was sent
        self._preparation = np.zeros(n)  # FLOPs before the first step
        self._participation = np.zeros(n, dtype=np.int64)
        self._seen = np.zeros(n, dtype=np.int64)  # steps when its model was last asked for
        # The point that is kept: what it has computed, in how many steps, and the sum of their losses.
        self._works: dict[int, Work] = {}
        self._done = np.zeros(n, dtype=np.int64)
        self._losses = np.zeros(n)
        # The results of exchanges under way.
        self._results: dict[int, Work] = {}
        self._result_steps: dict[int, int] = {}
        self._result_losses: dict[int, float] = {}

    def cost(self, clients: IntArray, progress: float, now_s: float) -> Exchange:
        """Return the cost of an exchange that begins now: no computation, nothing up from those without a result."""
        cost = self._algorithm.exchange(clients, progress)
        up = np.where(self._ready(clients, progress, now_s), cost.bytes_up, 0)
        return replace(cost, bytes_up=up, flops=np.zeros(len(clients)))

    def begin(
        self,
        vehicle: int,
        clients: IntArray,
        progress: float,
        now_s: float,
        visited: int | None = None,
        near: IntArray | None = None,
    ) -> Exchange:
        """Keep what these clients have computed so far and what they are sent now; return the cost."""
        cost = super().begin(vehicle, clients, progress, now_s, visited, near)
        for client in clients[self._ready(clients, progress, now_s)].tolist():
            work, steps, losses = self._after(client, now_s)
            self._results[client], self._result_steps[client], self._result_losses[client] = work, steps, losses
        return cost

    def update(self, vehicle: int, contact: Contact) -> Update:
        """Combine what the delivered clients hand over, then let them begin with what they were sent."""
        assert math.isfinite(contact.ended_s)
        clients, algorithm, age_s = contact.clients, self._algorithm, self._age_s(contact)
        contact = replace(contact, sent=self._parcels(clients))
        with self._carried.held_by(vehicle):
            algorithm.meet(contact)
        ready = clients[[client in self._results for client in clients.tolist()]]
        kappa, moved, loss, losses = None, 0.0, None, np.full(len(clients), np.nan)
        if len(ready):
            kappa = algorithm.kappa
            work = joined([self._here(self._results[client]) for client in ready.tolist()])
            moved = self._carried.combine(vehicle, replace(contact, clients=ready, sent=None), work)
            own = [self._result_losses[client] / self._result_steps[client] for client in ready.tolist()]
            loss, losses[np.isin(clients, ready)] = float(np.mean(own)), own
        steps = [self._result_steps.get(client, 0) for client in clients.tolist()]
        gradients = np.array([algorithm.gradients(k) if k else 0 for k in steps], dtype=np.int64)
        self._give(contact)
        self.drop(clients)
        return Update(loss, gradients, moved, kappa, age_s, losses)

    def drop(self, clients: IntArray) -> None:
        super().drop(clients)
        for client in clients.tolist():
            for kept in (self._results, self._result_steps, self._result_losses):
                kept.pop(client, None)

    def trained(self, now_s: float) -> IntArray:
        everyone = np.arange(len(self._given_s))
        steps = self._steps(everyone, now_s)
        changed: IntArray = everyone[steps != self._seen]
        self._seen = steps
        return changed

    def model(self, client: int, now_s: float) -> Tensor:
        if client not in self._works:
            return super().model(client, now_s)
        return self._after(client, now_s)[0]["x"][0]

    def settle(self, clients: IntArray, now_s: float) -> None:
        for client in clients.tolist():
            if client in self._works:
                self._works[client], self._done[client], self._losses[client] = self._after(client, now_s)

    def _ready(self, clients: IntArray, progress: float, now_s: float) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """Return which of these clients [S] have a result that counts."""
        return (self._steps(clients, now_s) > 0) & self._algorithm.keeps(clients, progress)

    def _steps(self, clients: IntArray, now_s: float) -> IntArray:
        """Return how many local steps [S] clients have had time for since they were given what they train on."""
        one, two = self._algorithm.gradients(1), self._algorithm.gradients(2)
        flops = (now_s - self._given_s[clients]) * self._flops_per_s[clients] - self._preparation[clients]
        gradients = np.floor(np.nan_to_num(flops, nan=0.0) / self._algorithm.flops_per_step())
        per_step = two - one
        steps = 1 + np.floor((gradients - one) / per_step) if per_step else gradients >= one
        most = self._max_steps if per_step else 1  # some algorithms take one step only
        return np.clip(steps, 0, most).astype(np.int64)

    def _after(self, client: int, now_s: float) -> tuple[Work, int, float]:
        """Return what a client has computed by now, in how many steps, and the sum of their losses."""
        last = int(self._steps(np.array([client]), now_s)[0])
        work, done, losses = self._here(self._works[client]), int(self._done[client]), float(self._losses[client])
        while done < last:
            until = min(done + AT_ONCE, last)
            steps = Steps(np.array([client]), self._participation[[client]], done, until)
            work, loss = self._algorithm.train(work, steps)
            losses += float(loss) * (until - done)
            if until == done + AT_ONCE:
                self._works[client], self._done[client], self._losses[client] = work, until, losses
            done = until
        return work, done, losses

    def _give(self, contact: Contact) -> None:
        """Let clients begin with what they were sent."""
        clients = contact.clients
        self._preparation[clients] = self._algorithm.preparation_flops(clients, contact.progress)
        self._participation[clients] = self._algorithm.participations[clients]
        self._given_s[clients] = contact.ended_s
        self._token_s[clients] = [self._sent_s[client] for client in clients.tolist()]
        self._done[clients] = self._losses[clients] = 0
        self._seen[clients] = -1
        work = self._algorithm.take(contact)
        for i, client in enumerate(clients.tolist()):
            self._works[client] = part_of(work, i)

    def _age_s(self, contact: Contact) -> float | None:
        return self._mean_age_s(contact, self._token_s[contact.clients])
