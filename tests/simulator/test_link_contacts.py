"""A contact begins with the link: where the vehicle stops, what it knows, and how it searches."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from making import WifiDirect, Zigbee
from short_runs import run

from fedmule.mobility.trajectory import Way, position_at
from fedmule.radio.channel import Load
from fedmule.radio.link import link_between, linked, rates_bps
from fedmule.radio.obstruction import Obstruction
from fedmule.radio.stopping_point import soonest
from fedmule.simulator.engine import Simulation
from fedmule.simulator.scenario import Scenario

Small = Callable[..., Scenario]


def standing(count: int, size: float, **vehicle: Any) -> dict[str, Any]:
    """Clients that stand about, whose reports are 15 m off and come every 300 s."""
    random = np.random.default_rng(1)
    positions = random.uniform(10, size - 10, (count, 2)).tolist()
    return {
        "terrain": {"size_m": [size, size], "obstacles": []},
        "clients": {
            "count": count, "mobility": {"kind": "static", "positions": positions},
            "report_period_s": 300.0, "report_error_m": 15.0,
        },
        "vehicle": {"in_passing": False, "walk": "oldest_first", **vehicle},
        "radio": "wifi_direct",
        "stop": {"visits": 40},
    }  # fmt: skip


def test_forty_visits_to_standing_clients_do_not_wait_for_fixes(small: Small) -> None:
    """With fixes 15 m off every five minutes the rule by distance takes hours, the link as long as exact fixes."""
    by_link = Simulation(small(**standing(20, 500.0))).run()
    by_distance = Simulation(small(**standing(20, 500.0, contact="approach"))).run()
    exact = standing(20, 500.0, contact="approach")
    exact["clients"]["report_error_m"] = 0.0
    with_exact_fixes = Simulation(small(**exact)).run()
    assert by_distance["sim_time_s"] > 5 * by_link["sim_time_s"]
    assert by_link["sim_time_s"] < 1.05 * with_exact_fixes["sim_time_s"]
    assert by_link["missed"] == 0


@pytest.mark.parametrize("radio", [WifiDirect(), Zigbee()])
@pytest.mark.parametrize("size", [1, 1_000, 100_000, 10_000_000])
def test_stops_where_the_exchange_ends_soonest(radio: Any, size: int) -> None:
    """Against trying every metre of the way."""
    start, client, speed = np.array([0.0, 0.0]), np.array([radio.range_m * 0.98, 3.0]), 7.0
    length = float(np.hypot(*client))
    way = Way(np.array([0.0, length / speed]), np.stack([start, client]))
    load = Load(np.array([size]), np.array([2.0]), np.array([size]))
    last_s = (length - 5.0) / speed
    link = link_between(radio, Obstruction(), way, Way.standing(client), 0.0)
    stop_s = soonest(link, load, radio.duty_cycle, 0.0, last_s)

    def end_s(t: float) -> float:
        rate = rates_bps(radio, np.array([np.hypot(*(way.at(t) - client))]), np.zeros(1))[0]
        return float(t + 2.0 + 16.0 * size / rate)

    tried = np.linspace(0.0, last_s, 4000)
    best = min(end_s(t) for t in tried)
    assert 0.0 <= stop_s <= last_s
    assert end_s(stop_s) <= best + 1e-5
    if size == 1:
        assert stop_s == 0.0
    if size == 10_000_000:
        assert stop_s > 0.0


def test_every_visit_begins_over_a_link_and_not_nearer_than_needed(small: Small, tmp_path: Path) -> None:
    scenario = small(vehicle={"in_passing": False, "approach_m": 3.0}, radio="zigbee", stop={"visits": 40})
    result = run(scenario, tmp_path / "run")
    contacts, world = result.contacts, Simulation(scenario).world
    distances = []
    for row in contacts.itertuples():
        track = result.track[(result.track["node"] == "client") & (result.track["id"] == row.client)]
        began = np.array([row.sim_time_s - row.contact_s])
        there = position_at(track["sim_time_s"].to_numpy(), track[["x_m", "y_m"]].to_numpy(), began)
        here = np.array([row.vehicle_x_m, row.vehicle_y_m])
        assert linked(world.radio, world.obstruction, here, there)[0]
        distances.append(float(np.hypot(*(there[0] - here))))
    assert max(distances) > 3.0  # it does not drive up to a client that it hears well
    assert not contacts["in_passing"].any()


def test_a_moving_target_that_it_hears_is_not_lost_for_want_of_a_report(small: Small) -> None:
    """Clients walk faster than reports can follow, but within range the vehicle needs none."""
    walking = {"kind": "waypoint", "speed_mps": [1.0, 2.0], "pause_s": [0.0, 0.0]}
    clients = {"count": 6, "mobility": walking, "report_period_s": 600.0, "report_error_m": 30.0}
    scenario = small(
        terrain={"size_m": [150, 150], "obstacles": []},
        clients=clients,
        vehicle={"in_passing": False, "speed_mps": 8.0, "approach_m": 2.0},
        radio={"kind": "disc", "range_m": 220.0},
        stop={"visits": 30},
    )
    summary = Simulation(scenario).run()
    assert summary["missed"] == 0
    assert summary["travel_s"] < 1.0  # it hears everybody from everywhere


def test_search_decides_what_happens_where_nobody_is_heard(small: Small, tmp_path: Path) -> None:
    """A client drives away at a steady pace; reports every 200 s are old when the vehicle arrives."""
    rows = ["node,t,x,y", "0,0,600,20", "0,2000,600,3020"]

    (tmp_path / "trace.csv").write_text("\n".join(rows) + "\n")

    def summary(search: str) -> Any:
        scenario = small(
            terrain={"size_m": [1200, 5000], "obstacles": []},
            clients={
                "count": 1, "mobility": {"kind": "trace", "path": str(tmp_path / "trace.csv")},
                "report_period_s": 200.0, "report_error_m": 0.0,
            },
            vehicle={
                "search": search, "in_passing": False, "start": [20.0, 300.0], "speed_mps": 4.0, "give_up_s": 2000.0,
            },
            radio={"kind": "disc", "range_m": 60.0},
            stop={"sim_time_s": 1500.0, "visits": 1},
        )  # fmt: skip
        return Simulation(scenario).run()

    wait, ahead, give_up = (summary(search) for search in ("wait", "ahead", "give_up"))
    assert wait["missed"] == ahead["missed"] == 0
    assert ahead["visits"] == 1
    assert ahead["sim_time_s"] < wait["sim_time_s"]
    assert give_up["missed"] >= 1


def test_the_rule_by_distance_is_kept(small: Small, tmp_path: Path) -> None:
    result = run(small(vehicle={"contact": "approach", "approach_m": 3.0}, stop={"visits": 20}), tmp_path / "run")
    visits = result.contacts[~result.contacts["in_passing"]]
    for row in visits.itertuples():
        track = result.track[(result.track["node"] == "client") & (result.track["id"] == row.client)]
        began = np.array([row.sim_time_s - row.contact_s])
        there = position_at(track["sim_time_s"].to_numpy(), track[["x_m", "y_m"]].to_numpy(), began)[0]
        assert np.hypot(*(there - np.array([row.vehicle_x_m, row.vehicle_y_m]))) <= 3.0 + 1e-6
