"""Clients are driven out of range at every stage of an exchange, under every algorithm.

Two visits go well; in the third a client walks off so that its link dies at a chosen moment. All are alike and near
the vehicle, so what has been on the air by then, and when the rest is done, follow by hand.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from fedmule.learning.algorithms.base import Algorithm, Contact, Exchange
from fedmule.learning.algorithms.neighbourhood import Neighbours
from fedmule.learning.algorithms.overfitting import Overfitting
from fedmule.learning.algorithms.own_labels import OwnLabels
from fedmule.learning.algorithms.trust import TrustRegion
from fedmule.simulator.engine import Simulation
from fedmule.simulator.runs.columns import ContactRow
from fedmule.simulator.runs.folder import NoLog
from fedmule.simulator.scenario import Scenario

RANGE_M, NEAR_M, WALK_MPS = 20.0, 2.0, 36.0
BPS, SETUP_S, LATENCY_S, COMPUTE_S = 20_000.0, 2.0, 0.4, 1.5
BYTE_S = 8 / BPS
VISITS = 2  # that go well
LEAVER = 1
FOR_EVER_S = 1e7

MLP = {"kind": "mlp", "hidden": [6]}
ALGORITHMS: dict[str, dict[str, Any]] = {
    **{v: {"algorithm": {"kind": "rwsadmm", "variant": v}} for v in ("slack", "relay", "derived", "printed")},
    **{
        f"neighbourhood-{rho}": {"algorithm": {"kind": "rwsadmm", "token": "neighbourhood", "rho": rho}}
        for rho in ("cv", "eb")
    },
    **{kind: {"algorithm": kind} for kind in ("fedavg", "ditto", "apfl", "pfedme", "per_fedavg", "ifca")},
    **{kind: {"algorithm": kind} for kind in ("squad_oracle", "walkman", "local")},
    **{
        kind: {"algorithm": kind, "model": MLP}
        for kind in ("fedper", "fedrep", "fedbabu", "fedrod", "fedala", "feddbe")
    },
}
UNICAST = {"neighbourhood-cv", "neighbourhood-eb", "squad_oracle"}


def start(folder: Path, keys: dict[str, Any], count: int, leaves_s: float) -> Simulation:
    """Everyone stands near the vehicle; one walks off and is out of range at `leaves_s`."""
    rows = ["node,t,x,y"]
    for client in range(count):
        y = 100 + NEAR_M * (-1) ** client
        rows.append(f"{client},0,100,{y}")
        if client == min(LEAVER, count - 1) and leaves_s < FOR_EVER_S:
            # At (100, 100 ± 2) it sets out eastwards: 20 m away when x has grown by √(20² − 2²).
            ways_s = np.sqrt(RANGE_M**2 - NEAR_M**2) / WALK_MPS
            rows += [f"{client},{float(leaves_s - ways_s)!r},100,{y}", f"{client},{float(leaves_s + 2)!r},"]
            rows[-1] += f"{float(100 + WALK_MPS * (2 + ways_s))!r},{y}"
    (folder / "trace.csv").write_text("\n".join(rows) + "\n")
    scenario = Scenario.model_validate(
        {
            "terrain": {"size_m": [400, 200]},
            "vehicle": {"start": [100, 100]},
            "clients": {
                "count": count,
                "mobility": {"kind": "trace", "path": str(folder / "trace.csv")},
                "report_error_m": 0.0,
                "compute_flops_per_s": 1.0,
            },
            "radio": {
                "kind": "disc",
                "range_m": RANGE_M,
                "rate_mbps": BPS / 1e6,
                "latency_s": LATENCY_S,
                "setup_s": SETUP_S,
            },
            "learning": {"dataset": {"samples": [40, 40], "features": 8, "classes": 3}, **keys},
            "stop": {"visits": 100},
        }
    )
    simulation = Simulation(scenario)
    flops = simulation.learner.algorithm.exchange(np.arange(1), 0.0).flops[0]
    simulation.world = replace(simulation.world, compute_flops_per_s=np.full(count, float(flops) / COMPUTE_S))
    log = NoLog()
    simulation.rows = []  # type: ignore[attr-defined]
    log.contact = simulation.rows.append  # type: ignore[attr-defined, method-assign]
    simulation.start(log)
    return simulation


def play(simulation: Simulation, visits: int) -> ContactRow:
    """Run until that many visits are over; the row of the last."""
    rows: list[ContactRow] = simulation.rows  # type: ignore[attr-defined]
    while len(rows) < visits:
        simulation.env.step()
    return rows[-1]


def state(thing: Any, name: str = "") -> dict[str, Any]:
    """Everything an algorithm remembers, flat; data, model, settings and payload do not change."""
    if isinstance(thing, torch.Tensor):
        return {name: thing.clone().numpy()}
    if isinstance(thing, np.ndarray | float | int | bool):
        return {name: np.array(thing)}
    if isinstance(thing, set):
        return {name: np.array(sorted(thing))}
    parts: dict[Any, Any] = {}
    if isinstance(thing, Algorithm | Neighbours | Overfitting | OwnLabels | TrustRegion):
        constant = ("data", "model", "settings", "payload", "_draw", "device", "_data", "_model")
        parts = {k: v for k, v in vars(thing).items() if k not in constant}
    elif isinstance(thing, dict):
        parts = thing
    elif isinstance(thing, list | tuple):
        parts = dict(enumerate(thing))
    else:
        assert thing is None or isinstance(thing, str), f"{name}: {type(thing)}"
    return {full: v for key, part in parts.items() for full, v in state(part, f"{name}.{key}").items()}


def twin(algorithm: Algorithm) -> Algorithm:
    """A copy that learns on its own, with the same data and model."""
    return copy.deepcopy(algorithm, {id(part): part for part in (algorithm.data, algorithm.model)})


def same(a: dict[str, Any], b: dict[str, Any]) -> None:
    assert a.keys() == b.keys()
    for name, value in a.items():
        assert value.dtype == b[name].dtype, name
        assert value.tobytes() == b[name].tobytes(), name  # bit for bit, nan included


@dataclass(frozen=True)
class Timing:
    """When each stage of an exchange with m clients alike is over, counted from its beginning."""

    exchange: Exchange
    m: int
    flops_per_s: float

    @property
    def down(self) -> int:
        return int(self.exchange.bytes_down[0])

    @property
    def up(self) -> int:
        return int(self.exchange.bytes_up[0])

    @property
    def compute_s(self) -> float:
        return float(self.exchange.flops[0] / self.flops_per_s)

    def slots(self, m: int) -> int:
        """How many transfers down share the channel."""
        return 1 if self.exchange.broadcast else m

    def ends(self) -> list[float]:
        stages = [SETUP_S, self.down * self.slots(self.m) * BYTE_S, LATENCY_S]
        stages += [self.compute_s, self.up * self.m * BYTE_S, LATENCY_S]
        return np.cumsum(stages).tolist()

    def at(self, t: float) -> tuple[int, int]:
        """Bytes down and up that each client's transfers have made by then."""
        setup, down, _, computed, up, _ = self.ends()
        received = (min(t, down) - setup) / (self.slots(self.m) * BYTE_S)
        sent = (min(t, up) - computed) / (self.m * BYTE_S)
        return int(np.clip(received, 0, self.down) + 1e-6), int(np.clip(sent, 0, self.up) + 1e-6)

    def end_without(self, t: float) -> float:
        """When the others are done if one leaves at t."""
        setup, down, _, computed, up, arrived = self.ends()
        others, saved = self.m - 1, 0.0
        if t < down:  # what is left of the transfers down goes faster by one slot
            share = (down - max(t, setup)) / self.slots(self.m)
            saved += share * (self.slots(self.m) - self.slots(others))
        left_up = 1 - np.clip((t - computed) / (up - computed), 0, 1)
        saved += left_up * self.up * BYTE_S * (self.m - others)
        return float(arrived - saved)


STAGES: dict[str, Callable[[Timing], float]] = {
    "set-up": lambda x: 0.6 * SETUP_S,
    "first byte down": lambda x: SETUP_S + 1.5 * x.slots(x.m) * BYTE_S,
    "half down": lambda x: (x.ends()[0] + x.ends()[1]) / 2,
    "last byte down": lambda x: x.ends()[1] - 0.5 * x.slots(x.m) * BYTE_S,
    "on its way down": lambda x: x.ends()[1] + LATENCY_S / 2,
    "computing": lambda x: (x.ends()[2] + x.ends()[3]) / 2,
    "first byte up": lambda x: x.ends()[3] + 1.5 * x.m * BYTE_S,
    "half up": lambda x: (x.ends()[3] + x.ends()[4]) / 2,
    "last byte up": lambda x: x.ends()[4] - 0.5 * x.m * BYTE_S,
    "on its way up": lambda x: x.ends()[4] + LATENCY_S / 2,
}


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("name", ALGORITHMS)
def test_leaving_at_every_stage(name: str, count: int, tmp_path: Path) -> None:
    keys, everyone = ALGORITHMS[name], np.arange(count)
    calm = start(tmp_path, keys, count, FOR_EVER_S)
    assert play(calm, VISITS).delivered == count
    began_s = calm.env.now
    algorithm = twin(calm.learner.algorithm)
    before, progress = state(algorithm), calm.ledger.progress(began_s)
    exchange = algorithm.exchange(everyone, progress)
    assert exchange.broadcast == (name not in UNICAST)
    for column in (exchange.bytes_down, exchange.bytes_up, exchange.flops):
        assert np.ptp(column) == 0
    timing = Timing(exchange, count, float(calm.world.compute_flops_per_s[0]))
    undisturbed = play(calm, VISITS + 1)
    assert undisturbed.sim_time_s - began_s == pytest.approx(timing.ends()[-1], abs=1e-6)
    charged = int(name != "local")
    for stage, moment in STAGES.items():
        leaves_s = moment(timing)
        simulation = start(tmp_path, keys, count, began_s + leaves_s)
        play(simulation, VISITS)
        same(state(simulation.learner.algorithm), before)
        received, sent = simulation.ledger.received.copy(), simulation.ledger.sent.copy()
        steps = simulation.ledger.gradient_steps.copy()
        row = play(simulation, VISITS + 1)
        down, up = timing.at(leaves_s)
        leaver = min(LEAVER, count - 1)
        others = everyone[everyone != leaver]
        # What it got and sent by then is charged to it, and to the air.
        assert simulation.ledger.received[leaver] - received[leaver] == charged * down, stage
        assert simulation.ledger.sent[leaver] - sent[leaver] == charged * up, stage
        air_down = max(down, timing.down * (count > 1)) if exchange.broadcast else down + len(others) * timing.down
        assert (row.bytes_down, row.bytes_up) == (charged * air_down, charged * (up + len(others) * timing.up))
        assert row.delivered_ids.tolist() == others.tolist()
        # Gradients count for those whose exchange got through, and for nobody else.
        assert (simulation.ledger.gradient_steps - steps).tolist() == [
            0 if client == leaver else algorithm.steps for client in everyone
        ], stage
        assert row.gradient_steps == algorithm.steps * len(others)
        after = state(simulation.learner.algorithm)
        if count == 1:
            assert row.sim_time_s - began_s == pytest.approx(leaves_s, abs=1e-6), stage
            assert row.compute_s == (pytest.approx(timing.compute_s) if leaves_s > timing.ends()[2] else 0)
            same(after, before)
            continue
        assert row.sim_time_s - began_s == pytest.approx(timing.end_without(leaves_s), abs=1e-6), stage
        # The others learn as if it had never been asked.
        expected = twin(algorithm)
        expected.update(Contact(others, count, progress, row.client, everyone))
        same(after, state(expected))
        for key, value in before.items():
            if value.ndim and len(value) == count and not key.startswith(".neighbours"):
                assert value[leaver].tobytes() == after[key][leaver].tobytes(), (stage, key)
        assert (simulation.ledger.received - received)[others].tolist() == [charged * timing.down] * len(others)
        assert (simulation.ledger.sent - sent)[others].tolist() == [charged * timing.up] * len(others)
