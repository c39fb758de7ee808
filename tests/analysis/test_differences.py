"""What differs between two runs, in words."""

from __future__ import annotations

from typing import Any

from fedmule.analysis.replay.differences import differences
from fedmule.simulator.scenario import Scenario
from fedmule.simulator.scenario.load import to_toml


def resolved(**keys: Any) -> dict[str, Any]:
    import tomllib

    return tomllib.loads(to_toml(Scenario.model_validate(keys)))


def test_only_what_differs_is_listed() -> None:
    a = resolved(vehicle={"speed_mps": 2}, name="a")
    b = resolved(vehicle={"speed_mps": 10.5}, name="b", log={"track": False})
    assert differences(a, b) == [("vehicle speed, m/s", "2", "10.5")]
    assert differences(a, a) == []


def test_parts_of_other_kinds_differ_in_their_kind() -> None:
    """Not in all the keys that only one of the kinds has."""
    found = differences(resolved(radio="wifi_direct"), resolved(radio="ble"))
    assert ("radio", "wifi_direct", "ble") in found
    assert not [row for row in found if "–" in row]


def test_lists_and_switches_are_short() -> None:
    square = [[0, 0], [1, 0], [1, 1]]
    a = resolved(
        terrain={"size_m": [300, 200], "obstacles": [{"polygon": square}]}, learning={"evaluate_contacts": True}
    )
    b = resolved(terrain={"size_m": [3000, 200]}, learning={"evaluate_contacts": False})
    found = differences(a, b)
    assert ("terrain size, m", "300, 200", "3000, 200") in found
    assert ("terrain obstacles", "1 given", "none") in found
    assert ("learning evaluate contacts", "yes", "no") in found
