"""Classes of the user's own, imported only when the user allows it."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from fedmule.simulator.errors import Problem, ScenarioError
from fedmule.simulator.scenario import Scenario
from fedmule.simulator.scenario.keys import OwnClass
from fedmule.simulator.scenario.load import own_classes


def load_plugins(
    scenario: Scenario, allowed: bool, folders: Iterable[Path] = (), at_hand: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """The user's own classes a scenario names, by dotted key; `folders` are searched besides installed packages.

    Those at hand are not imported. Raises ScenarioError where others are not allowed or cannot be imported.
    """
    found: dict[str, Any] = dict(at_hand or {})
    named = {key: own for key, own in own_classes(scenario).items() if key not in found}
    if named and allowed:
        for folder in folders:
            if str(folder) not in sys.path:
                sys.path.insert(0, str(folder))
    problems = []
    for key, own in named.items():
        if not allowed:
            message = "would run code that is not part of Fedmule; add --allow-plugins if you trust it"
            problems.append(Problem(f"{key}.kind", message, own.kind))
            continue
        module, _, name = own.kind.partition(":")
        try:
            found[key] = getattr(importlib.import_module(module), name)
        except Exception as error:  # whatever the user's module raises when it is imported
            problems.append(Problem(f"{key}.kind", f"cannot be imported: {error!r}", own.kind))
    if problems:
        raise ScenarioError(scenario.name, problems)
    return found


def plugin_folders(scenario_name: str) -> list[Path]:
    """Where a user's own modules may lie: the present folder and the scenario's."""
    folders = [Path.cwd()]
    path = Path(scenario_name)
    return [path.resolve().parent, *folders] if path.is_file() else folders


def make(key: str, part: Any, builtin: dict[str, Any], plugins: dict[str, Any], **given: Any) -> Any:
    """An object of the kind a table chooses: given what the program provides and the table's other keys."""
    if isinstance(part, OwnClass):
        try:
            return plugins[key](**given, **(part.model_extra or {}))
        except Exception as error:
            raise ScenarioError(key, [Problem(f"{key}.kind", f"cannot be made: {error!r}", part.kind)]) from error
    keys = {name: getattr(part, name) for name in type(part).model_fields if name not in ("kind", *given)}
    return builtin[part.kind](**given, **keys)
