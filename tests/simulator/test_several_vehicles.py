"""Several vehicles: each walks on its own, they share clients without getting in each other's way, and they meet."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import shapely
from numpy.typing import NDArray
from short_runs import run, same

from fedmule.analysis import Run
from fedmule.mobility.trajectory import position_at
from fedmule.radio.link import HAIR_S, linked
from fedmule.simulator.engine import Simulation
from fedmule.simulator.errors import ScenarioError
from fedmule.simulator.runs.columns import MeetingRow
from fedmule.simulator.runs.folder import NoLog
from fedmule.simulator.scenario import Scenario
from fedmule.simulator.scenario.rules import broken_rules
from fedmule.simulator.streams import Streams
from fedmule.simulator.world import build_obstruction, build_radio, build_terrain

Small = Callable[..., Scenario]
DISC = {"kind": "disc", "range_m": 60.0, "rate_mbps": 0.05, "setup_s": 1.0}
THREE = {"count": 3, "walk": "oldest_first"}
MLP = {"kind": "mlp", "hidden": [6]}
BY_DISTANCE = {"contact": "approach", "in_passing": False}

# The small scenario's visits, and the ends of every sixth, from before there were several vehicles.
CLIENTS = [0, 2, 0, 5, 1, 2, 1, 2, 3, 1, 2, 1, 0, 1, 3, 2, 0, 3, 2, 0]
TIMES_S = [11.98383, 57.426887, 83.369724, 116.940533]

PRINTED = {"kind": "rwsadmm", "variant": "printed"}


def position(run: Run, vehicle: int, t: Any) -> NDArray[np.float64]:
    rows = run.track[(run.track["node"] == "vehicle") & (run.track["id"] == vehicle)]
    return position_at(rows["sim_time_s"].to_numpy(), rows[["x_m", "y_m"]].to_numpy(), np.atleast_1d(t))


# --- one vehicle is as before ---------------------------------------------------------------------------------


def test_a_single_vehicle_does_what_it_always_did(small: Small, tmp_path: Path) -> None:
    together = {"kind": "rwsadmm", "try_at": 0.0}
    then = {
        "clients": {"report_stagger": False},
        "learning": {"algorithm": together},
        "radio": {"kind": "wifi_direct", "reference_loss_db": 46.6777},
    }
    result = run(small(vehicle=BY_DISTANCE, **then), tmp_path / "run")
    assert result.contacts["client"].tolist() == CLIENTS
    assert result.contacts["sim_time_s"].to_numpy()[::6] == pytest.approx(TIMES_S, abs=1e-5)
    start = Simulation(small()).world.starts[0].tolist()
    other = run(small(vehicle={**BY_DISTANCE, "meeting": "none", "start": [start]}, **then), tmp_path / "other")
    for table in ("contacts", "clients", "track", "graph"):
        same(getattr(result, table), getattr(other, table))
    assert set(result.contacts["vehicle"]) == {0}
    assert result.meetings.empty
    assert result.summary["bytes_between"] == 0


def test_the_first_vehicle_draws_as_if_it_were_alone(small: Small) -> None:
    one, two = (Simulation(small(vehicle={"count": count, "start": [20.0, 20.0]})) for count in (1, 2))
    for simulation in (one, two):
        simulation.start()
    assert [one.vehicles[0].choose() for _ in range(10)] == [two.vehicles[0].choose() for _ in range(10)]
    assert [two.vehicles[0].choose() for _ in range(10)] != [two.vehicles[1].choose() for _ in range(10)]


# --- several --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("meeting", ["stop", "drive_on"])
def test_same_seed_same_bits(small: Small, tmp_path: Path, meeting: str) -> None:
    scenario = small(vehicle={**THREE, "meeting": meeting}, radio=DISC)
    first, second = run(scenario, tmp_path / "a"), run(scenario, tmp_path / "b")
    for table in ("contacts", "clients", "track", "graph", "meetings"):
        same(getattr(first, table), getattr(second, table))
    assert len(first.meetings)


def test_the_log_adds_up(small: Small, tmp_path: Path) -> None:
    result = run(small(vehicle=THREE, radio=DISC, stop={"visits": 45}), tmp_path / "run")
    contacts, meetings, summary = result.contacts, result.meetings, result.summary
    visits = result.visits
    assert list(visits["visit"]) == list(range(1, 46))  # of all together
    assert list(contacts["contact"]) == list(range(1, len(contacts) + 1))
    assert sorted(contacts["vehicle"].unique()) == [0, 1, 2]
    assert contacts["sim_time_s"].is_monotonic_increasing
    for _, rows in visits.groupby("vehicle"):
        assert np.allclose((rows["travel_s"] + rows["contact_s"]).cumsum(), rows["sim_time_s"])
    assert summary["meetings"] == len(meetings) > 5
    assert summary["bytes_between"] == meetings["bytes"].sum() > 0
    before_last = meetings["sim_time_s"] <= contacts["sim_time_s"].iloc[-1]
    assert contacts["bytes_between"].sum() == meetings["bytes"][before_last].sum()
    assert summary["airtime_s"] == pytest.approx(contacts["airtime_s"].sum() + meetings["airtime_s"].sum())
    assert set(result.track[result.track["node"] == "vehicle"]["id"]) == {0, 1, 2}
    assert result.track["sim_time_s"].max() == pytest.approx(summary["sim_time_s"])


def test_nobody_is_served_by_two_at_once(small: Small, tmp_path: Path) -> None:
    row = {"count": 6, "mobility": {"kind": "static", "positions": [[20.0 + 50 * i, 20.0] for i in range(6)]}}
    result = run(small(vehicle={"count": 4}, clients=row, radio=DISC, stop={"visits": 60}), tmp_path / "run")
    contacts = result.contacts
    begin, end = contacts["sim_time_s"] - contacts["contact_s"], contacts["sim_time_s"]
    for i, j in combinations(range(len(contacts)), 2):
        if begin[i] < end[j] - 1e-9 and begin[j] < end[i] - 1e-9:
            assert not set(contacts["active_ids"][i]) & set(contacts["active_ids"][j])
    assert (contacts["active"] < contacts["neighbours"]).any()  # somebody in range was busy
    alone = {"count": 1, "mobility": {"kind": "static"}}
    shared = run(small(vehicle={"count": 2}, clients=alone, radio=DISC), tmp_path / "alone").contacts
    assert len(shared) == 20  # they take turns
    assert set(shared["vehicle"]) == {0, 1}


@pytest.mark.parametrize("walk", ["degree", "nearest_unvisited", "tour"])
@pytest.mark.parametrize("meeting", ["stop", "drive_on"])
def test_no_meeting_is_missed_and_none_is_made_up(small: Small, tmp_path: Path, walk: str, meeting: str) -> None:
    """At no moment are two in range, both free, one with news, and not in a meeting."""
    vehicle = {"count": 3, "walk": walk, "meeting": meeting, "speed_mps": 6.0}
    scenario = small(vehicle=vehicle, radio=DISC, learning={"open_at": 1.0}, stop={"visits": 40})
    result = run(scenario, tmp_path / "run")
    radio = build_radio(scenario, Streams(0), {})
    obstruction = build_obstruction(scenario, build_terrain(scenario))
    contacts, meetings = result.contacts, result.meetings
    under_way_s = contacts["contact_s"].max() + meetings["meeting_s"].max()  # what the end cut off is not in the log
    t = np.arange(0.0, contacts["sim_time_s"].iloc[-1] - under_way_s, 0.02)
    busy = np.zeros((3, len(t)), dtype=bool)
    for row in result.visits.itertuples():  # in passing a vehicle is free
        busy[row.vehicle] |= (t > row.sim_time_s - row.contact_s - 1e-9) & (t < row.sim_time_s + 1e-9)
    for row in meetings.itertuples():
        during = (t > row.sim_time_s - row.meeting_s - 2 * HAIR_S) & (t < row.sim_time_s + 1e-9)
        busy[row.a] |= during
        busy[row.b] |= during
    for a, b in combinations(range(3), 2):
        ours = meetings[(meetings["a"] == a) & (meetings["b"] == b)]
        learnt = contacts[contacts["vehicle"].isin([a, b]) & (contacts["delivered"] > 0)]
        news = np.sort(learnt["sim_time_s"].to_numpy())
        began = np.sort((ours["sim_time_s"] - ours["meeting_s"]).to_numpy())
        for begin, end in zip(began, np.sort(ours["sim_time_s"]), strict=True):  # learnt in passing during a meeting
            news = news[(news < begin) | (news > end)]
        last_news = np.append(-np.inf, news)[np.searchsorted(news, t - 1e-6, side="right")]
        last_meeting = np.append(-1.0, began)[np.searchsorted(began, t + 2 * HAIR_S, side="right")]
        heard = linked(radio, obstruction, position(result, a, t), position(result, b, t))
        missed = heard & ~busy[a] & ~busy[b] & (last_news > last_meeting)
        assert not missed.any(), t[missed][:5]
        for row in ours.itertuples():
            at = row.sim_time_s - row.meeting_s + 1e-9  # rounding must not put it before the meeting
            assert linked(radio, obstruction, position(result, a, at), position(result, b, at))[0]
            assert [row.a_x_m, row.a_y_m] == pytest.approx(position(result, a, at)[0].tolist(), abs=1e-6)
            if meeting == "stop":
                for v in (a, b):
                    stood = position(result, v, np.linspace(at, row.sim_time_s, 5))
                    assert np.ptp(stood, axis=0) == pytest.approx([0, 0], abs=1e-9)
        assert (np.diff(began) > 0).all()
    assert len(meetings) > 8


def test_meetings_break_where_vehicles_drive_on(small: Small, tmp_path: Path) -> None:
    """Tokens too large for the time in range: what was sent is charged, and nothing else has happened."""
    clients = {
        "count": 2,
        "mobility": {"kind": "static", "positions": [[20.0, 20.0], [280.0, 20.0]]},
        "report_error_m": 0,
    }
    keys = {"count": 2, "meeting": "drive_on", "walk": "tour", "start": [[20.0, 20.0], [280.0, 20.0]]}
    radio = {"kind": "disc", "range_m": 30.0, "rate_mbps": 0.008, "setup_s": 0.5, "latency_s": 0.0}
    scenario = small(vehicle=keys, clients=clients, radio=radio, learning={"open_at": 1.0}, stop={"visits": 8})
    result = run(scenario, tmp_path / "run")
    lost = result.meetings[~result.meetings["delivered"]]
    assert len(lost)
    size = 4 * (60 * 10 + 10)
    for row in lost.itertuples():
        gap = position(result, 0, row.sim_time_s)[0] - position(result, 1, row.sim_time_s)[0]
        assert np.hypot(*gap) == pytest.approx(30.0, abs=1e-4)  # it broke as they went out of range
        assert 0 < row.bytes < 2 * size
        assert row.bytes == pytest.approx((row.meeting_s - 0.5) * 1000, abs=2)  # a kilobyte a second
        assert row.airtime_s == pytest.approx(row.meeting_s - 0.5)
    assert result.summary["meetings_delivered"] == result.meetings["delivered"].sum()

    simulation, merged = Simulation(scenario), []
    carried = simulation.learner.carried
    carried.meet = lambda a, b: merged.append((a, b))  # type: ignore[method-assign, func-returns-value]
    assert simulation.run()["meetings"] == len(result.meetings)
    assert len(merged) == result.meetings["delivered"].sum()


def test_the_world_does_not_depend_on_what_is_learnt(small: Small, tmp_path: Path) -> None:
    """As long as nobody chooses to train alone."""
    together = {"kind": "rwsadmm", "try_at": 0.0}
    runs = [
        run(small(vehicle=THREE, radio=DISC, learning=learning), tmp_path / str(i))
        for i, learning in enumerate(
            [{"algorithm": together}, {"algorithm": together, "step_size": 0.001}, {"algorithm": "local"}]
        )
    ]
    columns = ["sim_time_s", "client", "vehicle", "active", "delivered", "gradient_steps"]
    for other in runs[1:]:
        same(runs[0].contacts[columns], other.contacts[columns])
        same(runs[0].meetings.drop(columns="bytes"), other.meetings.drop(columns="bytes"))
        same(runs[0].track, other.track)
    assert runs[2].summary["bytes_between"] == 0  # training alone is charged nothing
    assert runs[0].contacts["train_loss"].iloc[-1] != runs[1].contacts["train_loss"].iloc[-1]


def test_no_meetings_once_clients_train_on_their_own_or_when_there_are_to_be_none(small: Small, tmp_path: Path) -> None:
    opened = run(small(vehicle=THREE, radio=DISC, learning={"open_at": 0.5}, stop={"visits": 40}), tmp_path / "opened")
    opening_s = opened.visits["sim_time_s"].iloc[19]
    assert len(opened.meetings)
    assert (opened.meetings["sim_time_s"] - opened.meetings["meeting_s"]).max() <= opening_s
    assert run(small(vehicle={**THREE, "meeting": "none"}, radio=DISC), tmp_path / "none").meetings.empty


def test_vehicles_keep_off_walls_and_within_their_speed(small: Small, tmp_path: Path) -> None:
    scenario = small(vehicle={"count": 4, "meeting": "drive_on"}, stop={"visits": 60})
    result = run(scenario, tmp_path / "run")
    walls = shapely.union_all([shapely.Polygon(o.polygon) for o in scenario.terrain.obstacles])
    for v in range(4):
        rows = result.track[(result.track["node"] == "vehicle") & (result.track["id"] == v)]
        xy, t = rows[["x_m", "y_m"]].to_numpy(), rows["sim_time_s"].to_numpy()
        assert not shapely.LineString(xy).intersects(walls)
        assert (np.hypot(*np.diff(xy, axis=0).T) <= 10.0 * np.diff(t) + 1e-6).all()
        served = result.visits[result.visits["vehicle"] == v]
        stood = served[["vehicle_x_m", "vehicle_y_m"]].to_numpy()
        for share in (0.0, 0.5, 1.0):
            at = (served["sim_time_s"] - share * served["contact_s"]).to_numpy()
            assert np.allclose(position(result, v, at), stood, atol=1e-6)


def test_runs_end_for_all_vehicles(small: Small, tmp_path: Path) -> None:
    # Two contacts that end at the same moment: the second is one visit too many.
    corners = {"count": 2, "mobility": {"kind": "static", "positions": [[20.0, 20.0], [280.0, 20.0]]}}
    twins = {"count": 2, "start": [[20.0, 20.0], [280.0, 20.0]], "walk": "oldest_first", "meeting": "none"}
    same = {"algorithm": {"kind": "rwsadmm", "centre": 0.5}}  # nobody computes longer than the other
    odd = small(vehicle=twins, clients={**corners, "report_error_m": 0}, radio=DISC, stop={"visits": 1}, learning=same)
    assert run(odd, tmp_path / "odd").summary["visits"] == 1
    assert (
        run(odd.model_copy(update={"stop": odd.stop.model_copy(update={"visits": 2})}), tmp_path / "even")
        .contacts["sim_time_s"]
        .nunique()
        == 1
    )
    timed = run(small(vehicle=THREE, stop={"sim_time_s": 90.0}), tmp_path / "timed")
    assert (timed.summary["stopped_by"], timed.summary["sim_time_s"]) == ("sim_time_s", 90.0)
    sized = run(small(vehicle=THREE, radio=DISC, stop={"total_bytes": 60_000}), tmp_path / "sized").summary
    assert sized["stopped_by"] == "total_bytes"
    assert sized["bytes_down"] + sized["bytes_up"] + sized["bytes_between"] >= 60_000


# --- where they start, and impossible keys --------------------------------------------------------------------


def test_starts(small: Small) -> None:
    spread = Simulation(small(vehicle={"count": 4})).world
    assert len({tuple(xy) for xy in spread.starts.round(3).tolist()}) == 4
    assert (spread.terrain.area_of(spread.starts) == 0).all()
    assert np.array_equal(Simulation(small(vehicle={"count": 2, "start": [5, 6]})).world.starts, [[5, 6], [5, 6]])
    listed = small(vehicle={"count": 2, "start": [[5, 6], [200.0, 20.0]]})
    assert np.array_equal(Simulation(listed).world.starts, [[5, 6], [200, 20]])
    with pytest.raises(ScenarioError, match=r"vehicle\.start\[1\] = \[150\.0, 100\.0\]: lies in an obstacle"):
        Simulation(small(vehicle={"count": 2, "start": [[5, 6], [150.0, 100.0]]}))
    court = [[125, 65], [175, 65], [175, 135], [125, 135]]
    wall = {"polygon": [[120, 60], [180, 60], [180, 140], [120, 140]], "holes": [court]}
    with pytest.raises(ScenarioError, match=r"vehicle\.start\[1\].*same open area"):
        Simulation(small(terrain={"obstacles": [wall]}, vehicle={"count": 2, "start": [[5, 6], [150.0, 100.0]]}))


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"vehicle": {"start": [[5, 6], [7, 8], [9, 9]]}}, "vehicle.start"),
        ({"learning": {"server": "star", "active": 2}}, "vehicle.count"),
        ({"learning": {"algorithm": {"kind": "rwsadmm", "token": "neighbourhood"}}}, "learning.algorithm.token"),
        ({"learning": {"algorithm": PRINTED}}, "learning.algorithm.variant"),
        (
            {"learning": {"algorithm": {"kind": "local", "reference": PRINTED}}},
            "learning.algorithm.reference.variant",
        ),
        ({"clients": {"mobility": {"kind": "redrawn", "neighbours": 2}}}, "vehicle.count"),
    ],
)
def test_keys_that_exclude_several_vehicles(small: Small, changes: dict[str, Any], key: str) -> None:
    changes = {**changes, "vehicle": {"count": 2, **changes.get("vehicle", {})}}
    assert [problem.key for problem in broken_rules(small(**changes))] == [key]


@pytest.mark.parametrize(
    "algorithm",
    [
        *("fedavg", "ditto", "apfl", "pfedme", "per_fedavg", "ifca", "walkman", "local"),
        *("fedper", "fedrep", "fedbabu", "fedrod", "fedala", "feddbe"),
        {"kind": "fedavg", "fine_tune": True, "token_mean": 0.5, "fine_tune_step_size": 0.05},
        *({"kind": "fedex", "mode": mode} for mode in ("sync", "async")),
    ],
)
def test_every_algorithm_can_be_carried_by_several(small: Small, algorithm: Any) -> None:
    rows: list[MeetingRow] = []
    log = NoLog()
    log.meeting = rows.append  # type: ignore[method-assign]
    clients = {"training": "between_contacts"} if "mode" in algorithm else {}
    learning = {"algorithm": algorithm, "model": MLP}
    summary = Simulation(small(vehicle=THREE, radio=DISC, learning=learning, clients=clients)).run(log)
    assert summary["stopped_by"] == "visits"
    assert any(row.delivered for row in rows)
    assert np.isfinite(summary["token_test_acc"])
    assert pd.notna(summary["personal_test_acc_mean"])
