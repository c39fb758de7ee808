"""The figure of a search shows the target, the answer and its interval."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes

from fedmule.analysis import Study
from fedmule.analysis.plots import draw_search

KEY, QUANTITY = "vehicle.speed_mps", "personal_test_acc_mean"
SPEEDS = (1.0, 10.0, 40.0)


def search_in(folder: Path, answer: dict[str, Any] | None, geometric: bool = False) -> Study:
    """A search of three speeds over two seeds."""
    found = {"key": KEY, "quantity": QUANTITY, "target": 0.3, "answer": answer}
    found["range"] = {"low": SPEEDS[0], "high": SPEEDS[-1], "geometric": geometric}
    (folder / "find.json").write_text(json.dumps(found))
    rows = [
        {"run": f"{speed}-{seed}", "seed": seed, KEY: speed, "status": "done", QUANTITY: speed / 50 + seed / 100}
        for speed in SPEEDS
        for seed in range(2)
    ]
    return Study(folder, {"scenarios": ["smoke"], "vary": {KEY: []}, "zip": []}, pd.DataFrame(rows))


def labels(axes: Axes) -> list[str]:
    return [str(label) for label in axes.get_legend_handles_labels()[1]]


def test_the_answer_is_drawn_over_what_was_tried(tmp_path: Path) -> None:
    answer = {"value": 40.0, "interval": [10.0, None], "rising": True}
    (axes,) = draw_search(search_in(tmp_path, answer)).axes
    means = next(line for line in axes.lines if len(np.asarray(line.get_xdata())) == 3)
    assert list(np.asarray(means.get_ydata())) == pytest.approx([2.5, 20.5, 80.5])  # %
    assert labels(axes) == ["target: 30 %", "95 % interval of the answer", "smallest found: 40"]
    horizontal = [line for line in axes.lines if line.get_label() == "target: 30 %"]
    assert list(np.asarray(horizontal[0].get_ydata())) == [30, 30]
    (span,) = [patch for patch in axes.patches if patch.get_label() == "95 % interval of the answer"]
    box = span.get_window_extent().transformed(axes.transData.inverted())
    assert (box.x0, box.x1) == pytest.approx((10, 40))  # as far as the range goes
    assert axes.get_xlabel() == "vehicle speed (m/s)"
    assert axes.get_ylabel() == "personal test accuracy (%)"
    assert axes.get_xscale() == "linear"


def test_without_an_answer_there_is_the_target_only(tmp_path: Path) -> None:
    none = {"value": None, "interval": [None, None], "rising": True}
    for answer in (None, none):
        assert labels(draw_search(search_in(tmp_path, answer)).axes[0]) == ["target: 30 %"]
    falling = {"value": 10.0, "interval": [None, None], "rising": False}
    (axes,) = draw_search(search_in(tmp_path, falling, geometric=True)).axes
    assert labels(axes) == ["target: 30 %", "largest found: 10"]
    assert axes.get_xscale() == "log"


def test_other_studies_are_no_searches(tmp_path: Path) -> None:
    study = search_in(tmp_path, None)
    (tmp_path / "find.json").unlink()
    with pytest.raises(ValueError, match=r"it has no find\.json"):
        draw_search(study)
