"""RWSADMM, variant `relay`: the token is handed on from visit to visit, and duals are control variates."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedmule.learning.algorithms.base import Contact, FloatArray, IntArray, Parcel, Steps, Task, Work
from fedmule.learning.algorithms.overfitting import MEMORY, Centre, Overfitting, share_back
from fedmule.learning.algorithms.own_labels import OwnLabels, Rule
from fedmule.learning.algorithms.tube import Tube, anchor_of
from fedmule.learning.data.client_data import ClientData
from fedmule.learning.errors import DataError
from fedmule.learning.models.protocol import Model, ends_in_bias
from fedmule.learning.steps import clip, kernels_for

CROWD = 0.75
ENOUGH = 4.0  # times the free visits after which a dual is what it would be at rest under a pull
NOT_BEFORE = 0.1  # share of the run before which the token is not worth a trial of own labels
GENTLE = 8  # steps of the usual size: a visit's steps after the opening go no farther, unless their size is given


def dual_of(x: Tensor, y: Tensor, lam: Tensor, beta: float, kappa: float | Tensor, eps: float | Tensor) -> Tensor:
    """s = clip(x − y + lam/β, ±eps);  lam + κβ(x − y − s)."""
    apart = x - y
    return lam + kappa * beta * (apart - clip(apart + lam / beta, eps))


def weights(since: Sequence[float]) -> list[float]:
    """w_i = (|S| + k_i)^−¾ for each of |S| results, between whose sending and arrival k_i others have arrived.

    A result that is alone counts in full. Of several that are under way at the same time each teaches part of what the
    others teach: their mean (−1) would waste the rest, their sum (0) would overshoot.
    """
    return [(len(since) + max(k, 0.0)) ** -CROWD for k in since]


def share_of_free(visits: IntArray, enough: float) -> FloatArray:
    """min(1, K/k): how much of what k visits without a pull would add to a dual counts, so that it is K visits' worth.

    What a client changes in a visit is about −ηSg, S steps along its mean gradient g, and κβ times that is added to its
    dual. With a pull the dual is at rest at −g, after 1/(κβηS) such visits. Without one nothing would stop it.
    """
    return np.minimum(1.0, enough / np.maximum(visits, 1))


def mean_dual(beta: float, pushes: float, weight: float, seen: int) -> float:
    """λ̄ ÷ (y − y⁰) = (β/m)(Σ κ/Σ w), sums over all results: the mean dual of m clients from the token's way.

    With eps = 0 a result adds κβ(x − y) to its client's dual and w(x − y) to the token, so duals add up to the way.
    This is exact if κ/w is the same for all results.
    """
    return beta * pushes / weight / seen if seen else 0.0


class Relay(Tube):
    """The token moves by what each client has changed: y ← y + Σ w_i (x_i − y_i), where y_i is what it was given.

    Where one client at a time takes part the token becomes its model, y ← x_i.

    A client is pulled to y − (lam_i − ζλ̄)/β. Its dual lam_i takes back what the client always adds to the token. Part
    of that is common to all: λ̄, the mean dual of the clients seen. With ζ = `centre` = 1 it is given back in full, and
    the token is at rest where the clients' gradients sum to zero; with ζ = 0 the duals slow down the token, which helps
    where few samples would be learnt by heart. By default ζ follows what some clients find on samples that they hold
    out. Everyone knows the model y⁰ that all began with, so a client finds ζλ̄ from the token and a number that comes
    with it. Where the tube has a width nothing is given back.

    At the opening clients add their own labels to the token that they take, if trials say so (see `OwnLabels`).
    """

    state_copies = 2
    added: NDArray[np.bool_]
    carried = ("token", "arrived", "loss_learnt", "loss_held_out", "label_sums", "trial_sums")

    def __init__(
        self, task: Task, centre: Centre, own_labels: Rule, fine_tune_step_size: float | None, **tube: Any
    ) -> None:
        gentle = min(1.0, GENTLE / task.settings.local_steps) * task.settings.step_size
        step_size = gentle if fine_tune_step_size is None else fine_tune_step_size
        super().__init__(task, fine_tune_step_size=step_size, **tube)
        self._centre = centre
        self.own_labels = OwnLabels(task, own_labels)
        self.label_sums, self.trial_sums = np.zeros(task.data.classes + 2), np.zeros(4)
        self.added = np.zeros(task.data.clients, dtype=bool)
        self.overfitting = Overfitting(task, centre)
        self.loss_learnt = self.loss_held_out = 0.0  # of tokens, sums over reports, the older the less
        self.arrived = (
            0.0  # results that the vehicle has been given so far; those that meet have their mean from then on
        )
        self._pushes = self._weight = 0.0  # Σ κ and Σ w over all results
        self._free_visits = np.zeros(task.data.clients, dtype=np.int64)  # of each client, in which nothing pulled it
        whole = self._kappa * self.beta * task.settings.step_size * task.settings.local_steps
        self._enough = ENOUGH / whole if whole else math.inf  # free visits that count in full

    @property
    def centre(self) -> float:
        """ζ, the share of the mean dual that is given back now."""
        return share_back(self.loss_learnt, self.loss_held_out) if isinstance(self._centre, str) else self._centre

    def send(
        self, clients: IntArray, progress: float, visited: int | None = None, near: IntArray | None = None
    ) -> list[Parcel]:
        arrived = torch.from_numpy(np.array([[int(self.arrived)]]))
        return [{**parcel, "arrived": arrived} for parcel in super().send(clients, progress, visited, near)]

    @classmethod
    def check_model(cls, model: Model, data: ClientData, **keys: Any) -> None:
        if keys.get("own_labels") is True and not ends_in_bias(model, data):
            raise DataError("needs a model whose last parameters are the bias of a linear layer, one for each class")

    def start(self, clients: IntArray, sent: Sequence[Parcel], progress: float) -> Work:
        work = super().start(clients, sent, progress)
        if "alone" in work and self.adds_labels and not (own := self.released[clients]).all():
            shifts = [self.own_labels.shift(client, self.label_sums) for client in clients[~own].tolist()]
            work["x"][torch.from_numpy(~own).to(self.device), -self.data.classes :] += self._shifts(shifts)
        return work

    def took(self, clients: IntArray, work: Work, progress: float) -> None:
        if "alone" in work:
            self.added[clients] |= self.adds_labels & ~self.released[clients]
        super().took(clients, work, progress)

    @property
    def adds_labels(self) -> bool:
        """Whether clients that take the token now add their own labels to it."""
        return self.own_labels.used(self.trial_sums)

    def wrong_with_own_labels(self, client: int) -> NDArray[np.bool_] | None:
        return self.own_labels.wrong.get(client)

    def forget(self, clients: IntArray) -> None:
        self.own_labels.forget(clients)

    def start_together(self, clients: IntArray, sent: Sequence[Parcel]) -> Work:
        work = super().start_together(clients, sent)
        parts = [parcel["arrived"] for parcel in sent]
        work["arrived"] = parts[0] if len(parts) == 1 else torch.cat(parts)  # [S,1] when they were sent off
        if self.overfitting.anybody:
            work["losses"] = self.overfitting.losses(clients, work["y"])
        return work

    def combine_together(self, contact: Contact, work: Work) -> float:
        moved = super().combine_together(contact, work)
        if "losses" in work and self.overfitting.held[contact.clients].any():
            reported = work["losses"][self._index(np.flatnonzero(self.overfitting.held[contact.clients]))]
            known, (learnt, held_out) = MEMORY ** len(reported), (float(loss) for loss in reported.sum(dim=0))
            if math.isfinite(learnt + held_out):
                self.loss_learnt = known * self.loss_learnt + learnt
                self.loss_held_out = known * self.loss_held_out + held_out
        self.label_sums = self.own_labels.report(contact.clients, self.label_sums)
        if self.own_labels.tries and contact.progress >= NOT_BEFORE:
            self._try_own_labels(contact.clients, work["y"])
        return moved

    def _try_own_labels(self, clients: IntArray, y: Tensor) -> None:
        """Let clients that hold samples out try the tokens y that they were sent with their own labels."""
        for i, client in enumerate(clients.tolist()):
            held = max(int(self.withheld[client]), int(self.overfitting.held[client]))
            if held and self.own_labels.due(client, self.arrived):
                token, sums = y if y.dim() == 1 else y[i], (self.label_sums, self.trial_sums)
                self.trial_sums = self.own_labels.compare(client, held, token, self.arrived, *sums)

    def _shifts(self, shifts: list[FloatArray]) -> Tensor:
        return torch.from_numpy(np.stack(shifts)).to(self.token)

    def _batch_pool(self, work: Work, steps: Steps) -> IntArray:
        """Leave out the samples on which tokens are evaluated, until clients train alone."""
        own = super()._batch_pool(work, steps)
        return (
            own if "alone" in work else np.minimum(own, (self.data.train_count - self.overfitting.held)[steps.clients])
        )

    def mean_dual(self, y: Tensor) -> Tensor:
        """Return λ̄ [d] as a client that is given the token y [d] knows it; 0 where the tube has a width."""
        none = torch.zeros_like(y)
        return anchor_of(none, none, self._origin - y, 1.0, self._mean_dual(), self._eps)

    def _mean_dual(self) -> float:
        # Each of W vehicles sees its own token's way only; where they meet, the sum of the ways stays the same.
        return mean_dual(self.beta, self.vehicles * self._pushes, self._weight, self.seen_count)

    def _given_back(self) -> float:
        return self.centre / self.beta * self._mean_dual()

    def _settle(self, clients: IntArray, work: Work) -> float:
        """Store models and duals, and hand the token on; return how far it moved."""
        x, y = work["x"], work["y"]
        self.seen_count += int((~self.seen[clients]).sum())
        self.seen[clients] = True
        w = weights([self.arrived - then for [then] in work["arrived"].tolist()])
        self.arrived += len(clients)
        kappas = self._dual_steps(clients, work["free"].numpy()[:, 0])
        self._weight += sum(w)
        if kernels_for(self.token, x, y, self.models, self.duals):
            from fedmule.learning.algorithms import tube_kernels  # slow to import

            kept, moved_sq = [self.models.numpy(), self.duals.numpy()], self.last_step_sq.numpy()
            tokens = y.view(-1, y.shape[-1]).numpy(), self.token.numpy()
            token, moved = tube_kernels.settle(
                clients, x.numpy(), kept, moved_sq, *tokens, w, self.beta, kappas.tolist(), self._eps
            )
            self.token = torch.from_numpy(token)
            return float(moved)
        index = self._index(clients)
        kappa = torch.from_numpy(kappas).to(x).unsqueeze(1)
        self.duals[index] = dual_of(x, y, self.duals[index], self.beta, kappa, self._eps)
        self._keep(clients, x)
        return self._replace_token(torch.addmv(self.token, (x - y).T, torch.tensor(w, dtype=x.dtype).to(x.device)))

    def _dual_steps(self, clients: IntArray, free: NDArray[np.bool_]) -> FloatArray:
        """Return κ [S] of each client's dual, and make room in the duals of clients that have had many free visits."""
        visits = self._free_visits[clients]
        before, share = share_of_free(visits, self._enough), share_of_free(visits + 1, self._enough)
        for client, less in zip(clients[free].tolist(), (share / before)[free].tolist(), strict=True):
            if less < 1:
                self.duals[client] *= less
        counted = np.where(free, share * (visits + 1) - before * visits, 1.0)
        self._pushes += self._kappa * float(counted.sum())
        self._free_visits[clients[free]] += 1
        steps: FloatArray = self._kappa * np.where(free, share, 1.0)
        return steps

    def _slack(self, rows: slice, y: Tensor) -> Tensor:
        """Return s = clip(x − y + lam/β, ±eps) for the token as it is now."""
        return clip(self.models[rows] - y + self.duals[rows] / self.beta, self._eps)
