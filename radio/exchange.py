"""Duration and outcome of an exchange, on a shared channel with links that change and break."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedmule.radio.link import Stretch

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]

# Steps of a client, in this order; DOWN and UP are measured in bits, the others in seconds. The last byte is in flight
# to the client in LAND, and to the vehicle in ARRIVE.
SETUP, DOWN, LAND, COMPUTE, UP, ARRIVE, DONE = range(7)

# delay(t): seconds from sending a byte to or from a client at time t until it is usable.
Delay = Callable[[float], float]


@dataclass(frozen=True)
class Load:
    """Cost of an exchange for each of m clients: bytes and computing time."""

    bytes_down: IntArray  # [m] to each client
    compute_s: FloatArray  # [m] computing time of each client between receiving and sending
    bytes_up: IntArray  # [m] from each client
    broadcast: bool = True  # the bytes down are the same for all recipients, and are sent once


@dataclass(frozen=True)
class Outcome:
    """Outcome of an exchange; everything sent is charged, whether it was delivered or not."""

    end_s: float
    delivered: BoolArray  # [m]
    bytes_down: IntArray  # [m] received by each client
    bytes_up: IntArray  # [m] sent by each client
    air_bytes_down: int  # sent by the vehicle; a broadcast counts once
    air_bytes_up: int
    airtime_s: float  # time during which the channel was busy
    compute_s: float  # the longest computation that was started


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
    links: list[Iterator[Stretch]],
    load: Load,
    start_s: float,
    setup_s: float,
    delays: Sequence[Delay],
    duty_cycle: float = 1.0,
) -> Outcome:
    """Simulate an exchange to its end, from one moment at which anything changes to the next.

    Simultaneous transfers get equal shares of the channel's time, and no sender gets more than its duty cycle; a
    broadcast is one transfer at the rate of its slowest listener. A client whose link breaks before its last byte has
    arrived is lost at once.
    """
    m = len(links)
    everyone = np.arange(m)
    left = np.zeros((m, DONE + 1))  # remainder of each step
    left[:, SETUP] = setup_s
    left[:, DOWN] = 8.0 * load.bytes_down
    left[:, COMPUTE] = load.compute_s
    left[:, UP] = 8.0 * load.bytes_up
    asked = left.copy()
    step = np.zeros(m, dtype=np.int64)
    rate, until = np.zeros(m), np.zeros(m)  # of the link's current stretch
    now, airtime_s = start_s, 0.0
    for i in everyone:
        rate[i], until[i] = _stretch_after(links[i], now)
    lost = rate == 0
    while True:
        while (finished := (step < DONE) & ~lost & (left[everyone, step] <= 0)).any():
            for i in np.flatnonzero(finished & (asked[everyone, step] > 0) & ((step == DOWN) | (step == UP))):
                left[i, step[i] + 1] = delays[int(i)](now)
            step[finished] += 1
        busy = (step < DONE) & ~lost
        for i in np.flatnonzero(busy & (until <= now)):
            rate[i], until[i] = _stretch_after(links[i], now)
            lost[i] = rate[i] == 0
        busy &= ~lost
        if not busy.any():
            break
        down, up = busy & (step == DOWN), busy & (step == UP)
        one_for_all = load.broadcast and bool(down.any())
        ups, downs = int(up.sum()), 1 if one_for_all else int(down.sum())
        # Shares of the channel's time: all transfers down have the same sender, the vehicle; clients share the rest.
        down_share = min(1 / max(ups + downs, 1), duty_cycle / max(downs, 1))
        up_share = min((1 - downs * down_share) / max(ups, 1), duty_cycle)
        speed = np.ones(m)  # progress of the current step per second; 1 for steps measured in seconds
        speed[up] = rate[up] * up_share
        speed[down] = (rate[down].min() if one_for_all else rate[down]) * down_share
        finish = now + left[everyone, step] / speed
        following = min(finish[busy].min(), until[busy].min())
        progress = np.where(finish <= following, left[everyone, step], speed * (following - now))
        left[busy, step[busy]] -= progress[busy]
        airtime_s += (ups * up_share + downs * down_share) * (following - now)
        now = float(following)
    moved = np.floor((asked - np.maximum(left, 0.0)) / 8 + 1e-6).astype(np.int64)
    received, sent = moved[:, DOWN], moved[:, UP]
    return Outcome(
        end_s=now,
        delivered=step == DONE,
        bytes_down=received,
        bytes_up=sent,
        air_bytes_down=int(received.max(initial=0) if load.broadcast else received.sum()),
        air_bytes_up=int(sent.sum()),
        airtime_s=airtime_s,
        compute_s=float(load.compute_s[step >= COMPUTE].max(initial=0.0)),
    )


def _stretch_after(link: Iterator[Stretch], now: float) -> tuple[float, float]:
    """Rate and end of the first stretch that ends after `now`."""
    stretch = next(link)
    while stretch.end_s <= now:
        stretch = next(link)
    return stretch.rate_bps, stretch.end_s
