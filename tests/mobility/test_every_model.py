"""Properties of every mobility model: no walls crossed, no speed exceeded, no dependence on the order of queries."""

import numpy as np
import pytest
import shapely
from every_model import MODELS, TOP_MPS, make, make_if_it_can
from hypothesis import given, settings
from hypothesis import strategies as st
from random_terrain import SIZE_M, length_inside, polygon_lists, terrain_of
from test_movement import FREE, MUDDY, WALLED, WALLS, trace

from fedmule.mobility.terrain import Surface, Terrain
from fedmule.mobility.trajectory import Trajectories

kinds = pytest.mark.parametrize("kind", MODELS)
seeds = st.integers(0, 10**6)


@kinds
@settings(max_examples=15)
@given(polygon_lists, seeds)
def test_nobody_walks_through_walls(kind, polygons, seed):
    movement = make_if_it_can(kind, terrain_of(polygons), seed)
    if movement is None:
        return
    for times, xy in trace(movement, until=150.0, step=25.0):
        assert np.isfinite(xy).all()
        assert (xy >= -1e-9).all()
        assert (xy <= np.array(SIZE_M) + 1e-9).all()
        moved, spent = np.hypot(*np.diff(xy, axis=0).T), np.diff(times)
        assert (spent >= -1e-9).all()
        if TOP_MPS[kind] is not None:
            assert (moved <= TOP_MPS[kind] * spent + 1e-6).all()
        assert moved[spent == 0].sum() < 1e-6  # nobody jumps
        if moved.sum() > 0:
            assert length_inside(polygons, xy) < 1e-9


@kinds
@pytest.mark.parametrize("terrain", [FREE, WALLED, MUDDY], ids=["free", "walled", "muddy"])
def test_everybody_moves_on_any_ground(kind, terrain):
    walls = shapely.union_all(WALLS)
    tracks = trace(make(kind, terrain), until=400.0, step=11.0)
    moved = np.array([np.hypot(*np.diff(xy, axis=0).T).sum() for _, xy in tracks])
    assert (moved > 3).sum() == (9 if kind == "drift" else 12)  # a quarter of 12 is moored
    for times, xy in tracks:
        assert times[0] == 0
        assert times[-1] == 400
        if terrain is not FREE:
            assert walls.intersection(shapely.LineString(xy)).length < 1e-9


@pytest.mark.parametrize("kind", [kind for kind in MODELS if TOP_MPS[kind]])
def test_mud_slows_everybody(kind):
    mud = Terrain((100.0, 100.0), (), [Surface(shapely.box(-1, -1, 101, 101), 0.25)])
    for times, xy in trace(make(kind, mud)):
        assert (np.hypot(*np.diff(xy, axis=0).T) <= 0.25 * TOP_MPS[kind] * np.diff(times) + 1e-6).all()


@kinds
@settings(max_examples=5)
@given(
    st.lists(st.floats(0, 200, allow_nan=False), max_size=8),
    st.lists(st.tuples(st.floats(0, 200), st.integers(0, 11), st.floats(0, 100)), max_size=8),
)
def test_positions_do_not_depend_on_the_order_of_queries(kind, grid, ahead_queries):
    asked = [100.0, 166.6, 200.0]
    plain, busy = Trajectories(make(kind, WALLED)), Trajectories(make(kind, WALLED))
    questions = sorted([(t, None, 0.0) for t in grid + asked] + ahead_queries, key=lambda question: question[0])
    seen = {}
    for t, client, ahead in questions:
        if client is None:
            seen[t] = busy.positions(t)
        else:
            busy.path(client, t + ahead)
    for t in asked:
        assert np.array_equal(plain.positions(t), seen[t])


@kinds
def test_a_seed_decides(kind):
    one, same, other = (Trajectories(make(kind, FREE, seed)).positions(90.0) for seed in (1, 1, 2))
    assert np.array_equal(one, same)
    assert not np.array_equal(one, other)
