"""Classes of the user's own, imported only when the user allows it."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from fedmule.simulator.errors import Problem, ScenarioError
from fedmule.simulator.scenario import Scenario
from fedmule.simulator.scenario.load import own_classes
from fedmule.simulator.scenario.parts import own_keys

# Top-level packages of version 0.1, and where they are now.
MOVED = ("simulator", "mobility", "radio", "learning", "analysis", "scenarios")


def load_plugins(
    scenario: Scenario, allowed: bool, folders: Iterable[Path] = (), at_hand: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Import the user's own classes a scenario names, and check their keys; returns them by dotted key.

    `folders` are searched after installed packages. Classes at hand are not imported. Raises ScenarioError where others
    are not allowed, cannot be imported, or do not take the keys given.
    """
    found: dict[str, Any] = dict(at_hand or {})
    named = own_classes(scenario)
    if allowed:
        _search(folders)
    problems: list[Problem] = []
    for key, own in named.items():
        if key not in found and not allowed:
            message = "would run code that is not part of Fedmule; add --allow-plugins if you trust it"
            problems.append(Problem(f"{key}.kind", message, own.kind))
            continue
        try:
            if key not in found:
                found[key] = _import(own.kind)
            own_keys(own, found[key], key)
        except ScenarioError as error:
            problems += error.problems
        except Exception as error:  # whatever the user's module raises when it is imported
            problems.append(Problem(f"{key}.kind", f"cannot be imported: {error!r}{_hint(error)}", own.kind))
    if problems:
        raise ScenarioError(scenario.name, problems)
    return found


def plugin_folders(scenario_name: str) -> list[Path]:
    """Where a user's own modules may lie: the scenario's folder and the present one."""
    folders = [Path.cwd()]
    path = Path(scenario_name)
    return [path.resolve().parent, *folders] if path.is_file() else folders


def _search(folders: Iterable[Path]) -> None:
    """Add folders to the end of the search path, so that no module there hides an installed one."""
    for folder in folders:
        if str(folder) not in sys.path:
            sys.path.append(str(folder))


def _import(kind: str) -> Any:
    module, _, name = kind.partition(":")
    return getattr(importlib.import_module(module), name)


def _hint(error: Exception) -> str:
    """Say how to change what was written for version 0.1, where everything was at the top level."""
    name = (error.name or "").partition(".")[0] if isinstance(error, ModuleNotFoundError) else ""
    return f"; Fedmule's own modules are in the package fedmule now: from fedmule.{name}… import …" * (name in MOVED)
