"""Comparing algorithms: accuracy, the cost of a target accuracy, and which differences are more than chance."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from fedmule.analysis.measures import to_accuracy
from fedmule.analysis.result_tables import Entry, Table
from fedmule.simulator.runs.tables import read_table
from fedmule.simulator.studies.statistics import holm, interval, paired_p

CLEAR = {True: "more than chance", False: "no more than chance may do"}

COSTS = {"visits": 1.0, "gradient_steps": 1.0, "sim_time_s": 3600.0, "bytes": 1e6}  # divided by these for the table


def costs(entry: Entry, target: float) -> dict[str, list[float]]:
    """What each run had spent when its personal accuracy first reached the target; nan if it never did."""
    contacts = [read_table(folder, "contacts").to_pandas() for folder in entry.runs.values()]
    return {against: [to_accuracy(table, target, against) for table in contacts] for against in COSTS}


def usual_target(entries: Sequence[Entry]) -> float:
    """Nine tenths of the best mean personal accuracy, rounded down to a whole percent."""
    means = [np.mean(list(entry.values("personal_test_acc_mean").values())) for entry in entries if entry.runs]
    return math.floor(90 * max(means)) / 100


def better_than(entries: Sequence[Entry]) -> dict[str, list[str]]:
    """The columns that each column beats in personal accuracy by more than chance.

    A two-sided paired t test over the seeds both have, which share data, start model and movement, for every pair, with
    Holm's correction: the probability of any false claim in the table stays below 5 %. A column that diverged in some
    seeds beats nothing: its mean is over those that went well.
    """
    pairs = []
    for i, a in enumerate(entries):
        for b in entries[i + 1 :]:
            ours, theirs = a.values("personal_test_acc_mean"), b.values("personal_test_acc_mean")
            difference = [ours[seed] - theirs[seed] for seed in ours if seed in theirs]
            if len(difference) >= 2:
                pairs.append((paired_p(difference), a.column, b.column, float(np.mean(difference))))
    found: dict[str, list[str]] = {entry.column: [] for entry in entries}
    diverged = {entry.column for entry in entries if entry.diverged}
    pairs.sort()
    for (_, one, other, mean), clear in zip(pairs, holm([p for p, *_ in pairs]), strict=True):
        if clear:
            winner, loser = (one, other) if mean > 0 else (other, one)
            if winner not in diverged:
                found[winner].append(loser)
    return found


def compare_table(entries: Sequence[Entry], target: float) -> Table:
    """A line per entry: accuracies in % (mean ± 95 % interval), the cost of the target, which others it beats."""
    to = f"to {100 * target:g} %"
    header = ["algorithm", "personal, %", "token, %", "gradients per client", f"visits {to}", f"gradients {to}"]
    header += [f"simulated h {to}", f"MB {to}", "reached", "seeds", "better than"]
    beaten, table = better_than(entries), [header]
    for entry in entries:
        if not entry.runs:
            what = "–" if entry.lost.get("diverged") or entry.lost.get("learnt nothing") else "not run"
            table.append([entry.column, what, *[""] * (len(header) - 4), entry.count, ""])
            continue
        steps = [s["gradient_steps"] / s["clients"] for s in entry.summaries.values()]
        spent = costs(entry, target)
        reached = sum(not math.isnan(value) for value in spent["visits"])
        table.append(
            [
                entry.column,
                _percent(entry, "personal_test_acc_mean"),
                "–" if entry.is_local else _percent(entry, "token_test_acc"),
                f"{np.mean(steps):.0f}",
                *(_mean_cost(spent[against], unit) for against, unit in COSTS.items()),
                f"{reached} of {len(entry.runs)}",
                entry.count,
                ", ".join(beaten[entry.column]) or "–",
            ]
        )
    return table


def _percent(entry: Entry, name: str) -> str:
    mean, width = interval(entry.percent(name))
    known = "–" if math.isnan(mean) else f"{mean:.2f}"
    return known + ("" if width is None or math.isnan(width) else f" ± {width:.2f}")


def _mean_cost(values: Sequence[float], unit: float) -> str:
    """The mean over the runs that reached the target; a dash if none did."""
    reached = [value / unit for value in values if not math.isnan(value)]
    return f"{np.mean(reached):.4g}" if reached else "–"


def verdict(entries: Sequence[Entry]) -> list[str]:
    """Who is ahead, by how much over the runner-up and over local training, and how sure that is: a sentence each."""
    means = {e.column: float(np.mean(e.percent("personal_test_acc_mean"))) for e in entries if e.runs}
    known = [entry for entry in entries if not math.isnan(means.get(entry.column, math.nan)) and not entry.diverged]
    done = sorted(known, key=lambda e: -means[e.column])
    left_out = [
        f"{entry.column} diverged in {entry.diverged} of {entry.seeds} seeds and is left out."
        for entry in entries
        if entry.diverged
    ]
    if len(done) < 2:
        return ["Nothing to compare: fewer than two algorithms have finished a run without diverging.", *left_out]
    first, beaten = done[0], better_than(done)
    local = [entry for entry in done if entry.is_local and entry is not first]
    others = list(dict.fromkeys([done[1].column, *(entry.column for entry in local)]))
    columns = {entry.column: entry for entry in done}
    clear = {name: name in beaten[first.column] for name in others}
    ahead = [f"{_difference(first, columns[name])} over {name}, {CLEAR[clear[name]]}" for name in others]
    opening = f"{first.column} is ahead:" if clear[others[0]] else f"No clear winner: {first.column} has"
    runs = min(len(entry.runs) for entry in done)
    found = [f"{opening} {'; '.join(ahead)}."]
    if runs < 5:
        found.append(f"With {runs} seed{'s' * (runs > 1)} only large differences show: use --seeds 5 or more.")
    return found + left_out


def _difference(ours: Entry, theirs: Entry) -> str:
    """Difference of personal accuracies in points, paired by seed, with its 95 % interval."""
    a, b = ours.values("personal_test_acc_mean"), theirs.values("personal_test_acc_mean")
    mean, width = interval([100 * (a[seed] - b[seed]) for seed in a if seed in b])
    return f"{mean:+.1f} points" + ("" if width is None else f" (± {width:.1f})")
