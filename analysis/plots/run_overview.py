"""Overview of a run."""

from __future__ import annotations

from matplotlib.figure import Figure

from fedmule.analysis.loading import Run, has_positions
from fedmule.analysis.plots.curves import draw_accuracy
from fedmule.analysis.plots.maps import draw_map
from fedmule.analysis.plots.style import picture


def draw_run(run: Run) -> Figure:
    """Draw the map beside the accuracy over simulated time; the accuracy alone if nobody has a position."""
    if not has_positions(run.scenario):
        return draw_accuracy(run)
    width, height = run.scenario["terrain"]["size_m"]
    shape = min(3.0, max(0.5, width / height))
    figure = picture(5.2 * shape + 5.0, 5.2)
    left, right = figure.subplots(1, 2, width_ratios=[1.05 * shape, 1.0])
    draw_map(run, left)
    draw_accuracy(run, axes=right)
    return figure
