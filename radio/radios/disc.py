"""Disc: the full rate within a range, no link beyond it."""

from __future__ import annotations

import numpy as np

from fedmule.radio.link import Ladder, Radio


class Disc(Radio):
    """One rate up to `range_m`; any loss, such as an obstacle's, breaks the link."""

    def __init__(self, range_m: float, rate_mbps: float, latency_s: float, setup_s: float) -> None:
        self.latency_s = latency_s
        self.setup_s = setup_s
        self._open = Ladder(np.array([range_m]), np.array([rate_mbps * 1e6]))
        self._cut = Ladder(np.empty(0), np.empty(0))

    def ladder(self, loss_db: float) -> Ladder:
        """One step, or none if there is any loss."""
        return self._open if loss_db == 0 else self._cut
