"""Exchanges of a vehicle: at its visits, and with whoever it hears on the way, over one channel."""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Generator
from typing import Any

import numpy as np
import simpy
from numpy.typing import NDArray

from fedmule.radio.channel import Channel, Delay, Link, Load, Outcome, Transfer
from fedmule.radio.exchange import run_exchange
from fedmule.simulator.event_queue import Environment
from fedmule.simulator.vehicle import Vehicle
from fedmule.simulator.world import World

IntArray = NDArray[np.int64]

AHEAD_S = 30.0  # how far ahead it is computed whom the vehicle will hear
KEPT = ("_served", "_noted", "_busy", "_heard", "_known_s")  # attributes that a checkpoint keeps
ROUNDING_S = 1e-9  # the event loop's clock and the channel's may differ by rounding

Exchanging = Generator[simpy.Event, object, Outcome]
Begin = Callable[[Vehicle, int], Load | None]  # begin to exchange with a client in passing; None: not now
End = Callable[[Vehicle, int, Outcome], None]  # an exchange in passing has ended


class Service:
    """Exchanges at visits only: the vehicle stands still and has its channel to itself."""

    def __init__(self, env: Environment, world: World, vehicle: Vehicle) -> None:
        self._env = env
        self._world = world
        self._vehicle = vehicle

    def start(self, resumes_s: float | None = None) -> None:
        """Start to listen, if it does; `resumes_s`: when a wait ends that a checkpoint has cut in two."""

    @property
    def idle(self) -> bool:
        """Whether no exchange in passing is under way."""
        return True

    @property
    def waits_for(self) -> simpy.Event | None:
        """The scheduled event that it waits for."""
        return None

    def state(self) -> dict[str, Any]:
        """Return what a checkpoint keeps of it while it is idle."""
        return {}

    def restore(self, state: dict[str, Any]) -> None:
        """Restore what `state` returned."""

    def exchange(self, clients: IntArray, load: Load) -> Exchanging:
        """Exchange with these clients from now on; ends with the outcome."""
        radio, now = self._world.radio, self._env.now
        links, delays = self._links(clients.tolist(), now), self._delays(clients.tolist())
        outcome = run_exchange(links, load, now, radio.setup_s, delays, radio.duty_cycle)
        yield self._env.timeout(outcome.end_s - now)
        return outcome

    def freed(self, clients: set[int]) -> None:
        """Note that exchanges of other vehicles with these clients have ended."""

    def jumped(self) -> None:
        """Note that clients are elsewhere all of a sudden."""

    def _links(self, clients: list[int], now: float) -> list[Link]:
        return [self._world.encounters.link(self._vehicle, client, now) for client in clients]

    def _delays(self, clients: list[int]) -> list[Delay]:
        def of(client: int) -> Delay:
            return lambda t: self._world.encounters.delay_s(self._vehicle, client, t)

        return [of(client) for client in clients]


class PassingService(Service):
    """Exchanges at visits and in passing.

    While the vehicle drives or waits it begins an exchange with every client at the moment it hears it, once per
    contact: again only after the link has broken. The client it drives to is served when it gets there. All exchanges
    under way share the channel, and their links follow the vehicle wherever it drives.
    """

    def __init__(self, env: Environment, world: World, vehicle: Vehicle, begin: Begin, end: End) -> None:
        super().__init__(env, world, vehicle)
        self._begin = begin
        self._end = end
        self._channel = Channel(world.radio.duty_cycle, env.now)
        self._clients: dict[Transfer, list[int]] = {}
        self._visits: dict[Transfer, simpy.Event] = {}  # succeeds when the visit's exchange has ended
        self._served: set[int] = set()  # whose present contact has had its exchange
        self._noted: tuple[float, set[int]] | None = None  # when breaks were noted last, and who was served still
        self._busy: set[int] = set()  # heard while exchanging with another vehicle
        self._heard: list[tuple[float, int]] = []  # times and clients, ascending, until `_known_s`
        self._known_s = np.inf  # up to when it is known whom the vehicle hears
        self._relink = False
        self._alarm = env.event()
        self._timer: simpy.Event | None = None  # goes off when anything changes next
        vehicle.watch(self._plan, self._new_way)

    def start(self, resumes_s: float | None = None) -> None:
        self._env.process(self._run(resumes_s))

    @property
    def idle(self) -> bool:
        return not self._clients and not self._alarm.triggered

    @property
    def waits_for(self) -> simpy.Event | None:
        return self._timer

    def state(self) -> dict[str, Any]:
        return {"channel_s": self._channel.now, **{name: getattr(self, name) for name in KEPT}}

    def restore(self, state: dict[str, Any]) -> None:
        self._channel.now = state["channel_s"]
        for name in KEPT:
            setattr(self, name, state[name])

    def exchange(self, clients: IntArray, load: Load) -> Exchanging:
        self._catch_up()
        ended = self._env.event()
        self._visits[self._join(clients.tolist(), load)] = ended
        self._wake()
        outcome = yield ended
        assert isinstance(outcome, Outcome)
        return outcome

    def freed(self, clients: set[int]) -> None:
        if self._busy & clients:
            self._busy -= clients
            self._plan()

    def jumped(self) -> None:
        self._noted = None
        self._new_way()
        self._plan()

    # --- its own process -----------------------------------------------------------------------------------

    def _run(self, resumes_s: float | None) -> Generator[simpy.Event, object, None]:
        self._timer = self._next_timer() if resumes_s is None else self._env.timeout_at(resumes_s)
        while True:
            yield simpy.AnyOf(self._env, [self._alarm, *([] if self._timer is None else [self._timer])])
            if self._alarm.triggered:
                self._alarm = self._env.event()
            self._catch_up()
            self._listen()
            self._timer = self._next_timer()

    def _next_timer(self) -> simpy.Event | None:
        next_s = min([self._channel.next_s, self._known_s, *(t for t, _ in self._heard[:1])])
        return None if np.isinf(next_s) else self._env.timeout(max(0.0, next_s - self._env.now))

    def _wake(self) -> None:
        if not self._alarm.triggered:
            self._alarm.succeed()

    def _plan(self) -> None:
        """Find out anew whom the vehicle will hear: it has another plan, or stops to listen."""
        self._heard, self._known_s = [], self._env.now if self._vehicle.free else np.inf
        self._note_breaks()
        self._wake()

    def _new_way(self) -> None:
        """Let exchanges under way continue over other links: the vehicle drives another way from now on."""
        self._relink = True
        self._wake()

    def _catch_up(self) -> None:
        """Bring the channel to the present, and end the exchanges that are over."""
        now, channel = self._env.now, self._channel
        while channel.next_s <= now + ROUNDING_S:
            self._finish(channel.advance(channel.next_s))
        self._finish(channel.advance(max(now, channel.now)))
        if self._relink:
            self._relink = False
            channel.relink(lambda transfer: self._links(self._clients[transfer], channel.now))
            self._finish(channel.advance(channel.now))

    def _finish(self, ended: list[tuple[Transfer, Outcome]]) -> None:
        for transfer, outcome in ended:
            clients, visit = self._clients.pop(transfer), self._visits.pop(transfer, None)
            if visit is None:
                self._end(self._vehicle, clients[0], outcome)
            else:
                visit.succeed(outcome)

    def _join(self, clients: list[int], load: Load) -> Transfer:
        links, delays = self._links(clients, self._channel.now), self._delays(clients)
        transfer = Transfer(load, self._world.radio.setup_s, links, delays)
        self._clients[transfer] = clients
        self._served |= set(clients)
        self._channel.join(transfer)
        return transfer

    # --- whom it hears -------------------------------------------------------------------------------------

    def _listen(self) -> None:
        """Begin an exchange with everybody the vehicle hears now, and find out whom it will hear next."""
        now = self._env.now
        if now + ROUNDING_S >= self._known_s:
            self._look_ahead()
        while self._heard and self._heard[0][0] <= now + ROUNDING_S:
            _, client = self._heard.pop(0)
            self._served.discard(client)  # this is another contact, even if its exchange must wait
            load = self._begin(self._vehicle, client)
            if load is None:
                self._busy.add(client)
                continue
            self._join([client], load)
            self._expect(client)

    def _look_ahead(self) -> None:
        now, vehicle, world = self._env.now, self._vehicle, self._world
        self._heard, self._known_s = [], np.inf
        end_s = min(vehicle.plan_until_s, now + AHEAD_S)
        if not vehicle.free or end_s <= now + ROUNDING_S:  # it will soon have another plan
            return
        self._known_s = end_s
        near = world.encounters.passed(vehicle, now, end_s).tolist()
        self._note_breaks()
        for client in near:
            if client != vehicle.target:
                self._expect(client)

    def _note_breaks(self) -> None:
        """Note whose contact is over: when they are heard again, that is another one."""
        now = self._env.now
        if not self._served or self._noted == (now, self._served):
            return
        served = np.array(sorted(self._served), dtype=np.int64)
        self._served = set(served[self._world.encounters.hears(self._vehicle, served, now)].tolist())
        self._noted = now, self._served.copy()

    def _expect(self, client: int) -> None:
        """Note when the vehicle will hear this client next; a link that has had its exchange must break first."""
        end_s, served = self._known_s, client in self._served
        at_s = self._world.encounters.first_heard(self._vehicle, client, self._env.now, end_s, after_break=served)
        if at_s is not None and at_s < end_s:
            insort(self._heard, (at_s, client))
