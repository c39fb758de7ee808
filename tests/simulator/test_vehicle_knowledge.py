"""What a walk policy knows, against the log of the same run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from fedmule.mobility.driving import Driving
from fedmule.radio.walks.policy import Here, Policy
from fedmule.radio.walks.rounds import OldestFirst
from fedmule.simulator.engine import Simulation
from fedmule.simulator.ledger import Ledger
from fedmule.simulator.runs.columns import ContactRow
from fedmule.simulator.runs.folder import NoLog
from fedmule.simulator.scenario import Scenario

Small = Callable[..., Scenario]
ROWS: list[ContactRow] = []  # of the run under way
LATE: dict[str, Any] = {"learning": {"open_at": 1.0}, "stop": {"sim_time_s": 150.0, "visits": 1000}}


class Rows(NoLog):
    """Keeps the contacts, and the norms of all duals after each."""

    def __init__(self) -> None:
        ROWS.clear()

    def contact(self, row: ContactRow) -> None:
        ROWS.append(row)


class Spy(OldestFirst):
    """Visits as `oldest_first` and compares what it knows with the log so far."""

    wants_reports = True
    calls: ClassVar[list[Here]] = []
    simulation: Simulation
    norms: ClassVar[
        dict[tuple[int, int], float]
    ] = {}  # of each client's dual after the last contact of each vehicle with it
    losses: ClassVar[dict[tuple[int, int], float]] = {}

    def __init__(self, graph: Any) -> None:
        super().__init__(graph)
        self.number: int | None = None

    def next(self, here: Here, draws: np.random.Generator) -> int:
        walks = Spy.simulation.world.walks
        vehicle = next(k for k, walk in enumerate(walks) if walk is self)
        rows = [row for row in ROWS if row.vehicle == vehicle]
        check_contacts(here, rows)
        check_numbers(here, rows, len(self.graph.members))
        ledger = Spy.simulation.ledger
        assert here.now_s == Spy.simulation.env.now
        assert here.progress == pytest.approx(max(here.now_s / 150.0, ledger.visits / 1000))
        for client in range(len(self.graph.members)):
            known = Spy.norms.get((vehicle, client), np.nan), Spy.losses.get((vehicle, client), np.nan)
            told = here.past.dual_norms[client], here.past.losses[client]
            assert told == pytest.approx(known, nan_ok=True)
        Spy.calls.append(here)
        return super().next(here, draws)


def check_contacts(here: Here, rows: list[ContactRow]) -> None:
    assert len(here.past.contacts) == len(rows)
    for contact, row in zip(here.past.contacts, rows, strict=True):
        assert contact.client == row.client
        assert contact.ended_s == row.sim_time_s <= here.now_s
        assert contact.began_s == pytest.approx(row.sim_time_s - row.contact_s)
        assert contact.in_passing == row.in_passing
        assert contact.neighbours == row.neighbours
        assert contact.asked.tolist() == row.active_ids.tolist()
        assert contact.delivered.tolist() == row.delivered_ids.tolist()
        assert contact.got_through == (row.client in row.delivered_ids)


def check_numbers(here: Here, rows: list[ContactRow], n: int) -> None:
    exchanges, last_s = np.zeros(n), np.full(n, -np.inf)
    for row in rows:
        exchanges[row.delivered_ids] += 1
        last_s[row.delivered_ids] = row.sim_time_s
    assert here.past.exchanges.tolist() == exchanges.tolist()
    assert here.age_s(np.arange(n)).tolist() == (here.now_s - last_s).tolist()
    for array in (here.past.exchanges, here.past.delivered_s, here.past.losses):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0


def spied(scenario: Scenario, monkeypatch: pytest.MonkeyPatch) -> list[Here]:
    """Run a scenario whose vehicles are spies; note losses and duals at the source, not where they are reported."""
    Spy.calls, Spy.norms, Spy.losses = [], {}, {}
    trained: dict[int, float] = {}

    def watch(ledger: Any) -> None:
        row, duals = ROWS[-1], getattr(Spy.simulation.learner.algorithm, "duals", None)
        for client in row.delivered_ids.tolist():
            if duals is not None:
                Spy.norms[row.vehicle, client] = float(duals[client].norm())
            if client in trained:  # not one who trains alone
                Spy.losses[row.vehicle, client] = trained.pop(client)

    Spy.simulation = Simulation(scenario, {"vehicle.walk": Spy})
    own = type(Spy.simulation.learner.algorithm)
    train = own.train

    def noted(self: Any, work: Any, steps: Any) -> Any:
        after, loss = train(self, work, steps)
        assert len(steps.clients) == 1  # one after the other: a mean over several is nobody's loss
        trained[int(steps.clients[0])] = float(loss)
        return after, loss

    monkeypatch.setattr(own, "train", noted)
    Spy.simulation.run(Rows(), watch)
    return Spy.calls


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"vehicle": {"count": 2}, "radio": {"kind": "disc", "range_m": 60.0}},
        {"learning": {"algorithm": "ditto", "open_at": 1.0}},
        {"learning": {"algorithm": {"kind": "rwsadmm", "variant": "slack", "try_at": 0.0}, "open_at": 1.0}},
    ],
    ids=["one vehicle", "two vehicles", "no duals", "slack"],
)
def test_a_vehicle_is_told_what_the_log_says(
    small: Small, monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any]
) -> None:
    changes = {**LATE, **changes}
    vehicle = {**changes.pop("vehicle", {}), "walk": "test_vehicle_knowledge:Spy"}
    calls = spied(small(**changes, vehicle=vehicle), monkeypatch)
    assert len(calls) > 10
    past = calls[-1].past
    assert any(contact.in_passing for contact in past.contacts)
    assert any(len(contact.delivered) > 1 for contact in past.contacts)
    assert len(np.unique(past.losses[~np.isnan(past.losses)])) > 4  # each its own
    assert np.isnan(past.dual_norms).all() == (changes["learning"].get("algorithm") == "ditto")


def test_vehicles_know_only_what_they_have_seen_themselves(small: Small, monkeypatch: pytest.MonkeyPatch) -> None:
    vehicle = {"count": 2, "walk": "test_vehicle_knowledge:Spy"}
    calls = spied(small(**LATE, vehicle=vehicle, radio={"kind": "disc", "range_m": 60.0}), monkeypatch)
    pasts = list({id(here.past): here.past for here in calls}.values())
    assert len(pasts) == 2
    seen = [sum(row.vehicle == vehicle for row in ROWS) for vehicle in (0, 1)]
    assert min(seen) > 5
    assert sorted(len(past.contacts) for past in pasts) == sorted(seen)
    assert sum(past.exchanges.sum() for past in pasts) == sum(len(row.delivered_ids) for row in ROWS)


class GivenUp(OldestFirst):
    """Notes who was given up, as the vehicle knows it."""

    known: ClassVar[list[dict[int, float]]] = []

    def next(self, here: Here, draws: np.random.Generator) -> int:
        at_s = here.past.given_up_s
        GivenUp.known.append({int(c): float(at_s[c]) for c in np.flatnonzero(np.isfinite(at_s))})
        assert np.isnan(here.past.losses).all()  # it has not asked for them
        return super().next(here, draws)


def test_a_client_that_was_not_reached_is_remembered(
    small: Small, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Client 0 drives faster than the vehicle and is hardly ever caught."""
    rows = ["node,t,x,y", *(f"0,{2.0 * k},{20 + 260 * (k % 2)},{20 + 160 * (k // 2 % 2)}" for k in range(800))]
    rows += [f"{i},0,{60 + 60 * i},{30}" for i in (1, 2)]
    (tmp_path / "trace.csv").write_text("\n".join(rows) + "\n")
    clients = {"count": 3, "mobility": {"kind": "trace", "path": str(tmp_path / "trace.csv")}}
    own = {"walk": "test_vehicle_knowledge:GivenUp", "give_up_s": 30.0, "approach_m": 1.0, "contact": "approach"}
    scenario = small(vehicle={**own, "in_passing": False, "speed_mps": 9.0}, clients=clients, stop={"visits": 8})
    simulation = Simulation(scenario, {"vehicle.walk": GivenUp})
    GivenUp.known, expected = [], [{}]
    not_reached, visit = Ledger.not_reached, Ledger.visit

    def missed(self: Ledger, vehicle: int) -> None:
        not_reached(self, vehicle)
        target = simulation.vehicles[vehicle].target
        expected.append({**expected[-1], target: simulation.env.now})

    def visited(self: Ledger, event: Any) -> None:
        visit(self, event)
        expected.append(expected[-1])

    monkeypatch.setattr(Ledger, "not_reached", missed)
    monkeypatch.setattr(Ledger, "visit", visited)
    assert simulation.run()["missed"] > 2
    assert GivenUp.known == expected[: len(GivenUp.known)]
    assert 0 in expected[-1]


# --- travel times ---------------------------------------------------------------------------------------------


class Traveller(OldestFirst):
    """Compares travel times with straight lines."""

    detours: ClassVar[list[float]] = []

    def next(self, here: Here, draws: np.random.Generator) -> int:
        aims = self.graph.known(self.graph.reachable)
        least = here.least_travel_s(aims)
        straight_s = np.hypot(*(aims - here.xy).T) / 10.0
        assert least == pytest.approx(straight_s)
        seconds = np.array([here.travel_s(aim) for aim in aims])
        assert (seconds >= least * (1 - 1e-9)).all()
        Traveller.detours += (seconds - least).tolist()
        return super().next(here, draws)


def test_travel_times_lead_round_walls(small: Small) -> None:
    own = {"walk": "test_vehicle_knowledge:Traveller"}
    stays = {"clients": {"report_error_m": 0.0, "mobility": "static"}}
    Traveller.detours = []
    Simulation(small(vehicle=own, **stays), {"vehicle.walk": Traveller}).run()
    assert min(Traveller.detours) == pytest.approx(0, abs=1e-9)
    assert max(Traveller.detours) > 1.0
    Traveller.detours = []
    Simulation(small(vehicle=own, **stays, terrain={"obstacles": []}), {"vehicle.walk": Traveller}).run()
    assert max(Traveller.detours) == pytest.approx(0, abs=1e-9)


def test_travel_times_need_a_vehicle() -> None:
    with pytest.raises(ValueError, match="need a vehicle"):
        Here(None, np.zeros(2)).travel_s(np.ones(2))


# --- policies that do not ask ---------------------------------------------------------------------------------


class Plain(Policy):
    """A policy as it was written before: it uses `here.client` and `here.xy`."""

    def next(self, here: Here, draws: np.random.Generator) -> int:
        others = self.graph.reachable[self.graph.reachable != here.client]
        return self.nearest(others, here.xy) if draws.random() < 0.5 else int(others[0])


def test_policies_that_do_not_ask_cause_no_work(small: Small, monkeypatch: pytest.MonkeyPatch) -> None:
    """No way is planned for a choice, nobody reports, clients train together, and the journal has nothing more."""
    simulation = Simulation(small(vehicle={"walk": "test_vehicle_knowledge:Plain"}), {"vehicle.walk": Plain})
    choosing, ways, together = [], [], []
    following, way, own = Plain.next, Driving.way, type(simulation.learner.algorithm)
    train = own.train

    def spied_next(self: Plain, here: Here, draws: np.random.Generator) -> int:
        choosing.append(True)
        client = following(self, here, draws)
        choosing.pop()
        return client

    def spied_way(self: Driving, start: Any, aim: Any) -> Any:
        ways.append(bool(choosing))
        return way(self, start, aim)

    def spied_train(self: Any, work: Any, steps: Any) -> Any:
        together.append(len(steps.clients))
        return train(self, work, steps)

    def no_reports(*given: Any) -> None:
        raise AssertionError("nobody asked for reports")

    monkeypatch.setattr(Plain, "next", spied_next)
    monkeypatch.setattr(Driving, "way", spied_way)
    monkeypatch.setattr(own, "train", spied_train)
    monkeypatch.setattr(type(simulation.learner), "reports", no_reports)
    simulation.run()
    assert ways
    assert not any(ways)
    assert max(together) > 1
    assert not len(simulation.learner.journal.arrays().reports)
