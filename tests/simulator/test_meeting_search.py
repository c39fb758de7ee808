"""Meetings are looked for near a vehicle only: the same meetings as if every pair were examined."""

import numpy as np
import pytest

from fedmule.mobility.trajectory import Way
from fedmule.simulator.engine import Simulation
from fedmule.simulator.meetings import Meetings
from fedmule.simulator.runs.columns import MeetingRow
from fedmule.simulator.runs.folder import NoLog
from fedmule.simulator.scenario import Scenario


class Rows(NoLog):
    def __init__(self):
        self.meetings: list[MeetingRow] = []

    def meeting(self, row):
        self.meetings.append(row)


def meetings_of(**vehicle):
    wall = {"polygon": [[180, 0], [200, 0], [200, 300], [180, 300]], "radio_loss_db": 30}
    log = Rows()
    Simulation(
        Scenario.model_validate(
            {
                "terrain": {"size_m": [600, 400], "obstacles": [wall]},
                "vehicle": {"count": 12, **vehicle},
                "clients": {"count": 20, "mobility": "waypoint"},
                "radio": {"kind": "disc", "range_m": 60.0},
                "learning": {"dataset": {"samples": [10, 12]}, "evaluate_every": 1000, "alone": False},
                "stop": {"visits": 60},
            }
        )
    ).run(log)
    return log.meetings


def every_other(meetings, vehicle, now):
    return [other for other in meetings._vehicles if other is not vehicle]


@pytest.mark.parametrize("vehicle", [{}, {"meeting": "drive_on"}, {"in_passing": False}])
def test_the_same_meetings_as_if_every_pair_were_examined(vehicle, monkeypatch):
    found = meetings_of(**vehicle)
    monkeypatch.setattr(Meetings, "_near", every_other)
    assert found == meetings_of(**vehicle)
    assert len(found) > 5


def test_few_pairs_are_examined(monkeypatch):
    costs = []
    examined = Meetings._may_meet
    monkeypatch.setattr(Meetings, "_may_meet", lambda *pair: costs.append(pair) or examined(*pair))
    found = meetings_of(in_passing=False)
    near = len(costs)
    monkeypatch.setattr(Meetings, "_near", every_other)
    assert meetings_of(in_passing=False) == found
    assert near < (len(costs) - near) / 2


def test_a_box_holds_a_way_between_two_times():
    way = Way(np.array([0.0, 10.0, 20.0]), np.array([[0.0, 0.0], [10.0, 40.0], [20.0, 0.0]]))
    for start, end, low, high in (
        (0.0, 20.0, (0, 0), (20, 40)),
        (5.0, 10.0, (5, 20), (10, 40)),
        (15.0, np.inf, (15, 0), (20, 20)),
        (-5.0, 0.0, (0, 0), (0, 0)),
    ):
        found = way.box(start, end)
        assert np.array_equal(found[0], low)
        assert np.array_equal(found[1], high)
