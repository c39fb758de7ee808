"""The channel of a vehicle: exchanges that run at the same time share it, whenever each of them began."""

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
Link = Iterator[Stretch]


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
    airtime_s: float  # time during which the channel was busy with it
    compute_s: float  # the longest computation that was started


class Transfer:
    """An exchange under way with m clients, each at its own step."""

    def __init__(self, load: Load, setup_s: float, links: list[Link], delays: Sequence[Delay]) -> None:
        m = len(links)
        self.load = load
        self.links, self.delays = links, delays
        self.left = np.zeros((m, DONE + 1))  # remainder of each step
        self.left[:, SETUP] = setup_s
        self.left[:, DOWN] = 8.0 * load.bytes_down
        self.left[:, COMPUTE] = load.compute_s
        self.left[:, UP] = 8.0 * load.bytes_up
        self.asked = self.left.copy()
        self.step = np.zeros(m, dtype=np.int64)
        self.rate, self.until = np.zeros(m), np.zeros(m)  # of each link's current stretch
        self.lost = np.zeros(m, dtype=bool)
        self.airtime_s = 0.0
        self.busy = np.ones(m, dtype=bool)  # neither lost nor done
        self._everyone = np.arange(m)
        self._speed = np.ones(m)  # progress of the current step per second; 1 for steps measured in seconds
        self._finish = np.zeros(m)  # when the current step ends at that speed
        self._on_air = 0.0  # share of the channel's time that it uses

    def relink(self, links: list[Link], now: float) -> None:
        """Continue over other links from `now` on: an end of them moves another way than expected."""
        self.links = links
        for i in np.flatnonzero(self.busy).tolist():
            self.rate[i], self.until[i] = _stretch_after(links[i], now)
        self.lost |= self.busy & (self.rate == 0)

    def settle(self, now: float) -> bool:
        """Move on every client whose step is finished and every link whose stretch is over; False if all have ended."""
        while (finished := (self.step < DONE) & ~self.lost & (self._current() <= 0)).any():
            sent = (self.asked[self._everyone, self.step] > 0) & ((self.step == DOWN) | (self.step == UP))
            for i in np.flatnonzero(finished & sent).tolist():
                self.left[i, self.step[i] + 1] = self.delays[i](now)
            self.step[finished] += 1
        self.busy = (self.step < DONE) & ~self.lost
        for i in np.flatnonzero(self.busy & (self.until <= now)).tolist():
            self.rate[i], self.until[i] = _stretch_after(self.links[i], now)
            self.lost[i] = self.rate[i] == 0
        self.busy &= ~self.lost
        return bool(self.busy.any())

    def senders(self) -> tuple[int, int]:
        """Transmissions down and up that it has on the air; a broadcast is one."""
        down, up = int((self.busy & (self.step == DOWN)).sum()), int((self.busy & (self.step == UP)).sum())
        return (min(down, 1) if self.load.broadcast else down), up

    def share(self, now: float, down_share: float, up_share: float) -> float:
        """Go on with these shares of the channel's time for each transmission; returns when anything changes next."""
        down, up = self.busy & (self.step == DOWN), self.busy & (self.step == UP)
        self._speed[:] = 1.0
        self._speed[up] = self.rate[up] * up_share
        if down.any():
            self._speed[down] = (self.rate[down].min() if self.load.broadcast else self.rate[down]) * down_share
        downs, ups = self.senders()
        self._on_air = ups * up_share + downs * down_share
        self._finish = now + self._current() / self._speed
        return float(min(self._finish[self.busy].min(), self.until[self.busy].min()))

    def progress(self, since: float, now: float, following: float) -> None:
        """Do what is done between two times; `following` is when anything was to change next."""
        finished = (self._finish <= following) if now >= following else np.zeros(len(self.busy), dtype=bool)
        done = np.where(finished, self._current(), self._speed * (now - since))
        self.left[self.busy, self.step[self.busy]] -= done[self.busy]
        self.airtime_s += self._on_air * (now - since)

    def outcome(self, now: float) -> Outcome:
        """What became of the exchange, which has ended now."""
        moved = np.floor((self.asked - np.maximum(self.left, 0.0)) / 8 + 1e-6).astype(np.int64)
        received, sent, load = moved[:, DOWN], moved[:, UP], self.load
        return Outcome(
            end_s=now,
            delivered=self.step == DONE,
            bytes_down=received,
            bytes_up=sent,
            air_bytes_down=int(received.max(initial=0) if load.broadcast else received.sum()),
            air_bytes_up=int(sent.sum()),
            airtime_s=self.airtime_s,
            compute_s=float(load.compute_s[self.step >= COMPUTE].max(initial=0.0)),
        )

    def _current(self) -> FloatArray:
        """Remainder [m] of each client's current step."""
        return self.left[self._everyone, self.step]


class Channel:
    """All exchanges of a vehicle that are under way.

    Simultaneous transmissions get equal shares of the channel's time, and no sender gets more than its duty cycle; a
    broadcast is one transmission at the rate of its slowest listener. A client whose link breaks before its last byte
    has arrived is lost at once. The channel goes from one moment at which anything changes, `next_s`, to the next.
    """

    def __init__(self, duty_cycle: float, now: float = 0.0) -> None:
        self._duty_cycle = duty_cycle
        self.now = now
        self.next_s = np.inf
        self.under_way: list[Transfer] = []
        self._ended: list[tuple[Transfer, Outcome]] = []

    def join(self, transfer: Transfer) -> None:
        """Begin an exchange now."""
        transfer.relink(transfer.links, self.now)
        self.under_way.append(transfer)
        self._settle()

    def relink(self, links_of: Callable[[Transfer], list[Link]]) -> None:
        """Continue all exchanges over other links from now on."""
        for transfer in self.under_way:
            transfer.relink(links_of(transfer), self.now)
        self._settle()

    def advance(self, now: float) -> list[tuple[Transfer, Outcome]]:
        """Go on to a time that is not after `next_s`; returns the exchanges that have ended by then."""
        if now > self.now:
            for transfer in self.under_way:
                transfer.progress(self.now, now, self.next_s)
            self.now = now
            self._settle()
        ended, self._ended = self._ended, []
        if ended:
            self._share()
        return ended

    def _settle(self) -> None:
        under_way = []
        for transfer in self.under_way:
            if transfer.settle(self.now):
                under_way.append(transfer)
            else:
                self._ended.append((transfer, transfer.outcome(self.now)))
        self.under_way = under_way
        self._share()

    def _share(self) -> None:
        """Share the channel's time: all transmissions down have one sender, the vehicle; clients share the rest."""
        senders = [transfer.senders() for transfer in self.under_way]
        downs, ups = sum(down for down, _ in senders), sum(up for _, up in senders)
        down_share = min(1 / max(ups + downs, 1), self._duty_cycle / max(downs, 1))
        up_share = min((1 - downs * down_share) / max(ups, 1), self._duty_cycle)
        changes = [transfer.share(self.now, down_share, up_share) for transfer in self.under_way]
        self.next_s = self.now if self._ended else min(changes, default=np.inf)


def _stretch_after(link: Link, now: float) -> tuple[float, float]:
    """Rate and end of the first stretch that ends after `now`."""
    stretch = next(link)
    while stretch.end_s <= now:
        stretch = next(link)
    return stretch.rate_bps, stretch.end_s
