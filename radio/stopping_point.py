"""Where a vehicle on its way to a client had best stop to exchange with it."""

from __future__ import annotations

import numpy as np

from fedmule.mobility.trajectory import Way
from fedmule.radio.channel import Load
from fedmule.radio.link import HAIR_S, Radio, link_between
from fedmule.radio.obstruction import Obstruction


def soonest(
    radio: Radio, obstruction: Obstruction, way: Way, target: Way, load: Load, start_s: float, last_s: float
) -> float:
    """Time in [start_s, last_s] at which to stop so that an exchange from there ends soonest; the first one in a tie.

    `load` is of the target alone, which is expected to stay where it is: nearer by, a faster rate may make up for the
    longer way.
    """
    seconds, bits = float(load.compute_s[0]), 8.0 * float(load.bytes_down[0] + load.bytes_up[0])
    best_s, best_end_s, t = start_s, np.inf, start_s
    for stretch in link_between(radio, obstruction, way, target, start_s):
        if stretch.rate_bps > 0:
            end_s = t + seconds + bits / (stretch.rate_bps * radio.duty_cycle)
            if end_s < best_end_s:
                best_s, best_end_s = t, end_s
                if t > start_s:
                    best_s += min(HAIR_S, (stretch.end_s - t) / 2)
        t = stretch.end_s
        if t > last_s or t + seconds >= best_end_s:  # no later stop can be sooner
            break
    return min(best_s, last_s)
