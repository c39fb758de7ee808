"""How commands report runs that failed."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fedmule.simulator.studies.batch import Failure

DIVERGED = 3  # exit status


def report_failures(failures: Sequence[Failure], diverged: int = 0) -> int:
    """Print every error once, with the number of runs it stopped; returns the exit status.

    `diverged`: how many runs diverged. They have ended, but nothing is claimed for them.
    """
    for error, count in Counter(failure.error for failure in failures).items():
        sys.stderr.write(f"{count} run{'s' if count > 1 else ''} failed: {error.rstrip()}\n")
    if diverged:
        sys.stderr.write(f"{diverged} run{'s' if diverged > 1 else ''} diverged and {_do(diverged)} not count\n")
    return 1 if failures else DIVERGED if diverged else 0


def _do(count: int) -> str:
    return "do" if count > 1 else "does"
