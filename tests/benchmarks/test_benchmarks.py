"""The benchmarks run, and what they are there to show holds at small sizes with a wide margin for noise."""

from __future__ import annotations

from contact_cost import compare
from hot_paths import main
from trace_contacts import times_faster
from walks import measure, scenario


def test_a_contact_costs_the_same_with_more_clients() -> None:
    (_, _, _, first), (_, cost_ms, _, ratio) = compare([100, 3000], "static", contacts=20, rounds=5)
    assert first == 1.0
    assert cost_ms > 0
    assert ratio < 2.0


PROMISED = {"MLR": 12.0, "MLP": 3.5, "CNN": 1.3}


def test_hot_paths_beat_plain_ones() -> None:
    for name, times in main(rounds=3).items():
        assert times > 0.75 * PROMISED.get(name[:3], 4.0), name


def test_contacts_of_a_trace_are_found_faster_than_by_a_plain_search() -> None:
    ratio, found, plain = times_faster(40)
    assert len(found) == plain
    assert ratio > 20


def test_a_tour_visits_everyone_in_as_many_visits_and_drives_less_than_a_random_walk() -> None:
    visits, _, seconds, _ = measure(scenario("static", "tour", 0, 60))
    assert visits == 40
    assert seconds < measure(scenario("static", "degree", 0, 60))[2]
