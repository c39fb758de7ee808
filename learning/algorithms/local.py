"""Local training: the baseline in which clients never exchange a model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from fedmule.learning.algorithms.base import (
    Algorithm,
    Contact,
    Exchange,
    FloatArray,
    IntArray,
    Parcel,
    Steps,
    Task,
    Update,
    Work,
)

THEIRS = "reference."  # prefix of the names of what the reference computes


class Chosen(Protocol):
    """The algorithm that a scenario names, before it is built."""

    def ask(self, question: str, *arguments: Any) -> Any:
        """Call a class method of the algorithm with its own keys."""
        ...


class Local(Algorithm):
    """Each client trains on its own data only, at the times and for the steps of a reference algorithm.

    The complete reference runs alongside and decides how long exchanges take, so both meet the same clients at
    the same times and take the same number of gradient steps on the same batches. No bytes are charged.
    """

    def __init__(self, task: Task, reference: Algorithm) -> None:
        super().__init__(task)
        self.reference = reference
        self.adds_up, self.grows = reference.adds_up, reference.grows  # so meetings cost the same

    @classmethod
    def gradients_per_visit(cls, local_steps: int, **keys: Any) -> int:
        return int(_reference(keys).ask("gradients_per_visit", local_steps))

    @classmethod
    def state_tensors(cls, **keys: Any) -> int:
        return cls.state_copies + int(_reference(keys).ask("state_tensors"))

    @classmethod
    def asks_for_sites(cls, **keys: Any) -> bool:
        return bool(_reference(keys).ask("asks_for_sites"))

    @classmethod
    def trains_between_contacts(cls, **keys: Any) -> bool:
        return super().trains_between_contacts() and bool(_reference(keys).ask("trains_between_contacts"))

    @property
    def steps(self) -> int:
        return self.reference.steps

    def gradients(self, local_steps: int) -> int:
        return self.reference.gradients(local_steps)

    def preparation_flops(self, clients: IntArray, progress: float) -> FloatArray:
        return self.reference.preparation_flops(clients, progress)

    def exchange(self, clients: IntArray, progress: float) -> Exchange:
        return replace(self.reference.exchange(clients, progress), charged=False)

    def meeting(self, progress: float) -> Exchange:
        return replace(self.reference.meeting(progress), charged=False)

    def introduce(self, client: int, near: IntArray) -> None:
        self.reference.introduce(client, near)

    def send(
        self, clients: IntArray, progress: float, visited: int | None = None, near: IntArray | None = None
    ) -> list[Parcel]:
        return self.reference.send(clients, progress, visited, near)

    def update(self, contact: Contact) -> Update:
        """Update the reference in its own way, which may be all that it overrides, and take as many steps alone."""
        self.reference.update(contact)
        clients, work = contact.clients, {"x": self.models[self._index(contact.clients)]}
        count = self.steps if contact.steps is None else self.gradients(contact.steps)
        x, loss = self._alone(work, Steps(clients, self.participations[clients], 0, count), 0, count)
        super().took(clients, work, contact.progress)
        self._keep(clients, x)
        return Update(float(loss), count, 0.0)

    def meet(self, contact: Contact) -> None:
        self.reference.meet(contact)

    def start(self, clients: IntArray, sent: Sequence[Parcel], progress: float) -> Work:
        return {"x": self.models[self._index(clients)], **_named(self.reference.start(clients, sent, progress))}

    def took(self, clients: IntArray, work: Work, progress: float) -> None:
        super().took(clients, work, progress)
        self.reference.took(clients, _theirs(work), progress)

    def train(self, work: Work, steps: Steps) -> tuple[Work, Tensor | float]:
        """Take one step of SGD for every gradient of the reference."""
        theirs, _ = self.reference.train(_theirs(work), steps)
        taken = self.gradients(steps.first) if steps.first else 0
        x, loss = self._alone(work, steps, taken, self.gradients(steps.last))
        return {"x": x, **_named(theirs)}, loss

    def _alone(self, work: Work, steps: Steps, first: int, last: int) -> tuple[Tensor, Tensor | float]:
        """Take steps number first … last − 1 of SGD, without the reference."""
        return self._descend(work["x"], self._rows(work, steps, first, last))

    def keeps(self, clients: IntArray, progress: float) -> NDArray[np.bool_]:
        return self.reference.keeps(clients, progress)

    def frozen(self, progress: float) -> bool:
        return self.reference.frozen(progress)

    def combine(self, contact: Contact, work: Work) -> float:
        self.reference.combine(contact, _theirs(work))
        self._keep(contact.clients, work["x"])
        return 0.0


def _named(theirs: Work) -> Work:
    return {THEIRS + name: part for name, part in theirs.items()}


def _theirs(work: Work) -> Work:
    return {name.removeprefix(THEIRS): part for name, part in work.items() if name.startswith(THEIRS)}


def _reference(keys: dict[str, Any]) -> Chosen:
    reference: Chosen = keys["reference"]
    return reference
