"""The report of a study: curves, effects and heat maps of what was varied, and what failed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fedmule.analysis.findings import COMPARED, findings, search_of
from fedmule.analysis.measures import GAIN, PERSONAL
from fedmule.analysis.plots import draw_comparison, draw_costs, draw_curves, draw_effect, draw_heat, draw_search
from fedmule.analysis.plots.curves import COSTS
from fedmule.analysis.plots.heat import UNCLEAR, heat_limits
from fedmule.analysis.plots.results import results_of
from fedmule.analysis.plots.studies import draw_panels
from fedmule.analysis.plots.style import picture, slant
from fedmule.analysis.plots.words import heading_of, in_words, is_difference, with_words
from fedmule.analysis.report.content import Content, Item
from fedmule.analysis.studies import Study, combinations_table
from fedmule.simulator.runs.columns import QUANTITIES

RESULTS = (GAIN, PERSONAL, "token_test_acc", "sim_time_s", "bytes")
MOST_PANELS = 12
MOST_LETTERS = 60  # of all labels below one panel of effects; more are drawn at an angle


def study_content(study: Study) -> Content:
    """The figures that suit what was varied, and what is missing."""
    name = str(study.study.get("title") or study.study.get("name") or study.folder.name)
    legend = "Mean over seeds ± 95 % interval (Student's t). " + (
        "All combinations have the same seeds: same data, start model and, unless a varied key changes it, movement."
        if study.study.get("common_random_numbers", True)
        else "Every combination has seeds of its own."
    )
    header, *lines = combinations_table(study.index, study.parameters)
    words = [heading_of(key) if key in study.parameters else key for key in header]
    content = Content(f"Study {with_words(name, study.parameters)}", [words, *lines], findings(study), legend)
    if len(study.done):
        _search(study, content)
        begun = study.begun()
        _figures(begun, begun.free(), content)
    _what_is_missing(study, content)
    return content


def _search(study: Study, content: Content) -> None:
    """The picture of a search, if `fedmule find` made the folder."""
    search = search_of(study)
    if search and search["quantity"] in study.done and study.done[search["quantity"]].notna().any():
        text = "What was tried: a ring per run, means with 95 % intervals, the target and the answer with its interval."
        content.items.append(Item("find", "The answer", text, lambda: draw_search(study)))


def _figures(study: Study, free: Sequence[str], content: Content) -> None:
    if not free:
        text = "Mean test accuracy over seeds with its 95 % band, against its cost."
        content.items.append(Item("accuracy", "Accuracy against cost", text, lambda: draw_costs(list(study.runs()))))
        return
    if len(free) == 1 and free[0] in COMPARED:
        text = (
            "Left: the personal test accuracy of each; rings are runs, dots means with 95 % intervals. "
            "Right: the difference to training alone, or to the first, paired seed by seed. An interval that excludes "
            "0 is more than chance for that one pair; the table of fedmule compare corrects for many pairs."
        )
        draw = partial(draw_comparison, study, free[0])
        content.items.append(Item("comparison", "Compared side by side", text, draw))
    if len(free) == 1:
        name = _words(free)
        text = (
            f"Gain over training alone, accuracy of personal models and token, simulated time and bytes by {name}; "
            "rings are runs."
        )
        content.items.append(Item("effect", f"The effect of {name}", text, lambda: _effects(study)))
        text = f"Mean personal accuracy with its 95 % band over seeds for each {name}, against its cost."
        content.items.append(Item("accuracy", "Accuracy against cost", text, lambda: draw_costs(study)))
        return
    _heat_maps(study, free, content)
    _curves(study, free, content)


def _known(study: Study) -> list[str]:
    """The results to show: those that are known of any run."""
    done = study.done
    return [name for name in RESULTS if name == "bytes" or (name in done and done[name].notna().any())]


def _words(keys: Sequence[str]) -> str:
    """Keys in words: vehicle speed and radio range."""
    return " and ".join(in_words(key)[0] for key in keys)


def _effects(study: Study) -> Figure:
    results = _known(study)
    across = (len(results) + 1) // 2
    figure = picture(5.5 * across, 7.0)
    panels = figure.subplots(2, across).ravel()
    for axes in panels[len(results) :]:
        axes.set_axis_off()
    for axes, metric in zip(panels, results, strict=False):
        draw_effect(study, metric=metric, axes=axes)
        slant(axes, MOST_LETTERS)
    return figure


def _heat_maps(study: Study, free: Sequence[str], content: Content) -> None:
    x, y, *others = free
    panels = len(study.done[others].drop_duplicates()) if others else 1
    if panels > MOST_PANELS:
        left = f"Heat maps of {_words([x, y])}: {panels} combinations of {_words(others)} are too many to show"
        content.missing.append(f"{left}; draw those you want with draw_heat(study, where=…).")
        return
    each = f", a panel for each {_words(others)}" if others else ""
    for metric in _known(study):
        if results_of(study, metric)[study.done.index].nunique() == 1:
            content.missing.append(f"Map of {QUANTITIES[metric].words}: it is the same in every run.")
            continue
        title, over = f"{QUANTITIES[metric].words}", f" over {_words([x, y])}"
        text = f"Mean over seeds ± 95 % interval{each}; grey where no run is done."
        if is_difference(metric):
            text += f" Blue: better than training alone; red: worse; {UNCLEAR}, so the difference may be chance."
        draw = partial(_heat_map, study, x, y, others, metric)
        content.items.append(Item(f"heat-{metric}", f"{title[0].upper()}{title[1:]}{over}", text, draw))


def _heat_map(study: Study, x: str, y: str, others: list[str], metric: str) -> Figure:
    if not others:
        return draw_heat(study, x, y, metric)
    limits = heat_limits(study, metric)

    def draw(where: dict[str, Any], axes: Axes) -> None:
        draw_heat(study, x, y, metric, where, axes, limits)

    return draw_panels(study, draw, others)


def _curves(study: Study, free: Sequence[str], content: Content) -> None:
    by, *others = free
    panels = len(study.done[others].drop_duplicates())
    if panels > MOST_PANELS:
        left = f"Curves of accuracy: {panels} combinations of {_words(others)} are too many to show"
        content.missing.append(f"{left}; draw those you want with draw_curves(study, where=…).")
        return
    for against in COSTS:
        text = f"Mean personal accuracy with its 95 % band over seeds, a panel for each {_words(others)}."
        draw = partial(_curve, study, by, others, against)
        content.items.append(Item(f"accuracy-{against}", f"Accuracy against {QUANTITIES[against].words}", text, draw))


def _curve(study: Study, by: str, others: list[str], against: str) -> Figure:
    def draw(where: dict[str, Any], axes: Axes) -> None:
        draw_curves(study, against, by, where, axes=axes)

    return draw_panels(study, draw, others, one_scale=True)


def _what_is_missing(study: Study, content: Content) -> None:
    index, missing = study.index, content.missing
    if not len(study.done):
        missing.append("All figures: no run is done.")
    elif index["replication"].nunique() == 1:
        missing.append("Bands and intervals: there is only one seed. Repeat the study's command with --seeds 5.")
    failed, stale, absent = (int((index["status"] == status).sum()) for status in ("failed", "stale", "missing"))
    if absent:
        missing.append(f"{absent} of {len(index)} runs have not been made yet. The study's command makes them.")
    if stale:
        missing.append(
            f"{stale} of {len(index)} runs were made by another program or with other data, and are left out. The "
            "study's command runs them again."
        )
    if failed:
        missing.append(f"{failed} of {len(index)} runs failed; the table of failures says why.")
        reasons = Counter(str(error).strip() for error in index.loc[index["status"] == "failed", "error"])
        content.tables["Failures"] = [["runs", "why"], *([str(n), why] for why, n in reasons.most_common())]
    diverged, nothing = (int((index["status"] == status).sum()) for status in ("diverged", "learnt nothing"))
    if diverged:
        missing.append(f"{diverged} of {len(index)} runs diverged, and are left out; the table says why.")
        reasons = Counter(str(error) for error in index.loc[index["status"] == "diverged", "error"])
        content.tables["Divergence"] = [["runs", "why"], *([str(n), why] for why, n in reasons.most_common())]
    if nothing:
        missing.append(
            f"{nothing} of {len(index)} runs have learnt nothing, and are left out: no gradient step arrived."
        )
    missing.append("Maps, visits and theory are for single runs: use fedmule report on one of the folders in runs/.")
