"""What a study found, in sentences: where the result is best, what each parameter is worth, and how sure that is."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd

from fedmule.analysis.comparison import verdict
from fedmule.analysis.measures import GAIN, PERSONAL
from fedmule.analysis.plots.words import label_of, named
from fedmule.analysis.result_tables import Entry, done_runs
from fedmule.analysis.studies import Study
from fedmule.simulator.studies.statistics import LEVEL, interval, paired_p

FEW = 3  # seeds: with as many or fewer only large differences show
COMPARED = ("learning.algorithm", "column")  # what comparisons and experiments vary


def findings(study: Study) -> list[str]:
    """Return what came out of a study, a sentence each; nothing where no run is done."""
    free = study.free()
    if not len(study.done):
        return []
    if len(free) == 1 and free[0] in COMPARED:
        return [verdict(_entries(study, free[0]))]
    metric = GAIN if study.done.get(GAIN, pd.Series(dtype=float)).notna().any() else PERSONAL
    rows = study.done.dropna(subset=[metric])
    if not free or not len(rows):
        return []
    found = [*_extremes(rows, free, metric)]
    effects = [effect for key in free if (effect := _effect(study, rows, key, metric))]
    if effects and len(free) > 1:
        found.append("Averaged over the others and paired by seed:")
    found += effects
    seeds = rows["seed"].nunique()
    if seeds <= FEW:
        found.append(f"With {seeds} seed{'s' * (seeds > 1)} only large differences show: --seeds 5 or more says more.")
    return found


def as_sentence(mean: float, width: float | None) -> str:
    """A mean in points with its interval."""
    return f"{round(mean, 1) + 0.0:+.1f} points" + ("" if width is None or math.isnan(width) else f" (± {width:.1f})")


def _extremes(rows: pd.DataFrame, free: list[str], metric: str) -> list[str]:
    """Where the result is largest and smallest, and in how many combinations the vehicle is worth it."""
    groups = {values: 100 * part[metric].astype(float) for values, part in rows.groupby(free, sort=False)}
    stated = {values: interval(list(part)) for values, part in groups.items()}
    best, worst = (pick(stated, key=lambda values: stated[values][0]) for pick in (max, min))
    what = "gain over training alone" if metric == GAIN else "personal accuracy"
    text = _plain if metric == PERSONAL else as_sentence
    found = [
        f"The {what} is largest at {_where(free, best)}: {text(*stated[best])}, and smallest at {_where(free, worst)}: "
        f"{text(*stated[worst])}."
    ]
    if metric == GAIN:
        worth = sum(width is not None and mean > width for mean, width in stated.values())
        found.append(
            f"The vehicle is worth it, beyond the interval over seeds, in {worth} of {len(stated)} combinations."
        )
    return found


def _effect(study: Study, rows: pd.DataFrame, key: str, metric: str) -> str | None:
    """What the best value of a parameter is worth instead of the worst, paired by seed; None if it cannot be paired."""
    others = [other for other in study.free() if other != key]
    table = rows.pivot_table(index=["seed", *others], columns=key, values=metric, aggfunc="mean", sort=False).dropna()
    if table.empty or table.shape[1] < 2:
        return None
    by_seed = 100 * table.groupby(level="seed").mean()
    means = by_seed.mean()
    best, worst = means.idxmax(), means.idxmin()
    difference = list(by_seed[best] - by_seed[worst])
    mean, width = interval(difference)
    clear = ""
    if len(difference) > 1:  # the best and the worst of several values: as many tests as there are pairs of them
        chance = paired_p(difference) * math.comb(len(means), 2)
        clear = ", more than chance" if chance < LEVEL else ", no more than chance may do"
    what = f"{_value(key, best)} instead of {named(worst)}"
    return f"{_words(key)[0].capitalize()}: {what} is worth {as_sentence(mean, width)}{clear}."


def _where(free: list[str], values: Any) -> str:
    values = values if isinstance(values, tuple) else (values,)
    return ", ".join(f"{_words(key)[0]} {_value(key, value)}" for key, value in zip(free, values, strict=True))


def _words(key: str) -> tuple[str, str]:
    """A parameter in words, and its unit."""
    name, _, unit = label_of(key).partition(" (")
    return name, unit.rstrip(")")


def _value(key: str, value: Any) -> str:
    return f"{named(value)} {_words(key)[1]}".rstrip()


def _plain(mean: float, width: float | None) -> str:
    return f"{mean:.1f} %" + ("" if width is None or not np.isfinite(width) else f" (± {width:.1f})")


def _entries(study: Study, by: str) -> list[Entry]:
    """The entries of a comparison, in its order."""
    found = []
    for name in study.values(by):
        rows = study.index[study.index[by] == name]
        found.append(Entry(str(study.study["scenarios"][0]), str(name), done_runs(rows, study.folder), len(rows)))
    return found
