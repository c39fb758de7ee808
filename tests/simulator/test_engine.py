"""Complete runs: same seed same bits, the vehicle, contacts, the end, and impossible worlds."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from short_runs import run, same

from fedmule.analysis import Run
from fedmule.learning.algorithms.base import Algorithm
from fedmule.learning.alone_or_together import ALONE
from fedmule.mobility.trajectory import position_at
from fedmule.simulator.build import choose_device
from fedmule.simulator.engine import Simulation
from fedmule.simulator.errors import ScenarioError, UserError
from fedmule.simulator.runs.columns import ContactRow
from fedmule.simulator.runs.folder import NoLog
from fedmule.simulator.runs.run import run_scenario
from fedmule.simulator.scenario import Scenario
from fedmule.simulator.streams import Streams

Small = Callable[..., Scenario]

BY_DISTANCE = {"contact": "approach", "in_passing": False}


def client_positions(run: Run, client: int, times: Any) -> Any:
    track = run.track[(run.track["node"] == "client") & (run.track["id"] == client)]
    return position_at(track["sim_time_s"].to_numpy(), track[["x_m", "y_m"]].to_numpy(), np.asarray(times))


# --- same seed, same bits ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "algorithm", ["rwsadmm", "fedavg", "walkman", "local", "ditto", "apfl", "pfedme", "per_fedavg"]
)
def test_same_seed_same_bits(small: Small, tmp_path: Path, algorithm: str) -> None:
    scenario = small(learning={"algorithm": algorithm})
    first = run(scenario, tmp_path / "a")
    np.random.default_rng().random(10)
    torch.manual_seed(99)  # whatever else runs
    second = run(scenario, tmp_path / "b")
    for table in ("contacts", "clients", "track", "graph"):
        same(getattr(first, table), getattr(second, table))
    other = run(small(seed=1, learning={"algorithm": algorithm}), tmp_path / "c")
    assert not other.contacts["sim_time_s"].equals(first.contacts["sim_time_s"])


def test_another_radio_leaves_data_movement_and_start_alone(small: Small, tmp_path: Path) -> None:
    scenarios = [small(), small(radio={"kind": "disc", "range_m": 30.0, "setup_s": 9.0})]
    simulations = [Simulation(s) for s in scenarios]
    data = [s.learner.algorithm.data for s in simulations]
    assert torch.equal(data[0].features, data[1].features)
    assert torch.equal(data[0].labels, data[1].labels)
    assert torch.equal(simulations[0].learner.algorithm.token, simulations[1].learner.algorithm.token)
    runs = [run(s, tmp_path / str(i)) for i, s in enumerate(scenarios)]
    end = min(r.contacts["sim_time_s"].iloc[-1] for r in runs)
    times = np.linspace(0.0, end, 200)
    assert not runs[0].contacts["sim_time_s"].equals(runs[1].contacts["sim_time_s"])
    for client in range(8):
        assert np.allclose(*(client_positions(r, client, times) for r in runs), atol=1e-9)


def test_streams_are_independent_and_uniform() -> None:
    streams = Streams(3)
    ids, counters = np.arange(500), np.zeros(500, dtype=np.int64)
    a, b = streams.draw("one")(ids, counters, 200), streams.draw("two")(ids, counters, 200)
    c = streams.draw("one")(ids, counters + 1, 200)
    assert abs(a.mean() - 0.5) < 0.005
    assert abs(a.var() - 1 / 12) < 0.002
    for other in (b, c, np.roll(a, 1, axis=0), np.roll(a, 1, axis=1)):
        assert abs(np.corrcoef(a.ravel(), other.ravel())[0, 1]) < 0.015
    assert np.array_equal(streams.draw("one")(ids[[7, 3]], counters[:2], 200), a[[7, 3]])  # whoever else is asked for
    assert np.histogram(a, 20, (0, 1))[0].std() < 3 * np.sqrt(a.size / 20)
    assert not np.array_equal(Streams(4).draw("one")(ids, counters, 200), a)


# --- the vehicle ---------------------------------------------------------------------------------------------


def test_arrives_within_approach_and_stands_still_in_the_contact(small: Small, tmp_path: Path) -> None:
    result = run(small(vehicle={**BY_DISTANCE, "approach_m": 3.0}, stop={"visits": 40}), tmp_path / "run")
    contacts = result.contacts
    arrived = contacts["sim_time_s"] - contacts["contact_s"]
    where = contacts[["vehicle_x_m", "vehicle_y_m"]].to_numpy()
    vehicle = result.track[result.track["node"] == "vehicle"]
    times, positions = vehicle["sim_time_s"].to_numpy(), vehicle[["x_m", "y_m"]].to_numpy()
    for share in (0.0, 0.5, 1.0):
        during = position_at(times, positions, (arrived + share * contacts["contact_s"]).to_numpy())
        assert np.allclose(during, where, atol=1e-6)
    for row in range(len(contacts)):
        client = client_positions(result, int(contacts["client"].iloc[row]), [arrived.iloc[row]])[0]
        assert np.hypot(*(client - where[row])) <= 3.0 + 1e-6
    legs = np.hypot(*np.diff(positions, axis=0).T)
    assert (legs <= 10.0 * np.diff(times) + 1e-6).all()  # never faster than speed_mps


def test_a_client_that_outruns_the_vehicle_is_given_up(small: Small, tmp_path: Path) -> None:
    fast = {"kind": "waypoint", "speed_mps": [30.0, 40.0], "pause_s": [0.0, 0.0]}
    scenario = small(
        terrain={"size_m": [5000, 5000]},
        clients={"count": 3, "mobility": fast},
        vehicle={"speed_mps": 0.5, "give_up_s": 60.0},
        radio={"kind": "disc", "range_m": 50.0},
        stop={"visits": 30},
    )
    summary = run_scenario(scenario, str(tmp_path / "run"))
    assert summary["stopped_by"] == "nobody_reached"
    assert summary["missed"] > 20


@pytest.mark.parametrize(("give_up_s", "missed"), [(60.0, 16), (100.0, 9)])
def test_the_vehicle_gives_up_after_give_up_s(small: Small, give_up_s: float, missed: int) -> None:
    """The client is more than an hour away; after every `give_up_s` one more is not reached."""
    scenario = small(
        terrain={"size_m": [5000, 5000], "obstacles": []},
        clients={"count": 1, "mobility": {"kind": "static", "positions": [[4900.0, 4900.0]]}},
        vehicle={"start": [10.0, 10.0], "speed_mps": 1.0, "give_up_s": give_up_s},
        stop={"sim_time_s": 999.0},
    )
    summary = Simulation(scenario).run()
    assert (summary["missed"], summary["visits"], summary["stopped_by"]) == (missed, 0, "sim_time_s")


def test_clients_not_reached_are_counted_from_contact_to_contact(small: Small, tmp_path: Path) -> None:
    """Client 0 outruns the vehicle, client 1 stands still: every row has those not reached since the last one."""
    rows = ["node,t,x,y", "1,0,60,60"]
    rows += [f"0,{2.0 * k},{20 + 260 * (k % 2)},{20 + 160 * (k // 2 % 2)}" for k in range(3000)]
    (tmp_path / "trace.csv").write_text("\n".join(rows) + "\n")
    scenario = small(
        terrain={"obstacles": []},
        clients={
            "count": 2,
            "mobility": {"kind": "trace", "path": str(tmp_path / "trace.csv")},
            "report_stagger": False,
        },
        vehicle={**BY_DISTANCE, "give_up_s": 30.0, "speed_mps": 9.0, "approach_m": 0.1, "walk": "oldest_first"},
        stop={"visits": 12},
    )
    result = run(scenario, tmp_path / "run")
    missed = result.contacts["missed"]
    assert missed.max() >= 1
    assert (missed == 0).any()
    assert missed.sum() == result.summary["missed"]  # the run ended with a contact
    assert (missed * 30.0 <= result.contacts["travel_s"] + 1e-6).all()


def test_report_errors_larger_than_the_approach_delay_but_do_not_prevent_visits(small: Small, tmp_path: Path) -> None:
    exact = run(small(vehicle=BY_DISTANCE, clients={"report_error_m": 0.0}), tmp_path / "exact")
    vague = run(small(vehicle=BY_DISTANCE, clients={"report_error_m": 8.0}), tmp_path / "vague")
    assert len(vague.contacts) == 20
    assert vague.contacts["travel_s"].sum() > exact.contacts["travel_s"].sum()


# --- contacts ------------------------------------------------------------------------------------------------


def test_the_log_adds_up(small: Small, tmp_path: Path) -> None:
    result = run(small(vehicle={"in_passing": False}), tmp_path / "run")
    contacts, clients, summary = result.contacts, result.clients, result.summary
    assert list(contacts["visit"]) == list(contacts["contact"]) == list(range(1, 21))
    assert np.allclose((contacts["travel_s"] + contacts["contact_s"]).cumsum(), contacts["sim_time_s"])
    assert sorted(clients["visit"].unique()) == [0, 5, 10, 15, 20]
    last = clients[clients["visit"] == 20]
    assert last["visits"].sum() == 20
    assert last["participations"].sum() == contacts["delivered"].sum()
    assert last["gradient_steps"].sum() == contacts["gradient_steps"].sum()
    assert last["bytes_up"].sum() == contacts["bytes_up"].sum()  # unicast
    assert last["bytes_down"].sum() > contacts["bytes_down"].sum()  # a broadcast counts once on the air
    assert contacts["personal_test_acc_mean"].iloc[-1] == pytest.approx(last["test_acc"].mean())
    weighted = np.average(last["test_acc"], weights=last["test_samples"])
    assert contacts["personal_test_acc_weighted"].iloc[-1] == pytest.approx(weighted)
    assert contacts["token_test_acc"].notna().sum() == 4
    assert contacts["personal_test_acc_mean"].notna().all()
    for ids, count in (("active_ids", "active"), ("delivered_ids", "delivered")):
        assert (contacts[ids].map(len) == contacts[count]).all()
    assert summary["bytes_down"] == contacts["bytes_down"].sum()
    assert summary["personal_test_acc_mean"] == contacts["personal_test_acc_mean"].iloc[-1]
    assert (summary["finished"], summary["stopped_by"]) == (True, "visits")


def test_who_takes_part(small: Small, tmp_path: Path) -> None:
    everyone = run(small(vehicle={"in_passing": False}), tmp_path / "all").contacts
    assert (everyone["active"] == everyone["neighbours"]).all()
    assert everyone["neighbours"].max() > 3
    visited = run(small(learning={"active": "visited"}), tmp_path / "visited").visits
    assert (visited["active"] == 1).all()
    assert all(ids[0] == client for ids, client in zip(visited["active_ids"], visited["client"], strict=True))
    two = run(small(learning={"active": 2}, vehicle={"in_passing": False}), tmp_path / "two").contacts
    assert (two["active"] == np.minimum(two["neighbours"], 2)).all()
    assert all(client in ids for ids, client in zip(two["active_ids"], two["client"], strict=True))


def snapshot(algorithm: Algorithm, prefix: str = "") -> dict[str, Any]:
    """A copy of an algorithm's state, including that of its reference."""
    found: dict[str, Any] = {}
    for name, value in vars(algorithm).items():
        if isinstance(value, torch.Tensor):
            found[prefix + name] = value.clone().numpy()
        elif isinstance(value, (np.ndarray, int, float)):
            found[prefix + name] = np.array(value)
        elif isinstance(value, Algorithm):
            found |= snapshot(value, f"{name}.")
    return found


EVERY_ALGORITHM = [
    *({"algorithm": {"kind": "rwsadmm", "variant": variant}} for variant in ("slack", "relay", "derived", "printed")),
    *({"algorithm": kind} for kind in ("fedavg", "walkman", "local", "ditto", "apfl", "pfedme", "per_fedavg")),
    {"algorithm": {"kind": "fedavg", "fine_tune": True}, "open_at": 0.3},
    *({"algorithm": kind, "model": "mlp"} for kind in ("fedper", "fedrep", "fedbabu", "fedrod", "fedala", "feddbe")),
    {"open_at": 0.3, "algorithm": {"kind": "rwsadmm", "eps": 0.01}},
]


@pytest.mark.parametrize("keys", EVERY_ALGORITHM)
def test_a_lost_exchange_changes_nothing_and_is_charged(small: Small, keys: dict[str, Any]) -> None:
    # A slow radio: everyone walks out of its range long before a model is through.
    scenario = small(
        learning=keys,
        clients={"mobility": {"kind": "waypoint", "speed_mps": [2.0, 3.0], "pause_s": [0.0, 0.0]}},
        radio={"kind": "disc", "range_m": 10.0, "rate_mbps": 0.0001},
        stop={"visits": 10},
    )
    simulation = Simulation(scenario)
    before = snapshot(simulation.learner.algorithm)
    summary = simulation.run()
    after = snapshot(simulation.learner.algorithm)
    assert summary["delivered"] == 0
    assert summary["active"] >= 10
    assert (summary["bytes_down"] > 0) == (keys.get("algorithm") != "local")
    assert summary["airtime_s"] > 1
    if simulation.learner.choice is None:
        assert summary["personal_test_acc_mean"] == summary["start_personal_test_acc_mean"]
    else:  # whoever is never reached trains alone
        assert summary["gain_over_alone"] == pytest.approx(0, abs=1e-12)
    assert before.keys() == after.keys()
    for name, value in before.items():
        assert (value == after[name]).all(), name


@pytest.mark.parametrize("keys", EVERY_ALGORITHM)
def test_only_delivered_clients_change(small: Small, keys: dict[str, Any]) -> None:
    scenario = small(
        learning=keys,
        clients={"mobility": {"kind": "waypoint", "speed_mps": [2.0, 3.0], "pause_s": [0.0, 0.0]}},
        radio={"kind": "disc", "range_m": 40.0, "rate_mbps": 0.004},
        stop={"visits": 25},
    )
    simulation = Simulation(scenario)
    algorithm = simulation.learner.algorithm
    if "printed" in str(keys):
        algorithm.models += 0.1 * torch.randn(algorithm.models.shape, generator=torch.Generator().manual_seed(0))
    states = [snapshot(algorithm)]
    rows: list[ContactRow] = []
    log = NoLog()
    log.contact = rows.append  # type: ignore[method-assign]
    simulation.start(log, watch=lambda ledger: states.append(snapshot(algorithm)))
    while len(rows) < 25:
        simulation.env.step()
    lost = empty = 0
    for row, before, after in zip(rows, states[:-1], states[1:], strict=True):
        changed = (before["models"] != after["models"]).any(axis=1)
        alone = (
            set()
            if simulation.learner.choice is None
            else set(np.flatnonzero(simulation.learner.choice.choice == ALONE))
        )
        assert set(np.flatnonzero(changed)) | alone == set(row.delivered_ids) | alone
        assert (after["participations"] - before["participations"]).sum() == row.delivered
        others = np.setdiff1d(np.arange(8), row.delivered_ids)
        for name, was in before.items():
            if row.delivered == 0:
                assert (after[name] == was).all(), name
            elif was.ndim and len(was) == 8:
                assert (after[name][others] == was[others]).all(), name
        lost += row.active - row.delivered
        empty += row.delivered == 0
    assert lost > 0
    assert empty > 0


def test_local_training_meets_the_same_clients_and_takes_the_same_steps(small: Small, tmp_path: Path) -> None:
    """With everyone together: `local` knows of no choice."""
    together = {"kind": "rwsadmm", "try_at": 0.0}
    ours = run(small(learning={"algorithm": together}, stop={"visits": 30}), tmp_path / "rwsadmm")
    alone = run(small(learning={"algorithm": "local"}, stop={"visits": 30}), tmp_path / "local")
    same(
        ours.contacts[["sim_time_s", "client", "active", "delivered", "gradient_steps"]],
        alone.contacts[["sim_time_s", "client", "active", "delivered", "gradient_steps"]],
    )
    assert alone.contacts[["bytes_down", "bytes_up"]].to_numpy().sum() == 0
    assert alone.contacts["token_step_norm"].max() == 0
    sized = [small(learning={"algorithm": a}, stop={"total_bytes": 60_000}) for a in (together, "local")]
    ours, alone = (run(s, tmp_path / s.learning.algorithm.kind[::-1]) for s in sized)
    assert list(ours.contacts["sim_time_s"]) == list(alone.contacts["sim_time_s"])


# --- the end -------------------------------------------------------------------------------------------------


def test_stops(small: Small, tmp_path: Path) -> None:
    timed = run(small(stop={"sim_time_s": 100.0}), tmp_path / "time")
    assert timed.summary["stopped_by"] == "sim_time_s"
    assert timed.summary["sim_time_s"] == 100.0
    assert timed.contacts["sim_time_s"].max() <= 100.0
    assert timed.track["sim_time_s"].max() == 100.0
    assert timed.clients["contact"].max() == len(timed.contacts)
    fedavg = {"algorithm": "fedavg"}
    sized = run(small(learning=fedavg, stop={"total_bytes": 50_000}), tmp_path / "bytes").contacts
    spent = (sized["bytes_down"] + sized["bytes_up"]).cumsum()
    assert spent.iloc[-1] >= 50_000 > spent.iloc[-2]
    silent = run(small(stop={"total_bytes": 500_000}), tmp_path / "silent").summary
    assert silent["stopped_by"] == "nothing_sent"  # once the tube is open there is nothing left to send
    assert silent["bytes_down"] + silent["bytes_up"] > 0.75 * 500_000
    together = {"kind": "rwsadmm", "try_at": 0.0}
    good = run(small(learning={"algorithm": together}, stop={"accuracy": 0.6, "visits": 200}), tmp_path / "good")
    assert good.summary["stopped_by"] == "accuracy"
    assert good.contacts["personal_test_acc_mean"].iloc[-1] >= 0.6 > good.contacts["personal_test_acc_mean"].iloc[-2]
    assert pd.notna(good.contacts["token_test_acc"].iloc[-1])  # the last visit is always evaluated


def test_a_run_that_diverges_stops_and_says_so(small: Small, tmp_path: Path) -> None:
    result = run(small(learning={"step_size": 1e38}), tmp_path / "run")
    assert result.summary["stopped_by"] == "diverged"
    assert result.summary["train_loss"] is None  # JSON has no nan
    assert "the loss was no number" in result.summary["divergence"]
    for table in (result.contacts, result.clients):
        assert not np.isinf(table.select_dtypes("number").to_numpy(dtype=float, na_value=0.0)).any()


@pytest.mark.parametrize("step_size", [1e3, 1e5, 1e8, 1e20])
def test_a_run_whose_loss_runs_away_stops(small: Small, tmp_path: Path, step_size: float) -> None:
    learning = {"step_size": step_size, "algorithm": {"kind": "rwsadmm", "trust": 1e9, "try_at": 0.0}}
    result = run(small(learning=learning), tmp_path / "run")
    assert result.summary["stopped_by"] == "diverged"
    assert re.match(
        r"at contact \d+ \(visit \d+\), with client \d (the loss|a model|the token|a dual|the token's step) was ",
        result.summary["divergence"],
    )
    assert len(result.visits) < 20


def test_positions_are_redrawn(small: Small, tmp_path: Path) -> None:
    mobility = {"kind": "redrawn", "every_visits": 5, "neighbours": 2, "neighbour_range_m": 80.0}
    result = run(small(clients={"mobility": mobility}), tmp_path / "run")
    times = result.visits["sim_time_s"].to_numpy()
    jumps = {t for t, rows in result.track[result.track["node"] == "client"].groupby("sim_time_s") if len(rows) == 16}
    assert jumps - {0.0, times[-1]} == {times[4], times[9], times[14]}


# --- impossible and doubtful worlds --------------------------------------------------------------------------

WALL = [[90, 40], [210, 40], [210, 160], [90, 160]]
COURT = [[100, 50], [200, 50], [200, 150], [100, 150]]


def test_clients_behind_walls(small: Small) -> None:
    terrain = {"obstacles": [{"polygon": WALL, "holes": [COURT]}]}
    vehicle, short = {"start": [10.0, 10.0]}, {"kind": "wifi_direct", "range_m": 50.0}
    inside, outside = [[150.0, 100.0]] * 3, [[250.0, 20.0]]
    enclosed = {"count": 3, "mobility": {"kind": "static", "positions": inside}}
    with pytest.raises(ScenarioError, match="out of the vehicle's reach"):
        Simulation(small(terrain=terrain, vehicle=vehicle, clients=enclosed, radio=short))
    mixed = {"count": 4, "mobility": {"kind": "static", "positions": inside + outside}}
    simulation = Simulation(small(terrain=terrain, vehicle=vehicle, clients=mixed, radio=short))
    assert any("cannot reach client 0" in w and "2 at" in w for w in simulation.world.warnings)
    summary = simulation.run()
    assert summary["visits"] == 20
    assert list(simulation.ledger.visits_to) == [0, 0, 0, 20]


def test_a_vehicle_that_starts_in_a_wall(small: Small) -> None:
    with pytest.raises(ScenarioError, match=r"vehicle\.start"):
        Simulation(small(vehicle={"start": [150.0, 100.0]}))
    everywhere = [{"polygon": [[-1, -1], [301, -1], [301, 201], [-1, 201]]}]
    with pytest.raises(ScenarioError, match="no open ground"):
        Simulation(small(terrain={"obstacles": everywhere}))


def test_warnings_about_the_contact_graph(small: Small) -> None:
    apart = {"count": 2, "mobility": {"kind": "static", "positions": [[10.0, 10.0], [290.0, 190.0]]}}
    positions = [[10.0, 10.0], [20.0, 10.0], [290.0, 190.0]]
    pair_and_one = {"count": 3, "mobility": {"kind": "static", "positions": positions}}
    stuck = Simulation(small(clients=pair_and_one, vehicle={"jump": 0.0})).world.warnings
    assert any("never be visited" in w and "jump = 0" in w for w in stuck)
    lonely = Simulation(small(clients=apart)).world.warnings
    assert any("nobody in radio range" in w for w in lonely)
    alone = Simulation(small(clients=apart, vehicle={"jump": 0.0}))
    assert not any("never be visited" in w for w in alone.world.warnings)
    alone.run()
    assert (alone.ledger.visits_to > 0).all()  # those without neighbours always jump
    together = {"count": 2, "mobility": {"kind": "static", "positions": [[10.0, 10.0], [20.0, 10.0]]}}
    assert not Simulation(small(clients=together, vehicle={"jump": 0.0})).world.warnings


def test_auto_takes_a_gpu_where_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert [choose_device(name).type for name in ("auto", "cuda", "cpu")] == ["cuda", "cuda", "cpu"]
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert choose_device("auto").type == "cpu"
    with pytest.raises(UserError, match="no CUDA device"):
        choose_device("cuda")


def test_an_impossible_layout(small: Small) -> None:
    with pytest.raises(ScenarioError, match="raise neighbour_range_m"):
        Simulation(small(clients={"mobility": {"kind": "redrawn", "neighbours": 7, "neighbour_range_m": 0.001}}))
