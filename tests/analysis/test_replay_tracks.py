"""Waypoints of a page: thinned within a tolerance, packed without loss."""

from __future__ import annotations

import base64
import zlib

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedmule.analysis.replay import tracks as module
from fedmule.analysis.replay.arrays import Arrays
from fedmule.analysis.replay.tracks import NOWHERE, Tracks, add_tracks, frame_of, thinned, tracks_of


def walks(seed: int, nodes: int, steps: int) -> Tracks:
    """Random walks that now and then jump, disappear or stand still."""
    draw = np.random.default_rng(seed)
    parts = []
    for node in range(nodes):
        t = np.sort(draw.choice(1000, steps, replace=True)).astype(float)
        xy = np.cumsum(draw.normal(0, 1, (steps, 2)) * draw.choice([0.0, 0.05, 1.0], (steps, 1)), axis=0)
        xy[draw.random(steps) < 0.1] = np.nan
        parts.append((np.full(steps, node), t, xy[:, 0], xy[:, 1]))
    return Tracks(*(np.concatenate(column) for column in zip(*parts, strict=True)))


@given(st.integers(0, 10_000), st.sampled_from([0.01, 0.3, 3.0]))
def test_thinned_paths_stay_within_the_tolerance(seed: int, tolerance: float) -> None:
    before = walks(seed, 3, 60)
    after = thinned(before, tolerance)
    kept = {(n, t, x) for n, t, x in zip(after.node, after.t, np.nan_to_num(after.x, nan=1e9), strict=True)}
    for node in range(3):
        old, new = before.node == node, after.node == node
        t, x, y = before.t[old], before.x[old], before.y[old]
        assert (after.t[new][[0, -1]] == t[[0, -1]]).all()
        for i in range(len(t)):
            sharp = np.isnan(x[i]) or (t == t[i]).sum() > 1  # absent, or a jump
            if sharp:
                assert (node, t[i], np.nan_to_num(x[i], nan=1e9)) in kept
                continue
            there = ~np.isnan(after.x[new])
            positions = [np.interp(t[i], after.t[new][there], c[new][there]) for c in (after.x, after.y)]
            assert np.hypot(positions[0] - x[i], positions[1] - y[i]) <= tolerance + 1e-9


def test_straight_paths_need_no_waypoints_between() -> None:
    t = np.arange(100.0)
    after = thinned(Tracks(np.zeros(100, dtype=np.int64), t, 2 * t, -t), 0.01)
    assert len(after.t) <= 100 / 2**4 + 4
    assert after.t[0] == 0
    assert after.t[-1] == 99


def unpacked(arrays: Arrays) -> dict[str, np.ndarray]:
    """Arrays of a page, unpacked independently of its script."""
    data, found, start = zlib.decompress(base64.b64decode(arrays.text())), {}, 0
    for entry in arrays.layout:
        kind = np.dtype(entry["type"])
        size = kind.itemsize * entry["length"]
        planes = np.frombuffer(data[start : start + size], dtype=np.uint8).reshape(kind.itemsize, entry["length"])
        values = np.ascontiguousarray(planes.T).view(kind).ravel()
        found[entry["name"]] = np.cumsum(values, dtype=kind) if entry["differences"] else values
        start += size
    assert start == len(data)
    return found


def test_arrays_come_back_as_they_were() -> None:
    draw = np.random.default_rng(0)
    given = {
        "a": draw.integers(0, 2**16, 1000).astype(np.uint16),
        "b": draw.integers(0, 2**32, 7).astype(np.uint32),
        "c": np.array([0.5, np.nan, -1e30], dtype=np.float32),
        "d": np.cumsum(draw.integers(0, 2**40, 50)).astype(np.float64),
        "e": np.zeros(0, dtype=np.uint32),
    }
    arrays = Arrays()
    for name, values in given.items():
        arrays.add(name, values, differences=name in "abde")
    for name, values in unpacked(arrays).items():
        np.testing.assert_array_equal(values, given[name])


def test_too_many_waypoints_are_thinned_to_size(monkeypatch: pytest.MonkeyPatch) -> None:
    draw = np.random.default_rng(1)
    steps, clients = 400, 5
    track = pd.DataFrame(
        {
            "sim_time_s": np.tile(np.arange(steps) * 7.0, clients + 1),
            "node": ["vehicle"] * steps + ["client"] * (steps * clients),
            "id": np.repeat([3, *range(clients)], steps),
            "x_m": np.cumsum(draw.normal(0, 1, (clients + 1, steps)), axis=1).ravel() + 100,
            "y_m": np.cumsum(draw.normal(0, 1, (clients + 1, steps)), axis=1).ravel() + 100,
        }
    ).sample(frac=1, random_state=0)
    frame = frame_of(track, (200.0, 200.0), 7.0 * steps)
    tracks = tracks_of(track, [3], clients)
    full, small = Arrays(), Arrays()
    assert add_tracks(full, tracks, frame, clients + 1) < 0.01
    monkeypatch.setattr(module, "MOST_BYTES", 4000)
    exact_to_m = add_tracks(small, tracks, frame, clients + 1)
    assert len(base64.b64decode(small.text())) < 5000 < len(base64.b64decode(full.text()))
    found = unpacked(small)
    first = 0
    for node, count in enumerate(found["track_count"]):
        own = slice(first, first := first + count)
        assert (found["track_x"][own] != NOWHERE).all()
        rows = track[
            (track["node"] == "vehicle") if node == 0 else (track["node"] == "client") & (track["id"] == node - 1)
        ]
        t = found["track_tick"][own] * frame.tick_s
        x = np.interp(rows["sim_time_s"], t, found["track_x"][own] * frame.step_m + frame.corner_m[0])
        y = np.interp(rows["sim_time_s"], t, found["track_y"][own] * frame.step_m + frame.corner_m[1])
        assert np.hypot(x - rows["x_m"], y - rows["y_m"]).max() <= exact_to_m + frame.step_m
