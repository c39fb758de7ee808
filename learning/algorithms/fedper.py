"""FedPer (Arivazhagan, Aggarwal, Singh, Choudhary 2019, "Federated Learning with Personalization Layers", arXiv)."""

from __future__ import annotations

from torch import Tensor

from fedmule.learning.algorithms.base import Steps, Work
from fedmule.learning.algorithms.body_and_head import PersonalHead


class FedPer(PersonalHead):
    """Body and head (b, h_i) are trained together by SGD; the token's b is the weighted mean of the delivered bodies.

    One gradient per local step; one body down and one up.
    """

    def train(self, work: Work, steps: Steps) -> tuple[Work, Tensor | float]:
        """(b, h_i) ← (b, h_i) − ηg."""
        x, loss = self._descend(work["x"], self._rows(work, steps, steps.first, steps.last))
        return {"x": x}, loss
