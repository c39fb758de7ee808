"""Patrols: one route, in order, again and again."""

import numpy as np
import pytest
import shapely
from every_model import sampled
from test_movement import trace

from fedmule.mobility.models.movement import MovementError
from fedmule.mobility.models.patrol import Patrol
from fedmule.mobility.terrain import Obstacle, Terrain
from fedmule.mobility.trajectory import Trajectories
from fedmule.simulator.streams import Streams

FREE = Terrain((100.0, 80.0))
HOUSE = shapely.box(40, 20, 60, 60)
HOUSED = Terrain((100.0, 80.0), [Obstacle(HOUSE)])
ROUTE = ((10.0, 10.0), (90.0, 10.0), (90.0, 40.0))


def patrol(terrain=FREE, count=4, route=ROUTE, turn_back=False, speed=(2.0, 2.0), pause=(3.0, 3.0)):
    return Patrol(terrain, count, Streams(1).draw("mobility"), route, turn_back, speed, pause)


def test_starts_are_spread_evenly_over_the_route():
    around = np.hypot(80, 30)
    positions = Trajectories(patrol(count=4)).positions(0.0)
    quarter = (110 + around) / 4
    assert positions[0] == pytest.approx([10, 10])
    assert positions[1] == pytest.approx([10 + quarter, 10])
    assert positions[2] == pytest.approx([90, 10 + 2 * quarter - 80])
    back = 3 * quarter - 110
    assert positions[3] == pytest.approx([90 - 80 * back / around, 40 - 30 * back / around])


@pytest.mark.parametrize(
    ("turn_back", "period_s", "at"),
    [(False, (110 + np.hypot(80, 30)) / 2 + 9, (90.0, 40.0)), (True, 220 / 2 + 12, (90.0, 40.0))],
)
def test_rounds_and_stops_take_the_expected_time(turn_back, period_s, at):
    model = patrol(count=1, turn_back=turn_back)
    positions = sampled(
        model, np.concatenate([[20.0, 41.5, 42.0, 42.9, 44.0, 58.5, 60.9], [20 + period_s, 58.5 + period_s]])
    )
    assert positions[0, 0] == pytest.approx([50, 10])
    assert positions[1:4, 0] == pytest.approx(np.full((3, 2), [90, 10]))  # it stops from 40 to 43 s
    assert positions[4, 0] == pytest.approx([90, 12])
    assert positions[5:7, 0] == pytest.approx(np.full((2, 2), at))  # and from 58 to 61 s
    assert positions[7, 0] == pytest.approx(positions[0, 0])
    assert positions[8, 0] == pytest.approx(at)
    after = Trajectories(patrol(count=1, turn_back=turn_back)).positions(64.0)[0]
    way_back = [90.0, 34.0] if turn_back else [90 - 6 * 80 / np.hypot(80, 30), 40 - 6 * 30 / np.hypot(80, 30)]
    assert after == pytest.approx(way_back)


def test_routes_lead_round_houses_to_every_point_in_order():
    route = ((10.0, 40.0), (90.0, 40.0), (50.0, 70.0))
    for times, xy in trace(patrol(HOUSED, 6, route, speed=(1.0, 3.0), pause=(0.0, 5.0)), until=600.0):
        assert HOUSE.intersection(shapely.LineString(xy)).length < 1e-9
        speed = np.hypot(*np.diff(xy, axis=0).T)[1:] / np.maximum(np.diff(times)[1:], 1e-9)
        assert (speed < 3 + 1e-6).all()
        stops = [route.index(tuple(point)) for point in xy.tolist() if tuple(point) in route]
        order = [stop for k, stop in enumerate(stops) if k == 0 or stop != stops[k - 1]]
        assert len(order) > 4
        assert (np.diff(order) % 3 == 1).all()


def test_without_a_route_it_is_a_rectangle_on_open_ground():
    positions = Trajectories(patrol(route=())).positions(0.0)
    assert positions[[0, 2]] == pytest.approx(np.array([[25, 20], [75, 60]]))
    blocked = Terrain((100.0, 80.0), [Obstacle(shapely.box(20, 15, 30, 25))])
    assert blocked.area_of(Trajectories(patrol(blocked, route=())).positions(0.0)).tolist() == [0] * 4


def test_unreachable_points_are_reported():
    with pytest.raises(MovementError, match="lies in an obstacle") as error:
        patrol(HOUSED, route=((10.0, 10.0), (50.0, 30.0)))
    assert error.value.key == ".route[1]"
    river = Terrain((100.0, 80.0), [Obstacle(shapely.box(40, -1, 60, 81))])
    with pytest.raises(MovementError, match="cannot be reached from the first point") as error:
        patrol(river, route=((10.0, 10.0), (20.0, 20.0), (90.0, 30.0)))
    assert error.value.key == ".route[2]"
    with pytest.raises(MovementError, match="more than one position"):
        patrol(route=((10.0, 10.0), (10.0, 10.0)))
