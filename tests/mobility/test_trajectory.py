import numpy as np
import pytest
import shapely
from hypothesis import given, settings
from hypothesis import strategies as st

from fedmule.mobility.trajectory import first_within, position_at

moments = st.floats(0, 100, allow_nan=False).map(lambda v: round(v, 2))
coordinates = st.integers(-20, 20).map(float) | st.floats(-20, 20, allow_nan=False).map(lambda v: round(v, 2))


@st.composite
def paths(draw):
    times = sorted(draw(st.lists(moments, min_size=1, max_size=6, unique=True)))
    positions = draw(st.lists(st.tuples(coordinates, coordinates), min_size=len(times), max_size=len(times)))
    return np.array(times), np.array(positions)


def where(path, t):
    return np.stack([np.interp(t, path[0], path[1][:, axis]) for axis in (0, 1)], axis=-1)


@settings(deadline=None, max_examples=150, derandomize=True)
@given(paths(), st.lists(st.floats(-5, 110, allow_nan=False), min_size=1, max_size=20))
def test_position_at_interpolates(path, t):
    t = np.array(t)
    assert position_at(*path, t) == pytest.approx(where(path, t), abs=1e-9)


def test_position_at_a_jump_and_at_rest():
    times, positions = np.array([0.0, 5.0, 5.0, 10.0]), np.array([[0.0, 0], [10, 0], [50, 0], [60, 0]])
    assert position_at(times, positions, np.array([4.0, 5.0, 6.0, 99.0]))[:, 0].tolist() == [8, 50, 52, 60]
    times, positions = np.array([0.0, np.inf]), np.array([[3.0, 4.0], [3.0, 4.0]])
    assert position_at(times, positions, np.array([0.0, 7.0, 1e9])).tolist() == [[3, 4]] * 3


@settings(deadline=None, max_examples=300, derandomize=True)
@given(paths(), paths(), st.floats(0.5, 15).map(lambda v: round(v, 2)), moments, moments)
def test_first_within_against_geometry(a, b, distance_m, one, other):
    start, end = min(one, other), max(one, other)
    met = first_within(*a, *b, distance_m, start, end)
    cuts = np.unique(np.concatenate([[start, end], a[0], b[0]]))
    cuts = cuts[(cuts >= start) & (cuts <= end)]
    gap = where(a, cuts) - where(b, cuts)
    way = shapely.LineString(np.concatenate([gap, gap[-1:]]))  # how one moves as seen by the other
    least = shapely.Point(0, 0).distance(way) if way.length else np.hypot(*gap[0])
    if met is None:
        assert least > distance_m - 1e-9
        return
    assert least <= distance_m + 1e-9
    assert start <= met <= end
    assert np.hypot(*(where(a, met) - where(b, met))) <= distance_m + 1e-6
    before = np.linspace(start, met, 500, endpoint=False)
    before = before[before < met - 1e-9]
    assert np.hypot(*(where(a, before) - where(b, before)).T).min(initial=np.inf) > distance_m - 1e-9


def straight(*legs):
    return np.array([leg[0] for leg in legs], float), np.array([leg[1] for leg in legs], float)


REST = straight((0, (0, 0)))


@pytest.mark.parametrize(
    ("path", "distance_m", "start", "end", "expected"),
    [
        (straight((0, (-10, 0)), (20, (10, 0))), 4, 0, 20, 6),  # straight at it
        (straight((0, (-10, 3)), (20, (10, 3))), 5, 0, 20, 6),  # past it
        (straight((0, (-5, 3)), (10, (5, 3))), 3, 0, 10, 5),  # touching
        (straight((0, (-5, 3)), (10, (5, 3))), 2.999, 0, 10, None),  # never
        (straight((0, (1, 1)), (10, (50, 1))), 2, 0, 10, 0),  # within from the beginning
        (straight((0, (-10, 0)), (20, (10, 0))), 4, 12, 20, 12),  # within from the start
        (straight((0, (-10, 0)), (20, (10, 0))), 4, 15, 20, None),  # already past
        (straight((0, (-10, 0)), (20, (10, 0))), 4, 0, 6, 6),  # at the very end
        (straight((0, (-10, 0)), (20, (10, 0))), 4, 0, 5.999, None),  # too early
        (straight((0, (3, 4))), 5, 2, 9, 2),  # both at rest, touching
        (straight((0, (3, 4))), 4.9, 2, 9, None),  # both at rest, apart
        (straight((0, (9, 0)), (3, (9, 0)), (3, (9, 0)), (6, (3, 0))), 5, 0, 9, 5),  # waits, then comes
        (straight((5, (-10, 0)), (25, (10, 0))), 4, 0, 30, 11),  # stands at its first position until it leaves
        (straight((0, (-10, 0)), (4, (-6, 0))), 4, 0, 30, None),  # stops before
        (straight((0, (-10, 0)), (6, (-4, 0))), 4, 0, 30, 6),  # stops as it touches
    ],
)
def test_first_within_by_hand(path, distance_m, start, end, expected):
    for first, second in [(path, REST), (REST, path)]:
        met = first_within(*first, *second, distance_m, start, end)
        assert met == (expected if expected is None else pytest.approx(expected, abs=1e-12))


def test_first_within_of_an_endless_rest():
    still = np.array([0.0, np.inf]), np.array([[0.0, 0.0], [0.0, 0.0]])
    assert first_within(*straight((0, (-10, 0)), (20, (10, 0))), *still, 4, 0, 20) == pytest.approx(6)


def plainly_at(times, positions, t, side):
    """What `position_at` computes, in NumPy."""
    leg = np.clip(np.searchsorted(times, t, side=side) - 1, 0, len(times) - 1)
    following = np.minimum(leg + 1, len(times) - 1)
    ends = np.where(np.isfinite(times[following]), times[following], times[leg])
    span = ends - times[leg]
    fraction = np.where(span > 0, (t - times[leg]) / np.where(span > 0, span, 1.0), 0.0)
    return positions[leg] + np.clip(fraction, 0.0, 1.0)[:, None] * (positions[following] - positions[leg])


@pytest.mark.parametrize("side", ["left", "right"])
@settings(deadline=None, derandomize=True)
@given(st.lists(st.integers(0, 9), min_size=1, max_size=8), st.integers(0, 2**32 - 1), st.booleans(), st.booleans())
def test_positions_on_a_path(side, ticks, seed, endless, absent):
    """The same bits as in NumPy: between waypoints, at them, at jumps, before, after, on a leg that never ends."""
    draw = np.random.default_rng(seed)
    times, positions = np.sort(np.array(ticks, dtype=float)), draw.uniform(-50, 50, (len(ticks), 2))
    if endless:
        times[-1] = np.inf
    if absent:
        positions[draw.integers(len(ticks))] = np.nan
    t = np.concatenate([times[np.isfinite(times)], draw.uniform(-2, 12, 20)])
    np.testing.assert_array_equal(position_at(times, positions, t, side), plainly_at(times, positions, t, side))


def plainly_first_within(t_a, a, t_b, b, distance_m, start, end):
    """What `first_within` computes, in NumPy."""
    cuts = np.unique(np.concatenate([[start, end], t_a, t_b]))
    cuts = cuts[(cuts >= start) & (cuts <= end)]
    gaps = plainly_at(t_a, a, cuts, "right") - plainly_at(t_b, b, cuts, "right")
    ends = plainly_at(t_a, a, cuts, "left") - plainly_at(t_b, b, cuts, "left")
    for i, gap in enumerate(gaps):
        if gap @ gap <= distance_m * distance_m:
            return float(cuts[i])
        if i + 1 < len(cuts):
            change = ends[i + 1] - gap
            quadratic, half_linear = change @ change, gap @ change
            root = half_linear * half_linear - quadratic * (gap @ gap - distance_m * distance_m)
            enter = (-half_linear - np.sqrt(root)) / quadratic if quadratic > 0 and root >= 0 else np.nan
            if 0 <= enter <= 1:
                return float(cuts[i] + enter * (cuts[i + 1] - cuts[i]))
    return None


@settings(deadline=None, max_examples=300, derandomize=True)
@given(st.lists(st.integers(0, 9), min_size=2, max_size=8), st.integers(0, 2**32 - 1), st.floats(0.5, 60))
def test_first_within_is_that_of_its_plain_twin(ticks, seed, distance_m):
    """The same bits as in NumPy, at jumps, for spans without length, and for absent clients too."""
    draw = np.random.default_rng(seed)
    found = [np.sort(draw.choice(ticks, len(ticks))).astype(float) for _ in range(2)]
    a, b = ((times, draw.uniform(-50, 50, (len(times), 2))) for times in found)
    if draw.random() < 0.3:
        b[1][0, 0] = -1e8
    start, end = sorted(draw.choice([0.0, 2.0, 4.5, 9.0, 12.0], 2).tolist())
    assert first_within(*a, *b, distance_m, start, end) == plainly_first_within(*a, *b, distance_m, start, end)
