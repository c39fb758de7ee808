"""The event loop: vehicles drive from client to client, and at every contact they learn."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import simpy
import torch
from numpy.typing import NDArray

from fedmule.learning.algorithms.base import Contact, Exchange
from fedmule.learning.journal import Journal
from fedmule.learning.learner import Learner
from fedmule.mobility.models.movement import Waypoints
from fedmule.radio.channel import Load, Outcome
from fedmule.radio.walks.past import PastContact
from fedmule.simulator.build import build_learner
from fedmule.simulator.event_queue import Environment
from fedmule.simulator.events import Drive, Meeting, Visit
from fedmule.simulator.fitting import steps_that_fit
from fedmule.simulator.ideal_server import rounds
from fedmule.simulator.ledger import Ledger
from fedmule.simulator.meetings import Meetings
from fedmule.simulator.phase import Phase, Replay, Watch
from fedmule.simulator.presence import Presence
from fedmule.simulator.runs.columns import Summary
from fedmule.simulator.runs.folder import NoLog
from fedmule.simulator.scenario import Scenario
from fedmule.simulator.scenario.vehicle import Vehicle as VehicleKeys
from fedmule.simulator.serving import PassingService, Service
from fedmule.simulator.streams import Streams
from fedmule.simulator.vehicle import Vehicle
from fedmule.simulator.world import build_world
from fedmule.simulator.world_state import Snapshot, restore

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]
Process = Generator[simpy.Event, object, None]


@dataclass(frozen=True)
class _Begun:
    """An exchange with clients that a vehicle has begun."""

    began_s: float
    here: FloatArray | None  # [2] where the vehicle was; None in a world without positions
    neighbours: IntArray
    active: IntArray
    progress: float
    exchange: Exchange


class Simulation:
    """One run of a scenario: build it, then `run` it once."""

    def __init__(self, scenario: Scenario, plugins: dict[str, object] | None = None) -> None:
        torch.set_num_threads(1)  # the same bits on every machine, and the fastest at these sizes
        self.scenario = scenario
        self._streams = Streams(scenario.seed)
        self.world = build_world(scenario, self._streams, plugins or {})
        self._phase = Phase(scenario, build_learner(scenario, self._streams, plugins or {}, self.world.sites))
        self.draws = [self._own_stream("active", v) for v in range(scenario.vehicle.count)]
        self.presence = Presence(self.world)
        self._passing: dict[int, _Begun] = {}  # exchanges in passing under way, by client
        self._over = False  # contacts that end at the same moment as the last one do not count any more
        self.env = Environment()
        self.snapshot: Snapshot | None = None  # the last one, for the next checkpoint
        self.change: simpy.Event | None = None  # when clients change sites

    @property
    def learner(self) -> Learner:
        """The learner of the present phase."""
        return self._phase.learner

    @property
    def ledger(self) -> Ledger:
        """The ledger of the present phase."""
        return self._phase.ledger

    @property
    def live(self) -> bool:
        """Whether it is not the past of a resumed run that is being replayed."""
        return not isinstance(self._phase, Replay)

    def replay(
        self, journal: Journal, contacts: int, restore: Callable[[Phase], None], snapshot: Snapshot | None = None
    ) -> None:
        """Before the start: replay contacts up to this number, then `restore` the state after them.

        Nobody learns and nothing is logged meanwhile. The replay begins at the snapshot if there is one.
        """
        live, self.snapshot = self._phase, snapshot
        since = (0, 0) if snapshot is None else snapshot.since
        self._phase = Replay(live, journal, contacts, lambda: restore(live), since)
        if snapshot is not None:
            self.env = Environment(snapshot.now_s)

    def interrupt(self) -> None:
        """End the run after the present contact; while it replays its past, at once."""
        self._phase.interrupt()

    def start(self, log: NoLog | None = None, watch: Watch | None = None) -> simpy.Event:
        """Start the vehicles, or the rounds of an ideal server; returns the event at which the run is over.

        `watch` is called after every contact.
        """
        self._phase.start(log or NoLog(), watch)
        if self.world.placed and self.scenario.log.track:
            self.world.positions.trajectories.record(self._log_clients)
        self.vehicles = [self._vehicle(v, keys) for v, (_, keys) in enumerate(self.scenario.vehicle.each())]
        if any(vehicle.wants_reports for vehicle in self.vehicles):
            self.learner.expect_reports()
        self.services = [self._service(vehicle) for vehicle in self.vehicles]
        self.meetings = self._meetings()
        self._lives: dict[int, simpy.Event] = {}
        self._ended_in_passing = self.env.event()
        for start in self._processes():
            start()
        lives = [self._lives[number] for number in sorted(self._lives)]
        limit = self.scenario.stop.sim_time_s
        if self.scenario.vehicle.in_passing:
            lives.append(self._ended_in_passing)
        over = lives[0] if len(lives) == 1 else simpy.AnyOf(self.env, lives)  # over for one is over for all
        return over if limit is None else over | self.env.timeout_at(limit)

    def _processes(self) -> list[Callable[[], None]]:
        """How to start the processes of the run, in order."""
        if self.snapshot is not None:
            return restore(self, self.snapshot)
        starts: list[Callable[[], None]] = [service.start for service in self.services]
        if self.scenario.learning.server == "vehicle":
            starts += [partial(self.start_vehicle, vehicle) for vehicle in self.vehicles]
        else:
            starts.append(lambda: self._lives.update({0: self.env.process(rounds(self))}))
        return starts if self.world.sites.change_at_s is None else [*starts, self.start_change]

    def start_vehicle(self, vehicle: Vehicle) -> None:
        """Start the life of a vehicle."""
        life = self._lives[vehicle.number] = self.env.process(self._drive(vehicle))
        vehicle.interrupt = life.interrupt

    def start_change(self) -> None:
        """Start to wait until clients change sites."""
        self.env.process(self._change_sites())

    def run(self, log: NoLog | None = None, watch: Watch | None = None) -> Summary:
        """Run to the end and return the summary."""
        self.env.run(until=self.start(log, watch))
        for vehicle in self.vehicles:
            vehicle.rest()
        self.world.positions.trajectories.finish(self.env.now)
        summary = self.ledger.finish(self.env.now, *self.count_reports(), self.driven())
        if summary["finished"]:
            self._phase.log.learnt(self.learner, self.env.now)
        self._phase.log.close(summary)
        return summary

    def driven(self) -> Drive | None:
        """How far the vehicles have driven so far; None with an ideal server."""
        if self.scenario.learning.server != "vehicle":
            return None
        moving_s = sum(vehicle.driven_s for vehicle in self.vehicles)
        metres = sum(vehicle.driven_m for vehicle in self.vehicles)
        return Drive(len(self.vehicles), moving_s, metres)

    def count_reports(self) -> tuple[int, int]:
        """Number of reports sent to the vehicle so far, and how many of them are lost.

        An ideal server needs none, and who has no position has nothing to report.
        """
        reporting = self.scenario.learning.server == "vehicle" and self.world.placed
        return self.world.positions.count_reports(self.env.now) if reporting else (0, 0)

    # --- the life of a vehicle -----------------------------------------------------------------------------

    def _drive(self, vehicle: Vehicle) -> Process:
        """Choose a client, drive to it, exchange; or follow a route; until the run is over."""
        while vehicle.resumes_s is not None or not self.ledger.over(self.env.now):
            if vehicle.resumes_s is None:
                self.admit()
            if vehicle.has_route:
                yield from vehicle.follow()
            elif vehicle.target is None and (vehicle.resumes_s is not None or not self.world.graph.reachable.size):
                yield from self.wait_for_anybody(vehicle)
            else:
                target = vehicle.choose() if vehicle.target is None else vehicle.target
                if (yield from self._reach(vehicle, target)):
                    yield from self._visit(vehicle, target)
                else:
                    self.ledger.not_reached(vehicle.number)
                    vehicle.gave_up(target)
                vehicle.target = None
        self._over = True

    def _reach(self, vehicle: Vehicle, target: int) -> Generator[simpy.Event, object, bool]:
        """Drive to a client and wait there while it is in another exchange; False if the vehicle had to give up."""
        while (yield from vehicle.chase(target)):
            if not self.presence.busy[target]:
                return True
            while self.presence.busy[target]:
                yield from vehicle.wait(self.presence.free_again(target, self.env))
            if vehicle.is_at(target):  # a vehicle that has waited goes first
                return True
        return False

    def _visit(self, vehicle: Vehicle, target: int) -> Process:
        """Stand still and exchange with the active clients; those whose exchange gets through learn."""
        begun = self._begin(vehicle, target, self.draws[vehicle.number])
        load = self.load(begun.active, begun.exchange)
        outcome = yield from self.services[vehicle.number].exchange(begun.active, load)
        if self._over:
            return
        self._end(vehicle, target, begun, outcome)
        vehicle.client = target
        if self.world.positions.after_visit(self.ledger.visits, self.env.now):
            for service in self.services:
                service.jumped()
        self.world.positions.advance(self.env.now)
        every = self.scenario.log.graph_every
        if every and self.ledger.visits % every == 0:
            self._phase.log.graph(self.ledger.visits, self.env.now, self.world.graph.logged())
        self.after_contact()

    def after_contact(self) -> None:
        """A contact has been entered: go on in the phase that follows."""
        self._phase = self._phase.after_contact()

    def _begin_in_passing(self, vehicle: Vehicle, client: int) -> Load | None:
        """A vehicle hears a client on its way: begin to exchange with it; None if that cannot be now."""
        self.admit()
        if self._over or not self.presence.can_begin(client, self.env.now):
            return None
        begun = self._begin(vehicle, client)
        if self.scenario.learning.fit_steps:
            begun = self._fitted(vehicle, client, begun)
        self._passing[client] = begun
        return self.load(begun.active, begun.exchange)

    def _end_in_passing(self, vehicle: Vehicle, client: int, outcome: Outcome) -> None:
        """An exchange in passing has ended, whole or not."""
        begun = self._passing.pop(client)
        if self._over:
            return
        self._end(vehicle, client, begun, outcome, in_passing=True)
        self.after_contact()
        if self.ledger.over(self.env.now):
            self._over = True
            self._ended_in_passing.succeed()

    def _begin(self, vehicle: Vehicle, client: int, draws: np.random.Generator | None = None) -> _Begun:
        """Begin to exchange with a client alone, or with the active clients about it, drawn with `draws`."""
        now, here = self.env.now, vehicle.xy if self.world.placed else None
        self.world.positions.advance(now)
        neighbours = self._neighbourhood(vehicle, client)
        active = np.array([client]) if draws is None else self._choose(client, neighbours, draws)
        progress = self.ledger.progress(now)
        exchange = self.learner.begin(vehicle.number, active, progress, now, client, neighbours)
        self.presence.busy[active] = True
        return _Begun(now, here, neighbours, active, progress, exchange)

    def _fitted(self, vehicle: Vehicle, client: int, begun: _Begun) -> _Begun:
        """Let a client take only as many steps as it has time for."""
        algorithm, whole, most = self.learner.algorithm, begun.exchange, self.scenario.learning.local_steps
        if not 0 < algorithm.flops_saved(1) <= whole.flops[0]:  # it takes one step in any case, or none
            return begun

        def load_of(steps: int) -> Load:
            return self.load(begun.active, replace(whole, flops=whole.flops - algorithm.flops_saved(steps)))

        steps = steps_that_fit(self.world, vehicle, client, most, load_of, begun.began_s)
        return begun if steps == most else replace(begun, exchange=self.learner.shorten(client, steps, whole))

    def _end(self, vehicle: Vehicle, client: int, begun: _Begun, outcome: Outcome, in_passing: bool = False) -> None:
        """Learn with exactly the delivered clients, and enter the contact."""
        active, neighbours = begun.active, begun.neighbours
        freed = self.presence.release(active)
        for service in self.services:
            service.freed(freed)
        delivered, lost = active[outcome.delivered], active[~outcome.delivered]
        contact = Contact(delivered, len(neighbours), begun.progress, client, neighbours, self.env.now)
        self.learner.drop(lost)
        update = self.learner.update(vehicle.number, contact)
        seen = begun.began_s, outcome.end_s, in_passing, len(neighbours)
        vehicle.met(PastContact(client, *seen, asked=active, delivered=delivered))
        if vehicle.wants_reports:
            reports = self.learner.reports(delivered, update)
            vehicle.heard(delivered, reports.losses, reports.dual_norms)
        where = begun.began_s, vehicle.number, begun.here
        setup_s = min(self.world.radio.setup_s, outcome.end_s - begun.began_s)
        self.ledger.visit(Visit(contact, active, begun.exchange, outcome, update, *where, in_passing, setup_s))
        if self.meetings is not None:
            self.meetings.after_contact(vehicle)

    def _meeting(self, meeting: Meeting) -> None:
        """Two vehicles have met: if everything got through, they merge what they carry."""
        if self._over:
            return
        if meeting.delivered:
            self.learner.meet(*meeting.vehicles)
        self.ledger.meeting(meeting)

    def _change_sites(self) -> Process:
        """At that time some clients move to other sites, and their data become like those there."""
        assert self.world.sites.change_at_s is not None
        self.change = self.env.timeout_at(self.world.sites.change_at_s)
        yield self.change
        self.change_sites()

    def change_sites(self) -> None:
        """Some clients are at other sites from now on."""
        self.learner.move(self.world.sites.movers, self.world.sites.to, self.env.now)

    # --- its parts -----------------------------------------------------------------------------------------

    def _own_stream(self, name: str, vehicle: int) -> np.random.Generator:
        """A vehicle's random stream; the first vehicle draws as if it were alone."""
        return self._streams.generator(f"{name} {vehicle}" if vehicle else name)

    def _vehicle(self, number: int, keys: VehicleKeys) -> Vehicle:
        draws = self._own_stream("walk", number)
        log = self._log_vehicle
        what_it_knows = self._progress, lambda: self.learner.algorithm.frozen(self._progress())
        return Vehicle(self.env, self.world, keys, log, number, draws, self._load_of, *what_it_knows)

    def _progress(self) -> float:
        return self.ledger.progress(self.env.now)

    def _service(self, vehicle: Vehicle) -> Service:
        if self.scenario.vehicle.in_passing and self.scenario.learning.server == "vehicle":
            return PassingService(self.env, self.world, vehicle, self._begin_in_passing, self._end_in_passing)
        return Service(self.env, self.world, vehicle)

    def _log_vehicle(self, vehicle: int, times: FloatArray, positions: FloatArray) -> None:
        if self.world.placed:
            self._phase.log.vehicle_track(vehicle, times, positions)

    def _log_clients(self, waypoints: Waypoints) -> None:
        self._phase.log.client_track(waypoints)

    def _meetings(self) -> Meetings | None:
        rule = self.scenario.vehicle.meeting
        if rule == "none" or len(self.vehicles) == 1:
            return None

        def cost(a: int, b: int) -> Exchange:
            return self.learner.meeting_cost(a, b, self._progress())

        return Meetings(self.env, self.world, self.vehicles, rule, cost, self._meeting)

    # --- steps of it ---------------------------------------------------------------------------------------

    def admit(self) -> None:
        """Let late clients join when their time has come, and note who is there now."""
        now = self.env.now
        if self.presence.absent.any() and self.ledger.progress(now) >= self.scenario.clients.late_at:
            late = self.presence.join()
            for client in late.tolist():
                self.learner.introduce(client, self.world.encounters.near(client, now))
            self.ledger.joined(late)
        self.presence.update(now)

    def wait_for_anybody(self, vehicle: Vehicle) -> Process:
        """Wait until a client comes, where none is there; if none ever does the run is over."""
        if vehicle.resumes_s is not None:
            yield from vehicle.wait_on()
            return
        comes_s = self.world.positions.trajectories.movement.next_arrival_s(self.env.now)
        if np.isfinite(comes_s):
            yield from vehicle.wait(self.env.timeout(comes_s - self.env.now), comes_s)
        else:
            self.ledger.nobody_comes()

    def _neighbourhood(self, vehicle: Vehicle, target: int) -> IntArray:
        """The visited client and every client that hears the vehicle where it is, ascending."""
        heard = self.world.encounters.around(vehicle, self.env.now)
        return np.union1d(heard[~self.presence.absent[heard]], [target])

    def _choose(self, target: int, neighbours: IntArray, draws: np.random.Generator) -> IntArray:
        """The active clients: the visited one, alone or with some or all neighbours, but nobody who is busy."""
        active, neighbours = self.scenario.learning.active, neighbours[~self.presence.busy[neighbours]]
        if active == "all":
            return neighbours
        others = neighbours[neighbours != target]
        more = 0 if active == "visited" else min(active - 1, len(others))
        return np.sort(np.append(draws.choice(others, more, replace=False), target)).astype(np.int64)

    def _load_of(self, vehicle: int, client: int) -> Load:
        """What an exchange of a vehicle with a client alone would cost now."""
        now, clients = self.env.now, np.array([client])
        return self.load(clients, self.learner.cost(vehicle, clients, self.ledger.progress(now), now))

    def load(self, active: IntArray, exchange: Exchange) -> Load:
        """Return the cost of an exchange in bytes and seconds."""
        compute_s = exchange.flops / self.world.compute_flops_per_s[active]
        return Load(exchange.bytes_down, compute_s, exchange.bytes_up, exchange.broadcast)
