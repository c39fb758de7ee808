"""Distribution of labels over clients."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from fedmule.analysis.plots.style import BLUE, client_axis, picture


def draw_labels(counts: NDArray[np.int64], title: str) -> Figure:
    """Draw how many samples of each label each client has, as the area of a disc; counts [n, classes]."""
    clients, classes = counts.shape
    figure = picture(min(14.0, 2.0 + 0.32 * clients), 1.6 + 0.32 * classes)
    axes = figure.subplots()
    client, label = np.nonzero(counts)
    axes.scatter(client, label, s=220 * counts[client, label] / counts.max(), color=BLUE, linewidths=0)
    axes.set(xlabel="client", ylabel="label", xlim=(-1, clients), ylim=(-1, classes), yticks=range(classes))
    client_axis(axes.xaxis)
    axes.set_title(f"{title}: samples per client and label, largest {counts.max()}", fontsize=10)
    axes.grid(alpha=0.3)
    return figure
