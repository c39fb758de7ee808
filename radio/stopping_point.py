"""Where a vehicle on its way to a client had best stop to exchange with it."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from fedmule.radio.channel import Load
from fedmule.radio.link import HAIR_S, Stretch


def soonest(link: Iterable[Stretch], load: Load, duty_cycle: float, start_s: float, last_s: float) -> float:
    """Time in [start_s, last_s] at which to stop so that an exchange from there ends soonest; the first one in a tie.

    `link` is the link along the way from `start_s` on as it is expected to be, `load` that of the client alone: nearer
    by, a faster rate may make up for the longer way.
    """
    seconds, bits = float(load.compute_s[0]), 8.0 * float(load.bytes_down[0] + load.bytes_up[0])
    best_s, best_end_s, t = start_s, np.inf, start_s
    for stretch in link:
        if stretch.rate_bps > 0:
            end_s = t + seconds + bits / (stretch.rate_bps * duty_cycle)
            if end_s < best_end_s:
                best_s, best_end_s = t, end_s
                if t > start_s:
                    best_s += min(HAIR_S, (stretch.end_s - t) / 2)
        t = stretch.end_s
        if t > last_s or t + seconds >= best_end_s:  # no later stop can be sooner
            break
    return min(best_s, last_s)
