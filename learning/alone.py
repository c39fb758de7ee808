"""Training alone: what clients would have without any vehicle, each on its own data and on its own clock."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedmule.learning.algorithms.base import IntArray, Task
from fedmule.learning.held_out import Choice, Plan, Pools, blocks, judge, train

FloatArray = NDArray[np.float64]

HALVINGS = 32  # more than there are lengths of plans
AT_ONCE = 1 << 18  # samples, about, on which a model is evaluated at once


class Alone:
    """Trains clients alone, from simulated time 0 on, no further than it is asked for; a sample of them is evaluated.

    By time t a client can have taken t · FLOP/s ÷ FLOPs of a step. Once that is `longest` steps, or half, a quarter,
    … of it, the client has the best model of that many steps: step size and number of steps are chosen on samples it
    holds out of its training samples, and the model is trained on all of them from the start model. Choosing takes no
    simulated time.
    """

    def __init__(
        self,
        task: Task,
        clients: IntArray,
        longest: int,
        flops_per_s: FloatArray,
        flops_per_step: float,
        sample: IntArray | None = None,
    ) -> None:
        self._task = task
        self.clients = clients  # [m] who can be asked for, ascending
        self.sampled = np.isin(clients, clients if sample is None else sample)  # [m] who is evaluated
        self.longest = longest  # steps
        self.gradient_steps = 0  # computed so far, those of choices included
        self._steps_per_s = flops_per_s[clients] / flops_per_step
        count = len(clients)
        self.models = task.start.repeat(count, 1)  # [m,d]
        self._start = task.start.expand(count, -1)  # [m,d] where each began
        self._began_s = np.zeros(count)
        self._trained = np.zeros(count, dtype=np.int64)  # steps that were possible when a model was trained last
        self._times_moved = np.zeros(count, dtype=np.int64)
        self.step_size, self.steps = np.zeros(count), np.zeros(count, dtype=np.int64)  # [m] of each client's plan
        self._accuracy = np.full(task.data.clients, np.nan)
        self._evaluate_start(self.clients[self.sampled])

    def accuracy(self, now: float) -> FloatArray:
        """Return the test accuracy [n] of the models trained alone by now; nan for clients outside the sample."""
        self._advance(now, np.flatnonzero(self.sampled))
        return self._accuracy.copy()

    def model(self, client: int, now: float) -> Tensor:
        """Return the model [d] that a client has trained alone by now."""
        row = np.searchsorted(self.clients, [client])
        self._advance(now, row)
        found: Tensor = self.models[int(row[0])]
        return found

    def reached(self, now: float) -> IntArray:
        """Return the steps [m] of the longest plan that the clock of each client has allowed by now.

        That is the longest of `longest`, half of it, a quarter, … that is possible; 0 if none is.
        """
        lengths = np.unique([self.longest >> i for i in range(HALVINGS)])  # ascending, with 0
        return lengths[np.searchsorted(lengths, self.steps_by(now), side="right") - 1]

    def steps_by(self, now: float) -> IntArray:
        """Return the gradient steps [m] that each client can have taken by now."""
        possible = (now - self._began_s) * self._steps_per_s
        return np.floor(np.clip(possible, 0.0, 2.0**53)).astype(np.int64)

    def leave(self, clients: IntArray, now: float) -> None:
        """Train up to now: the data of these clients are about to change."""
        self._advance(now, np.flatnonzero(np.isin(self.clients, clients)))

    def arrive(self, clients: IntArray, now: float) -> None:
        """Start again with the models the clients have: their data have changed."""
        who = np.flatnonzero(np.isin(self.clients, clients))
        if len(who):
            index = self._index(who)
            self._start = self._start.clone().index_copy_(0, index, self.models[index])
            self._began_s[who] = now
            self._trained[who] = 0
            self._times_moved[who] += 1
            self._evaluate(who[self.sampled[who]])

    def constants(self) -> list[object]:
        """Objects the checkpoint must not copy."""
        return [self._task]

    def _advance(self, now: float, among: IntArray) -> None:
        """Train those among these who can take more steps by now than when they were trained last."""
        lengths = self.reached(now)[among]
        later = lengths > self._trained[among]
        for length in np.unique(lengths[later]).tolist():
            due = among[(lengths == length) & later]
            for who in blocks(due, length, self._task.settings.batch_size):
                self._train(who, length)
                self._trained[who] = length
                self._evaluate(who[self.sampled[who]])

    def _train(self, who: IntArray, length: int) -> None:
        """Choose plans of at most `length` steps and train the models [who] by them."""
        number = self._times_moved[who] * HALVINGS + length.bit_length()  # lengths differ in theirs
        pools = Pools(self._task, self.clients[who], number)
        start = self._start[self._index(who)]
        choice = Choice(self._task, pools, start, length)
        plans = choice.plans()
        self.gradient_steps += choice.gradient_steps
        for plan in sorted(set(plans), key=lambda plan: (plan.step_size, plan.steps)):
            same = [i for i, other in enumerate(plans) if other == plan]
            self._carry_out(plan, pools, who, start, same)

    def _carry_out(self, plan: Plan, pools: Pools, who: IntArray, start: Tensor, same: list[int]) -> None:
        """Train the clients who[same] on all their samples; a model that diverges is not kept."""
        batches = pools.batches([(i, -1) for i in same], plan.steps)
        before = start[self._index(np.array(same))]
        x = train(self._task, before, batches, plan.step_size)
        self.gradient_steps += plan.steps * len(same)
        sound = torch.isfinite(x).all(dim=1, keepdim=True)
        self.models.index_copy_(0, self._index(who[same]), torch.where(sound, x, before))
        self.step_size[who[same]], self.steps[who[same]] = plan.step_size, plan.steps

    def _index(self, rows: IntArray) -> Tensor:
        return torch.from_numpy(rows).to(self.models.device)

    def _evaluate_start(self, clients: IntArray) -> None:
        """Evaluate the model that all of them start with."""
        data = self._task.data
        for some in np.array_split(clients, 1 + int(data.test_count[clients].sum()) // AT_ONCE):
            count = data.test_count[some]
            if not len(some):
                continue
            ends = np.cumsum(count)
            rows = torch.from_numpy(np.arange(ends[-1]) + np.repeat(data.test_first[some] - ends + count, count))
            rows = rows.to(data.labels.device)
            wrong = judge(self._task, self._task.start, rows, data.labels[rows].cpu().numpy()).wrong
            self._accuracy[some] = 1 - np.add.reduceat(wrong, ends - count, dtype=np.int64) / count

    def _evaluate(self, who: IntArray) -> None:
        data = self._task.data
        for i in who.tolist():
            client = int(self.clients[i])
            rows = slice(int(data.test_first[client]), int(data.first[client + 1]))
            found = judge(self._task, self.models[i], rows, data.labels[rows].cpu().numpy())
            self._accuracy[client] = 1 - found.wrong.mean()
