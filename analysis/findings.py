"""What a study found, in sentences: where the result is best, what each parameter is worth, and how sure that is."""

from __future__ import annotations

import json
import math
from typing import Any

import pandas as pd

from fedmule.analysis.comparison import verdict
from fedmule.analysis.measures import GAIN, PERSONAL
from fedmule.analysis.plots.words import heading_of, in_words, short, with_value
from fedmule.analysis.result_tables import Entry, entry_of
from fedmule.analysis.studies import Study
from fedmule.simulator.runs.ending import WITHOUT_RESULT
from fedmule.simulator.studies.statistics import FEW, LEVEL, interval, paired_p

COMPARED = ("learning.algorithm", "column")  # what comparisons and experiments vary
CHANCE = {True: "more than chance", False: "no more than chance may do"}

Stated = tuple[float, float | None]  # a mean, and the half-width of its interval


def findings(study: Study) -> list[str]:
    """Return what came out of a study, a sentence each, and how sure it is; nothing where no run is done."""
    begun = study.begun()
    free = begun.free()
    if not len(study.done):
        return []
    search = search_of(study)
    if search:
        text = str(search["answer"]["text"]).removeprefix(f"{search['key']}: ")
        found = [f"{_sentence(heading_of(search['key']))}: {text}"]
    elif len(free) == 1 and free[0] in COMPARED and all((study.folder / run).is_dir() for run in study.done["run"]):
        return [*verdict(_entries(begun, free[0])), *_reservations(study)]  # which warns of few seeds itself
    else:
        found = _landscape(begun, free)
    return [*found, *_few_seeds(study), *_reservations(study)] if found else _reservations(study)


def search_of(study: Study) -> dict[str, Any] | None:
    """What `fedmule find` asked and found; None for other studies, and for a search that has not ended."""
    file = study.folder / "find.json"
    search = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {"answer": None}
    return search if search["answer"] else None


def signed(mean: float, width: float | None) -> str:
    """A difference in points with its interval."""
    return f"{round(mean, 1) + 0.0:+.1f} points".replace("-", "−") + _interval(width)


def _landscape(study: Study, free: list[str]) -> list[str]:
    """Where the result is best and worst, and what each parameter is worth; empty where no run has a result."""
    metric = GAIN if study.done.get(GAIN, pd.Series(dtype=float)).notna().any() else PERSONAL
    rows = study.done.dropna(subset=[metric]) if metric in study.done else study.done[:0]
    if not len(rows):
        return []
    if not free:
        return [_only_combination(rows)]
    effects = [effect for key in free if (effect := _effect(study, rows, key, metric))]
    return [*_extremes(rows, study.index[study.index["status"] == "diverged"], free, metric), *effects]


def _only_combination(rows: pd.DataFrame) -> str:
    """The result of runs that differ in nothing but their seeds."""
    text = f"The personal accuracy is {_percent(*interval(list(100 * rows[PERSONAL].astype(float))))} at the end"
    gains = list(100 * rows[GAIN].dropna().astype(float)) if GAIN in rows else []
    if len(gains):
        mean, width = interval(gains)
        text += f", a gain of {signed(mean, width)} over training alone"
        text += "" if width is None else f", {CHANCE[abs(mean) > width]}"
    return f"{text}."


def _extremes(rows: pd.DataFrame, diverged: pd.DataFrame, free: list[str], metric: str) -> list[str]:
    """Where the result is largest and smallest, and in how many combinations the vehicle is worth it."""
    groups = {values: 100 * part[metric].astype(float) for values, part in rows.groupby(free, sort=False)}
    lost = {values for values, _ in diverged.groupby(free, sort=False)}  # nothing is claimed for these
    stated = {values: interval(list(part)) for values, part in groups.items() if values not in lost}
    if not stated:
        return []
    best, worst = (pick(stated, key=lambda values: stated[values][0]) for pick in (max, min))
    what = "gain over training alone" if metric == GAIN else "personal accuracy"
    text = _percent if metric == PERSONAL else signed
    found = [
        f"The {what} is largest at {_where(free, best)}: {text(*stated[best])}, and smallest at {_where(free, worst)}: "
        f"{text(*stated[worst])}."
    ]
    known = {values: (mean, width) for values, (mean, width) in stated.items() if width is not None}
    if metric == GAIN and known:
        worth = sum(mean > width for mean, width in known.values())
        harm = sum(mean < -width for mean, width in known.values())
        found.append(
            f"The vehicle is worth it, beyond the interval over seeds, in {worth} of {len(stated)} combinations"
            + (f", and does harm in {harm}." if harm else ".")
        )
    return found


def _effect(study: Study, rows: pd.DataFrame, key: str, metric: str) -> str | None:
    """What the best value of a parameter is worth instead of the worst, paired by seed; None if it cannot be paired.

    A value with which runs diverged is neither.
    """
    others = [other for other in study.free() if other != key]
    table = rows.pivot_table(index=["seed", *others], columns=key, values=metric, aggfunc="mean", sort=False).dropna()
    if table.empty or table.shape[1] < 2:
        return None
    lost = set(study.index.loc[study.index["status"] == "diverged", key])
    by_seed = 100 * table[[value for value in table.columns if value not in lost]].groupby(level="seed").mean()
    if by_seed.shape[1] < 2:
        return None
    means = by_seed.mean()
    best, worst = means.idxmax(), means.idxmin()
    difference = list(by_seed[best] - by_seed[worst])
    mean, width = interval(difference)
    average = " on average over the rest" if others else ""
    clear = ""
    if len(difference) > 1:  # the best and the worst of several values: as many tests as there are pairs of them
        clear = f", {CHANCE[paired_p(difference) * math.comb(len(means), 2) < LEVEL]}"
    words, unit = in_words(key)
    what = f"{short(best)} {unit}".rstrip() + f" instead of {short(worst)}"
    return f"{_sentence(words)}: {what} is worth {signed(mean, width)}{average}{clear}."


def _few_seeds(study: Study) -> list[str]:
    seeds = study.done["replication"].nunique()
    if seeds > FEW:
        return []
    return [f"With {seeds} seed{'s' * (seeds > 1)} only large differences show: --seeds 5 or more says more."]


def _reservations(study: Study) -> list[str]:
    """Runs without a result, as sentences."""
    index, found = study.index, []
    lacking = [f"{n:,} {reason}" for reason in WITHOUT_RESULT if (n := (index["status"] == reason).sum())]
    if lacking:
        found.append(
            f"{len(index) - len(study.done):,} of {len(index):,} runs are not in these figures: {_and(lacking)}."
        )
    if (index["status"] == "diverged").any():
        found.append("Nothing is claimed for combinations of which a run diverged.")
    return found


def _where(free: list[str], values: Any) -> str:
    values = values if isinstance(values, tuple) else (values,)
    return ", ".join(with_value(key, value) for key, value in zip(free, values, strict=True))


def _percent(mean: float, width: float | None) -> str:
    return f"{mean:.1f} %{_interval(width)}"


def _interval(width: float | None) -> str:
    return "" if width is None or math.isnan(width) else f" (± {width:.1f})"


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def _and(parts: list[str]) -> str:
    return " and ".join(filter(None, [", ".join(parts[:-1]), parts[-1]]))


def _entries(study: Study, by: str) -> list[Entry]:
    """The entries of a comparison, in its order."""
    found = []
    for name in study.values(by):
        rows = study.index[study.index[by] == name]
        found.append(entry_of(str(study.study["scenarios"][0]), str(name), rows, study.folder))
    return found
