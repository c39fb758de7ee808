"""What is known of a column besides its values, and the kinds of columns there are."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Literal

import pyarrow as pa

REAL, WHOLE, TEXT, TRUTH = pa.float64(), pa.int64(), pa.string(), pa.bool_()
IDS, REALS = pa.list_(pa.int32()), pa.list_(pa.float64())


@dataclass(frozen=True)
class Scale:
    """A unit in which values are shown, and its size in the unit in which they are logged."""

    unit: str
    size: float = 1.0


HOURS, MEGABYTES, PERCENT = Scale("h", 3600.0), Scale("MB", 1e6), Scale("%", 0.01)
POINTS = Scale("points", 0.01)  # differences of shares


@dataclass(frozen=True)
class Column:
    """One column of a table, or one key of the summary."""

    type: pa.DataType
    meaning: str
    unit: str = ""  # as logged; "" for a plain number
    label: str = ""  # of an axis, without its unit; "": the name in words
    scale: Scale | None = None  # in which it is shown; None: as logged
    summary: Literal["last", "total"] | None = None  # what of a column of contacts goes into the summary
    all_clients: bool = False  # evaluated for all clients at once, every learning.evaluate_every visits
    name: str = ""

    @property
    def shown(self) -> Scale:
        """The unit in which it is shown."""
        return self.scale or Scale(self.unit)

    @property
    def words(self) -> str:
        """What it is called in a picture."""
        return self.label or self.name.replace("_", " ")

    @property
    def axis(self) -> str:
        """What an axis says, such as `simulated time (h)`."""
        return f"{self.words} ({self.shown.unit})" if self.shown.unit else self.words


# A kind is called with the meaning of a column, and with whatever else is its own.
COUNT = partial(Column, WHOLE)
SECONDS = partial(Column, REAL, unit="s")
HOURLY = partial(SECONDS, scale=HOURS)
SIM_TIME, HOST_TIME = partial(HOURLY, label="simulated time"), partial(SECONDS, label="host time")
SHARE = partial(Column, REAL, unit="share", scale=PERCENT)  # 0 to 1
GAIN = partial(Column, REAL, unit="share", scale=POINTS)
METRES = partial(Column, REAL, unit="m")
LAST = partial(Column, REAL, summary="last")
OVERVIEW = partial(LAST, all_clients=True)
BYTES = partial(Column, WHOLE, unit="bytes", scale=MEGABYTES)
BYTES_DOWN, BYTES_UP = partial(BYTES, label="bytes to clients"), partial(BYTES, label="bytes from clients")
STEPS = partial(Column, WHOLE, label="gradient steps of all clients")
