"""Groups of clients that a map tells apart: those of the scenario, their squads or herds, or sites."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedmule.analysis.loading import Run, mobility_tables

TOGETHER = {"squads": "squad", "herds": "herd"}  # keys of mobility that count clients who move together


@dataclass(frozen=True)
class Groups:
    """Names of the groups, and the group of each client [n]; no names: there is only one group."""

    names: list[str]
    of: NDArray[np.int64]


def groups_of(run: Run) -> Groups:
    """The groups of a run's clients at its start."""
    count = int(run.scenario["clients"]["count"])
    given = run.scenario["clients"].get("groups") or [{"count": count, "name": ""}]
    site, names = _sites(run, count), list[str]()
    for i, (group, mobility) in enumerate(zip(given, mobility_tables(run.scenario).values(), strict=True)):
        own, size = [group["name"] or f"group {i}"] if len(given) > 1 else [], int(group["count"])
        within = _together(mobility, size) or _apart(site[len(names) : len(names) + size]) or [""] * size
        names += [", ".join([*own, *filter(None, [name])]) for name in within]
    known = list(dict.fromkeys(names))
    if len(known) < 2:
        return Groups([], np.zeros(count, dtype=np.int64))
    return Groups(known, np.array([known.index(name) for name in names]))


def _together(mobility: dict[str, object], size: int) -> list[str]:
    """Names of the squads or herds of clients who move together; they are of equal size, in order."""
    for key, word in TOGETHER.items():
        if isinstance(wanted := mobility.get(key), int):
            number = min(wanted, size)
            return [f"{word} {i * number // size}" for i in range(size)]
    return []


def _sites(run: Run, count: int) -> NDArray[np.float64]:
    """The site of each client [n] at the start; nan where sites do not matter or were not logged."""
    found = np.full(count, np.nan)
    if "site" in run.clients:
        first = run.clients[run.clients["contact"] == 0]
        found[first["client"]] = first["site"]
    return found


def _apart(site: NDArray[np.float64]) -> list[str]:
    """Names of the sites of clients, if there are several."""
    return [f"site {int(i)}" for i in site] if np.isfinite(site).all() and len(np.unique(site)) > 1 else []
