"""What holds of the project as a whole: which package may import which, and which commands CI runs."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MAY_IMPORT = {
    "mobility": set(),
    "radio": {"mobility"},
    "learning": set(),
    "scenarios": set(),
    "simulator": {"mobility", "radio", "learning", "scenarios"},
    "analysis": {"simulator", "mobility", "radio", "learning"},
}
BANNED = {"mobility": {"torch", "simpy"}, "radio": {"torch", "simpy"}, "learning": {"simpy", "shapely"}}


def imports_of(package: str) -> set[str]:
    found = set()
    for file in (ROOT / package).rglob("*.py"):
        if file.parent.name == "commands":
            continue  # the command line is where everything meets
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                found |= {_room(alias.name) for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module == "fedmule":
                found |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                found.add(_room(node.module))
    return found


def _room(module: str) -> str:
    return module.removeprefix("fedmule.").split(".")[0]


@pytest.mark.parametrize("package", sorted(MAY_IMPORT))
def test_imports_point_one_way(package: str) -> None:
    found = imports_of(package)
    assert found or package == "scenarios"
    assert found & set(MAY_IMPORT) - {package} <= MAY_IMPORT[package]
    assert not found & BANNED.get(package, set())


def test_analysis_reads_run_folders_not_the_engine() -> None:
    for file in (ROOT / "analysis").rglob("*.py"):
        assert "fedmule.simulator.engine" not in file.read_text(encoding="utf-8")


def test_ci_runs_the_readmes_test_command() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    commands = [line for line in readme.splitlines() if line.startswith("python3 -m venv .venv")]
    assert len(commands) == 2
    assert "fedmule run scenarios/warzone.toml" in commands[0]
    assert "pytest" in commands[1]
    assert "grep '^python3 -m venv .*pytest' README.md" in (ROOT / ".ci/run").read_text(encoding="utf-8")
