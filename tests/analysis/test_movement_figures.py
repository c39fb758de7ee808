"""docs/mobility.md: every mobility model has a section, a scenario that runs and a figure."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import shapely
from matplotlib.collections import PolyCollection

from fedmule.analysis.movement import draw_movement, movement_of
from fedmule.mobility.traces.trace import positions_at
from fedmule.simulator.scenario.clients import Clients
from fedmule.simulator.scenario.load import scenario_of
from fedmule.simulator.scenario.messages import kinds_of
from fedmule.simulator.streams import Streams
from fedmule.simulator.world import build_world

DOCS = Path(__file__).parents[2] / "docs"
MOVEMENTS = kinds_of(Clients, "mobility")
PAGE = (DOCS / "mobility.md").read_text(encoding="utf-8")
TABLES = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
VILLAGE = next(tomllib.loads(table) for table in TABLES if table.startswith("[terrain]"))
SECTIONS = dict(re.findall(r"^## (\w+)\n\n```toml\n(.*?)```", PAGE, re.DOTALL | re.MULTILINE))


def village(kind: str, count: int = 12) -> Any:
    return scenario_of({**VILLAGE, "clients": {"count": count, **tomllib.loads(SECTIONS[kind])}}, (), kind)


def test_every_model_has_its_section_and_its_row() -> None:
    assert set(SECTIONS) == set(MOVEMENTS)
    assert set(re.findall(r"^\| \[`(\w+)`\]\(#", PAGE, re.MULTILINE)) == set(MOVEMENTS)


@pytest.mark.parametrize("kind", sorted(set(MOVEMENTS) - {"trace", "contacts"}))
def test_the_scenario_of_a_section_moves_its_clients_around_the_village(kind: str) -> None:
    assert (DOCS / "mobility" / f"{kind}.png").stat().st_size > 5000
    scenario = village(kind, 6)
    trace = movement_of(scenario, 300.0)
    assert len(trace) == 6
    assert trace.end_s == 300
    lake = shapely.Polygon(scenario.terrain.obstacles[0].polygon)
    legs = trace.legs
    moved = (legs.x != legs.to_x) | (legs.y != legs.to_y)
    ends = np.stack([legs.x, legs.y, legs.to_x, legs.to_y], axis=1)[moved].reshape(-1, 2, 2)
    assert shapely.length(shapely.intersection(lake, shapely.linestrings(ends))).max(initial=0.0) < 1e-9
    positions = build_world(scenario, Streams(scenario.seed), {}).positions
    positions.advance(123.0)
    x, y = positions_at(trace, np.array([123.0]))
    assert positions.true(np.arange(6)) == pytest.approx(np.stack([x[:, 0], y[:, 0]], axis=1))


def test_the_figure_shows_terrain_and_paths() -> None:
    axes = draw_movement(village("patrol"), 60.0).axes[0]
    assert axes.get_xlim() == (0, 600)
    assert axes.get_ylim() == (0, 400)
    terrain = [drawn for drawn in axes.collections if isinstance(drawn, PolyCollection)]
    assert sum(len(drawn.get_paths()) for drawn in terrain) == 3
    assert len(axes.collections) == len(terrain) + 2
