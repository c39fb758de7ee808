"""Herds: their spread, how they divide their time, and how far animals go in a day."""

import numpy as np
import pytest
import shapely
from every_model import sampled
from making import Herd
from test_movement import trace

from fedmule.mobility.models.herd import GRAZE, REST, WALK
from fedmule.mobility.terrain import Obstacle, Terrain
from fedmule.mobility.trajectory import Trajectories
from fedmule.simulator.streams import Streams

WIDE = Terrain((1e6, 1e6))
SPREAD_M = 30.0
ALWAYS = {"resting": {"rest_s": 1e9}, "grazing": {"graze_s": 1e9}, "walking": {"walk_s": 1e9}}


def herd(terrain=WIDE, count=1500, herds=1, seed=1, **keys):
    return Herd(terrain, count, Streams(seed).draw("mobility"), herds, **{"spread_m": SPREAD_M, **keys})


def lengths_m(positions):
    """Length [n] of the paths through positions [k,n,2]."""
    return np.hypot(*np.diff(positions, axis=0).transpose(2, 0, 1)).sum(axis=0)


@pytest.mark.parametrize("activity", ALWAYS)
def test_animals_are_spread_normally_about_the_herd(activity):
    at = sampled(herd(**ALWAYS[activity]), [0.0, 60.0, 1000.0, 3600.0])
    offsets = at - at.mean(axis=1, keepdims=True)
    for offset in offsets:
        # Those who have fed at a spot for long are a little behind a herd that moves on.
        assert offset.std(axis=0) == pytest.approx([SPREAD_M] * 2, rel=0.13 if activity == "grazing" else 0.07)
        assert (np.hypot(*offset.T) < 1.1774 * SPREAD_M).mean() == pytest.approx(0.5, abs=0.05)
    gone = np.hypot(*(at.mean(axis=1)[-1] - at.mean(axis=1)[0]))
    low, high = {"resting": (0.0, 1.0), "grazing": (10.0, 0.9 * 360), "walking": (2800.0, 2900.0)}[activity]
    assert low <= gone <= high


def test_a_resting_herd_needs_one_waypoint_for_each_animal():
    model = herd(count=20, rest_s=1e9)
    start = model.start()
    ahead = model.extend(np.array([3]), np.zeros(1), start[[3]])
    assert ahead.client.tolist() == list(range(20))
    assert np.array_equal(ahead.xy, start)
    assert ahead.t.min() > 1e4


def test_grazing_animals_stop_and_step():
    """Stops of 120 s on average, and between them steps of 10 m on average at a walk, where the herd stays."""
    model = herd(count=300, graze_s=1e9, graze_mps=1e-9, stop_s=120.0, stride_m=10.0)
    stops, strides = [], []
    for times, xy in trace(model, until=7000.0):
        step_s, step_m = np.diff(times), np.hypot(*np.diff(xy, axis=0).T)
        moves = (step_m > 0) & (step_s > 1e-9)
        speed = step_m[moves] / step_s[moves]
        assert np.median(speed) == pytest.approx(0.8)
        assert (np.isclose(speed, 0.8) | np.isclose(speed, 4.0)).all()  # the latter if it has strayed
        strides += step_m[moves].tolist()
        stops.append(step_s[step_m == 0].sum() / max(moves.sum(), 1))
    assert np.mean(strides) == pytest.approx(10, rel=0.06)
    assert np.mean(stops) == pytest.approx(120, rel=0.06)


def test_herds_divide_their_time_by_the_mean_durations():
    model = herd(count=150, herds=150, rest_s=600.0, graze_s=300.0, walk_s=100.0)
    trajectories = Trajectories(model)
    phases = []
    for t in np.arange(0.0, 3000.0, 10.0):
        trajectories.positions(t)
        phases.append(model.phase.copy())
    phases = np.array(phases)
    shares = [np.mean(phases == phase, axis=1) for phase in (REST, GRAZE, WALK)]
    assert [share[0] for share in shares] == pytest.approx([0.6, 0.3, 0.1], abs=0.15)  # from the start
    assert [share.mean() for share in shares] == pytest.approx([0.6, 0.3, 0.1], abs=0.05)
    ends = np.diff(phases, axis=0) != 0
    for phase, mean_s in ((REST, 600.0), (GRAZE, 300.0)):
        assert 10.0 / ends[phases[:-1] == phase].mean() == pytest.approx(mean_s, rel=0.2)


def test_animals_go_as_far_in_a_day_as_elk_do():
    """By the minute 7 km, by the hour two thirds of it, since few hours lead straight on; 8 hours a day on their feet.

    Elk with a fix every second went 6.75 km a day (Woodside 2010). Red deer are active for 8 h (Kamler et al. 2007).
    """
    days, minute = 1, np.arange(0.0, 86400.0 + 1, 60.0)
    at = sampled(herd(count=20, herds=20, seed=4), minute)
    by_minute, by_hour = lengths_m(at).mean() / days, lengths_m(at[::60]).mean() / days
    assert 5500 < by_minute < 8500
    assert 3200 < by_hour < 5700
    assert 1.3 < by_minute / by_hour < 2.0
    # Active where it has moved in the last ten minutes: a feeding animal stops for two on average.
    moved = np.hypot(*(at[10:] - at[:-10]).transpose(2, 0, 1)) > 0
    assert 24 * moved.mean() == pytest.approx(8.3, abs=2.0)


def test_grazing_elk_are_a_few_hundred_metres_away_after_two_hours():
    """Foraging elk were 277 m away after 2 h (standard deviation 57), relocating ones 1.6 km (Frair et al. 2005)."""
    at = sampled(herd(count=25, herds=25, graze_s=1e9), [0.0, 7200.0])
    assert 150 < np.hypot(*(at[1] - at[0]).T).mean() < 350


def test_herds_have_equal_sizes_and_move_independently():
    model = herd(count=30, herds=3)
    assert np.bincount(model.squad).tolist() == [10, 10, 10]
    for at in sampled(model, [0.0, 6000.0]):
        for k in range(3):
            mine = at[model.squad == k]
            assert np.hypot(*(mine - mine.mean(axis=0)).T).max() < 6 * SPREAD_M


def test_animals_behind_a_wall_return_to_the_herd():
    """A long wall with a way round it: animals that are cut off follow, and none goes through."""
    wall = shapely.box(0, 195, 350, 205)
    terrain = Terrain((400.0, 400.0), [Obstacle(wall)])
    keys = {"walk_s": 1e9, "walk_mps": 1.0, "top_speed_mps": 3.0, "spread_m": 15.0, "stride_m": 5.0, "seed": 6}
    for times, xy in trace(herd(terrain, 60, **keys), until=8000.0, step=500.0):
        assert wall.intersection(shapely.LineString(xy)).length < 1e-9
        assert (np.hypot(*np.diff(xy, axis=0).T) <= 3.0 * np.diff(times) + 1e-6).all()
    model = herd(terrain, 60, **keys)
    trajectories = Trajectories(model)
    gaps, sides = [], []
    for t in np.arange(0.0, 8000.0, 20.0):
        gaps.append(np.hypot(*(trajectories.positions(t) - model.centre[0]).T))
        sides.append(model.centre[0, 1] > 200)
    assert set(sides) == {True, False}  # the herd went round the wall
    gaps = np.array(gaps)
    assert gaps.max() > 130  # and some of them were left behind
    assert (gaps > 110).mean() < 0.1
    assert all((gaps[k : k + 60] < 90).any(axis=0).all() for k in range(0, 340, 20))  # for less than 20 minutes


def test_nobody_is_faster_than_the_top_speed():
    for keys in ({"walk_s": 1e9, "walk_mps": 1.6}, {"graze_s": 1e9}, {"graze_s": 60.0, "walk_s": 60.0, "rest_s": 60.0}):
        for times, xy in trace(herd(count=30, top_speed_mps=1.5, **keys), until=1000.0):
            speed = np.hypot(*np.diff(xy, axis=0).T) / np.maximum(np.diff(times), 1e-9)
            assert speed.max() <= 1.5 + 1e-6
