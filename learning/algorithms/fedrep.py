"""FedRep (Collins, Hassani, Mokhtari, Shakkottai 2021, "Exploiting Shared Representations for …", ICML)."""

from __future__ import annotations

from collections.abc import Iterator

from torch import Tensor

from fedmule.learning.algorithms.base import Steps, Task, Work
from fedmule.learning.algorithms.body_and_head import PersonalHead


def head_steps(local_steps: int, share: float) -> int:
    """Return how many of the local steps train the head: about this share, and at least one step for either part."""
    return min(max(round(share * local_steps), 1), local_steps - 1)


def phases(first: int, last: int, head: int, local_steps: int) -> Iterator[tuple[int, int, bool]]:
    """Divide steps first … last − 1 into runs (first, last, whether the head is trained).

    In each sequence of `local_steps` steps, the first `head` train the head and the others the body.
    """
    while first < last:
        at = first % local_steps
        until = first - at + (head if at < head else local_steps)
        yield first, min(until, last), at < head
        first = until


class FedRep(PersonalHead):
    """First the head h_i is trained with the body b fixed, then b with h_i fixed; bodies are averaged.

    The visit's `local_steps` are divided between both, so it has one gradient per local step. Clients that go on
    training between contacts repeat this every `local_steps` steps. One body down and one up.
    """

    def __init__(self, task: Task, head_share: float) -> None:
        super().__init__(task)
        self.head_steps = head_steps(task.settings.local_steps, head_share)

    def train(self, work: Work, steps: Steps) -> tuple[Work, Tensor | float]:
        """h_i ← h_i − ηg_h in the first steps, then b ← b − ηg_b."""
        x, total = work["x"], work["x"].new_zeros(())
        for first, last, head in phases(steps.first, steps.last, self.head_steps, self.settings.local_steps):
            part = slice(self.body, None) if head else slice(self.body)
            x, losses = self.train_part(x, self._rows(work, steps, first, last), part)
            total += losses
        return {"x": x}, total / (steps.last - steps.first)
