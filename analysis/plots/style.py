"""Common parts of all figures: colours, axes, legends, display in notebooks, files for print."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fedmule.learning.files import replacing

# Distinguishable with any colour vision (Okabe and Ito).
BLUE, ORANGE, GREEN, GREY = "#0072B2", "#D55E00", "#009E73", "#8c8c8c"
SKY, YELLOW, PINK, BLACK = "#56B4E9", "#E69F00", "#CC79A7", "#222222"
MANY = (BLUE, ORANGE, GREEN, PINK, YELLOW, SKY, BLACK)
MAP = "cividis"  # for amounts; looks nearly the same with any colour vision
GAINS = "RdBu"  # for amounts below and above 0

SCREEN_DPI, FILE_DPI = 90, 150
LEGEND_LETTERS = 80  # that fit side by side above axes


class Picture(Figure):
    """A matplotlib Figure that a notebook displays without pyplot and its list of open figures."""

    def _repr_png_(self) -> bytes:
        with io.BytesIO() as file:
            self.savefig(file, format="png", dpi=SCREEN_DPI)
            return file.getvalue()


def picture(width_in: float = 6.4, height_in: float = 4.2) -> Picture:
    """Create an empty figure."""
    return Picture(figsize=(width_in, height_in), layout="constrained")


def axes_for(axes: Axes | None, width_in: float = 6.4, height_in: float = 4.2) -> Axes:
    """The given axes, or those of a new figure."""
    return picture(width_in, height_in).subplots() if axes is None else axes


def picture_of(axes: Axes) -> Figure:
    """The figure that axes belong to."""
    figure = axes.figure.figure
    assert isinstance(figure, Figure)
    return figure


def legend(axes: Axes, columns: int = 3, **more: Any) -> None:
    """Add a legend above the axes, where it covers nothing; none if nothing is labelled."""
    labels = axes.get_legend_handles_labels()[1]
    if labels:
        longest = max(len(str(label)) for label in labels)
        columns = max(1, min(columns, LEGEND_LETTERS // (longest + 6)))  # a line and gaps are about 6 letters wide
        axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=columns, fontsize=8, frameon=False, **more)


def share_legend(figure: Figure) -> None:
    """Replace the legends of panels, which would cover their titles, by one legend above all of them."""
    labelled: dict[str, Any] = {}
    title = None
    for axes in figure.axes:
        own = axes.get_legend()
        if own is not None:
            title = own.get_title().get_text() or title
            labelled |= {label: handle for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)}
            own.remove()
    if labelled:
        columns = max(1, int(12 * figure.get_figwidth()) // (max(map(len, labelled)) + 6))
        figure.legend(
            list(labelled.values()), list(labelled), loc="outside upper center", ncols=columns, fontsize=8,
            frameon=False, title=title, title_fontsize=8,
        )  # fmt: skip


def slant(axes: Axes, most_letters: float) -> None:
    """Draw labels below axes at an angle if together they have more letters than fit side by side."""
    labels = axes.get_xticklabels()
    if len(labels) * max((len(label.get_text()) for label in labels), default=0) > most_letters:
        for label in labels:
            label.set(rotation=25, horizontalalignment="right")


def client_axis(axis: Any) -> None:
    """Put ticks at whole numbers only, for clients and counts."""
    from matplotlib.ticker import MaxNLocator

    axis.set_major_locator(MaxNLocator(integer=True))


def save(figure: Figure, path: Path) -> None:
    """Write a figure atomically in the format of the suffix; text in PDF and SVG files stays text."""
    kind = path.suffix.removeprefix(".")
    undated = {"pdf": {"CreationDate": None}, "svg": {"Date": None}}.get(kind)  # the same run gives the same file
    with rc_context({"pdf.fonttype": 42, "svg.fonttype": "none", "svg.hashsalt": "fedmule"}), replacing(path) as file:
        figure.savefig(file, format=kind, dpi=FILE_DPI, metadata=undated)
