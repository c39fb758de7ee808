"""Clients follow a trace, and are absent while it does not contain them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from making import Recorded, reporting

from fedmule.mobility.models.movement import NOWHERE_X_M, Waypoints
from fedmule.mobility.positions import Positions
from fedmule.mobility.terrain import Terrain
from fedmule.mobility.traces.formats.tables import write_csv
from fedmule.mobility.traces.trace import Rows, TraceError, positions_at
from fedmule.mobility.trajectory import Trajectories, first_within, position_at

TERRAIN = Terrain((100.0, 100.0), [], [])


def draw(*_: object) -> np.ndarray:
    raise AssertionError("a trace draws nothing")


def traced(rows: Rows, folder: Path, count: int, **keys: object) -> Recorded:
    write_csv(folder / "trace.csv", rows.trace())
    return Recorded(TERRAIN, count, draw, path=str(folder / "trace.csv"), **keys)  # type: ignore[arg-type]


def comers_and_goers() -> Rows:
    rows = Rows()
    rows.add("0", 100, 10, 10)  # the trace begins at 100 s
    rows.add("0", 130, 40, 10)
    rows.add("1", 105, 20, 20)
    rows.add("1", 115, 30, 20)
    rows.gone("1", 120)
    rows.add("1", 140, 50, 50)
    rows.gone("1", 150)
    return rows


def test_clients_follow_the_trace_and_are_absent_otherwise(tmp_path: Path) -> None:
    movement = traced(comers_and_goers(), tmp_path, 2, shift_m=(1.0, 2.0))
    trajectories = Trajectories(movement)
    for t in np.arange(0.5, 80.0):
        x, y = (column[:, 0] for column in positions_at(comers_and_goers().trace(), np.array([100 + min(t, 50.0)])))
        if t > 50:
            x[1] = np.nan
        xy = trajectories.positions(t)
        there = movement.there(t)
        assert there.tolist() == (~np.isnan(x)).tolist()
        np.testing.assert_allclose(xy[there], np.stack([x, y], axis=1)[there] + [1.0, 2.0], atol=1e-9)
        assert (xy[~there, 0] <= NOWHERE_X_M).all()
    assert [movement.next_arrival_s(t) for t in (0.0, 5.0, 40.0)] == [5.0, 40.0, np.inf]


@given(st.lists(st.floats(0.1, 20.0), min_size=1, max_size=60))
def test_many_waypoints_are_handed_out_in_batches(tmp_path_factory: pytest.TempPathFactory, steps: list[float]) -> None:
    rows = Rows()
    times = np.concatenate([[0.0], np.cumsum(steps)])
    for k, t in enumerate(times):
        rows.add("a", t, k, 50.0)
    trajectories = Trajectories(traced(rows, tmp_path_factory.mktemp("trace"), 1))
    for t in np.linspace(0.0, times[-1] + 10, 50):
        assert trajectories.positions(t)[0] == pytest.approx([np.interp(t, times, np.arange(len(times))), 50.0])


def test_a_jump_away_does_not_pass_others(tmp_path: Path) -> None:
    trajectories = Trajectories(traced(comers_and_goers(), tmp_path, 2))
    trajectories.positions(6.0)
    times, positions = trajectories.path(1, 30.0)
    assert position_at(times, positions, np.array([20.0]), "left").tolist() == [[30.0, 20.0]]
    assert position_at(times, positions, np.array([20.0]))[0, 0] <= NOWHERE_X_M
    standing = np.array([0.0]), np.array([[5.0, 20.0]])  # west of where it vanishes
    assert first_within(*standing, times, positions, 4.0, 6.0, 30.0) is None


def test_a_trace_that_does_not_fit_is_reported(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="has 2 nodes, fewer than the 3 clients"):
        traced(comers_and_goers(), tmp_path, 3)
    with pytest.raises(TraceError, match=r"leaves the terrain of 100 × 100 m: it goes from \(70\.0, 10\.0\)"):
        traced(comers_and_goers(), tmp_path, 2, shift_m=(60.0, 0.0))


def test_a_new_arrival_is_known_at_once_and_belongs_where_it_appeared(tmp_path: Path) -> None:
    movement = traced(comers_and_goers(), tmp_path, 2)
    positions = Positions(Trajectories(movement), draw, reporting(1000.0, stagger=False))
    positions.advance(7.0)  # one came at 5 s and reported at once; the other's last report is of 0 s
    assert positions.known(np.array([0, 1])).tolist() == [[10.0, 10.0], [20.0, 20.0]]
    assert movement.first_positions().tolist() == [[10.0, 10.0], [20.0, 20.0]]


def test_the_recorded_trace_has_no_positions_while_a_client_is_absent(tmp_path: Path) -> None:
    trajectories = Trajectories(traced(comers_and_goers(), tmp_path, 2))
    told: list[Waypoints] = []
    trajectories.record(told.append)
    trajectories.finish(90.0)
    rows = Waypoints.join(told)
    mine = rows.client == 1
    seen = [(t, None if np.isnan(x) else x) for t, x in zip(rows.t[mine], rows.xy[mine, 0], strict=True)]
    away = [(0, None), (5, None)], [(20, None), (40, None)], [(50, None), (90, None)]
    there = [(5, 20), (15, 30), (20, 30)], [(40, 50), (50, 50)]
    assert list(dict.fromkeys(seen)) == [*away[0], *there[0], *away[1], *there[1], *away[2]]
    assert np.isfinite(rows.xy[rows.client == 0]).all()
