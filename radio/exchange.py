"""An exchange that has the channel to itself, over links that change and break."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fedmule.radio.channel import Channel, Delay, Link, Load, Outcome, Transfer


def ideal_exchange(load: Load, start_s: float) -> Outcome:
    """Outcome if every client had a perfect link to itself: all is delivered, and only computing takes time."""
    longest = float(load.compute_s.max(initial=0.0))
    return Outcome(
        end_s=start_s + longest,
        delivered=np.ones(len(load.compute_s), dtype=bool),
        bytes_down=load.bytes_down,
        bytes_up=load.bytes_up,
        air_bytes_down=int(load.bytes_down.sum()),
        air_bytes_up=int(load.bytes_up.sum()),
        airtime_s=0.0,
        compute_s=longest,
    )


def run_exchange(
    links: list[Link],
    load: Load,
    start_s: float,
    setup_s: float,
    delays: Sequence[Delay],
    duty_cycle: float = 1.0,
) -> Outcome:
    """Simulate an exchange to its end."""
    channel = Channel(duty_cycle, start_s)
    channel.join(Transfer(load, setup_s, links, delays))
    while not (ended := channel.advance(channel.next_s)):
        pass
    return ended[0][1]
