"""Which algorithm is better: accuracy, cost to a target, and whether the difference is more than chance."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fedmule.analysis.experiments import Table, interval
from fedmule.analysis.loading import load_run
from fedmule.analysis.measures import to_accuracy

LEVEL = 0.05  # of significance, over all pairs together
COSTS = {"visits": 1.0, "gradient_steps": 1.0, "sim_time_s": 3600.0, "bytes": 1e6}


@dataclass(frozen=True)
class Contender:
    """An algorithm's finished runs, by seed."""

    name: str
    runs: dict[int, Path]

    @cached_property
    def contacts(self) -> dict[int, pd.DataFrame]:
        return {seed: load_run(folder).contacts for seed, folder in self.runs.items()}

    @cached_property
    def summaries(self) -> dict[int, dict[str, Any]]:
        return {seed: load_run(folder).summary for seed, folder in self.runs.items()}

    def values(self, name: str) -> dict[int, float]:
        """A value of the summaries by seed; nan where it is null."""
        return {seed: math.nan if s[name] is None else float(s[name]) for seed, s in self.summaries.items()}

    def cost(self, target: float, against: str) -> dict[int, float]:
        """What each run had spent when its personal accuracy first was at least the target; nan if it never was."""
        return {seed: to_accuracy(contacts, target, against) for seed, contacts in self.contacts.items()}


def usual_target(contenders: Sequence[Contender]) -> float:
    """Nine tenths of the best mean personal accuracy, down to a whole percent."""
    means = [np.mean(list(c.values("personal_test_acc_mean").values())) for c in contenders if c.runs]
    return math.floor(90 * max(means)) / 100


def better_than(contenders: Sequence[Contender]) -> dict[str, list[str]]:
    """Whom each contender beats in personal accuracy by more than chance.

    A paired t test over the seeds both have (they share data, start and movement), two-sided, over all pairs with
    Holm's correction, so that the chance of one false claim in the whole table stays below 5 %.
    """
    pairs = []
    for i, a in enumerate(contenders):
        for b in contenders[i + 1 :]:
            ours, theirs = a.values("personal_test_acc_mean"), b.values("personal_test_acc_mean")
            difference = np.array([ours[seed] - theirs[seed] for seed in ours if seed in theirs])
            if len(difference) >= 2:
                pairs.append((_paired_p(difference), a.name, b.name, float(difference.mean())))
    found: dict[str, list[str]] = {c.name: [] for c in contenders}
    for rank, (p, one, other, mean) in enumerate(sorted(pairs)):
        if p * (len(pairs) - rank) > LEVEL:
            break
        winner, loser = (one, other) if mean > 0 else (other, one)
        found[winner].append(loser)
    return found


def _paired_p(difference: np.ndarray[Any, Any]) -> float:
    """Of Student's t test that the mean difference is 0."""
    from scipy.special import stdtr

    n, spread = len(difference), difference.std(ddof=1)
    if spread == 0:
        return 1.0 if difference[0] == 0 else 0.0
    return float(2 * stdtr(n - 1, -abs(difference.mean()) / (spread / math.sqrt(n))))


def compare_table(contenders: Sequence[Contender], target: float) -> Table:
    """A line per contender: accuracies in % (mean ± 95 % interval), cost to the target, whom it beats."""
    to = f"to {100 * target:g} %"
    header = ["algorithm", "personal, %", "token, %", "gradients per client", f"visits {to}", f"gradients {to}"]
    header += [f"simulated h {to}", f"MB {to}", "reached", "better than"]
    beaten, table = better_than(contenders), [header]
    for contender in contenders:
        if not contender.runs:
            table.append([contender.name, "not run", *[""] * (len(header) - 2)])
            continue
        steps = [s["gradient_steps"] / s["clients"] for s in contender.summaries.values()]
        costs = {against: contender.cost(target, against) for against in COSTS}
        reached = sum(not math.isnan(value) for value in costs["visits"].values())
        alone = all(s["algorithm"] == "local" for s in contender.summaries.values())
        table.append(
            [
                contender.name,
                _percent(contender, "personal_test_acc_mean"),
                "–" if alone else _percent(contender, "token_test_acc"),
                f"{np.mean(steps):.0f}",
                *(_cost(costs[against], unit) for against, unit in COSTS.items()),
                f"{reached} of {len(contender.runs)}",
                ", ".join(beaten[contender.name]) or "–",
            ]
        )
    return table


def _percent(contender: Contender, name: str) -> str:
    mean, width = interval([100 * value for value in contender.values(name).values()])
    return f"{mean:.2f}" + ("" if width is None else f" ± {width:.2f}")


def _cost(values: dict[int, float], unit: float) -> str:
    """The mean over the runs that got there; nothing where none did."""
    reached = [value / unit for value in values.values() if not math.isnan(value)]
    return f"{np.mean(reached):.4g}" if reached else "–"
