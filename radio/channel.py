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


class _Client:
    """A client of an exchange under way: where it is in it. Plain numbers, since few clients take part at a time."""

    __slots__ = ("asked", "busy", "delay", "finish", "left", "link", "lost", "rate", "speed", "step", "until")

    def __init__(self, asked: list[float], link: Link, delay: Delay) -> None:
        self.asked, self.left = asked, asked.copy()  # of each step, and its remainder
        self.link, self.delay = link, delay
        self.step = SETUP
        self.rate = self.until = 0.0  # of its link's current stretch
        self.lost, self.busy = False, True  # busy: neither lost nor done
        self.speed = 1.0  # progress of the current step per second; 1 for steps measured in seconds
        self.finish = 0.0  # when the current step ends at that speed

    def next_stretch(self, now: float) -> None:
        """Go on to the first stretch of its link that ends after `now`; without a rate it is lost."""
        self.until, self.rate = next(self.link)
        while self.until <= now:
            self.until, self.rate = next(self.link)
        self.lost = self.lost or self.rate == 0

    def settle(self, now: float) -> None:
        """Move on if its step is finished or its stretch is over."""
        while self.step < DONE and not self.lost and self.left[self.step] <= 0:
            if (self.step == DOWN or self.step == UP) and self.asked[self.step] > 0:
                self.left[self.step + 1] = self.delay(now)
            self.step += 1
        self.busy = self.step < DONE and not self.lost
        if self.busy and self.until <= now:
            self.next_stretch(now)
            self.busy = not self.lost


class Transfer:
    """An exchange under way with m clients, each at its own step."""

    def __init__(self, load: Load, setup_s: float, links: list[Link], delays: Sequence[Delay]) -> None:
        self.load = load
        costs = (8.0 * load.bytes_down).tolist(), load.compute_s.tolist(), (8.0 * load.bytes_up).tolist()
        self._clients = [
            _Client([setup_s, down, 0.0, float(compute_s), up, 0.0, 0.0], link, delay)
            for down, compute_s, up, link, delay in zip(*costs, links, delays, strict=True)
        ]
        self.links = links
        self.airtime_s = 0.0
        self.downs = self.ups = 0  # transmissions that it has on the air; a broadcast is one
        self._on_air = 0.0  # share of the channel's time that it uses

    def relink(self, links: list[Link], now: float) -> None:
        """Continue over other links from `now` on: an end of them moves another way than expected."""
        self.links = links
        for client, link in zip(self._clients, links, strict=True):
            client.link = link
            if client.busy:
                client.next_stretch(now)

    def settle(self, now: float) -> bool:
        """Move on every client whose step is finished and every link whose stretch is over; False if all have ended."""
        some_busy, downs, ups = False, 0, 0
        for client in self._clients:
            client.settle(now)
            if client.busy:
                some_busy = True
                downs += client.step == DOWN
                ups += client.step == UP
        self.downs, self.ups = (min(downs, 1) if self.load.broadcast else downs), ups
        return some_busy

    def share(self, now: float, down_share: float, up_share: float) -> float:
        """Go on with these shares of the channel's time for each transmission; returns when anything changes next."""
        self._on_air = self.ups * up_share + self.downs * down_share
        changes = slowest = np.inf
        if self.downs and self.load.broadcast:
            slowest = min(client.rate for client in self._clients if client.busy and client.step == DOWN)
        for client in self._clients:
            if client.busy:
                step, client.speed = client.step, 1.0
                if step == UP:
                    client.speed = client.rate * up_share
                elif step == DOWN:
                    client.speed = min(client.rate, slowest) * down_share
                client.finish = now + client.left[step] / client.speed
                if client.finish < changes:
                    changes = client.finish
                if client.until < changes:
                    changes = client.until
        return changes

    def progress(self, since: float, now: float, following: float) -> None:
        """Do what is done between two times; `following` is when anything was to change next."""
        for client in self._clients:
            if client.busy:
                finished = now >= following >= client.finish
                client.left[client.step] -= client.left[client.step] if finished else client.speed * (now - since)
        self.airtime_s += self._on_air * (now - since)

    def outcome(self, now: float) -> Outcome:
        """What became of the exchange, which has ended now."""
        asked, left = (
            np.array(rows, dtype=float).reshape(-1, DONE + 1)
            for rows in ([client.asked for client in self._clients], [client.left for client in self._clients])
        )
        moved = np.floor((asked - np.maximum(left, 0.0)) / 8 + 1e-6).astype(np.int64)
        received, sent, load = moved[:, DOWN], moved[:, UP], self.load
        step = np.array([client.step for client in self._clients], dtype=np.int64)
        return Outcome(
            end_s=now,
            delivered=step == DONE,
            bytes_down=received,
            bytes_up=sent,
            air_bytes_down=int(received.max(initial=0) if load.broadcast else received.sum()),
            air_bytes_up=int(sent.sum()),
            airtime_s=self.airtime_s,
            compute_s=float(load.compute_s[step >= COMPUTE].max(initial=0.0)),
        )


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
        downs = sum([transfer.downs for transfer in self.under_way])
        ups = sum([transfer.ups for transfer in self.under_way])
        down_share = min(1 / max(ups + downs, 1), self._duty_cycle / max(downs, 1))
        up_share = min((1 - downs * down_share) / max(ups, 1), self._duty_cycle)
        changes = [transfer.share(self.now, down_share, up_share) for transfer in self.under_way]
        self.next_s = self.now if self._ended else min(changes, default=np.inf)
