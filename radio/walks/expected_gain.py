"""Expected gain: to where the vehicle expects the most gain per second, from what it knows of its own contacts."""

from __future__ import annotations

import math

import numpy as np

from fedmule.radio.graph import ContactGraph
from fedmule.radio.walks.policy import FloatArray, Here, Policy

# Chosen on seeds that no table reports (docs/walks.md).
FORGET = 0.2  # share of the run in which what a client has been given loses its value, to 1/e of it
TOGETHER = 0.5  # share of the clients in range of another that are served along with it
LOSS_SPAN = 5.0  # how many times the mean loss counts at most, and what part of it at least
FIRST_CONTACT_S = 10.0  # what a contact is taken to last before the first one
LOOKED_AT = 8  # clients, the best by straight lines, to which the fastest way is planned


def gain_of_one(given: FloatArray) -> FloatArray:
    """1/(1 + r): the gain of one more exchange falls with those that count so far, r [n]; without any it is 1."""
    return 1 / (1 + given)


def faded(age_s: FloatArray, forget_s: float) -> FloatArray:
    """e^(−age/τ): what is left of something that old."""
    return np.exp(-age_s / forget_s)


def weight_of_loss(losses: FloatArray) -> FloatArray:
    """√(loss/mean loss) [n], the ratio limited to LOSS_SPAN; 1 if unknown. A high loss leaves more to gain."""
    known = ~np.isnan(losses)
    mean = losses[known].mean() if known.any() else 0.0
    if not 0 < mean < math.inf:
        return np.ones(len(losses))
    return np.asarray(np.sqrt(np.clip(np.where(known, losses / mean, 1.0), 1 / LOSS_SPAN, LOSS_SPAN)))


def length_of_run_s(now_s: float, progress: float) -> float:
    """t/(share of the run that is over); where nothing says when it ends, it is taken to last as long again."""
    return max(now_s / progress if progress > 0 else 2 * now_s, 1.0)


class ExpectedGain(Policy):
    """Choose the client with the highest expected gain per second: (gain of it and of those near it) / (way + contact).

    The gain of an exchange falls with those that the client has had with this vehicle, and rises again with their age;
    it is higher where the client's loss was high at their last contact. A client that the vehicle has just given up is
    worth nothing at first, and as much as before in the end. Who has the final token has nothing more to gain.
    """

    wants_reports = True

    def __init__(self, graph: ContactGraph) -> None:
        super().__init__(graph)
        self._given = np.zeros(len(graph.members))  # exchanges of each client, faded by their age at `_as_of_s`
        self._as_of_s = 0.0
        self._entered = 0  # contacts that are in `_given`
        self._visits, self._visits_s = 0, 0.0  # visits, and how long they have lasted

    def next(self, here: Here, draws: np.random.Generator) -> int:
        """Choose the client with the highest expected gain per second, but not the last one again."""
        forget_s = FORGET * length_of_run_s(here.now_s, here.progress)
        self._enter(here, forget_s)
        gain = self._gains(here, forget_s)
        everyone = here.still_waiting(self.graph.reachable)
        others = everyone[everyone != here.client] if len(everyone) > 1 else everyone
        known, contact_s = self.graph.known(others), self.usual_contact_s
        by_line = gain[others] / (here.least_travel_s(known) + contact_s)
        chosen, best = int(others[0]), -math.inf
        for k in np.argsort(-by_line, kind="stable")[:LOOKED_AT].tolist():
            client = int(others[k])
            total = gain[client] + TOGETHER * gain[self.graph.neighbours(client)].sum()
            rate = total / (here.travel_s(known[k]) + contact_s)
            if rate > best:
                chosen, best = client, rate
        return chosen

    @property
    def usual_contact_s(self) -> float:
        """Mean duration of the exchanges at visits so far, s."""
        return (FIRST_CONTACT_S + self._visits_s) / (1 + self._visits)

    def _gains(self, here: Here, forget_s: float) -> FloatArray:
        """The gain [n] of one more exchange with each client."""
        since_s = here.now_s - here.past.given_up_s
        return gain_of_one(self._given) * weight_of_loss(here.past.losses) * (1 - faded(since_s, forget_s))

    def _enter(self, here: Here, forget_s: float) -> None:
        """Let what is entered fade, and enter the contacts since."""
        self._given *= faded(np.array(here.now_s - self._as_of_s), forget_s)
        self._as_of_s = here.now_s
        for contact in here.past.contacts[self._entered :]:
            self._given[contact.delivered] += faded(np.array(here.now_s - contact.ended_s), forget_s)
            if not contact.in_passing:
                self._visits, self._visits_s = self._visits + 1, self._visits_s + contact.ended_s - contact.began_s
        self._entered = len(here.past.contacts)
