"""Clients who change squad."""

from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from making import Squads
from random_terrain import SIZE_M, length, length_inside, polygon_lists, terrain_of
from test_movement import FREE, MUDDY, WALLED, trace

from fedmule.mobility.trajectory import Trajectories
from fedmule.simulator.errors import UserError
from fedmule.simulator.scenario.load import scenario_of
from fedmule.simulator.scenario.parts import choose
from fedmule.simulator.scenario.rules import broken_rules
from fedmule.simulator.streams import Streams

SPEEDS, PAUSES, SPREAD = (0.5, 3.0), (2.0, 12.0), 4.0
AT_S, END_S = 120.0, 700.0

seeds = st.integers(0, 10**6)
terrains = pytest.mark.parametrize("terrain", [FREE, WALLED, MUDDY], ids=["free", "walled", "muddy"])


def squads(terrain, seed=1, at_s=AT_S, share=0.5, count=12, groups=4):
    draw = Streams(seed).draw("mobility")
    return Squads(terrain, count, draw, groups, SPREAD, SPEEDS, PAUSES, at_s, share)


def rests(times, xy):
    """Times [k,2] at which a client stops and starts again, perhaps at once; a wait and a pause are one rest."""
    still = np.flatnonzero((np.diff(xy, axis=0) == 0).all(axis=1))
    spans = []
    for begin, end in zip(times[still], times[still + 1], strict=True):
        if spans and spans[-1][1] == begin:
            spans[-1][1] = end
        else:
            spans.append([begin, end])
    return np.array(spans)


def end_of_leg(track, at_s=AT_S):
    """End of the leg that a client which never changes squad is on at `at_s`."""
    ends = rests(*track)[:, 1]
    return ends[ends >= at_s][0]


def change(track, as_ever):
    """Times at which a client leaves its old squad, arrives at the new one and moves on with it."""
    leave = end_of_leg(as_ever)
    standing = rests(*track)
    arrive, go_on = standing[standing[:, 0] > leave][0]
    return leave, arrive, go_on


def position(track, t):
    return np.array([np.interp(t, track[0], track[1][:, 0]), np.interp(t, track[0], track[1][:, 1])])


def part_of(track, start, end):
    """The waypoints of a track from start to end, both included."""
    times, xy = track
    inner = (times > start) & (times < end)
    return np.concatenate([[position(track, start)], xy[inner], [position(track, end)]])


@given(seeds, st.integers(1, 40), st.integers(2, 8), st.floats(0, 1))
@settings(deadline=None, max_examples=100, derandomize=True)
def test_the_given_fraction_changes_to_other_squads_and_leaders_stay(seed, count, groups, share):
    model = squads(FREE, seed, AT_S, share, count, groups)
    client, new = model.regrouped
    leaders = np.unique(model.squad, return_index=True)[1]
    assert len(client) == min(round(share * count), count - len(leaders))
    assert (np.diff(client) > 0).all()
    assert not np.isin(client, leaders).any()
    assert np.isin(new, model.squad).all()
    assert (new != model.squad[client]).all()
    before, after = model.squad_at(AT_S - 1e-9), model.squad_at(AT_S)
    assert np.array_equal(before, model.squad)
    assert np.flatnonzero(before != after).tolist() == client.tolist()
    assert np.array_equal(after[client], new)


def test_any_follower_may_change_to_any_other_squad():
    counts = np.zeros((12, 4), dtype=int)
    for seed in range(600):
        np.add.at(counts, squads(FREE, seed).regrouped, 1)
    own, leaders = np.arange(12) // 3, np.arange(0, 12, 3)
    allowed = np.arange(4) != own[:, None]
    allowed[leaders] = False
    assert (counts[~allowed] == 0).all()
    assert counts[allowed] == pytest.approx(600 * 6 / 8 / 3, abs=50)  # 4 standard deviations


@pytest.mark.parametrize(
    "nobody", [{"at_s": None}, {"share": 0.0}, {"groups": 12}, {"groups": 1}], ids=["never", "none", "leaders", "one"]
)
def test_nothing_changes_if_nobody_changes_squad(nobody):
    model = squads(WALLED, **nobody)
    assert [part.tolist() for part in model.regrouped] == [[], []]
    assert np.array_equal(model.squad_at(1e9), model.squad)
    plain = Squads(WALLED, 12, Streams(1).draw("mobility"), nobody.get("groups", 4), SPREAD, SPEEDS, PAUSES)
    for mine, other in zip(trace(model), trace(plain), strict=True):
        assert np.array_equal(mine[0], other[0])
        assert np.array_equal(mine[1], other[1])


@terrains
@pytest.mark.parametrize("at_s", [0.0, AT_S])
def test_movement_is_unchanged_until_the_leg_of_the_change_ends(terrain, at_s):
    model = squads(terrain, at_s=at_s)
    tracks, as_ever = trace(model), trace(squads(terrain, at_s=None))
    for i in range(12):
        leave = end_of_leg(as_ever[i], at_s) if at_s else 0.0
        known = as_ever[i][0] <= leave
        assert known.sum() > (5 if at_s else 0)
        assert np.array_equal(tracks[i][0][: known.sum()], as_ever[i][0][known])
        assert np.array_equal(tracks[i][1][: known.sum()], as_ever[i][1][known])
    some, other = Trajectories(squads(terrain, at_s=at_s)), Trajectories(squads(terrain, at_s=None))
    for t in np.linspace(0.0, at_s, 9):
        assert np.array_equal(some.positions(t), other.positions(t))
    assert not np.array_equal(some.positions(at_s + 60), other.positions(at_s + 60))


def test_a_squad_that_nobody_leaves_or_joins_moves_as_before():
    found = 0
    for seed in range(4):
        model = squads(WALLED, seed, share=0.1)
        (client,), (new,) = model.regrouped
        some, as_ever = Trajectories(model), Trajectories(squads(WALLED, seed, at_s=None))
        away = ~np.isin(model.squad, [new, model.squad[client]])
        for t in (AT_S, 300.0, END_S):
            found += away.sum()
            assert np.array_equal(some.positions(t)[away], as_ever.positions(t)[away])
    assert found == 4 * 3 * 6


@given(polygon_lists, seeds, st.floats(0, 200), st.floats(0.1, 1))
@settings(deadline=None, max_examples=25, derandomize=True)
def test_movers_go_round_walls_and_are_never_too_fast(polygons, seed, at_s, share):
    for times, xy in trace(squads(terrain_of(polygons), seed, at_s, share), until=500.0):
        moved, spent = np.hypot(*np.diff(xy, axis=0).T), np.diff(times)
        assert (spent >= 0).all()
        assert (moved <= SPEEDS[1] * spent + 1e-9).all()  # also: no jumps
        assert (xy >= 0).all()
        assert (xy <= SIZE_M).all()
        assert length_inside(polygons, xy) < 1e-9


@terrains
@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("share", [0.25, 1.0])
def test_movers_take_the_shortest_route_to_their_new_squad_which_waits(terrain, seed, share):
    model = squads(terrain, seed, share=share)
    tracks, as_ever = trace(model, END_S), trace(squads(terrain, seed, at_s=None), END_S)
    arrivals = {}
    for client, new in zip(*model.regrouped, strict=True):
        leave, arrive, go_on = change(tracks[client], as_ever[client])
        way = part_of(tracks[client], leave, arrive)
        lead = 3 * new
        camp = position(as_ever[lead], end_of_leg(as_ever[lead]))
        assert np.hypot(*(way[-1] - camp)) <= SPREAD + 1e-9
        seconds, _ = terrain.timed_route(terrain.route(way[0], way[-1]), 1.0)
        speed = seconds[-1] / (arrive - leave)
        assert SPEEDS[0] - 1e-6 <= speed <= SPEEDS[1] + 1e-6
        assert length(way) == pytest.approx(length(terrain.route(way[0], way[-1])))
        arrivals.setdefault(lead, []).append((arrive, go_on))
    for lead in range(0, 12, 3):
        newcomers = arrivals.get(lead, [])
        due = max([end_of_leg(as_ever[lead])] + [arrive for arrive, _ in newcomers])
        standing = rests(*tracks[lead])
        departure = standing[standing[:, 1] >= AT_S][0, 1]
        assert departure == pytest.approx(due)
        assert [go_on for _, go_on in newcomers] == pytest.approx([departure] * len(newcomers))


@terrains
@pytest.mark.parametrize("seed", [1, 2])
def test_the_new_squads_leave_and_arrive_together_and_rest_within_the_spread(terrain, seed):
    model = squads(terrain, seed, share=0.6)
    tracks, as_ever = trace(model, END_S), trace(squads(terrain, seed, at_s=None))
    squad = model.squad_at(END_S)
    settled = max(change(tracks[i], as_ever[i])[1] for i in model.regrouped[0])
    for s in range(4):
        lead = 3 * s
        standing = {}
        for i in np.flatnonzero(squad == s):
            spans = rests(*tracks[i])
            standing[i] = spans[(spans[:, 0] > settled) & (spans[:, 1] < END_S)]
        assert len(standing[lead]) > 1
        for i, spans in standing.items():
            assert spans == pytest.approx(standing[lead], abs=1e-6)
            for t in spans.mean(axis=1):
                assert np.hypot(*(position(tracks[i], t) - position(tracks[lead], t))) <= SPREAD + 1e-9


@cache
def walled_trace(at_s):
    return trace(squads(WALLED, at_s=at_s), END_S)


@settings(deadline=None, max_examples=15, derandomize=True)
@given(
    st.sampled_from([0.0, 99.0, 260.0]),
    st.lists(st.floats(0, 400, allow_nan=False), max_size=12),
    st.lists(st.tuples(st.floats(0, 400), st.integers(0, 11), st.floats(0, 300)), max_size=12),
)
def test_positions_do_not_depend_on_the_order_of_queries(at_s, grid, ahead_queries):
    asked = [150.0, 333.3, 400.0]
    plain, busy = (Trajectories(squads(WALLED, at_s=at_s)) for _ in range(2))
    questions = sorted([(t, None, 0.0) for t in grid + asked] + ahead_queries, key=lambda question: question[0])
    seen, foreseen = {}, []
    for t, client, ahead in questions:
        if client is None:
            seen[t] = busy.positions(t)
        else:
            foreseen.append((client, busy.path(client, t + ahead)))
    for t in asked:
        assert np.array_equal(plain.positions(t), seen[t])
    tracks = walled_trace(at_s)
    for client, (times, positions) in foreseen:
        for t, xy in zip(times[times <= END_S], positions[times <= END_S], strict=True):
            assert position(tracks[client], t) == pytest.approx(xy, abs=1e-6)


def scenario(**keys):
    return scenario_of({"clients": {"count": 12, "mobility": {"kind": "squads", **keys}}}, [], "test")


def test_a_scenario_sets_when_and_how_many_change():
    mobility = scenario().clients.mobility
    assert mobility.regroup_at_s is None
    assert mobility.regroup_share == 0.5
    mobility = scenario(squads=4, regroup_at_s=60, regroup_share=0.25).clients.mobility
    draw = Streams(1).draw("mobility")
    model = choose(mobility, "clients.mobility", {}).make(terrain=FREE, count=12, draw=draw)
    assert len(model.regrouped[0]) == 3
    assert (model.squad_at(59.9) == model.squad).all()
    assert (model.squad_at(60.0) != model.squad).sum() == 3


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"regroup_at_s": -1.0}, "must be at least 0"),
        ({"regroup_at_s": float("inf")}, "must be a finite number"),
        ({"regroup_share": 1.1}, "must be at most 1"),
        ({"regroup_share": -0.1}, "must be at least 0"),
        ({"squads": 1, "regroup_at_s": 60.0}, "must not be given with a single squad"),
    ],
)
def test_impossible_changes_are_refused(keys, message):
    with pytest.raises(UserError, match=message):
        scenario(**keys)
    assert not broken_rules(scenario(squads=1))
