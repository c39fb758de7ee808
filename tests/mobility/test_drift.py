"""Currents: circles in one eddy, no divergence, no flow ashore; and how far clients drift."""

import numpy as np
import pytest
import shapely
from every_model import sampled
from hypothesis import given, settings
from hypothesis import strategies as st
from making import Drift
from random_terrain import polygon_lists, terrain_of
from test_movement import trace

from fedmule.mobility.models.current import Current
from fedmule.mobility.models.movement import random_positions
from fedmule.mobility.terrain import Obstacle, Terrain
from fedmule.simulator.streams import Streams

SEA = Terrain((1000.0, 1000.0))
ISLAND = shapely.box(300, 300, 500, 450)
BY_AN_ISLAND = Terrain((1000.0, 1000.0), [Obstacle(ISLAND)])


def drift(terrain=SEA, count=300, **keys):
    return Drift(terrain, count, Streams(2).draw("mobility"), **keys)


@pytest.mark.parametrize("sense", [1.0, -1.0])
def test_in_one_eddy_clients_circle_at_the_known_rate(sense):
    """For ψ = A exp(−r²/2a²) clients turn by A/a² exp(−r²/2a²) per second; fastest at r = a, to the left for A > 0."""
    middle, a, speed = np.array([500.0, 500.0]), 60.0, 0.5
    current = Current(SEA, middle[None], np.array([sense]), a, speed)
    amplitude = speed * a * np.exp(0.5)
    radius = np.array([5.0, 30.0, 60.0, 100.0, 150.0])
    assert np.hypot(*current.velocity((middle + np.array([a, 0.0]))[None])[0]) == pytest.approx(speed, rel=1e-3)
    xy = middle + np.stack([radius, 0 * radius], axis=1)
    step_s = 0.1 * a / speed
    for _ in range(100):
        xy = current.drifted(xy, step_s)
    turn = sense * amplitude / a**2 * np.exp(-(radius**2) / (2 * a**2)) * 100 * step_s
    expected = middle + radius[:, None] * np.stack([np.cos(turn), np.sin(turn)], axis=1)
    assert xy == pytest.approx(expected, abs=0.5)
    assert np.hypot(*(xy - middle).T) == pytest.approx(radius, rel=1e-3)


@pytest.mark.parametrize("terrain", [SEA, BY_AN_ISLAND], ids=["sea", "island"])
def test_the_stream_function_is_constant_along_a_drift(terrain):
    model = drift(terrain)
    current = model.current
    positions = sampled(model, [0.0, 5000.0, 20_000.0])
    before = current.stream(positions[0])
    scale = np.abs(before).max()
    for after in positions[1:]:
        change = np.abs(current.stream(after) - before) / scale
        assert np.median(change) < 1e-3
        assert change.max() < 0.02
    assert np.median(np.hypot(*(positions[1] - positions[0]).T)) > 50


@settings(max_examples=20)
@given(polygon_lists, st.integers(0, 10**6))
def test_the_current_is_divergence_free_and_crosses_no_shore(polygons, seed):
    terrain, rng = terrain_of(polygons), np.random.default_rng(seed)
    current = Current(terrain, rng.uniform((0, 0), (50, 40), (4, 2)), np.array([1.0, -1.0, 1.0, -1.0]), 12.0, 1.0)
    draw = Streams(seed).draw("mobility")
    xy = random_positions(terrain, draw, np.arange(50), np.zeros(50, dtype=np.int64))
    h = 1e-5
    slope = [(current.stream(xy + step) - current.stream(xy - step)) / (2 * h) for step in h * np.eye(2)]
    expected = np.stack([slope[1], -slope[0]], axis=1)
    error = np.abs(current.velocity(xy) - expected).max(axis=1)
    assert (error < 1e-4).mean() > 0.9  # a few lie where two shores are equally near and it has a bend
    edges = shapely.get_coordinates(terrain.areas[0].exterior)
    on_shore = (edges[:-1] + edges[1:]) / 2
    assert np.abs(current.stream(on_shore)).max() < 1e-9
    assert np.hypot(*current.velocity(on_shore).T).max() < 1e-3
    assert np.hypot(*current.velocity(xy).T).max() < 1.05


def test_the_strongest_current_has_the_given_speed():
    rng = np.random.default_rng(0)
    for radius_m in (30.0, 150.0, 600.0):
        current = drift(eddy_m=radius_m, speed_mps=0.7).current
        speed = np.hypot(*current.velocity(rng.uniform(0, 1000, (40_000, 2))).T)
        assert speed.max() == pytest.approx(0.7, rel=0.02)


def test_moored_clients_stay_and_the_others_drift():
    model = drift(count=200, moored=0.3)
    assert model.moored.sum() == 60
    positions = sampled(model, [0.0, 100.0, 3000.0])
    moved = np.hypot(*(positions[2] - positions[0]).T)
    assert (moved[model.moored] == 0).all()
    assert (moved[~model.moored] > 1).mean() > 0.8
    for times, xy in trace(drift(count=10, moored=1.0), until=100.0):
        assert times[-1] == 100
        assert (xy == xy[0]).all()


def test_turbulence_spreads_by_two_k_t():
    still = drift(Terrain((1e5, 1e5)), 3000, eddies=1, eddy_m=100.0, speed_mps=0.5, diffusion_m2ps=0.8)
    positions = sampled(still, [0.0, 2000.0])
    moved = positions[1] - positions[0]
    assert moved.var(axis=0) == pytest.approx([2 * 0.8 * 2000] * 2, rel=0.1)
    assert moved.mean(axis=0) == pytest.approx([0, 0], abs=4)


def test_a_uniform_crowd_stays_uniform_and_off_the_island():
    model = drift(BY_AN_ISLAND, 2000, diffusion_m2ps=2.0, eddies=4)
    water = BY_AN_ISLAND.areas[0]
    for xy in sampled(model, [0.0, 8000.0]):
        assert not shapely.intersects_xy(ISLAND, xy[:, 0], xy[:, 1]).any()
        for box in (shapely.box(0, 0, 500, 500), shapely.box(500, 500, 1000, 1000), ISLAND.buffer(40)):
            expected = water.intersection(box).area / water.area
            assert abs(np.mean(shapely.intersects_xy(box, *xy.T)) - expected) < 4 * np.sqrt(expected / 2000)
