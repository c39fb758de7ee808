"""Clients that are asked for by their number."""

from __future__ import annotations

from collections.abc import Sequence

from fedmule.analysis.loading import Run


def missing_client(client: int | None, runs: Sequence[Run]) -> str:
    """Why no client with this number can be shown; empty if one of the runs has it, or none is asked for."""
    most = max(int(run.scenario["clients"]["count"]) for run in runs)
    if client is None or 0 <= client < most:
        return ""
    return f"there is no client {client}: " + ("the only one is 0" if most == 1 else f"they are 0 to {most - 1}")
