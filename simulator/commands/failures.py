"""What a command says of runs that failed."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fedmule.simulator.studies.batch import Failure


def tell_failures(failures: Sequence[Failure]) -> int:
    """Say what failed, each reason once; returns the exit status."""
    for error, count in Counter(failure.error for failure in failures).items():
        sys.stderr.write(f"{count} run{'s' if count > 1 else ''} failed: {error.rstrip()}\n")
    return 1 if failures else 0
