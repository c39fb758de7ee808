"""The choice of a step size and a number of steps on samples that a client holds out of its own training samples."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedmule.learning.algorithms.base import IntArray, Task
from fedmule.learning.steps import descend, scores

FOLDS = 4  # a fold holds out every fourth sample
MOST_HELD = 100  # samples of a fold; of more samples a smaller share is held out
ENOUGH_HELD = 15  # samples of all folds together, if there are that many
SEGMENTS = 4  # of a training, each with a constant step size
FIRST = 4.0  # first step size ÷ learning.step_size, usually; it falls linearly to zero
RATIO = 4.0  # between neighbouring step sizes and between neighbouring lengths
CLEAR = 2.0  # standard errors of a difference that count as more than chance
LEAST = 32  # steps; there is nothing to choose for plans that are shorter
TRIALS = 5  # step sizes that are tried, at most
MOST_ROWS = 1 << 21  # of batches that are kept in memory at once


@dataclass(frozen=True)
class Trial:
    """Result of a training on the samples that it held out, all folds together."""

    wrong: NDArray[np.bool_]  # which of them the trained models classify wrongly
    loss: NDArray[np.float64]  # of each

    @property
    def rank(self) -> tuple[int, float]:
        """The lower, the better."""
        return int(self.wrong.sum()), float(self.loss.sum())

    def clearly_fewer(self, than: Trial) -> bool:
        """Tell whether it makes fewer errors on the same samples, by more than two standard errors."""
        gained, lost = int((than.wrong & ~self.wrong).sum()), int((self.wrong & ~than.wrong).sum())
        return gained - lost > CLEAR * math.sqrt(gained + lost)

    def clearly_surer(self, than: Trial) -> bool:
        """Tell whether it makes no more errors and its loss is lower by more than two standard errors."""
        if self.wrong.sum() > than.wrong.sum() or not math.isfinite(self.loss.sum()):
            return False
        lower = than.loss - self.loss  # inf if the other diverged
        return not math.isfinite(lower.sum()) or bool(lower.sum() > CLEAR * math.sqrt(len(lower)) * lower.std())


def folds_of(samples: IntArray) -> IntArray:
    """Number of folds of clients with this many training samples: several where samples are few, 0 for a single one."""
    enough = -(-ENOUGH_HELD // np.maximum(samples // FOLDS, 1))
    return np.where(samples < 2, 0, np.minimum(np.clip(enough, 1, FOLDS), samples))


def steps_of_choice(folds: float) -> float:
    """Gradient steps of a choice and the training after it, at most, divided by the length of the longest plan."""
    return folds * (TRIALS / RATIO + 1 + 1 / RATIO**2) + 1


def train(task: Task, x: Tensor, batches: Tensor, first_step: float) -> Tensor:
    """Run SGD from models x [S,d] over batches [steps,S,B] with a step size that falls from `first_step` to zero."""
    steps = len(batches)
    edges = [steps * i // SEGMENTS for i in range(SEGMENTS + 1)]
    for i in range(SEGMENTS):
        if edges[i + 1] > edges[i]:
            eta = first_step * (1 - (i + 0.5) / SEGMENTS)
            x, _ = descend(task.model, task.data, x, batches[edges[i] : edges[i + 1]], eta)
    return x


def judge(task: Task, x: Tensor, rows: Tensor | slice, labels: IntArray) -> Trial:
    """Evaluate a model x [d] on rows of the data with these labels [N]; one that is not finite has everything wrong."""
    from fedmule.learning.kernels import judge as compiled  # slow to import, so only where needed

    found = scores(task.model, task.data, x, rows).cpu().contiguous().numpy()
    wrong, loss = compiled(found, labels)
    if not math.isfinite(loss.sum()):
        return Trial(np.ones(len(labels), dtype=bool), np.full(len(labels), np.inf))
    return Trial(wrong, loss)


class Pools:
    """Training samples of clients, divided into folds, and random batches from them.

    `counters` [m] number the choices of each client: all that is random depends on (client, counter) alone.
    """

    def __init__(self, task: Task, clients: IntArray, counters: IntArray) -> None:
        self._task, self._clients, self._counters = task, clients, counters
        self.folds = folds_of(task.data.train_count[clients])
        self._rows = [self._in_order(i) for i in range(len(clients))]

    def held(self, i: int, fold: int) -> tuple[Tensor, IntArray]:
        """Return rows and labels of the samples that a fold of the i-th client holds out."""
        data = self._task.data
        rows = torch.from_numpy(self._rows[i][fold :: self._stride(i)]).to(data.labels.device)
        return rows, data.labels[rows].cpu().numpy()

    def batches(self, members: Iterable[tuple[int, int]], steps: int) -> Tensor:
        """Draw batches [steps,S,B] for (client, fold) pairs; fold −1 is training on all samples."""
        size, pairs = self._task.settings.batch_size, list(members)
        numbers = np.array([i for i, _ in pairs], dtype=np.int64)
        counters = self._counters[numbers] * (FOLDS + 2) + 1 + np.array([fold for _, fold in pairs], dtype=np.int64)
        drawn = self._task.draw(self._clients[numbers], counters, steps * size)
        found = np.empty((steps, len(pairs), size), dtype=np.int64)
        for at, (i, fold) in enumerate(pairs):
            rows = self._rows[i] if fold < 0 else np.delete(self._rows[i], np.s_[fold :: self._stride(i)])
            found[:, at] = rows[(drawn[at] * len(rows)).astype(np.int64)].reshape(steps, size)
        return torch.from_numpy(found).to(self._task.start.device)

    def _stride(self, i: int) -> int:
        return max(FOLDS, -(-len(self._rows[i]) // MOST_HELD))

    def _in_order(self, i: int) -> IntArray:
        """The training rows of a client by label, at random within a label, so that folds have all labels."""
        data, client = self._task.data, int(self._clients[i])
        first, count = int(data.first[client]), int(data.train_count[client])
        counter = self._counters[i : i + 1] * (FOLDS + 2) + FOLDS + 1
        chance = self._task.draw(self._clients[i : i + 1], counter, count)[0]
        labels = data.labels[first : first + count].cpu().numpy()
        return first + np.lexsort((chance, labels)).astype(np.int64)


@dataclass(frozen=True)
class Plan:
    """How a client trains: the step size of its first step, which falls linearly to zero, and the number of steps."""

    step_size: float
    steps: int


class Choice:
    """Chooses a plan of at most `longest` steps for each of m clients, who start from the models x [m,d].

    The step size is chosen with plans of a quarter of the length: the usual one, a quarter of it and four times as
    much, then farther in the direction that does better. The usual one is kept unless another does clearly better on
    the samples held out, and so is the longest plan unless a quarter of its steps does, or a sixteenth. With few
    samples the smallest error is often a matter of luck, and choosing it costs accuracy.
    """

    def __init__(self, task: Task, pools: Pools, x: Tensor, longest: int) -> None:
        self._task, self._pools, self._x, self._longest = task, pools, x, longest
        folds = pools.folds if longest >= LEAST else np.zeros_like(pools.folds)
        self._members = [(i, fold) for i in range(len(x)) for fold in range(folds[i])]
        self._batches = pools.batches(self._members, longest)
        self._held = [pools.held(i, fold) for i, fold in self._members]
        self._at = {i: [at for at, (owner, _) in enumerate(self._members) if owner == i] for i in range(len(x))}
        self.gradient_steps = 0

    def plans(self) -> list[Plan]:
        """Return a plan for each client; the usual one if it can hold nothing out or can take a few steps only."""
        usual = FIRST * self._task.settings.step_size
        powers, trials = self._step_sizes(usual)
        steps = self._lengths(usual, powers, trials)
        return [Plan(usual * RATIO**power, count) for power, count in zip(powers, steps, strict=True)]

    def _step_sizes(self, usual: float) -> tuple[list[int], dict[int, Trial]]:
        """Choose powers of RATIO; also returns the trials of the chosen ones, by client."""
        short = self._shorter(self._longest)
        tried: dict[int, dict[int, Trial]] = {i: {} for i, at in self._at.items() if at}
        wanted = {i: {-1, 0, 1} for i in tried}
        while wanted:
            for power in sorted(set().union(*wanted.values())):
                who = [i for i in wanted if power in wanted[i]]
                for i, trial in self._try(who, usual * RATIO**power, short):
                    tried[i][power] = trial
            wanted = {i: {farther} for i in wanted if (farther := _next(tried[i])) is not None}
        best = {i: min(trials, key=lambda power: trials[power].rank) for i, trials in tried.items()}
        powers = [best[i] if i in tried and _replaces(tried[i][best[i]], tried[i][0]) else 0 for i in self._at]
        return powers, {i: trials[powers[i]] for i, trials in tried.items()}

    def _lengths(self, usual: float, powers: list[int], quarter: dict[int, Trial]) -> list[int]:
        """Choose numbers of steps, given the trials of a quarter of the longest plan."""
        short = self._shorter(self._longest)
        longest = self._try_all(list(quarter), usual, powers, self._longest)
        early = [i for i, trial in quarter.items() if trial.clearly_fewer(longest[i])]
        earlier = self._try_all(early, usual, powers, self._shorter(short))
        steps = [self._longest] * len(powers)
        for i in early:
            steps[i] = self._shorter(short) if earlier[i].clearly_fewer(quarter[i]) else short
        return steps

    def _try_all(self, clients: list[int], usual: float, powers: list[int], steps: int) -> dict[int, Trial]:
        """Try this many steps for each of these clients with its own step size."""
        found: dict[int, Trial] = {}
        for power in sorted({powers[i] for i in clients}):
            found.update(self._try([i for i in clients if powers[i] == power], usual * RATIO**power, steps))
        return found

    def _try(self, clients: list[int], first_step: float, steps: int) -> Iterator[tuple[int, Trial]]:
        """Train these clients in all their folds and evaluate each fold's model on what it held out."""
        at = [row for i in clients for row in self._at[i]]
        if not at:
            return
        device, batches = self._x.device, self._batches[:steps]
        if len(at) < len(self._members):
            batches = batches.index_select(1, torch.tensor(at).to(device))
        owners = torch.tensor([self._members[row][0] for row in at]).to(device)
        models = train(self._task, self._x[owners], batches, first_step)
        self.gradient_steps += steps * len(at)
        judged = {row: judge(self._task, x, *self._held[row]) for x, row in zip(models, at, strict=True)}
        for i in clients:
            parts = [judged[row] for row in self._at[i]]
            yield (
                i,
                Trial(np.concatenate([part.wrong for part in parts]), np.concatenate([part.loss for part in parts])),
            )

    @staticmethod
    def _shorter(steps: int) -> int:
        return max(1, round(steps / RATIO))


def _replaces(best: Trial, usual: Trial) -> bool:
    """Tell whether a step size is better than the usual one by more than chance, in errors or else in loss."""
    return best.clearly_fewer(usual) or best.clearly_surer(usual)


def _next(trials: dict[int, Trial]) -> int | None:
    """The power to try next: beyond the best one, if it is the last in its direction; None if that is enough."""
    best = min(trials, key=lambda power: trials[power].rank)
    beyond = best + 1 if best == max(trials) else best - 1 if best == min(trials) else None
    return None if len(trials) >= TRIALS else beyond


def blocks(clients: IntArray, steps: int, batch: int) -> Iterator[IntArray]:
    """Divide clients into groups whose batches fit into memory."""
    size = max(1, MOST_ROWS // (steps * batch * FOLDS))
    for first in range(0, len(clients), size):
        yield clients[first : first + size]
