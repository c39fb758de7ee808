"""What differs between the scenarios of two runs, in words."""

from __future__ import annotations

from typing import Any

from fedmule.analysis.plots.words import heading_of, short

NOT_SHOWN = ("name", "log")  # do not change what happens
NONE = "–"


def differences(a: dict[str, Any], b: dict[str, Any]) -> list[tuple[str, str, str]]:
    """Every key in which two resolved scenarios differ: its label with the unit, and its two values."""
    ours, others = _flat(a), _flat(b)
    found = []
    for key in dict.fromkeys([*ours, *others]):
        table = key.rpartition(".")[0]
        of_one_kind_only = (key in ours) != (key in others) and ours.get(table) != others.get(table)
        if ours.get(key) != others.get(key) and not of_one_kind_only:
            found.append((heading_of(key), _text(ours.get(key)), _text(others.get(key))))
    return found


def _flat(table: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Values by dotted key, without tables; the key of a part is its kind."""
    found: dict[str, Any] = {}
    for key, value in table.items():
        if prefix or key not in NOT_SHOWN:
            found |= (
                _flat(value, f"{prefix}{key}.")
                if isinstance(value, dict)
                else {(prefix + key).removesuffix(".kind"): value}
            )
    return found


def _text(value: Any) -> str:
    """A value as short text; of a list of tables or points only how many there are."""
    if value is None:
        return NONE
    if isinstance(value, list):
        plain = not any(isinstance(part, list | dict) for part in value)
        value = (", ".join(map(_text, value)) or "none") if plain else f"{len(value)} given"
    if isinstance(value, bool):
        value = "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int) else short(value)
