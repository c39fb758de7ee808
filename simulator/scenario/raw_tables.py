"""Tables of a scenario as read from its file, before anything is checked."""

from __future__ import annotations

from typing import Any


def mobility_tables(raw: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The tables of a scenario as read that say how clients or groups of them move, by their dotted keys."""
    clients = raw.get("clients")
    holders = {"clients": clients}
    groups = clients.get("groups") if isinstance(clients, dict) else None
    if isinstance(groups, list):
        holders |= {f"clients.groups[{i}]": group for i, group in enumerate(groups)}
    found = {f"{key}.mobility": holder.get("mobility") for key, holder in holders.items() if isinstance(holder, dict)}
    return {key: mobility for key, mobility in found.items() if isinstance(mobility, dict)}


def vehicle_tables(raw: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The tables of a scenario as read that describe vehicles, by their dotted keys."""
    vehicle = raw.get("vehicle")
    if not isinstance(vehicle, dict):
        return {}
    fleet = vehicle.get("fleet")
    members = enumerate(fleet if isinstance(fleet, list) else [])
    return {"vehicle": vehicle} | {f"vehicle.fleet[{i}]": own for i, own in members if isinstance(own, dict)}
