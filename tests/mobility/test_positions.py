import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from making import Static, Waypoint, reporting

from fedmule.mobility.models.redrawn import Redrawn
from fedmule.mobility.positions import Index, Positions
from fedmule.mobility.terrain import Terrain
from fedmule.mobility.trajectory import Trajectories
from fedmule.simulator.streams import Streams

TERRAIN = Terrain((100.0, 100.0))


def moving(count=30):
    return Trajectories(Waypoint(TERRAIN, count, Streams(1).draw("mobility"), (0.5, 3.0), (0.0, 5.0)))


def still(count=30):
    return Trajectories(Static(TERRAIN, count, Streams(1).draw("mobility")))


def positions_of(trajectories, period_s=10.0, error_m=2.0):
    return Positions(trajectories, Streams(1).draw("reports"), reporting(period_s, error_m, stagger=False))


def test_exact_reports_are_the_positions_at_the_last_report():
    positions, truth, reports = positions_of(moving(), 10.0, 0.0), moving(), moving()
    everyone = np.arange(30)
    for t in [0.0, 0.5, 9.99, 10.0, 10.01, 17.0, 20.0, 55.5, 59.0, 60.0, 1000.0, 1003.0]:
        positions.advance(t)
        assert np.array_equal(positions.true(everyone), truth.positions(t))
        assert positions.known(everyone) == pytest.approx(reports.positions(10.0 * (t // 10)), abs=1e-9)
        assert positions.next_report_s(3, t) == pytest.approx(10 * (t // 10) + 10)


@settings(deadline=None, max_examples=40, derandomize=True)
@given(st.sampled_from([0.1, 0.3, 1.0, 7.0, 10.0, 1 / 3]), st.integers(0, 10**6))
def test_every_report_comes_when_announced(period_s, skip):
    positions = positions_of(still(1), period_s)
    positions.advance(skip * period_s)
    due = skip * period_s
    for _ in range(20):
        following = positions.next_report_s(0, due)
        assert following == pytest.approx(due + period_s)
        assert following > due
        positions.advance(following)
        assert positions.last_report_s(0) == following
        due = following


@pytest.mark.parametrize("trajectories", [moving, still])
def test_known_positions_stay_between_reports(trajectories):
    positions = positions_of(trajectories())
    everyone = np.arange(30)
    positions.advance(20.0)
    known = positions.known(everyone)
    for t in (20.1, 25.0, 29.9):
        positions.advance(t)
        assert np.array_equal(positions.known(everyone), known)
    positions.advance(30.0)
    assert not np.isclose(positions.known(everyone), known).any()
    assert np.array_equal(positions.known(everyone[::-1])[::-1], positions.known(everyone))


@pytest.mark.parametrize("error_m", [0.5, 4.0])
def test_report_errors_are_gaussian(error_m):
    positions = positions_of(still(5000), error_m=error_m)
    everyone = np.arange(5000)
    errors = []
    for t in (0.0, 10.0, 20.0):
        positions.advance(t)
        errors.append((positions.known(everyone) - positions.true(everyone)) / error_m)
    first, second, _ = errors
    assert np.abs(np.mean(first * second, axis=0)).max() < 0.07  # one report says nothing about the next
    together = np.concatenate(errors)
    assert together.std(axis=0) == pytest.approx([1, 1], abs=0.03)
    assert together.mean(axis=0) == pytest.approx([0, 0], abs=0.04)
    assert np.mean(together[:, 0] * together[:, 1]) == pytest.approx(0, abs=0.04)
    assert (together**4).mean(axis=0) == pytest.approx([3, 3], abs=0.3)
    assert (np.abs(together) > 1.96).mean() == pytest.approx(0.05, abs=0.01)


@pytest.mark.parametrize("trajectories", [moving, still])
@pytest.mark.parametrize("error_m", [0.0, 5.0])
def test_within_against_brute_force(trajectories, error_m):
    positions = positions_of(trajectories(), error_m=error_m)
    everyone = np.arange(30)
    rng = np.random.default_rng(0)
    for t in (0.0, 13.0, 57.0):
        positions.advance(t)
        true, known = positions.true(everyone), positions.known(everyone)
        for position, radius_m in zip(rng.uniform(-10, 110, (20, 2)), rng.uniform(0, 60, 20), strict=True):
            expected = [i for i in everyone if np.hypot(*(true[i] - position)) <= radius_m]
            assert positions.within(position, radius_m).tolist() == expected
            expected = [i for i in everyone if np.hypot(*(known[i] - position)) <= radius_m]
            assert positions.known_within(position, radius_m).tolist() == expected


@settings(deadline=None, max_examples=100, derandomize=True)
@given(
    st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12)), min_size=1, max_size=40),
    st.tuples(st.integers(0, 12), st.integers(0, 12)),
    st.integers(0, 10),
    st.sampled_from([1.0, 0.1, 1 / 3]),
)
def test_tree_and_scan_agree(points, position, radius, scale):
    """On a grid, where many points lie at exactly the radius."""
    xy, position = np.array(points) * scale, np.array(position) * scale
    tree, scan = Index(xy, still=True), Index(xy, still=False)
    assert np.array_equal(tree.within(position, radius * scale), scan.within(position, radius * scale))
    if scale == 1.0:
        expected = [i for i, point in enumerate(points) if sum((np.array(point) - position) ** 2) <= radius**2]
        assert tree.within(position, radius).tolist() == expected


def test_redrawn_positions_are_reported_at_once():
    positions = positions_of(Trajectories(Redrawn(TERRAIN, 20, Streams(2).draw("mobility"), 2, 2, 50.0)), error_m=0.0)
    everyone = np.arange(20)
    positions.advance(3.0)
    before = positions.true(everyone).copy()
    positions.after_visit(1, 3.0)
    assert np.array_equal(positions.true(everyone), before)
    positions.after_visit(2, 3.0)
    assert not np.isclose(positions.true(everyone), before).any()
    assert np.array_equal(positions.known(everyone), positions.true(everyone))
    here = positions.true(np.array([7]))[0]
    expected = np.flatnonzero(np.hypot(*(positions.true(everyone) - here).T) <= 30)
    assert np.array_equal(positions.within(here, 30.0), expected)
    assert np.array_equal(positions.known_within(here, 30.0), expected)
    positions.advance(44.0)
    assert np.array_equal(positions.within(here, 30.0), expected)
