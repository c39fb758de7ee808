"""How a run ended: done, diverged, interrupted, or without having learnt anything."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Literal

Ending = Literal["done", "diverged", "interrupted", "learnt nothing"]

# What becomes of a run in a study besides these: it failed, is out of date (stale), or is missing.
WITHOUT_RESULT = ("diverged", "learnt nothing", "failed", "stale", "missing")
ENDED = ("done", "diverged", "learnt nothing")


def ending_of(summary: Mapping[str, Any]) -> Ending:
    """Return how a run ended, from its summary; only runs that are done count in means.

    A run has learnt nothing if not one gradient step reached the vehicle, or counted where there is none.
    """
    if summary.get("stopped_by") == "diverged":
        return "diverged"
    if summary.get("stopped_by") == "interrupted":
        return "interrupted"
    return "learnt nothing" if summary.get("gradient_steps") == 0 else "done"


def n_of_n(done: int, of: int, others: Mapping[str, int]) -> str:
    """Return how many runs are done of how many, with the reasons of the others: "3 of 5, 2 diverged"."""
    reasons = [f"{others[reason]} {reason}" for reason in WITHOUT_RESULT if others.get(reason)]
    return ", ".join([f"{done} of {of}", *reasons])


def without_result(statuses: Iterable[str]) -> dict[str, int]:
    """Return how many runs of a study have no result, by reason, from their statuses."""
    return {reason: count for reason, count in Counter(statuses).items() if reason != "done"}
