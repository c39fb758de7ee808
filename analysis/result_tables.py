"""Tables that compare many runs: accuracy and cost. Reads run folders only."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fedmule.analysis.measures import SENT
from fedmule.simulator.runs.ending import n_of_n, without_result
from fedmule.simulator.studies.statistics import FEW, holm, interval, paired_p

if TYPE_CHECKING:
    import pandas as pd

Table = list[list[str]]  # the first row is the header

LATE = ("late_token_test_acc", "late_personal_test_acc")  # of clients that joined late
PERSONAL, POOLED = "personal_test_acc_mean", "personal_test_acc_weighted"  # over clients, over test samples
ALONE = "alone_test_acc_mean"  # of training alone, on the client's own clock
DIFFERENCES = (
    "Mean difference ± 95 % interval, paired by seed; a star: more than chance in a t test, with Holm's correction for "
    "all differences of a row."
)


@dataclass(frozen=True)
class Entry:
    """An entry of a table: the runs of a row × column that are done, such as a scenario × algorithm."""

    row: str
    column: str
    runs: Mapping[int, Path]  # their folders, by seed
    seeds: int  # planned
    chosen: str = ""  # hyper-parameters that tuning chose
    published: float | None = None  # accuracy, %
    published_s: float | None = None  # run time, s
    pooled: bool = False  # accuracy over all test samples counts beside the mean over clients
    shown: str = PERSONAL  # the accuracy that its column shows
    lost: Mapping[str, int] = field(default_factory=dict)  # runs without a result, by reason: diverged, failed, …

    @cached_property
    def summaries(self) -> dict[int, dict[str, Any]]:
        """summary.json of every run, by seed."""
        return {
            seed: json.loads((folder / "summary.json").read_text(encoding="utf-8"))
            for seed, folder in self.runs.items()
        }

    @property
    def diverged(self) -> int:
        """How many of its runs diverged."""
        return self.lost.get("diverged", 0)

    @property
    def count(self) -> str:
        """How many runs are done of how many, with the reasons of the others."""
        return n_of_n(len(self.runs), self.seeds, self.lost)

    def values(self, name: str) -> dict[int, float]:
        """A value of the summaries, by seed; nan where it is null."""
        return {seed: math.nan if s[name] is None else float(s[name]) for seed, s in self.summaries.items()}

    @property
    def compared(self) -> str:
        """Name of the accuracy that is compared with the published one."""
        return POOLED if self.pooled else PERSONAL

    def percent(self, name: str) -> list[float]:
        """A share of the summaries in %, a number for each seed."""
        return [100 * value for value in self.values(name).values()]

    @property
    def is_local(self) -> bool:
        """Whether clients trained alone, so that there is no token."""
        return all(summary["algorithm"] == "local" for summary in self.summaries.values())


def with_alone(entries: Sequence[Entry], reference: str) -> list[Entry]:
    """The entries, with a column `alone` in front: training alone, beside the runs of the reference column."""
    beside = [entry for entry in entries if entry.column == reference]
    alone = [replace(entry, column="alone", shown=ALONE) for entry in beside if _known(entry, ALONE)]
    return [*alone, *entries]


def entry_of(row: str, column: str, rows: pd.DataFrame, folder: Path, **other: Any) -> Entry:
    """An entry from some rows of the index of a study in a folder."""
    done = rows[rows["status"] == "done"]
    runs = {int(seed): folder / run for seed, run in zip(done["replication"], done["run"], strict=True)}
    return Entry(row, column, runs, len(rows), lost=without_result(rows["status"]), **other)


# --- tables -------------------------------------------------------------------------------------------------


def accuracy_table(entries: Sequence[Entry]) -> Table:
    """Personal test accuracy in %: the experiment's rows across, its columns down, published figures below ours."""
    rows, columns = list(dict.fromkeys(e.row for e in entries)), list(dict.fromkeys(e.column for e in entries))
    by_position = {(e.row, e.column): e for e in entries}
    table = [["personal test accuracy, %", *rows]]
    for column in columns:
        line = [by_position.get((row, column)) for row in rows]
        table.append([column, *("" if e is None else _accuracy(e, e.shown) for e in line)])
        if any(e is not None and e.pooled and e.runs for e in line):
            pooled = ["" if e is None or not e.pooled or not e.runs else _accuracy(e, POOLED) for e in line]
            table.append(["  pooled", *pooled])
        if any(e is not None and e.published is not None for e in line):
            published = ["" if e is None or e.published is None else f"{e.published:.2f}" for e in line]
            table.append(["  published", *published])
    return table


def agreement_table(entries: Sequence[Entry]) -> Table:
    """Our accuracy less the published one, in points; they agree within a point, or our 95 % interval if wider."""
    compared = [e for e in entries if e.published is not None and e.runs]
    rows, columns = list(dict.fromkeys(e.row for e in compared)), list(dict.fromkeys(e.column for e in compared))
    by_position = {(e.row, e.column): _difference(e) for e in compared}
    lines = [[column, *(by_position.get((row, column), "") for row in rows)] for column in columns]
    return [["ours less published, points", *rows], *lines]


def _difference(entry: Entry) -> str:
    mean, width = interval(entry.percent(entry.compared))
    difference = mean - (entry.published or 0.0)
    return f"{difference:+.1f}" + (" agrees" if abs(difference) <= max(1.0, width or 0.0) else "")


def difference_table(entries: Sequence[Entry], reference: str) -> Table:
    """Personal accuracy of the reference column less that of each other, in points: mean over seeds ± 95 % interval.

    Differences are paired by seed; a star marks those that are more than chance with Holm's correction in a row, unless
    a column diverged in some seeds.
    """
    rows, columns = list(dict.fromkeys(e.row for e in entries)), list(dict.fromkeys(e.column for e in entries))
    by_position = {(e.row, e.column): e.values(e.shown) for e in entries if e.runs}
    found: dict[tuple[str, str], str] = {}
    for row in rows:
        ours, pairs = by_position.get((row, reference), {}), {}
        for column in columns:
            theirs = by_position.get((row, column), {})
            both = [100 * (ours[seed] - theirs[seed]) for seed in ours if seed in theirs]
            if both and column != reference:
                pairs[column] = both
        diverged = {entry.column for entry in entries if entry.row == row and entry.diverged}
        tested = [name for name, both in pairs.items() if len(both) > 1 and not diverged & {name, reference}]
        clear = dict(zip(tested, holm([paired_p(pairs[column]) for column in tested]), strict=True))
        for column, both in pairs.items():
            mean, width = interval(both)
            text = f"{mean:+.2f}" + (" (1 seed)" if width is None else f" ± {width:.2f}")
            found[row, column] = f"{text} *" if clear.get(column) else text
    others = [column for column in columns if any((row, column) in found for row in rows)]
    lines = [[column, *(found.get((row, column), "") for row in rows)] for column in others]
    return [[f"{reference} less …, points", *rows], *lines]


def cost_table(entries: Sequence[Entry]) -> Table:
    """Accuracy, cost and tuning of every entry, a line each."""
    header = ["row", "column", "personal, %", "pooled, %", "published, %", "token, %", "chose to be alone"]
    header += ["gradients per client", "MB on the air", "simulated h", "host s", "published s", "late: given, %"]
    header += ["late: at the end, %", "seeds", "tuned"]
    lines = [_cost_line(entry) for entry in entries]
    used = [i for i in range(len(header)) if any(line[i] for line in lines)]
    return [[line[i] for i in used] for line in [header, *lines]]


def _cost_line(entry: Entry) -> list[str]:
    published = "" if entry.published is None else f"{entry.published:.2f}"
    published_s = "" if entry.published_s is None else f"{entry.published_s:g}"
    pooled = _accuracy(entry, POOLED) if entry.pooled and entry.runs else ""
    line = [entry.row, entry.column, _accuracy(entry, PERSONAL), pooled, published]
    if not entry.runs:
        return [*line, *[""] * 6, published_s, "", "", entry.count, entry.chosen]
    summaries = entry.summaries.values()
    gradients = [s["gradient_steps"] / s["clients"] for s in summaries]
    sent = [sum(s.get(name) or 0 for name in SENT) for s in summaries]
    return [
        *line,
        "–" if entry.is_local else _accuracy(entry, "token_test_acc"),
        f"{np.mean(list(entry.values('clients_alone').values())):.3g}" if _known(entry, "clients_alone") else "",
        f"{np.mean(gradients):.0f}",
        _digits(float(np.mean(sent)) / 1e6),
        _digits(float(np.mean([s["sim_time_s"] for s in summaries])) / 3600),
        _digits(float(np.mean([s["host_time_s"] for s in summaries]))),
        published_s,
        *(_accuracy(entry, name) if _known(entry, name) else "" for name in LATE),
        entry.count,
        entry.chosen,
    ]


def _digits(value: float) -> str:
    """Three significant digits; no decimals from 100 on."""
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def _known(entry: Entry, name: str) -> bool:
    return bool(entry.runs) and all(s.get(name) is not None for s in entry.summaries.values())


def _accuracy(entry: Entry, name: str) -> str:
    """Mean ± 95 % interval in %, with a note if runs have no result or if one seed gives no interval."""
    if not entry.runs:
        return f"– ({entry.count})" if entry.diverged or entry.lost.get("learnt nothing") else "not run"
    mean, width = interval(entry.percent(name))
    known = "–" if math.isnan(mean) else f"{mean:.2f}"
    text = known + ("" if width is None or math.isnan(width) else f" ± {width:.2f}")
    if len(entry.runs) < entry.seeds:
        return f"{text} ({entry.count})"
    return f"{text} (1 seed)" if width is None else text


def as_text(table: Table) -> str:
    """A table for a terminal: columns aligned, two spaces apart."""
    widths = [max(len(line[i]) for line in table) for i in range(len(table[0]))]
    padded = ["  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip() for line in table]
    return "\n".join([padded[0], "-" * len(padded[0]), *padded[1:]])


def as_markdown(table: Table) -> str:
    """A table in Markdown."""
    lines = ["| " + " | ".join(text.strip() for text in line) + " |" for line in table]
    return "\n".join([lines[0], "|---" * len(table[0]) + "|", *lines[1:]])


@dataclass(frozen=True)
class Part:
    """A part of a page: its entries and figures, and why ours differ from the published ones."""

    entries: Sequence[Entry]
    figures: Sequence[str] = ()
    why: str = ""
    title: str = ""
    text: str = ""
    reference: str | None = None  # the column that each other is compared with


def report(title: str, text: str, parts: Sequence[Part]) -> str:
    """An experiment as a Markdown page of one part, or of several with titles of their own."""
    below = [paragraph for part in parts for paragraph in _paragraphs(part)]
    return "\n\n".join(paragraph for paragraph in [f"# {title}", text.strip(), *below] if paragraph) + "\n"


def _paragraphs(part: Part) -> list[str]:
    """A part of a page: accuracies, where they agree with the published ones, curves, and costs."""
    legend = "Mean over seeds ± 95 % interval (Student's t); *personal* is the model each client holds at the end."
    if any(entry.pooled for entry in part.entries):
        legend += " The first line of a column is the mean over clients; *pooled* is over all their test samples."
    seeds = min((len(entry.runs) for entry in part.entries if entry.runs), default=FEW + 1)
    if seeds <= FEW:
        legend += f" With {seeds} seed{'s' * (seeds > 1)} only large differences show."
    heading = [f"## {part.title}", part.text.strip()] if part.title else []
    entries = with_alone(part.entries, part.reference) if part.reference else part.entries
    found = [*heading, as_markdown(accuracy_table(entries)), legend]
    if part.reference and len(differences := difference_table(entries, part.reference)) > 1:
        found += [as_markdown(differences), DIFFERENCES]
    agreement = agreement_table(part.entries)
    if len(agreement) > 1:
        rule = (
            "A figure agrees if it is within a point of the published one, or within its own interval if that is wider."
        )
        level = "###" if part.title else "##"
        found += [f"{level} Where they agree, and where not", as_markdown(agreement), rule, part.why.strip()]
    pictures = [f"![{Path(figure).stem}]({figure})" for figure in part.figures]
    return [*found, *pictures, as_markdown(cost_table(part.entries))]
