"""Searches: the smallest value of a key with which a result reaches a target. Their runs are those of a study."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedmule.simulator.runs.folder import write_json
from fedmule.simulator.studies.batch import Failure, run_plan
from fedmule.simulator.studies.bisection import Finding, Number, Outcome, Tried, bisect
from fedmule.simulator.studies.question import Question
from fedmule.simulator.studies.search_text import answer_text, question_text

if TYPE_CHECKING:
    import pandas as pd

COUNTED = ("done", "learnt nothing")


@dataclass(frozen=True, eq=False)
class Found:
    """The answer to a search, and the folder of its runs, for load_study. As text it is the answer in words."""

    key: str
    outcome: Outcome  # found; all: the end of the range suffices; none: no value does; undecided: a run has no result
    value: Number | None  # the answer, whose mean over seeds reaches the target
    interval: tuple[Number | None, Number | None]  # of 95 % for the answer; None: not bounded on that side
    table: pd.DataFrame  # a row per value tried, ascending: value, mean, half_width of its 95 % interval, decision
    text: str
    folder: Path
    failures: tuple[Failure, ...] = ()

    def __str__(self) -> str:
        return self.text


def answer(
    question: Question,
    out: Path | None = None,
    *,
    engine: str | None = None,
    jobs: int | None = None,
    allow_plugins: bool = False,
    quiet: bool = False,
    report: Callable[[Tried], None] = lambda tried: None,
) -> Found:
    """Search, and write every value tried and the answer to find.json in the study's folder.

    Runs that are done are not made again: the same command continues a search that was interrupted, and a finer search
    or one over more seeds begins with what is there.
    """
    folder = out or question.folder
    tried: list[Tried] = []
    failures: list[Failure] = []

    def evaluate(values: Sequence[Number]) -> list[list[float]]:
        known = sorted({*values, *(one.value for one in tried)})
        plan = question.plan(known, folder.name, question_text(question))
        asked = [point for point in plan.points if point.parameters[question.key] in values]
        outcome = run_plan(plan, folder, only=asked, engine=engine, jobs=jobs, allow_plugins=allow_plugins, quiet=quiet)
        failures.extend(outcome.failures)
        return [_results(outcome.index, question, value) for value in values]

    def note(one: Tried) -> None:
        tried.append(one)
        _write(folder, question, tried, None)
        report(one)

    finding = bisect(question.values, question.target, evaluate, note)
    text = answer_text(question, finding)
    _write(folder, question, tried, finding)
    table = _table(tried, question.target)
    return Found(question.key, finding.outcome, finding.value, finding.interval, table, text, folder, tuple(failures))


def _results(index: pd.DataFrame, question: Question, value: Number) -> list[float]:
    """The results of a value over seeds; nan where a run has none, or diverged.

    A run that has learnt nothing counts here: its value does not suffice.
    """
    rows = index[index[question.key] == value]
    if question.quantity not in rows:
        return [math.nan] * len(rows)
    return [float(result) for result in rows[question.quantity].astype(float).where(rows["status"].isin(COUNTED))]


def _table(tried: Sequence[Tried], target: float) -> pd.DataFrame:
    import pandas as pd

    rows = [
        {"value": one.value, "mean": one.mean, "half_width": one.half_width, "decision": one.decision(target)}
        for one in sorted(tried, key=lambda one: one.value)
    ]
    return pd.DataFrame(rows)


def _write(folder: Path, question: Question, tried: Sequence[Tried], finding: Finding | None) -> None:
    """Write find.json; while the search is under way it has no answer."""
    answered: dict[str, Any] | None = None
    if finding is not None:
        answered = {name: getattr(finding, name) for name in ("outcome", "value", "interval", "rising", "hump", "drop")}
        answered["text"] = answer_text(question, finding)
    asked = {name: part for name, part in asdict(question).items() if name != "values"}
    span = {name: getattr(question.values, name) for name in ("low", "high", "whole", "tolerance", "geometric")}
    values = [
        {
            "value": one.value,
            "results": [None if math.isnan(result) else result for result in one.results],
            "mean": one.mean if one.complete else None,
            "half_width": one.half_width if one.complete else None,
            "decision": one.decision(question.target),
        }
        for one in tried
    ]
    write_json(folder / "find.json", {**asked, "range": span, "tried": values, "answer": answered})
