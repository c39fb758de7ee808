"""Contacts in passing: exact times against a time-stepped simulation, and what must hold in every run."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from fedmule.mobility.models.movement import Waypoints
from fedmule.mobility.trajectory import position_at
from fedmule.radio.link import rates_bps
from fedmule.simulator.engine import Simulation
from fedmule.simulator.runs.columns import ContactRow
from fedmule.simulator.runs.folder import NoLog
from fedmule.simulator.scenario import Scenario
from fedmule.simulator.world import World

FloatArray = NDArray[np.float64]

STEP_S = 0.05  # of the time-stepped simulation
END_S = 60.0


class Memory(NoLog):
    """Keeps contacts and tracks."""

    def __init__(self) -> None:
        self.rows: list[ContactRow] = []
        self.ways: dict[Any, list[tuple[float, float, float]]] = defaultdict(list)

    def contact(self, row: ContactRow) -> None:
        self.rows.append(row)

    def client_track(self, waypoints: Waypoints) -> None:
        for client, t, (x, y) in zip(waypoints.client.tolist(), waypoints.t.tolist(), waypoints.xy, strict=True):
            self.ways[client].append((t, x, y))

    def vehicle_track(self, vehicle: int, times: FloatArray, positions: FloatArray) -> None:
        self.ways["vehicle"] += [(t, x, y) for t, (x, y) in zip(times, positions, strict=True)]

    def at(self, node: Any, times: FloatArray) -> FloatArray:
        way = np.array(self.ways[node])
        return position_at(way[:, 0], way[:, 1:], times)


def random_world(seed: int) -> Scenario:
    """A vehicle on a random route among clients that stand or walk, with walls that weaken the radio."""
    random = np.random.default_rng(seed)
    size = 160.0

    def block() -> dict[str, Any]:
        (x, y), (w, h) = random.uniform(10, 120, 2), random.uniform(5, 30, 2)
        corners = [[x, y], [x + w, y], [x + w, y + h], [x, y + h]]
        return {"polygon": corners, "stops_movement": False, "radio_loss_db": float(random.choice([3.0, 10.0, 25.0]))}

    radio: dict[str, Any] = {"kind": "zigbee", "range_m": float(random.uniform(25, 60))}
    if random.random() < 0.3:
        radio = {"kind": "disc", "range_m": float(random.uniform(15, 50)), "rate_mbps": 0.2, "setup_s": 0.5}
    mobility = random.choice(np.array(["static", "waypoint", "gauss_markov", "random_walk"]))
    points = random.uniform(5, size - 5, (int(random.integers(2, 6)), 2)).tolist()
    stops = [{"at": points[0], "wait_s": float(random.uniform(1, 8))}] if random.random() < 0.5 else []
    return Scenario.model_validate(
        {
            "seed": seed,
            "terrain": {"size_m": [size, size], "obstacles": [block() for _ in range(int(random.integers(0, 4)))]},
            "vehicle": {
                "speed_mps": float(random.uniform(4, 14)),
                "route": {"points": points, "end": str(random.choice(["closed", "there_and_back"])), "stops": stops},
            },
            "clients": {
                "count": int(random.integers(2, 8)),
                "mobility": str(mobility),
                "compute_flops_per_s": float(random.uniform(0.5e6, 1e7)),
            },
            "radio": radio,
            "learning": {
                "dataset": {"features": 200, "samples": [10, 12]}, "local_steps": 2, "evaluate_contacts": False,
                "evaluate_every": 1000, "open_at": 1.0,
                "algorithm": "fedavg" if random.random() < 0.3 else "rwsadmm",
            },
            "stop": {"sim_time_s": END_S},
            "log": {"graph_every": 0},
        }
    )  # fmt: skip


@dataclass
class Stepped:
    """An exchange of the time-stepped simulation."""

    client: int
    began_s: float
    left: list[float]  # setup s, bits down, delay s, compute s, bits up, delay s
    step: int = 0
    end_s: float = np.inf
    delivered: bool = False


def stepped(world: World, memory: Memory, load: tuple[float, float, float], step_s: float) -> list[Stepped]:
    """All exchanges, by going through time in small steps: nothing but rates at positions, and equal shares."""
    times = np.arange(0.0, END_S, step_s)
    n, radio = len(world.positions), world.radio
    vehicle = memory.at("vehicle", times)
    rates, delays = np.zeros((len(times), n)), np.zeros((len(times), n))
    for i in range(n):
        there = memory.at(i, times)
        gap = np.hypot(*(there - vehicle).T)
        rates[:, i] = rates_bps(radio, gap, world.obstruction.loss_db(vehicle, there) + radio.shadow_db(vehicle, there))
        delays[:, i] = radio.delay_s(gap)
    setup_s, (bits_down, compute_s, bits_up) = radio.setup_s, load
    linked, under_way, ended = np.zeros(n, dtype=bool), {}, []
    for k, t in enumerate(times.tolist()):
        for i in np.flatnonzero((rates[k] > 0) & ~linked).tolist():
            under_way[i] = Stepped(i, t, [setup_s, bits_down, 0.0, compute_s, bits_up, 0.0])
        linked = rates[k] > 0
        for i in [i for i in under_way if not linked[i]]:
            under_way[i].end_s = t
            ended.append(under_way.pop(i))
        sending = sum(e.step in (1, 4) for e in under_way.values())
        for i, e in list(under_way.items()):
            time_left = step_s
            while time_left > 0 and e.step < 6:
                speed = rates[k, i] / max(sending, 1) if e.step in (1, 4) else 1.0
                needed = e.left[e.step] / speed
                if needed > time_left:
                    e.left[e.step] -= speed * time_left
                    break
                time_left -= needed
                if e.step in (1, 4):
                    e.left[e.step + 1] = float(delays[k, i])
                e.step += 1
            if e.step == 6:
                e.end_s, e.delivered = t + step_s - time_left, True
                ended.append(under_way.pop(i))
    return ended


@pytest.mark.parametrize("hundred", range(4))
def test_the_same_exchanges_as_a_time_stepped_simulation(hundred: int) -> None:
    """200 random worlds: the same delivered sets, and times within the step."""
    compared = 0
    for seed in range(50 * hundred, 50 * (hundred + 1)):
        scenario, memory = random_world(seed), Memory()
        simulation = Simulation(scenario)
        begun: list[Any] = []
        begin = simulation.learner.begin
        simulation.learner.begin = lambda *a, begin=begin, into=begun: into.append(begin(*a)) or into[-1]  # type: ignore[method-assign,func-returns-value]
        simulation.run(memory)
        if not begun:
            continue
        cost = begun[0]
        compute_s = float(cost.flops[0] / scenario.clients.compute_flops_per_s)
        load = 8.0 * float(cost.bytes_down[0]), compute_s, 8.0 * float(cost.bytes_up[0])
        assert all(row.in_passing for row in memory.rows)
        try:
            compared += compare(memory.rows, stepped(simulation.world, memory, load, STEP_S / 5), seed)
        except AssertionError:  # the shares of the channel change within a step: the finer it is, the nearer it comes
            compared += compare(memory.rows, stepped(simulation.world, memory, load, STEP_S / 100), seed)
    assert compared > 100


def compare(rows: list[ContactRow], expected: list[Stepped], seed: int) -> int:
    """Check all exchanges but those that last no longer than the step; returns how many ended alike."""
    left = defaultdict(list)
    for exchange in expected:
        left[exchange.client].append(exchange)
    checked = 0
    for row in rows:
        began_s, end_s = row.sim_time_s - row.contact_s, row.sim_time_s
        found = [e for e in left[row.client or 0] if abs(e.began_s - began_s) <= STEP_S]
        if not found:
            assert row.contact_s <= STEP_S, f"seed {seed}: {row} has no counterpart"
            continue
        (twin,) = found
        left[row.client or 0].remove(twin)
        if bool(row.delivered) == twin.delivered:
            assert abs(twin.end_s - end_s) <= STEP_S, f"seed {seed}: {row} ended at {end_s}, not {twin.end_s}"
            checked += 1
        else:  # a link that breaks as the last byte arrives
            assert abs(twin.end_s - end_s) <= STEP_S, f"seed {seed}: {row} against {twin}"
    for client, missing in left.items():
        for e in missing:
            assert e.end_s - e.began_s <= STEP_S, f"seed {seed}: client {client}: {e} did not take place"
    return checked
