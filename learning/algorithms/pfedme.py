"""pFedMe (T Dinh et al. 2020): personal models near the global model, by Moreau envelopes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from fedmule.learning.algorithms.base import Algorithm, Contact, IntArray, Parcel, Steps, Task, Work
from fedmule.learning.steps import Pull


def pull_to_global(w: Tensor, eta: float, lam: float) -> Pull:
    """θ ← (θ − η(g − λw))/(1 + ηλ), towards argmin f(θ) + (λ/2)|θ − w|²; the quadratic is solved exactly."""
    return Pull(w, eta * lam / (1 + eta * lam))


def outer_step(w: Tensor, theta: Tensor, eta: float, lam: float) -> Tensor:
    """w ← w − ηλ(w − θ): a gradient step on the Moreau envelope."""
    return w - eta * lam * (w - theta)


def mixed(y: Tensor, w: Tensor, mix: float) -> Tensor:
    """y ← (1 − β)y + β mean(w) over models w [S,d]; clients have equal weights."""
    return (1 - mix) * y + mix * w.mean(dim=0)


class PFedMe(Algorithm):
    """A local step finds θ near w, a client's copy of the token, by inner steps on one batch, and moves w towards θ.

    The personal model is θ; w is sent. Inner steps use `step_size`, steps of w use `outer_step_size`.
    """

    def __init__(self, task: Task, penalty: float, outer_step_size: float, inner_steps: int, mix: float) -> None:
        super().__init__(task)
        self.penalty = penalty  # λ
        self.outer_step_size = outer_step_size
        self.inner_steps = inner_steps
        self.mix = mix  # β

    @classmethod
    def gradients_per_visit(cls, local_steps: int, **keys: Any) -> int:
        return local_steps * int(keys["inner_steps"])

    def gradients(self, local_steps: int) -> int:
        return self.gradients_per_visit(local_steps, inner_steps=self.inner_steps)

    def start(self, clients: IntArray, sent: Sequence[Parcel], progress: float) -> Work:
        w = self._copies(self._token_sent(sent), len(clients))
        return {"x": w, "w": w}

    def train(self, work: Work, steps: Steps) -> tuple[Work, Tensor | float]:
        theta, w, eta = work["x"], work["w"], self.settings.step_size
        losses = w.new_zeros(())
        for rows in self._rows(work, steps, steps.first, steps.last):
            same = rows.expand(self.inner_steps, *rows.shape)
            theta, loss = self._descend(theta, same, pull_to_global(w, eta, self.penalty))
            losses += loss
            w = outer_step(w, theta, self.outer_step_size, self.penalty)
        return {"x": theta, "w": w}, losses / (steps.last - steps.first)

    def combine(self, contact: Contact, work: Work) -> float:
        moved = self._replace_token(mixed(self.token, work["w"], self.mix))
        self._keep(contact.clients, work["x"])
        return moved
