"""Own labels: what a client makes of the token by what it knows of its labels, and whether that serves it better."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from fedmule.learning.algorithms.base import IntArray, Task
from fedmule.learning.models.protocol import ends_in_bias
from fedmule.learning.steps import scores

FloatArray = NDArray[np.float64]
Rule = Literal["held_out"] | bool

GROWN = 1.5  # times the results in the token since a client's last trial, before the next one
FRESH = 0.5  # share of its latest trial in what a client has added
NEARLY, HALF = 0.75, 0.5  # shares of log(p/m), with which it is compared with all of it
CLEAR = 1.645 * math.sqrt(2)  # standard errors, of errors and loss together, by which all of it must be better: 5 %
MOST_LOSS = 10.0  # that one sample counts in a difference of losses
LEAST_SKEW, MOST_SKEW = 1e4, 0.1  # limits of α


def concentration(same: float, common: float) -> float:
    """α of p_i ~ Dirichlet(α m): (1 − s)/(s − |m|²), s the chance that two samples of one client have the same label.

    |m|² is the chance that two samples of different clients do.
    """
    return float(np.clip((1 - same) / (same - common), MOST_SKEW, LEAST_SKEW)) if same > common else LEAST_SKEW


def log_ratio(counts: FloatArray, mean: FloatArray, alpha: float) -> FloatArray:
    """log(p_i/m), p_i = (n_i + αm)/(N_i + α): how much more often a client has each label [c] than all clients do."""
    found: FloatArray = np.log((counts + alpha * mean) / (counts.sum() + alpha) / mean)
    return found


def beyond_chance(total: float, squares: float) -> float:
    """Σd/√Σd²: a mean difference in standard errors."""
    return total / math.sqrt(squares) if squares > 0 else 0.0


class OwnLabels:
    """Label frequencies of clients that the vehicle has met, and trials of the token with them.

    A token that all share has learnt the frequencies of all. Where clients differ in how often they have each label,
    and in nothing else, scores + log(p_i/m) are right for client i, with nothing to learn. This is added to the bias of
    the last layer, so that what results is an ordinary model. α, which says how far frequencies in few samples are to
    be trusted, is estimated from the counts that clients report.

    Where clients differ in more, or the token is too unripe for its scores to be weighed against frequencies, a part of
    it is better than all of it. So clients compare the two on samples held out: the loss with ¾ of log(p/m) less that
    with all of it, l, and errors with half of it less those with all of it, e.

    Vehicles carry, and average where they meet: `label_sums` [c+2], sums over clients of n_i, of Σ n(n − 1) over
    labels, and of N(N − 1); `trial_sums` [4], Σe, Σe², Σl and Σl² over the samples held out, half from earlier trials.
    """

    def __init__(self, task: Task, rule: Rule) -> None:
        self._data, self._model, self._rule = task.data, task.model, rule
        data = task.data
        self.possible = rule is not False and data.prior is None and ends_in_bias(task.model, data)
        self._labels = data.labels.cpu().numpy().copy()  # [N]
        self._reported: dict[int, FloatArray] = {}  # [c+2] what each client has added to `label_sums`
        self._stale: set[int] = set()  # clients whose labels have changed since
        # Of each client's trials: what they add to `trial_sums`, the results that the last token was made of, and which
        # samples held out were wrong with the client's own labels.
        self._added: dict[int, FloatArray] = {}  # [4]
        self._arrived: dict[int, float] = {}
        self.wrong: dict[int, NDArray[np.bool_]] = {}

    @property
    def tries(self) -> bool:
        """Whether it is decided by trials."""
        return self.possible and self._rule == "held_out"

    def used(self, trial_sums: FloatArray) -> bool:
        """Return whether clients add their own labels now, given the sums of trials."""
        if not self.tries:
            return self.possible
        e, e_squared, loss, loss_squared = trial_sums.tolist()
        together = beyond_chance(e, e_squared + 1.0) + beyond_chance(loss, loss_squared)
        return e >= 0 and loss >= 0 and together >= CLEAR

    def report(self, clients: IntArray, label_sums: FloatArray) -> FloatArray:
        """Return `label_sums` after these clients have reported how often they have each label."""
        for client in clients.tolist() if self.possible else ():
            if client not in self._reported or client in self._stale:
                before, now = self._reported.get(client, 0.0), _sums(self._count(client))
                self._reported[client] = now
                self._stale.discard(client)
                label_sums = label_sums + now - before
        return label_sums

    def forget(self, clients: IntArray) -> None:
        """Let these clients, whose data have changed, report and try again."""
        data = self._data
        for client in clients.tolist():
            rows = slice(int(data.first[client]), int(data.first[client + 1]))
            self._labels[rows] = data.labels[rows].cpu().numpy()
            self._stale.add(client)
            self._arrived.pop(client, None)
            self.wrong.pop(client, None)

    def shift(self, client: int, label_sums: FloatArray, held: int = 0) -> FloatArray:
        """Return log(p_i/m) [c] of a client, from its training samples without the last `held`."""
        # A vehicle may be told what changed since another was told; what it knows is then less than nothing at worst.
        n, (same, pairs) = np.maximum(label_sums[:-2], 0.0), label_sums[-2:]
        mean = (n + 0.5) / (n.sum() + 0.5 * len(n))
        alpha = concentration(same / pairs if pairs > 0 else 0.0, float(mean @ mean))
        return log_ratio(self._count(client, held), mean, alpha)

    def due(self, client: int, arrived: float) -> bool:
        """Return whether a client should try: the token has grown enough since it did."""
        return arrived >= GROWN * self._arrived.get(client, 0.0)

    def compare(
        self, client: int, held: int, token: Tensor, arrived: float, label_sums: FloatArray, trial_sums: FloatArray
    ) -> FloatArray:
        """Let a client try a token [d] on the samples it holds out; return the new sums of trials."""
        data = self._data
        end = int(data.first[client] + data.train_count[client])
        rows = slice(end - held, end)
        found = scores(self._model, data, token, rows).double().cpu().numpy()
        shift, labels = self.shift(client, label_sums, held), self._labels[rows]
        with np.errstate(invalid="ignore", over="ignore"):
            half, nearly, complete = (found + part * shift for part in (HALF, NEARLY, 1.0))
            wrong = complete.argmax(axis=1) != labels
            e = (half.argmax(axis=1) != labels) - wrong.astype(np.float64)
            # The loss is log Σ exp(scores) less the label's score, of which only the shift differs.
            loss = np.logaddexp.reduce(nearly, axis=1) - np.logaddexp.reduce(complete, axis=1)
            loss = loss + (1.0 - NEARLY) * shift[labels]
        loss = np.clip(np.nan_to_num(loss, nan=0.0), -MOST_LOSS, MOST_LOSS)
        sums = np.array([e.sum(), e @ e, loss.sum(), loss @ loss])
        before = self._added.get(client)
        if before is None:
            before = np.zeros(4)
        else:
            sums = before + FRESH * (sums - before)
        self._added[client], self._arrived[client], self.wrong[client] = sums, arrived, wrong
        changed: FloatArray = trial_sums + sums - before
        return changed

    def _count(self, client: int, held: int = 0) -> FloatArray:
        data = self._data
        first = int(data.first[client])
        labels = self._labels[first : first + int(data.train_count[client]) - held]
        found: FloatArray = np.bincount(labels, minlength=data.classes).astype(np.float64)
        return found


def _sums(counts: FloatArray) -> FloatArray:
    """What a client's counts [c] add to `label_sums`."""
    total = counts.sum()
    return np.append(counts, [(counts * (counts - 1)).sum(), total * (total - 1)])
