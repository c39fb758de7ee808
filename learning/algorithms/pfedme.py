"""pFedMe (T Dinh et al. 2020): personal models near the global one, by Moreau envelopes."""

from __future__ import annotations

from torch import Tensor

from fedmule.learning.algorithms.base import Algorithm, Contact, Pull, Update, descend


def to_the_global(w: Tensor, eta: float, lam: float) -> Pull:
    """θ ← (θ − η(g − λw))/(1 + ηλ), towards argmin f(θ) + (λ/2)|θ − w|²: the pull of w is taken exactly."""
    return Pull(w, eta * lam / (1 + eta * lam))


def outer_step(w: Tensor, theta: Tensor, eta: float, lam: float) -> Tensor:
    """w ← w − ηλ(w − θ): a step down the gradient of the Moreau envelope."""
    return w - eta * lam * (w - theta)


def mixed(y: Tensor, w: Tensor, mix: float) -> Tensor:
    """y ← (1 − β)y + β mean(w) over models w [S,d]; all clients count alike."""
    return (1 - mix) * y + mix * w.mean(dim=0)


class PFedMe(Algorithm):
    """Per local step a client finds θ near its copy w of the token by inner steps on one batch; then w follows θ.

    The personal model is θ; w is sent. The inner steps have the step size `step_size`, w's are `pfedme_step_size`.
    """

    @property
    def steps(self) -> int:
        return self.settings.local_steps * self.settings.pfedme_inner_steps

    def update(self, contact: Contact) -> Update:
        clients, keys = contact.clients, self.settings
        index = self._index(clients)
        before = self.models[index]
        theta = w = self.token.repeat(len(clients), 1)
        losses = w.new_zeros(())
        for rows in self._batches(clients, keys.local_steps):
            same = rows.expand(keys.pfedme_inner_steps, *rows.shape)
            theta, loss = descend(self, theta, same, to_the_global(w, keys.step_size, keys.pfedme_lambda))
            losses += loss
            w = outer_step(w, theta, keys.pfedme_step_size, keys.pfedme_lambda)
        moved = self._replace_token(mixed(self.token, w, keys.pfedme_mix))
        self._store(index, before, theta)
        return Update(float(losses / keys.local_steps), self.steps, moved)
