"""The benchmarks run, and what they are there to show holds at small sizes with a wide margin for noise."""

from __future__ import annotations

from contact_cost import compare
from hot_paths import main


def test_a_contact_costs_the_same_with_more_clients() -> None:
    (_, _, _, first), (_, cost_ms, _, ratio) = compare([100, 3000], "static", contacts=20, rounds=5)
    assert first == 1.0
    assert cost_ms > 0
    assert ratio < 2.0


def test_hot_paths_beat_plain_ones() -> None:
    results = main(rounds=5)
    assert results.pop("update of 1 client, 10 steps") > 0.8
    assert all(times > 3 for times in results.values()), results
