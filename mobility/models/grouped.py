"""Grouped: several mobility models at once, each for clients of its own."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fedmule.mobility.models.movement import (
    BoolArray,
    FloatArray,
    IntArray,
    Movement,
    Stays,
    Waypoints,
    speed_limit_mps,
)


class Grouped(Movement):
    """Clients of several models, numbered model after model.

    A model knows its own clients only, as 0, 1, …, and is asked only when they are asked for. Those of a model that
    stands still stay where they start. `starts` are what `start` of each model returned, [n,2].
    """

    def __init__(self, models: Sequence[Movement], starts: Sequence[FloatArray]) -> None:
        self.models = tuple(models)
        self.first = np.concatenate([[0], np.cumsum([len(start) for start in starts])])  # [k+1] first client of each
        self.still = all(model.still for model in models)
        self._starts = list(starts)

    def clients(self, model: int) -> slice:
        """The clients of a model."""
        return slice(int(self.first[model]), int(self.first[model + 1]))

    def start(self) -> FloatArray:
        """Positions [n,2] at time 0."""
        return np.concatenate(self._starts)

    def first_positions(self) -> FloatArray:
        """Positions [n,2] at which clients first appear."""
        each = [model.first_positions() for model in self.models]
        return np.concatenate([start if xy is None else xy for start, xy in zip(self._starts, each, strict=True)])

    def extend(self, client: IntArray, t: FloatArray, xy: FloatArray) -> Waypoints:
        """Waypoints after the last ones of these clients, from their models."""
        model_of = np.searchsorted(self.first, client, side="right") - 1
        parts = []
        for k in np.unique(model_of).tolist():
            rows = model_of == k
            if self.models[k].still:
                parts.append(Waypoints(client[rows], np.full(int(rows.sum()), np.inf), xy[rows]))
            else:
                new = self.models[k].extend(client[rows] - self.first[k], t[rows], xy[rows])
                parts.append(Waypoints(new.client + self.first[k], new.t, new.xy))
        return Waypoints.join(parts)

    def top_speed_mps(self) -> float:
        """Top speed of any model whose clients move."""
        return max((speed_limit_mps(model) for model in self.models if not model.still), default=0.0)

    def there(self, t: float) -> BoolArray | None:
        """Which clients [n] are present at time t; None if no model's clients come and go."""
        each = [model.there(t) for model in self.models]
        if all(there is None for there in each):
            return None
        present = np.ones(self.first[-1], dtype=bool)
        for k, there in enumerate(each):
            if there is not None:
                present[self.clients(k)] = there
        return present

    def stays(self) -> Stays | None:
        """When clients are present; None if no model's clients come and go."""
        each = [model.stays() for model in self.models]
        if all(stays is None for stays in each):
            return None
        always = [Stays(np.arange(len(s)), np.zeros(len(s)), np.full(len(s), np.inf)) for s in self._starts]
        found = [usual if stays is None else stays for stays, usual in zip(each, always, strict=True)]
        return Stays(
            np.concatenate([stays.client + first for stays, first in zip(found, self.first[:-1], strict=True)]),
            np.concatenate([stays.comes_s for stays in found]),
            np.concatenate([stays.goes_s for stays in found]),
        )

    def next_arrival_s(self, t: float) -> float:
        """Time after t at which the next absent client of any model arrives; inf if none does."""
        return min(model.next_arrival_s(t) for model in self.models)

    def constants(self) -> list[object]:
        """Attributes of all models that never change."""
        return [self._starts, *(constant for model in self.models for constant in model.constants())]
