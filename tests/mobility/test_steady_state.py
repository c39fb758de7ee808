"""Random waypoint starts in the steady state: speeds, pauses and density do not change over time."""

import numpy as np
import pytest
import shapely
from every_model import sampled
from making import Waypoint

from fedmule.mobility.models.roads import Roads
from fedmule.mobility.road_network import RoadNetwork, grid_lines
from fedmule.mobility.terrain import Obstacle, Surface, Terrain
from fedmule.simulator.streams import Streams

SIZE_M, SPEEDS, PAUSES = 1000.0, (0.2, 3.0), (50.0, 350.0)
MEAN_WAY = 0.521405433164720 * SIZE_M  # between two uniform positions of a square: (2 + √2 + 5 ln(1 + √2)) / 15
SLOWNESS = np.log(SPEEDS[1] / SPEEDS[0]) / (SPEEDS[1] - SPEEDS[0])  # E[1/v]
FREE = Terrain((SIZE_M, SIZE_M))


def waypoint(terrain=FREE, count=4000, seed=1, speeds=SPEEDS, pauses=PAUSES, home_m=None):
    return Waypoint(terrain, count, Streams(seed).draw("mobility"), speeds, pauses, home_m)


def state(movement, times):
    """Positions [k,n,2] and speeds [k,n] at times."""
    near = sampled(movement, np.sort(np.concatenate([times, np.array(times) + 0.01])))
    return near[::2], np.hypot(*np.moveaxis(near[1::2] - near[::2], -1, 0)) / 0.01


def within(sample, expected, sigmas=4.5):
    """Whether the mean of a sample is the expected one, within its standard error."""
    return abs(np.mean(sample) - expected) < sigmas * np.std(sample) / np.sqrt(len(sample))


def test_speeds_and_pauses_follow_the_formulas_at_all_times():
    moving = MEAN_WAY * SLOWNESS / (MEAN_WAY * SLOWNESS + np.mean(PAUSES))
    _, speeds = state(waypoint(), [0.0, 300.0, 20_000.0])
    for speed in speeds:
        walks = speed > 1e-6
        assert within(walks, moving)
        assert within(speed[walks], 1 / SLOWNESS)  # (v₁ − v₀) / ln(v₁/v₀), not (v₀ + v₁) / 2
        assert within(speed, MEAN_WAY / (MEAN_WAY * SLOWNESS + np.mean(PAUSES)))
        # Density ∝ 1/v: half of those who walk are slower than √(v₀ v₁).
        assert within(speed[walks] < np.sqrt(SPEEDS[0] * SPEEDS[1]), 0.5)


def test_remaining_pauses_at_the_start():
    """Pauses in progress at time 0 have E[P²] / 2E[P] left on average."""
    movement = waypoint(speeds=(200.0, 300.0))
    times = np.arange(0.0, 351.0, 2.0)
    positions = sampled(movement, times)
    rests = (positions[1] == positions[0]).all(axis=1)
    left = (positions[1:, rests] == positions[:-1, rests]).all(axis=2)
    rest_s = 2.0 * np.argmin(np.concatenate([left, np.zeros((1, rests.sum()), bool)]), axis=0)
    low, high = PAUSES
    second = (low**2 + low * high + high**2) / 3
    # Samples are 2 s apart, so on average one second is missed of pauses that span more than one sample.
    assert np.mean(rest_s) == pytest.approx(second / (low + high), abs=5.0)


def long_run_spread():
    """E[(x − ½)²] of a walker, from legs weighted by their length, by brute force."""
    rng = np.random.default_rng(0)
    a, b = rng.random((2, 400_000, 2))
    along = rng.random((400_000, 1))
    weight = np.hypot(*(b - a).T)
    return np.average(((a + along * (b - a))[:, 0] - 0.5) ** 2, weights=weight)


def test_density_is_the_long_run_density_from_the_start():
    positions, speeds = state(waypoint(), [0.0, 20_000.0])
    under_way = long_run_spread()
    assert under_way < 0.9 / 12  # denser in the middle than a uniform crowd
    for xy, speed in zip(positions, speeds, strict=True):
        for axis in (0, 1):
            spread = (xy[:, axis] / SIZE_M - 0.5) ** 2
            assert within(spread[speed > 1e-6], under_way)
            assert within(spread[speed <= 1e-6], 1 / 12)  # pauses are at uniform positions


@pytest.mark.parametrize(
    "terrain",
    [
        Terrain((100.0, 100.0), [Obstacle(shapely.box(45, 0, 55, 95))]),
        Terrain((100.0, 100.0), [Obstacle(shapely.box(30, 20, 70, 60))], [Surface(shapely.box(0, 50, 100, 100), 0.3)]),
    ],
    ids=["wall", "mud"],
)
def test_no_decay_round_obstacles_and_through_mud(terrain):
    """Routes round a wall with one gap are up to 2½ times as long as the diagonal."""
    positions, speeds = state(waypoint(terrain, 400, 3, (0.1, 2.0), (0.0, 60.0)), [0.0, 100.0, 3000.0])
    measures = [
        speeds,
        speeds > 1e-6,
        positions[:, :, 0] > 55,
        (positions[:, :, 1] > 50),
        (positions[:, :, 1] - 50) ** 2,
    ]
    for measure in measures:
        begin, soon, late = np.asarray(measure, dtype=float)
        error = np.sqrt((begin.var() + late.var()) / len(begin))
        assert abs(begin.mean() - late.mean()) < 4 * error
        assert abs(begin.mean() - soon.mean()) < 4 * error


def test_one_speed_and_no_pause():
    _, speeds = state(waypoint(count=50, speeds=(2.0, 2.0), pauses=(0.0, 0.0)), [0.0, 500.0])
    assert np.median(speeds) == pytest.approx(2.0)
    assert (speeds <= 2.0 + 1e-6).all()


def test_roads_start_in_the_steady_state():
    terrain = Terrain((300.0, 200.0), [Obstacle(shapely.box(110, 40, 190, 160))])
    network = RoadNetwork(terrain, grid_lines(terrain.size_m, (50.0, 50.0)))
    movement = Roads(terrain, 800, Streams(2).draw("mobility"), network, (1.0, 10.0), (0.0, 30.0), None)
    positions, speeds = state(movement, [0.0, 2000.0])
    moving = speeds[0] > 1e-6
    assert within(speeds[0][moving], 9 / np.log(10))
    for measure in (speeds, speeds > 1e-6, positions[:, :, 0] < 100):
        begin, late = np.asarray(measure, dtype=float)
        assert abs(begin.mean() - late.mean()) < 4 * np.sqrt((begin.var() + late.var()) / len(begin))


def test_near_home_from_the_start():
    """Far from the border the way between two goals in a disc of radius R is 128 R / 45π on average."""
    movement = waypoint(count=3000, home_m=60.0)
    positions, speeds = state(movement, [0.0, 5_000.0])
    inside = ((movement._home > 60.0) & (movement._home < SIZE_M - 60.0)).all(axis=1)
    way_s = 128 * 60.0 / (45 * np.pi) * SLOWNESS
    for xy, speed in zip(positions, speeds, strict=True):
        assert (np.hypot(*(xy - movement._home).T) < 60.0 + 1e-6).all()  # straight legs stay in the disc
        assert within(speed[inside] > 1e-6, way_s / (way_s + np.mean(PAUSES)))
        rests = inside & (speed <= 1e-6)
        assert within(((xy - movement._home)[rests] ** 2).sum(axis=1), 60.0**2 / 2)  # uniform over the disc


def test_near_home_beside_a_wall():
    """Goals are on open ground; a goal beyond the wall is walked to round it."""
    wall = Terrain((100.0, 100.0), [Obstacle(shapely.box(45, 0, 55, 95))])
    movement = waypoint(wall, 200, 3, (1.0, 2.0), (500.0, 600.0), home_m=20.0)
    positions, speeds = state(movement, np.arange(0.0, 20_000.0, 400.0).tolist())
    rests = speeds <= 1e-6
    assert not shapely.intersects_xy(shapely.box(45, 0, 55, 95), *positions[rests].T).any()
    gap = np.hypot(*np.moveaxis(positions - movement._home, -1, 0))
    assert (gap[rests] < 20.0 + 1e-6).all()
    assert (gap[~rests] > 20.0).any()


def test_roads_near_home_are_steady_and_uniform_over_the_roads_within_reach():
    terrain = Terrain((300.0, 200.0), [Obstacle(shapely.box(110, 40, 190, 160))])
    network = RoadNetwork(terrain, grid_lines(terrain.size_m, (50.0, 50.0)))
    movement = Roads(terrain, 800, Streams(2).draw("mobility"), network, (1.0, 10.0), (5.0, 30.0), 40.0)
    positions, speeds = state(movement, [0.0, 2000.0])
    for measure in (speeds, speeds > 1e-6, np.hypot(*np.moveaxis(positions - movement._home, -1, 0))):
        begin, late = np.asarray(measure, dtype=float)
        assert abs(begin.mean() - late.mean()) < 4 * np.sqrt((begin.var() + late.var()) / len(begin))

    home, radius_m = np.array([72.0, 100.0]), 40.0
    rng = np.random.default_rng(0)
    xy = network.random_positions_near(np.tile(home, (4000, 1)), radius_m, rng.random(4000))
    disc = shapely.Point(home).buffer(radius_m, 500)
    assert shapely.distance(network.parts[0], shapely.points(xy)).max() < 1e-9
    for box in (shapely.box(0, 0, 60, 200), shapely.box(0, 101, 300, 200), shapely.box(60, 99, 300, 101)):
        share = network.parts[0].intersection(disc & box).length / network.parts[0].intersection(disc).length
        assert 0 < share < 1
        assert within(shapely.intersects_xy(box, *xy.T), share)
