"""Complete runs in random worlds: nobody goes through a wall, off the terrain, back in time or too fast."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import shapely

from fedmule.analysis import load_run
from fedmule.mobility.trajectory import position_at
from fedmule.radio.link import linked
from fedmule.simulator.engine import Simulation
from fedmule.simulator.runs.run import run_scenario
from fedmule.simulator.scenario import Scenario
from fedmule.simulator.scenario.rules import broken_rules

MOBILITIES: list[dict[str, Any]] = [
    {"kind": "static"},
    {"kind": "waypoint", "pause_s": [0.0, 5.0], "speed_mps": [0.5, 3.0]},
    {"kind": "squads", "squads": 3, "pause_s": [0.0, 60.0]},
]


def random_world(seed: int) -> Scenario:
    draw = np.random.default_rng(seed)
    size = draw.uniform(150, 500, 2)
    obstacles, surfaces = [], []
    for _ in range(draw.integers(2, 12)):
        corners = draw.integers(3, 8)
        angle = 2 * np.pi * (np.arange(corners) + draw.uniform(-0.3, 0.3, corners)) / corners
        radius = draw.uniform(5, 60, corners)
        around = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)
        polygon = (draw.uniform(0, size) + around).tolist()
        stops, loss = bool(draw.random() < 0.7), float(draw.choice([0.0, 8.0, 40.0]))
        obstacles.append({"polygon": polygon, "stops_movement": stops, "radio_loss_db": loss})
        if not stops:
            surfaces.append({"polygon": polygon, "speed_factor": float(draw.uniform(0.3, 1.0))})
    return Scenario.model_validate(
        {
            "name": "random",
            "seed": seed,
            "terrain": {"size_m": size.tolist(), "obstacles": obstacles, "surfaces": surfaces},
            "vehicle": {
                "speed_mps": 8.0,
                "approach_m": float(draw.uniform(1, 10)),
                "contact": ("link", "approach")[seed // 6 % 2],
            },
            "clients": {"count": 9, "mobility": MOBILITIES[seed % 3], "report_error_m": float(draw.choice([0, 3]))},
            "radio": {"kind": "disc", "range_m": 60.0, "rate_mbps": 0.05} if seed % 2 else "wifi_direct",
            "learning": {"dataset": {"samples": [5, 20]}, "local_steps": 1},
            "stop": {"visits": 15},
        }
    )


@pytest.mark.parametrize("seed", range(18))
def test_a_random_world_obeys(seed: int, tmp_path: Path) -> None:
    scenario = random_world(seed)
    assert not broken_rules(scenario)
    run_scenario(scenario, str(tmp_path / "run"))
    run = load_run(tmp_path / "run")
    solid = [shapely.Polygon(o.polygon) for o in scenario.terrain.obstacles if o.stops_movement]
    walls = shapely.union_all(solid)
    fastest = {"vehicle": 8.0, "client": 3.0}
    for (node, _), rows in run.track.groupby(["node", "id"]):
        t, xy = rows["sim_time_s"].to_numpy(), rows[["x_m", "y_m"]].to_numpy()
        seconds, metres = np.diff(t), np.hypot(*np.diff(xy, axis=0).T)
        assert (seconds >= 0).all()
        assert (metres <= fastest[str(node)] * seconds + 1e-6).all()
        assert (xy >= -1e-9).all()
        assert (xy <= np.array(scenario.terrain.size_m) + 1e-9).all()
        ways = shapely.linestrings(np.stack([xy[:-1], xy[1:]], axis=1)[metres > 0])
        assert shapely.length(shapely.intersection(walls, ways)).max(initial=0.0) < 1e-9
    world = Simulation(scenario).world
    for visit in run.contacts.itertuples():
        rows = run.track[(run.track["node"] == "client") & (run.track["id"] == visit.client)]
        arrived = np.array([visit.sim_time_s - visit.contact_s])
        there = position_at(rows["sim_time_s"].to_numpy(), rows[["x_m", "y_m"]].to_numpy(), arrived)[0]
        here = np.array([visit.vehicle_x_m, visit.vehicle_y_m])
        if scenario.vehicle.contact == "approach" and not visit.in_passing:
            assert np.hypot(*(there - here)) <= scenario.vehicle.approach_m + 1e-6
        else:
            nearly = there + 1e-9 * (here - there)  # a contact in passing begins at the very edge of the range
            assert linked(world.radio, world.obstruction, here, nearly[None])[0]
