"""A search: the result over the key, the target, and where it is crossed."""

from __future__ import annotations

import json

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fedmule.analysis.plots.studies import draw_effect
from fedmule.analysis.plots.style import GREEN, ORANGE, axes_for, legend, picture_of
from fedmule.analysis.plots.words import label_of, named, scale_of
from fedmule.analysis.studies import Study


def draw_search(study: Study, axes: Axes | None = None) -> Figure:
    """Draw what `fedmule find` tried: a ring per run, means with 95 % intervals, the target, the answer's interval."""
    file = study.folder / "find.json"
    if not file.is_file():
        raise ValueError(f"{study.folder}: is not the folder of a search: it has no find.json")
    found = json.loads(file.read_text(encoding="utf-8"))
    key, quantity, answer = found["key"], found["quantity"], found["answer"]
    axes = axes_for(axes, 6.4, 4.2)
    draw_effect(study, key, quantity, axes=axes)
    if found["range"]["geometric"]:
        axes.set_xscale("log")
    target, unit = found["target"] / scale_of(quantity).size, scale_of(quantity).unit
    axes.axhline(target, color=ORANGE, linewidth=1.2, linestyle="--", label=f"target: {target:g} {unit}".rstrip())
    if answer is not None and answer["value"] is not None:
        low, high = answer["interval"]
        if low is not None or high is not None:
            low = found["range"]["low"] if low is None else low
            high = found["range"]["high"] if high is None else high
            axes.axvspan(low, high, color=GREEN, alpha=0.13, linewidth=0, label="95 % interval of the answer")
        which = "smallest" if answer["rising"] else "largest"
        label = f"{which} found: {named(answer['value'])}"
        axes.axvline(answer["value"], color=GREEN, linewidth=1.2, zorder=1, label=label)
    axes.set_xlabel(label_of(key))
    legend(axes, 3)
    return picture_of(axes)
