"""The parts of a report."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from matplotlib.figure import Figure

from fedmule.analysis.result_tables import Table


@dataclass(frozen=True)
class Item:
    """A figure: name of its file, title, a sentence that explains it, and the function that draws it."""

    name: str
    title: str
    text: str
    draw: Callable[[], Figure]


@dataclass(frozen=True)
class Content:
    """A report before it is drawn and written."""

    title: str
    summary: Table
    findings: list[str] = field(default_factory=list)  # what came out, and how sure it is; above the summary
    legend: str = ""  # below the summary
    items: list[Item] = field(default_factory=list)
    tables: dict[str, Table] = field(default_factory=dict)  # further tables by heading
    missing: list[str] = field(default_factory=list)  # what the report does not show, and why
