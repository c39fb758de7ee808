"""What several vehicles carry, for algorithms that know of one token."""

from __future__ import annotations

import torch
from torch import Tensor

from learning.algorithm import Algorithm, Contact, Update


class Carried:
    """Each vehicle's token, or whatever `Algorithm.carried` names; taken up for its contacts and put down after.

    In between the algorithm holds the mean over vehicles: that is what accuracy and diagnostics look at.
    """

    def __init__(self, algorithm: Algorithm, vehicles: int = 1) -> None:
        self._algorithm = algorithm
        self._by_vehicle = [self._put_down() for _ in range(vehicles)]
        algorithm.vehicles = vehicles

    def update(self, vehicle: int, contact: Contact) -> Update:
        """Update with exactly the clients delivered at a contact of this vehicle."""
        if len(self._by_vehicle) == 1:
            return self._algorithm.update(contact)
        self._take_up(self._by_vehicle[vehicle])
        update = self._algorithm.update(contact)
        self._by_vehicle[vehicle] = self._put_down()
        self._hold_mean()
        return update

    def meet(self, a: int, b: int) -> None:
        """Two vehicles have exchanged what they carry: both go on with the mean."""
        mean = {name: (one + self._by_vehicle[b][name]) / 2 for name, one in self._by_vehicle[a].items()}
        self._by_vehicle[a], self._by_vehicle[b] = mean, dict(mean)
        self._hold_mean()

    def of(self, vehicle: int) -> dict[str, Tensor]:
        """What a vehicle carries, by name."""
        return self._by_vehicle[vehicle]

    def _hold_mean(self) -> None:
        names = self._algorithm.carried
        self._take_up({name: torch.stack([own[name] for own in self._by_vehicle]).mean(dim=0) for name in names})

    def _take_up(self, things: dict[str, Tensor]) -> None:
        for name, thing in things.items():
            setattr(self._algorithm, name, thing)

    def _put_down(self) -> dict[str, Tensor]:
        return {name: getattr(self._algorithm, name).clone() for name in self._algorithm.carried}
