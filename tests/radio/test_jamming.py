"""Jamming zones: which links they affect, and where that changes."""

from itertools import pairwise

import numpy as np
import pytest
import shapely
from hypothesis import given, settings
from hypothesis import strategies as st
from making import Disc
from plain_link import PlainLinks

from fedmule.mobility.terrain import Obstacle
from fedmule.radio.jamming import Jamming, JammingZone
from fedmule.radio.obstruction import Obstruction

ZONE = JammingZone(shapely.box(40, 40, 60, 60), 20.0)
INSIDE, DEEPER, OUTSIDE, BEYOND = np.array([[50.0, 50.0], [55.0, 45.0], [10.0, 50.0], [90.0, 50.0]])


def loss(a, b, *zones, obstacles=()):
    return float(Obstruction(obstacles, zones).loss_db(a, b[None])[0])


def test_a_link_with_an_end_in_the_zone_suffers_and_one_that_passes_over_does_not():
    assert loss(INSIDE, OUTSIDE, ZONE) == pytest.approx(20)
    assert loss(OUTSIDE, INSIDE, ZONE) == pytest.approx(20)
    assert loss(INSIDE, DEEPER, ZONE) == pytest.approx(20)  # once, however much of the ray is inside
    assert loss(OUTSIDE, BEYOND, ZONE) == 0


def test_the_loss_of_an_obstacle_is_added():
    wall = Obstacle(shapely.box(20, 0, 25, 100), radio_loss_db=12.0)
    assert loss(OUTSIDE, INSIDE, ZONE, obstacles=[wall]) == pytest.approx(32)
    assert loss(OUTSIDE, BEYOND, ZONE, obstacles=[wall]) == 12


def test_the_noise_of_zones_adds_up_at_one_end_and_the_worse_end_counts():
    weak = JammingZone(shapely.box(0, 0, 100, 100), 10.0)
    both_db = 10 * np.log10(100 + 10 - 1)  # the noise powers of both, and the usual one once
    assert loss(INSIDE, OUTSIDE, ZONE, weak) == pytest.approx(both_db)
    assert loss(BEYOND, OUTSIDE, ZONE, weak) == pytest.approx(10)


def test_both_ends_may_be_arrays():
    obstruction = Obstruction((), [ZONE])
    a, b = np.stack([OUTSIDE, OUTSIDE, INSIDE]), np.stack([BEYOND, INSIDE, BEYOND])
    np.testing.assert_allclose(obstruction.loss_db(a, b), [0, 20, 20])


corner = st.tuples(st.floats(0, 100), st.floats(0, 100))


@settings(derandomize=True, deadline=None, max_examples=60)
@given(corner, corner, corner, st.integers(3, 9), st.floats(5, 40))
def test_the_loss_is_constant_between_the_changes(fixed, start, end, corners, radius):
    angles = 2 * np.pi * np.arange(corners) / corners
    ring = 50 + radius * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    plain = PlainLinks(Disc(30.0), (), [JammingZone(shapely.Polygon(ring), 15.0)])
    fixed, start, end = np.array(fixed), np.array(start), np.array(end)
    if np.hypot(*(end - start)) < 1e-3:
        return
    edges = np.concatenate([[0.0], plain.changes(fixed, np.zeros(2), start, end - start), [1.0]])
    for s0, s1 in pairwise(edges):
        if s1 - s0 > 1e-6:
            shares = s0 + (s1 - s0) * np.linspace(0.001, 0.999, 7)
            losses = plain.obstruction.loss_db(fixed, start + shares[:, None] * (end - start))
            assert np.ptp(losses) == 0


def test_a_zone_without_noise_has_no_effect():
    jamming = Jamming([JammingZone(ZONE.polygon, 0.0)])
    assert jamming.loss_db(INSIDE, OUTSIDE[None]).tolist() == [0.0]
    assert not jamming.zones
