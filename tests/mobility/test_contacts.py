"""Contacts are exact: equal to the reference set, and to a check by fractions on small random traces."""

from __future__ import annotations

import csv
import lzma
import math
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedmule.mobility.traces import contacts as contacts_module
from fedmule.mobility.traces.contacts import find_contacts
from fedmule.mobility.traces.formats.tables import read_csv, write_contacts
from fedmule.mobility.traces.trace import Rows, Trace

REFERENCE = Path(__file__).parents[1] / "reference" / "contacts"

Found = list[tuple[str, str, float, float]]


def trace(*nodes: list[tuple[float, ...]]) -> Trace:
    """Trace of nodes 0, 1, … with waypoints (t, x, y), or (t,) from where they are absent."""
    rows = Rows()
    for name, waypoints in enumerate(nodes):
        for t, *position in waypoints:
            rows.add(str(name), t, *(position or (math.nan, math.nan)))
    return rows.trace()


def found(made: Trace, range_m: float, until_s: float = math.inf) -> Found:
    c = find_contacts(made, range_m, until_s)
    names = made.names
    rows = zip(c.a.tolist(), c.b.tolist(), c.start_s.tolist(), c.end_s.tolist(), strict=True)
    return [(names[a], names[b], start, end) for a, b, start, end in rows]


def test_the_reference_set_is_found(tmp_path: Path) -> None:
    made = read_csv(REFERENCE / "rwp_n50.csv.xz")
    write_contacts(tmp_path / "contacts.csv", made.names, find_contacts(made, 100.0, until_s=3600.0))
    with (tmp_path / "contacts.csv").open() as ours, lzma.open(
        REFERENCE / "rwp_n50_r100_exact.csv.xz", "rt"
    ) as theirs:  # fmt: skip
        rows, wanted = list(csv.reader(ours)), list(csv.reader(theirs))
    assert rows[0] == wanted[0]
    rows, wanted = sorted(rows[1:]), sorted(wanted[1:])
    assert [row[:2] for row in rows] == [row[:2] for row in wanted]
    times, wanted_times = (np.array([row[2:] for row in table], dtype=float) for table in (rows, wanted))
    assert np.abs(times - wanted_times).max() < 1e-6


def test_two_who_meet_head_on() -> None:
    made = trace([(0, 0, 0), (100, 100, 0)], [(0, 100, 0), (100, 0, 0)])
    assert found(made, 10.0) == [("0", "1", 45.0, 55.0)]


def test_a_touch_is_a_momentary_contact() -> None:
    passing = trace([(0, -50, 10), (100, 50, 10)], [(0, 0, 0), (100, 0, 0)])
    assert found(passing, 10.0) == [("0", "1", 50.0, 50.0)]
    assert found(passing, 9.999999) == []
    turning = trace([(0, 20, 0), (10, 10, 0), (20, 20, 0)], [(0, 0, 0), (20, 0, 0)])
    assert found(turning, 10.0) == [("0", "1", 10.0, 10.0)]
    side_by_side = trace([(0, 0.1, 0), (7, 70.1, 0)], [(0, 0.1, 0.3), (7, 70.1, 0.3)])
    assert found(side_by_side, 0.3) == [("0", "1", 0.0, 7.0)]


def test_leaving_to_the_very_edge_and_coming_back_is_one_contact() -> None:
    made = trace([(0, 5, 0), (10, 10, 0), (20, 5, 0)], [(0, 0, 0), (20, 0, 0)])
    assert found(made, 10.0) == [("0", "1", 0.0, 20.0)]


def test_equal_positions_are_a_contact_at_any_range() -> None:
    made = trace([(0, 3, 4), (10, 3, 4)], [(2, 3, 4), (9, 3, 4)], [(0, 3, 4.5), (10, 3, 4.5)])
    assert found(made, 0.0) == [("0", "1", 2.0, 10.0)]
    crossing = trace([(0, 0, 0), (10, 10, 0)], [(0, 5, -5), (10, 5, 5)])
    assert found(crossing, 0.0) == [("0", "1", 5.0, 5.0)]


def test_an_absent_node_has_no_contacts_until_it_returns() -> None:
    made = trace([(0, 0, 0), (40, 0, 0)], [(5, 1, 0), (10,), (20, 2, 0), (30, 2, 0), (30,)])
    assert found(made, 3.0) == [("0", "1", 5.0, 10.0), ("0", "1", 20.0, 30.0)]


def test_a_node_present_for_a_moment_has_a_contact_then() -> None:
    made = trace([(0, 0, 0), (40, 0, 0)], [(5, 1, 0), (5,)], [(40, 1, 0)])
    assert found(made, 3.0) == [("0", "1", 5.0, 5.0), ("0", "2", 40.0, 40.0)]


def test_a_jump_ends_and_begins_contacts() -> None:
    made = trace([(0, 0, 0), (40, 0, 0)], [(0, 1, 0), (10, 1, 0), (10, 500, 0), (30, 500, 0), (30, 1, 0)])
    assert found(made, 3.0) == [("0", "1", 0.0, 10.0), ("0", "1", 30.0, 40.0)]


def test_contacts_open_at_the_given_end_end_there() -> None:
    made = trace([(0, 0, 0), (100, 100, 0)], [(0, 100, 0), (100, 0, 0)])
    assert found(made, 10.0, until_s=50.0) == [("0", "1", 45.0, 50.0)]
    assert found(made, 10.0, until_s=40.0) == []


def test_far_from_zero_nothing_is_lost() -> None:
    x, y, t = 500_000.0, 5_400_000.0, 1.7e9
    near = trace([(0, -50, 10), (100, 50, 10)], [(0, 0, 0), (100, 0, 0)])
    far = trace([(t, x - 50, y + 10), (t + 100, x + 50, y + 10)], [(t, x, y), (t + 100, x, y)])
    assert found(far, 10.0) == [(a, b, start + t, end + t) for a, b, start, end in found(near, 10.0)]


# --- random traces against fractions -----------------------------------------------------------------------

SMALL = st.integers(0, 12)


@st.composite
def walks(draw: st.DrawFn) -> list[tuple[float, ...]]:
    """Waypoints with integer coordinates, so that touches, rests and equal positions are frequent."""
    times = sorted(draw(st.sets(st.integers(0, 16), min_size=1, max_size=6)))
    waypoints: list[tuple[float, ...]] = [(t, draw(SMALL), draw(SMALL)) for t in times]
    if len(times) > 2 and draw(st.booleans()):
        waypoints[draw(st.integers(1, len(times) - 1))] = (times[-2],) if draw(st.booleans()) else waypoints[1]
        waypoints.sort(key=lambda waypoint: (waypoint[0], -len(waypoint)))
    return waypoints


def stays(waypoints: list[tuple[float, ...]], end: int) -> list[tuple[Fraction, Fraction, tuple, tuple]]:  # type: ignore[type-arg]
    """Legs (start, end, position, position) by the definition of a trace."""
    legs = []
    for i, (t, *position) in enumerate(waypoints):
        following = waypoints[i + 1] if i + 1 < len(waypoints) else (end,)
        if not position:
            continue
        came = all(len(w) == 1 or w[0] == t for w in waypoints[max(0, i - 1) : i])
        if following[0] > t or (len(following) == 1 and came):
            legs.append(
                (Fraction(int(t)), Fraction(int(following[0])), tuple(position), tuple(following[1:] or position))
            )
    return legs


def brute_force(nodes: list[list[tuple[float, ...]]], range_m: int) -> Found:
    """Every pair of legs by exact arithmetic; only the roots themselves are rounded."""
    end = int(max(w[0] for waypoints in nodes for w in waypoints))
    result: Found = []
    for b in range(len(nodes)):
        for a in range(b):
            stretches = []
            for leg_a in stays(nodes[a], end):
                for leg_b in stays(nodes[b], end):
                    stretches += in_range(leg_a, leg_b, range_m)
            merged: list[list[float]] = []
            for start, stop in sorted(stretches):
                if merged and start <= merged[-1][1] + 1e-9:
                    merged[-1][1] = max(merged[-1][1], stop)
                else:
                    merged.append([start, stop])
            result += [(str(a), str(b), start, stop) for start, stop in merged]
    return sorted(result)


def in_range(p: tuple, q: tuple, range_m: int) -> list[tuple[float, float]]:  # type: ignore[type-arg]
    low, high = max(p[0], q[0]), min(p[1], q[1])
    if low > high:
        return []

    def at(leg: tuple, axis: int, t: Fraction) -> Fraction:  # type: ignore[type-arg]
        share = (t - leg[0]) / (leg[1] - leg[0]) if leg[1] > leg[0] else Fraction(0)
        return leg[2][axis] + share * (leg[3][axis] - leg[2][axis])

    gap = [at(q, k, low) - at(p, k, low) for k in (0, 1)]
    change = [at(q, k, high) - at(p, k, high) - gap[k] for k in (0, 1)]
    # |gap + s·change|² ≤ R² for s in [0, 1]: A s² + 2 B s + C ≤ 0
    A = sum(v * v for v in change)
    B = sum(g * v for g, v in zip(gap, change, strict=True))
    C = sum(g * g for g in gap) - range_m**2
    if A == 0:
        return [(float(low), float(high))] if C <= 0 else []
    inside = B * B - A * C
    if inside < 0:
        return []
    starts_in, ends_in = C <= 0, A + 2 * B + C <= 0
    if not (starts_in or ends_in) and not 0 <= -B / A <= 1:
        return []
    root = math.sqrt(inside)
    first = 0.0 if starts_in else (-float(B) - root) / float(A)
    last = 1.0 if ends_in else (-float(B) + root) / float(A)
    return [(float(low) + first * float(high - low), float(low) + last * float(high - low))]


def check(nodes: list[list[tuple[float, ...]]], range_m: int) -> None:
    ours, wanted = sorted(found(trace(*nodes), float(range_m))), brute_force(nodes, range_m)
    assert [row[:2] for row in ours] == [row[:2] for row in wanted]
    assert np.allclose([row[2:] for row in ours], [row[2:] for row in wanted], rtol=0, atol=1e-7)


@settings(max_examples=300)
@given(st.lists(walks(), min_size=2, max_size=4), st.integers(0, 8))
def test_contacts_of_random_traces_are_those_of_exact_arithmetic(
    nodes: list[list[tuple[float, ...]]], range_m: int
) -> None:
    check(nodes, range_m)


@settings(max_examples=100)
@given(st.lists(walks(), min_size=2, max_size=3), st.integers(1, 8), st.sampled_from([0.3, 1.0, 2.0, 5.7]))
def test_slices_and_cells_do_not_change_contacts(
    nodes: list[list[tuple[float, ...]]], range_m: int, size: float
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(contacts_module, "_sizes", lambda *_: (size, size))
        check(nodes, range_m)


def test_many_nodes_have_the_contacts_of_all_pairs() -> None:
    generator = np.random.default_rng(3)
    walk = np.cumsum(generator.normal(0, 40, (60, 9, 2)), axis=1) + generator.uniform(0, 600, (60, 1, 2))
    nodes = [[(float(20 * k), *map(float, position)) for k, position in enumerate(positions)] for positions in walk]
    ours: dict[tuple[str, str], list[tuple[float, float]]] = {row[:2]: [] for row in found(trace(*nodes), 50.0)}
    for a, b, start, end in found(trace(*nodes), 50.0):
        ours[a, b].append((start, end))
    for t in generator.uniform(0, 160, 200):
        leg, share = int(t // 20), t / 20 % 1
        xy = walk[:, leg] * (1 - share) + walk[:, leg + 1] * share
        near = np.hypot(*(xy[:, None] - xy[None]).transpose(2, 0, 1)) <= 50.0
        for a in range(60):
            for b in range(a + 1, 60):
                open_ = any(start <= t <= end for start, end in ours.get((str(a), str(b)), []))
                assert open_ == near[a, b], (a, b, t)
