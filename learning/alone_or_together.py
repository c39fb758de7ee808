"""Alone or together: clients find out on samples held out whether the token serves them better than training alone."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedmule.learning.algorithms.base import (
    Algorithm,
    Contact,
    Exchange,
    FloatArray,
    IntArray,
    Steps,
    Task,
)
from fedmule.learning.alone import Alone
from fedmule.learning.held_out import FIRST, judge, train

HELD_OUT = 0.25  # of a client's training samples while it tries: nobody learns from them
NOT_BEFORE = 0.1  # share of the run before which the token is not worth a trial
FEWEST = 4  # clients that have tried before anybody chooses early
CLEAR = 2.0  # standard errors of the mean difference that are enough to choose the token early, …
CLEAR_LATER = 1.0  # … and from half of `try_at` on
RIPE = 0.5  # trials count whose token was made of at least this share of the results that there are now
FRESH = 0.5  # share of its latest trial in what a client has counted
EVERY = 4  # a client alone still takes part in every fourth of its contacts, so that the token stays good for newcomers
PASSES = 1000  # over its samples; a client whose longest plan makes fewer of them goes on at its contacts
TRYING, TOGETHER, ALONE = 0, 1, 2


class AloneOrTogether:
    """Each client's choice between what it gets from the token and what it has by training alone on its own clock.

    Until it chooses, a client holds a quarter of its training samples out. At every contact two models are judged on
    them: the one it has trained from the token, and one that it has trained alone on the same samples. The differences
    are shrunk to their mean over clients: where few samples are held out all clients choose alike, where there are many
    each for itself. It chooses at a contact: the token as soon as that is clearly better on average; at `try_at` of the
    run training alone if that is better, by a standard error at least, else the token (one made of fewer results than
    there are clients: only if it is better by a standard error). A token grows better as long as it meets clients, so
    training alone is not chosen before, and trials of a token that was much younger do not count.

    Whoever has not chosen yet, or chose to be alone, uses the model that it trains alone.
    """

    def __init__(self, algorithm: Algorithm, alone: Alone, task: Task, try_at: float) -> None:
        self._algorithm, self.alone, self._task, self._try_at = algorithm, alone, task, try_at
        clients = task.data.clients
        self.choice = np.full(clients, TRYING)
        self._settled = np.zeros(clients, dtype=bool)  # has chosen at `try_at` or later
        self.counts = np.zeros((clients, 3))  # samples held out, those only the token gets wrong, those only alone
        self.own_label_counts = np.zeros((clients, 3))  # the same for the token with the client's own labels
        self._results = 0  # of all clients, so far
        self._results_then = np.zeros(clients, dtype=np.int64)  # at each client's last trial
        self._contacts_alone = np.zeros(clients, dtype=np.int64)
        self._judged: dict[int, tuple[int, NDArray[np.bool_]]] = {}  # steps and errors of a client's trial alone
        self._asked = np.zeros(clients, dtype=np.int64)  # steps of the model alone that was last asked for
        # Models [d] alone that were trained beyond the longest plan, and the participation up to which they were.
        self._further: dict[int, tuple[int, Tensor]] = {}
        algorithm.withheld[:] = np.floor(HELD_OUT * task.data.train_count)

    # --- who takes part -------------------------------------------------------------------------------------------

    def take_part(self, clients: IntArray, progress: float) -> NDArray[np.bool_]:
        """Return which of these clients [S] take part in an exchange now: of those alone only some, now and then."""
        due = self._contacts_alone[clients] % EVERY == EVERY - 1
        part: NDArray[np.bool_] = (self.choice[clients] != ALONE) | (due & (not self._algorithm.frozen(progress)))
        return part

    def cost(self, exchange: Exchange, clients: IntArray, part: NDArray[np.bool_]) -> Exchange:
        """Return the cost for all S clients of an exchange of those in `part` [S]: the others send nothing."""
        down, up, flops = np.zeros_like(clients), np.zeros_like(clients), np.zeros(len(clients))
        down[part], up[part], flops[part] = exchange.bytes_down, exchange.bytes_up, exchange.flops
        return replace(exchange, bytes_down=down, bytes_up=up, flops=flops)

    def met(self, contact: Contact, gradient_steps: IntArray) -> None:
        """Note a contact that got through: its clients took this many gradient steps [S]. They try, and may choose."""
        clients = contact.clients
        self._contacts_alone[clients] += self.choice[clients] == ALONE
        self._results += int((gradient_steps > 0).sum())
        trying = self.choice[clients] == TRYING
        for client in clients[(self.choice[clients] == ALONE) & (gradient_steps == 0)].tolist():
            self._train_on(client, contact.ended_s)
        if contact.progress >= NOT_BEFORE:
            last = contact.progress >= self._try_at
            for client in clients[trying & (gradient_steps > 0) & (self._algorithm.withheld[clients] > 0)].tolist():
                if not last or self._falls_short(client, contact.ended_s):
                    self._try(client, contact.ended_s, last)
        self._choose(clients[trying | (contact.progress >= self._try_at)], contact.progress)

    def forget(self, clients: IntArray) -> None:
        """Forget the trials of clients whose data have changed."""
        self.counts[clients] = self.own_label_counts[clients] = 0
        self._asked[clients] = 0
        for client in clients.tolist():
            self._judged.pop(client, None)
            self._further.pop(client, None)

    def constants(self) -> list[object]:
        """Objects the checkpoint must not copy."""
        return [self._task]

    # --- what they use --------------------------------------------------------------------------------------------

    def own_model(self, client: int, now_s: float) -> Tensor | None:
        """Return the model [d] that a client has trained alone, if that is what it uses now."""
        if not self._uses_own(np.array([client]))[0]:
            return None
        self._asked[client] = self.alone.reached(now_s)[client]
        further = self._further.get(client)
        return self.alone.model(client, now_s) if further is None else further[1].to(self._algorithm.device)

    def improved(self, now_s: float) -> IntArray:
        """Return the clients whose models trained alone, which they use, are better than when last asked for."""
        everyone = np.arange(len(self.choice))
        return np.flatnonzero((self.alone.reached(now_s) > self._asked) & self._uses_own(everyone))

    def _uses_own(self, clients: IntArray) -> NDArray[np.bool_]:
        chosen = self.choice[clients]
        own: NDArray[np.bool_] = (chosen == ALONE) | ((chosen == TRYING) & self.alone.sampled[clients])
        return own

    # --- what is better for whom ----------------------------------------------------------------------------------

    def advantage(self, clients: IntArray) -> tuple[FloatArray, float, float]:
        """Return how many more of its samples each client [S] gets right alone; the mean over all, and its error.

        With d_i the share that a client counted, v_i its sampling variance, µ and τ² mean and variance of the true
        differences of clients: (τ² d_i + v_i µ)/(τ² + v_i), empirical Bayes.
        """
        ripe = self._results_then >= RIPE * self._results
        own_labels = self._algorithm.adds_labels & (self.own_label_counts[:, :1] > 0)  # [n,1]
        counts = np.where(own_labels, self.own_label_counts, self.counts) * ripe[:, None]
        tried = counts[counts[:, 0] > 0]
        if not len(tried):
            return np.zeros(len(clients)), 0.0, math.inf
        rate = (tried[:, 1:].sum() + 1) / tried[:, 0].sum()  # of samples that only one of the two gets wrong
        d, v = (tried[:, 1] - tried[:, 2]) / tried[:, 0], rate / tried[:, 0]
        spread = max(0.0, float(d.var(ddof=1) - v.mean())) if len(d) > 1 else 0.0  # τ²
        weights = 1 / (spread + v)
        mean, error = float((weights * d).sum() / weights.sum()), 1 / math.sqrt(weights.sum())
        held, only_token, only_alone = counts[clients].T
        with np.errstate(divide="ignore", invalid="ignore"):
            own = np.where(held > 0, (only_token - only_alone) / held, 0.0)
            trust = np.where(held > 0, spread / (spread + rate / held), 0.0)
        return trust * own + (1 - trust) * mean, mean, error

    def _choose(self, clients: IntArray, progress: float) -> None:
        """Let these clients choose; who has chosen the token early does so once more: others have tried it since."""
        clients = clients[~self._settled[clients]]
        if not len(clients):
            return
        better, mean, error = self.advantage(clients)
        clear = CLEAR if progress < self._try_at / 2 else CLEAR_LATER
        if progress >= self._try_at:
            young = self._results < len(
                self.choice
            )  # less than a result per client: worth taking only if that is clear
            enough = error * (CLEAR if self._algorithm.adds_labels else CLEAR_LATER)
            most = -error if young else 0 if mean > enough else enough
            self.choice[clients] = np.where(better > most, ALONE, TOGETHER)
            self._settled[clients] = True
        elif (self.counts[:, 0] > 0).sum() >= FEWEST and mean < -clear * error:
            self.choice[clients] = TOGETHER
        self._algorithm.withheld[clients] *= self.choice[clients] == TRYING

    def _try(self, client: int, now_s: float, last: bool = False) -> None:
        """Judge what a client has trained from the token and what it has trained alone on the samples held out.

        In its `last` trial it is what it will use alone: trained on beyond the longest plan, if that falls short.
        """
        data = self._task.data
        end, held = int(data.first[client] + data.train_count[client]), int(self._algorithm.withheld[client])
        rows = slice(end - held, end)
        labels = data.labels[rows].cpu().numpy()
        token = judge(self._task, self._algorithm.models[client], rows, labels).wrong
        steps = int(self.alone.reached(now_s)[client])
        if last or client not in self._judged or self._judged[client][0] < steps:
            x = self._train(client, held, steps)
            if last:
                x = self._on_from(client, x, self._planned)
            self._judged[client] = steps, judge(self._task, x, rows, labels).wrong
        alone = self._judged[client][1]
        self._results_then[client] = self._results
        fresh = FRESH if self.counts[client, 0] and not last else 1.0
        self.counts[client] += fresh * (_counts(token, alone) - self.counts[client])
        if (with_labels := self._algorithm.wrong_with_own_labels(client)) is not None:
            self.own_label_counts[client] = _counts(with_labels, alone)

    def _train_on(self, client: int, now_s: float) -> None:
        """Let a client alone take the steps of this contact on its own model, if its plans are too short for the run.

        Plans are limited to what a simulation can afford; a client that is met often enough would take more steps from
        the token than alone. It has had the time for them: this is its own clock. So it also takes those of earlier
        contacts since its longest plan was over, whether it chose to be alone by then or not.
        """
        if self._falls_short(client, now_s) and (x := self.own_model(client, now_s)) is not None:
            done = self._further[client][0] if client in self._further else self._planned
            self._further[client] = int(self._algorithm.participations[client]), self._on_from(client, x, done)

    def _falls_short(self, client: int, now_s: float) -> bool:
        """Return whether a client's longest plan is over, has fewer steps than its contacts, and it could use more."""
        settings, longest = self._task.settings, self.alone.longest
        enough = longest * settings.batch_size >= PASSES * int(self._task.data.train_count[client])
        more = int(self._algorithm.participations[client]) * settings.local_steps > longest
        return more and not enough and bool(self.alone.reached(now_s)[client] >= longest)

    @property
    def _planned(self) -> int:
        """The participations whose steps the longest plan has taken."""
        return -(-self.alone.longest // self._task.settings.local_steps) - 1

    def _on_from(self, client: int, x: Tensor, done: int) -> Tensor:
        """Return a model x [d] after the steps of a client's participations from number `done` + 1 until now."""
        for participation in range(done + 1, int(self._algorithm.participations[client]) + 1):
            steps = Steps(np.array([client]), np.array([participation]), 0, self._task.settings.local_steps)
            x = self._algorithm.train_alone(x.unsqueeze(0), steps)[0]
        return x

    def _train(self, client: int, held: int, steps: int) -> Tensor:
        """Train alone for this many steps on what is not held out, with a step size that falls to zero."""
        task = self._task
        size, start = task.settings.batch_size, task.start.unsqueeze(0)
        if not steps:
            return task.start
        drawn = task.draw(np.array([client]), np.array([steps]), steps * size)
        count = int(task.data.train_count[client]) - held
        rows = task.data.first[client] + (drawn * count).astype(np.int64).reshape(steps, 1, size)
        batches = torch.from_numpy(rows).to(start.device)
        return train(task, start, batches, FIRST * task.settings.step_size)[0]


def _counts(token: NDArray[np.bool_], alone: NDArray[np.bool_]) -> FloatArray:
    """Count the samples held out [3], those only the token gets wrong, and those only the model trained alone."""
    return np.array([len(token), (token & ~alone).sum(), (alone & ~token).sum()], dtype=np.float64)
