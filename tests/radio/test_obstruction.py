"""Obstruction: losses against geometry, and the moments at which they change."""

import numpy as np
import pytest
import shapely
from hypothesis import given, settings
from hypothesis import strategies as st
from making import Disc
from plain_link import PlainLinks
from random_terrain import SIZE_M, polygon_lists

from fedmule.mobility.terrain import Obstacle
from fedmule.radio.obstruction import Obstruction

seeds = st.integers(0, 2**32 - 1)


@settings(deadline=None, max_examples=40, derandomize=True)
@given(polygon_lists, seeds)
def test_the_loss_is_the_sum_of_what_is_crossed(polygons, seed):
    rng = np.random.default_rng(seed)
    losses = rng.choice([0.0, 3.0, 10.0, 25.5], len(polygons))
    obstruction = Obstruction([Obstacle(p, bool(rng.integers(2)), x) for p, x in zip(polygons, losses, strict=True)])
    starts, ends = rng.uniform((0, 0), SIZE_M, (30, 2)), rng.uniform((0, 0), SIZE_M, (30, 2))
    expected = [
        sum(x for p, x in zip(polygons, losses, strict=True) if p.intersection(shapely.LineString([a, b])).length > 0)
        for a, b in zip(starts, ends, strict=True)
    ]
    assert obstruction.loss_db(starts, ends) == pytest.approx(np.array(expected))
    one = obstruction.loss_db(starts[0], ends)
    assert one == pytest.approx(obstruction.loss_db(np.broadcast_to(starts[0], ends.shape), ends))
    assert obstruction.loss_db(ends, starts) == pytest.approx(np.array(expected))


def test_the_loss_inside_and_through_a_court():
    ring = shapely.box(10, 10, 40, 30) - shapely.box(15, 15, 35, 25)
    obstruction = Obstruction([Obstacle(ring, True, 7.0), Obstacle(shapely.box(0, 0, 5, 5), True, 0.0)])
    fixed = np.array([5.0, 20.0])
    ends = np.array([[12.0, 20.0], [20.0, 20.0], [45.0, 20.0], [5.0, 39.0], [2.0, 2.0]])
    assert obstruction.loss_db(fixed, ends).tolist() == [7, 7, 7, 0, 0]
    assert obstruction.loss_db(ends[0], ends[:1]).tolist() == [7]  # a ray of no length inside the wall
    assert obstruction.loss_db(ends[1], np.array([[30.0, 22.0]])).tolist() == [0]  # both in the court
    assert obstruction.loss_db(fixed, np.empty((0, 2))).shape == (0,)


@settings(deadline=None, max_examples=80, derandomize=True)
@given(polygon_lists, seeds)
def test_loss_is_constant_between_its_changes(polygons, seed):
    rng = np.random.default_rng(seed)
    plain = PlainLinks(Disc(30.0), [Obstacle(p, False, 2.0**i) for i, p in enumerate(polygons)], ())
    fixed, start, end = rng.uniform((0, 0), SIZE_M, (3, 2))
    shares = plain.changes(fixed, np.zeros(2), start, end - start)
    assert ((shares > 0) & (shares < 1)).all()
    assert (np.diff(shares) > 0).all()
    sample = np.sort(rng.random(1500))
    cuts = np.concatenate([[0.0], shares, [1.0]])
    between = np.searchsorted(cuts, sample)
    far = np.abs(sample[:, None] - cuts).min(axis=1) > 1e-9
    loss = plain.obstruction.loss_db(fixed, start + sample[:, None] * (end - start))
    for stretch in np.unique(between):
        assert len(set(loss[far & (between == stretch)])) <= 1


def test_loss_changes_round_a_court():
    ring = shapely.box(10, 10, 40, 30) - shapely.box(15, 15, 35, 25)
    fixed, start, leg = np.array([25.0, 20.0]), np.array([20.0, 22.0]), np.array([0.0, 6.0])
    court, nothing = (PlainLinks(Disc(30.0), obstacles, ()) for obstacles in ([Obstacle(ring, False, 5.0)], ()))
    assert np.isclose(court.changes(fixed, np.zeros(2), start, leg), 0.5).any()  # it leaves the court at y = 25
    assert nothing.changes(fixed, np.zeros(2), start, leg).size == 0
