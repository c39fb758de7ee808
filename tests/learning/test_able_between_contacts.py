"""Which algorithms can train between contacts: those that say in parts what clients do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from test_between_contacts import CASES, build

from fedmule.learning.algorithms.base import Algorithm, Contact, Update
from fedmule.learning.algorithms.fedavg import FedAvg
from fedmule.learning.algorithms.local import Local


class Halfway(FedAvg):
    """Overrides `update` alone."""

    def update(self, contact: Contact) -> Update:
        return super().update(contact)


class Gentle(Halfway):
    """Overrides both, so that it can be used both ways."""

    def update(self, contact: Contact) -> Update:
        return super().update(contact)

    def combine(self, contact: Contact, work: dict[str, torch.Tensor]) -> float:
        return super().combine(contact, work)


class Later(FedAvg):
    """Overrides a part of an update."""

    def combine_together(self, contact: Contact, work: dict[str, torch.Tensor]) -> float:
        return super().combine_together(contact, work)


def test_who_can_train_between_contacts(problem: Callable[..., Any]) -> None:
    kinds = [type(build(problem, case)) for case in CASES if not case.startswith("local")]
    assert all(kind.trains_between_contacts() for kind in [*kinds, FedAvg, Gentle, Later])
    assert not Halfway.trains_between_contacts()

    class Alone(Algorithm):
        def update(self, contact: Contact) -> Update:
            return Update(0.0, 1, 0.0)

    class Reference:
        def __init__(self, able: bool) -> None:
            self.able = able

        def ask(self, question: str) -> bool:
            return self.able

    assert not Alone.trains_between_contacts()
    assert Local.trains_between_contacts(reference=Reference(True))
    assert not Local.trains_between_contacts(reference=Reference(False))
