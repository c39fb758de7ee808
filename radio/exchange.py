"""How long an exchange takes and who gets through: the channel shared, links that change and break."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from radio.link import Stretch

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]

# What a client goes through, in this order; DOWN and UP are counted in bits, the others in seconds.
SETUP, DOWN, COMPUTE, UP, ARRIVE, DONE = range(6)


@dataclass(frozen=True)
class Load:
    """What an exchange asks of each of m clients and of the air."""

    bytes_down: IntArray  # [m] to each client
    compute_s: FloatArray  # [m] seconds each client computes between receiving and sending
    bytes_up: IntArray  # [m] from each client
    broadcast: bool = True  # the bytes down are the same for all who get any, and are sent once


@dataclass(frozen=True)
class Outcome:
    """What became of an exchange; everything sent is charged, whether or not it got through."""

    end_s: float
    delivered: BoolArray  # [m]
    bytes_down: IntArray  # [m] received by each client
    bytes_up: IntArray  # [m] sent by each client
    air_bytes_down: int  # sent by the vehicle; a broadcast counts once
    air_bytes_up: int
    airtime_s: float  # seconds in which the channel was busy
    compute_s: float  # the longest computation that began


def ideal_exchange(load: Load, start_s: float) -> Outcome:
    """As if everyone had a perfect link of their own: all is delivered, and only computing takes time."""
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
    latency_s: float | FloatArray,
    duty_cycle: float = 1.0,
) -> Outcome:
    """Play an exchange to its end, from one moment at which anything changes to the next.

    `latency_s` is from the last byte sent to the last byte usable, one for all or each client's own [m].
    Transfers under way at the same time get equal shares of the channel's time, and no sender more than its duty
    cycle; a broadcast is one transfer at the rate of its slowest listener. A client whose link breaks before its
    last byte arrived is lost at once.
    """
    m = len(links)
    everyone = np.arange(m)
    left = np.zeros((m, DONE + 1))  # what remains of each step
    left[:, SETUP] = setup_s
    left[:, DOWN] = 8.0 * load.bytes_down
    left[:, COMPUTE] = load.compute_s + latency_s * (load.bytes_down > 0)
    left[:, UP] = 8.0 * load.bytes_up
    left[:, ARRIVE] = latency_s * (load.bytes_up > 0)
    asked = left.copy()
    step = np.zeros(m, dtype=np.int64)
    lost = np.zeros(m, dtype=bool)
    rate, until = np.zeros(m), np.zeros(m)  # of the link's present stretch
    now, airtime_s, air_bits_down = start_s, 0.0, 0.0
    for i in everyone:
        rate[i], until[i] = _stretch_after(links[i], now)
    lost |= rate == 0
    while True:
        while (finished := (step < DONE) & (left[everyone, step] <= 0)).any():
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
        # Of how many equal slots each transfer has one; the vehicle's downs are all its own to send.
        up_slots = max(ups + downs, 1 / duty_cycle)
        down_slots = max(ups + downs, max(downs, 1) / duty_cycle)
        speed = np.ones(m)  # how fast the present step shrinks; seconds pass one per second
        speed[up] = rate[up] / up_slots
        speed[down] = (rate[down].min() if one_for_all else rate[down]) / down_slots
        finish = now + left[everyone, step] / speed
        following = min(finish[busy].min(), until[busy].min())
        progress = speed * (following - now)
        progress = np.where(finish <= following, left[everyone, step], progress)
        left[busy, step[busy]] -= progress[busy]
        air_bits_down += progress[down].max(initial=0.0) if one_for_all else progress[down].sum()
        busy_share = (ups * down_slots + downs * up_slots) / (up_slots * down_slots)
        airtime_s += busy_share * (following - now)
        now = float(following)
    moved = np.floor((asked - np.maximum(left, 0.0)) / 8 + 1e-6).astype(np.int64)
    return Outcome(
        end_s=now,
        delivered=(step == DONE) & ~lost,
        bytes_down=moved[:, DOWN],
        bytes_up=moved[:, UP],
        air_bytes_down=int(air_bits_down / 8 + 1e-6),
        air_bytes_up=int(moved[:, UP].sum()),
        airtime_s=airtime_s,
        compute_s=float(load.compute_s[step >= COMPUTE].max(initial=0.0)),
    )


def _stretch_after(link: Iterator[Stretch], now: float) -> tuple[float, float]:
    """Rate and end of the first stretch that ends after now."""
    stretch = next(link)
    while stretch.end_s <= now:
        stretch = next(link)
    return stretch.rate_bps, stretch.end_s
