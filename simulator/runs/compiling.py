"""A line that says so when compiled loops have to be compiled: once after installation, which takes seconds."""

from __future__ import annotations

import sys
from typing import Any

from numba.core import event

EVENTS: Any = event  # numba has no types
LINE = "compiling, once after installation: this takes some seconds\n"


class Announcement(event.Listener):
    """Prints the line at the first compilation within it; what is loaded from a cache is not compiled.

    It may be entered several times, and prints once.
    """

    def __init__(self) -> None:
        self._made = False

    def __enter__(self) -> None:
        """Begin to listen."""
        EVENTS.register("numba:compile", self)

    def __exit__(self, *error: object) -> None:
        """Listen no more."""
        EVENTS.unregister("numba:compile", self)

    def on_start(self, event: object) -> None:
        """A function is being compiled."""
        if not self._made:
            self._made = True
            sys.stderr.write(LINE)
            sys.stderr.flush()

    def on_end(self, event: object) -> None:
        """It has been compiled."""
