"""The compiled link against its plain twin, number for number; and losses between two positions."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import shapely
from hypothesis import given, settings
from hypothesis import strategies as st
from making import Disc, WifiDirect
from plain_link import PlainLinks
from random_terrain import SIZE_M, polygon_lists
from towns import houses

from fedmule.mobility.models.movement import NOWHERE_X_M
from fedmule.mobility.terrain import Obstacle
from fedmule.mobility.trajectory import Way
from fedmule.radio import link
from fedmule.radio.box_tree import box_tree
from fedmule.radio.jamming import JammingZone
from fedmule.radio.link import Radio, link_between
from fedmule.radio.obstruction import Obstruction
from fedmule.radio.propagation import Shadowing
from fedmule.simulator.streams import Streams

RADIOS: tuple[Radio, ...] = (
    Disc(30.0),
    WifiDirect(60.0),
    WifiDirect(50.0, shadowing=Shadowing(6.0, 15.0, Streams(1).draw("shadowing"))),
)


def random_way(draw: np.random.Generator, corners: int, jump: bool = False) -> Way:
    """A path through random corners; with a jump it is nowhere until some moment."""
    times = np.sort(draw.uniform(0, 60, corners))
    xy = draw.uniform((0, 0), SIZE_M, (corners, 2)).round(int(draw.integers(0, 4)))  # on corners and edges too
    if jump:
        times = np.concatenate([[0.0, times[0]], times])
        xy = np.concatenate([np.full((2, 2), (NOWHERE_X_M, 0.0)), xy])
    return Way(times, xy)


def random_polygons(draw: np.random.Generator, count: int) -> list[shapely.Polygon]:
    """Blobs, some of them with a hole."""
    found = []
    for _ in range(count):
        centre, radius = draw.uniform((0, 0), SIZE_M), draw.uniform(3, 12)
        angles = np.sort(draw.uniform(0, 2 * np.pi, int(draw.integers(4, 9))))
        ring = shapely.Polygon(centre + radius * np.stack([np.cos(angles), np.sin(angles)], axis=1))
        hole = shapely.Point(centre).buffer(radius / 4, 3)
        found.append(ring - hole if ring.contains(hole) and draw.random() < 0.5 else ring)
    return found


@settings(derandomize=True, deadline=None, max_examples=120)
@given(polygon_lists, st.integers(0, 2**32 - 1), st.sampled_from(RADIOS))
def test_stretches_are_those_of_the_plain_twin(polygons, seed: int, radio: Radio) -> None:
    """Corners, holes, jamming, shadowing, a weaker radio, absent clients; either end moves, or both, or none."""
    draw = np.random.default_rng(seed)
    blobs = random_polygons(draw, 3)
    obstacles = [Obstacle(p, False, float(draw.choice([0.0, 3.0, 8.0, 12.5]))) for p in polygons + blobs]
    zones = [JammingZone(p, 20.0) for p in random_polygons(draw, int(draw.integers(0, 3)))]
    plain = PlainLinks(radio, obstacles, zones)
    a = random_way(draw, int(draw.integers(1, 5)))
    jumps = draw.random() < 0.3
    b = random_way(draw, int(draw.integers(1, 5)), jumps)
    extra_db, start_s = float(draw.choice([0.0, 6.0])), float(draw.uniform(0, 30))
    for end_s in (start_s + 10, start_s + 60, np.inf):
        found = list(link._stretches(radio, plain.obstruction, a, b, start_s, end_s, extra_db))
        expected = list(plain.stretches(a, b, start_s, end_s, extra_db))
        assert [tuple(each) for each in found] == expected
        assert found[-1].end_s == end_s
    if jumps:
        return
    between = list(plain.stretches(a, b, start_s, np.inf, extra_db, "right"))
    assert [tuple(each) for each in link_between(radio, plain.obstruction, a, b, start_s, extra_db)] == between


@pytest.mark.parametrize("count", [1, 40])
def test_rays_lose_what_shapely_says(count: int) -> None:
    """Standing ends, so that each ray is one loss: a rate is that of its loss and length."""
    draw = np.random.default_rng(count)
    obstacles = [Obstacle(p, False, 2.0**i) for i, p in enumerate(random_polygons(draw, min(count, 12)))]
    obstruction = Obstruction(obstacles * (count // 12 + 1), [JammingZone(shapely.box(10, 10, 25, 30), 15.0)])
    radio, blocked = WifiDirect(200.0), 0
    for _ in range(300):
        a, b = draw.uniform((0, 0), SIZE_M, (2, 2))
        rate = next(iter(link_between(radio, obstruction, Way.standing(a), Way.standing(b), 0.0))).rate_bps
        loss_db = obstruction.loss_db(a, b[None])
        assert rate == link.rates_bps(radio, np.array([np.hypot(*(b - a))]), loss_db)[0]
        blocked += loss_db[0] > 0
    assert blocked > 30


@pytest.mark.parametrize("turned", [True, False])
def test_links_in_a_town_are_those_of_the_plain_twin(turned: bool) -> None:
    """Many houses, and walls as long as the town."""
    draw = np.random.default_rng(turned)
    walls = [shapely.box(-5, 96, 250, 97), shapely.LineString([(0, 0), (200, 190)]).buffer(0.5)]
    polygons = houses(10, 1, turned=turned) + walls
    obstacles = [Obstacle(polygon, False, float(draw.choice([0.0, 3.0, 8.0]))) for polygon in polygons]
    radio = WifiDirect(90.0)
    plain = PlainLinks(radio, obstacles, ())
    for _ in range(12):
        a = Way(np.array([0.0, 20.0]), draw.uniform((40, 40), (160, 160), (2, 2)).round(1))
        b = Way(np.array([0.0, 20.0]), a.positions + draw.uniform(-60, 60, (2, 2)).round(1))
        found = list(link_between(radio, plain.obstruction, a, b, 0.0))
        expected = list(plain.stretches(a, b, 0.0, np.inf, 0.0, "right"))
        assert [tuple(each) for each in found] == expected
        assert len(found) > 5


def test_a_tree_of_boxes_holds_each_box_once_and_below_its_nodes() -> None:
    draw = np.random.default_rng(0)
    for count in (0, 1, 4, 5, 9, 64, 333):
        low = draw.uniform(0, 100, (count, 2)).round(0)  # some are at the same place
        boxes = np.concatenate([low, low + draw.exponential(5, (count, 2))], axis=1)
        order, tree = box_tree(boxes)
        assert sorted(order.tolist()) == list(range(count))
        assert np.concatenate([np.arange(*held) for held in tree.held] or [order]).tolist() == list(range(count))
        for node, skip in enumerate(tree.skip.tolist()):
            assert node < skip <= len(tree.skip)
            held = order[np.concatenate([np.arange(*each) for each in tree.held[node:skip]])]
            below = np.concatenate([boxes[held, :2].min(axis=0), boxes[held, 2:].max(axis=0)])
            assert tree.boxes[node].tolist() == below.tolist()


def test_several_zones_and_their_borders() -> None:
    """Noise of two zones adds up, and a zone begins on its border."""
    zones = [JammingZone(shapely.box(10, 0, 30, 20), 10.0), JammingZone(shapely.box(20, 0, 40, 20), 20.0)]
    radio, obstruction = WifiDirect(100.0), Obstruction((), zones)
    still, way = Way.standing(np.array([0.0, 10.0])), Way(np.array([0.0, 50.0]), np.array([[0.0, 10.0], [50.0, 10.0]]))
    found = list(link._stretches(radio, obstruction, still, way, 0.0, 50.0, 0.0))
    ends = {stretch.end_s for stretch in found}
    assert {10.0, 20.0, 30.0, 40.0} <= ends
    rates = {t: next(stretch.rate_bps for stretch in found if stretch.end_s > t) for t in (15.0, 25.0, 35.0)}
    for t, noise_db in ((15.0, 10.0), (25.0, 10 * np.log10(100 + 10 - 1)), (35.0, 20.0)):
        distance_m, loss_db = np.array([t]), np.array([noise_db])
        assert rates[t] == pytest.approx(link.rates_bps(radio, distance_m, loss_db)[0], rel=0.1)
    assert [a.end_s <= b.end_s for a, b in pairwise(found)].count(False) == 0
