"""Local training: the baseline in which clients never exchange a model."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Protocol

from fedmule.learning.algorithms.base import Algorithm, Contact, Exchange, IntArray, Task, Update


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

    @property
    def steps(self) -> int:
        return self.reference.steps

    def exchange(self, clients: IntArray, progress: float) -> Exchange:
        return replace(self.reference.exchange(clients, progress), charged=False)

    def meeting(self, progress: float) -> Exchange:
        return replace(self.reference.meeting(progress), charged=False)

    def introduce(self, client: int, near: IntArray) -> None:
        self.reference.introduce(client, near)

    def update(self, contact: Contact) -> Update:
        clients = contact.clients
        self.reference.update(contact)
        index = self._index(clients)
        before = self.models[index]
        x, loss = self._descend(before, self._batches(clients))
        self._store(index, before, x)
        return Update(float(loss), self.steps, 0.0)


def _reference(keys: dict[str, Any]) -> Chosen:
    reference: Chosen = keys["reference"]
    return reference
