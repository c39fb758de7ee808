"""What a report is made of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from matplotlib.figure import Figure

from fedmule.analysis.experiments import Table


@dataclass(frozen=True)
class Item:
    """A figure: the name of its file, its title, a sentence that explains it, and how it is drawn."""

    name: str
    title: str
    text: str
    draw: Callable[[], Figure]


@dataclass(frozen=True)
class Content:
    """A report before it is drawn and written."""

    title: str
    summary: Table
    legend: str = ""  # below the summary
    items: list[Item] = field(default_factory=list)
    tables: dict[str, Table] = field(default_factory=dict)  # further ones, by their headings
    missing: list[str] = field(default_factory=list)  # what the report does not show, and why
