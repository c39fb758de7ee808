"""Herds: their spread, their memory and how they divide their time."""

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
STEP_S, SPREAD_M, MEMORY_S = 20.0, 30.0, 200.0


def herd(terrain=WIDE, count=2000, herds=1, seed=1, **keys):
    usual = {"spread_m": SPREAD_M, "memory_s": MEMORY_S, "step_s": STEP_S, "top_speed_mps": 20.0}
    return Herd(terrain, count, Streams(seed).draw("mobility"), herds, **{**usual, **keys})


def offsets(model, steps):
    """Offsets [k,n,2] of the animals at the ends of steps, and the centres [k,2] of the only herd."""
    trajectories = Trajectories(model)
    found, centres = [], []
    for k in range(steps + 1):
        positions = trajectories.positions(
            max(0.0, k * STEP_S - 1e-6)
        )  # at the last waypoint, and none beyond is known
        centres.append(model.centre[0].copy())
        found.append(positions - centres[-1])
    return np.array(found), np.array(centres)


@pytest.mark.parametrize("phase", [{"rest_s": 1e9}, {"walk_s": 1e9, "walk_mps": 3.0}], ids=["resting", "walking"])
def test_spread_and_memory_are_those_of_an_ornstein_uhlenbeck_process(phase):
    found, centres = offsets(herd(**phase), 30)
    assert (np.ptp(centres, axis=0).max() > 500) == ("walk_s" in phase)
    for k in (0, 1, 10, 30):
        assert found[k].std(axis=0) == pytest.approx([SPREAD_M] * 2, rel=0.07)
        assert found[k].mean(axis=0) == pytest.approx([0, 0], abs=4 * SPREAD_M / np.sqrt(2000))
        correlation = (found[0] * found[k]).mean() / SPREAD_M**2
        assert correlation == pytest.approx(np.exp(-k * STEP_S / MEMORY_S), abs=0.08)


def test_herds_divide_their_time_by_the_mean_durations():
    model = herd(count=400, herds=400, rest_s=600.0, graze_s=300.0, walk_s=100.0)
    trajectories = Trajectories(model)
    shares, stays = [], []
    for k in range(400):
        trajectories.positions(k * STEP_S)
        shares.append([np.mean(model.phase == phase) for phase in (REST, GRAZE, WALK)])
        stays.append(model.phase.copy())
    expected = np.array([0.6, 0.3, 0.1])
    assert np.abs(shares[0] - expected).max() < 4 * 0.5 / np.sqrt(400)
    assert np.mean(shares, axis=0) == pytest.approx(expected, abs=0.02)
    stays = np.array(stays)
    ends = np.diff(stays, axis=0) != 0
    for phase, mean_s in ((REST, 600.0), (GRAZE, 300.0), (WALK, 100.0)):
        rate = ends[stays[:-1] == phase].mean() / STEP_S
        assert 1 / rate == pytest.approx(mean_s, rel=0.1)


def test_a_resting_herd_stays_a_grazing_one_ambles_and_a_walking_one_gets_somewhere():
    gone = {}
    for phase, keys in (("rest", {"rest_s": 1e9}), ("graze", {"graze_s": 1e9}), ("walk", {"walk_s": 1e9})):
        _, centres = offsets(herd(count=1, graze_mps=0.5, walk_mps=0.5, **keys), 100)
        steps = np.hypot(*np.diff(centres, axis=0).T)
        assert steps == pytest.approx(np.full(100, 0.0 if phase == "rest" else 0.5 * STEP_S))
        gone[phase] = np.hypot(*(centres[-1] - centres[0]))
    assert gone["rest"] == 0
    assert gone["walk"] == pytest.approx(100 * 0.5 * STEP_S)
    assert gone["graze"] < 0.5 * gone["walk"]


def test_herds_have_equal_sizes_and_move_independently():
    model = herd(count=30, herds=3)
    assert np.bincount(model.squad).tolist() == [10, 10, 10]
    positions = sampled(model, [0.0, 600.0])
    for at in positions:
        for k in range(3):
            mine = at[model.squad == k]
            assert np.hypot(*(mine - mine.mean(axis=0)).T).max() < 6 * SPREAD_M


def test_animals_behind_a_wall_return_to_the_herd():
    """A long wall with a way round it: animals that are cut off follow, and none goes through."""
    wall = shapely.box(0, 195, 350, 205)
    terrain = Terrain((400.0, 400.0), [Obstacle(wall)])
    keys = {"walk_s": 1e9, "walk_mps": 1.0, "top_speed_mps": 3.0, "spread_m": 15.0, "seed": 6}
    for times, xy in trace(herd(terrain, 60, **keys), until=8000.0, step=500.0):
        assert wall.intersection(shapely.LineString(xy)).length < 1e-9
        assert (np.hypot(*np.diff(xy, axis=0).T) <= 3.0 * np.diff(times) + 1e-6).all()
    model = herd(terrain, 60, **keys)
    trajectories = Trajectories(model)
    gaps, sides = [], []
    for t in np.arange(0.0, 8000.0, STEP_S):
        gaps.append(np.hypot(*(trajectories.positions(t) - model.centre[0]).T))
        sides.append(model.centre[0, 1] > 200)
    assert set(sides) == {True, False}  # the herd went round the wall
    gaps = np.array(gaps)
    assert gaps.max() > 100  # and some of them were left behind
    late = gaps > 80
    assert late.mean() < 0.1
    assert all((gaps[k : k + 60] < 60).any(axis=0).all() for k in range(0, 340, 20))  # for less than 20 minutes


def test_nobody_is_faster_than_the_top_speed():
    for times, xy in trace(herd(count=50, memory_s=10.0, top_speed_mps=1.5, walk_s=1e9), until=1000.0):
        speed = np.hypot(*np.diff(xy, axis=0).T)[1:] / np.maximum(np.diff(times)[1:], 1e-9)
        assert speed.max() <= 1.5 + 1e-6
        assert speed.max() > 1.4
