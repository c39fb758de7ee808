"""Errors meant for the person at the keyboard: no traceback, exit status 2."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


class UserError(Exception):
    """Something the user can fix; the text says where and how."""


class StateError(UserError):
    """State of a run that cannot be saved or restored."""


@dataclass(frozen=True)
class Problem:
    """One thing wrong with a scenario."""

    key: str  # dotted; "" for the file itself
    message: str
    value: Any = None
    source: str = ""  # the file or option it comes from


class ScenarioError(UserError):
    """Everything wrong with a scenario, a line each: source, key, value given, what is allowed."""

    def __init__(self, source: str, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(_line(source, p) for p in self.problems))


def _line(source: str, problem: Problem) -> str:
    given = "" if problem.value is None else f" = {_short(problem.value)}"
    where = f"{problem.key}{given}: " if problem.key else ""
    return f"{problem.source or source}: {where}{problem.message}"


def _short(value: Any) -> str:
    text = f'"{value}"' if isinstance(value, str) else repr(value).replace("True", "true").replace("False", "false")
    return text if len(text) <= 60 else text[:57] + "…"
