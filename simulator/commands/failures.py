"""How commands report runs that failed."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fedmule.simulator.studies.batch import Failure


def report_failures(failures: Sequence[Failure]) -> int:
    """Print every error once, with the number of runs it stopped; returns the exit status."""
    for error, count in Counter(failure.error for failure in failures).items():
        sys.stderr.write(f"{count} run{'s' if count > 1 else ''} failed: {error.rstrip()}\n")
    return 1 if failures else 0
