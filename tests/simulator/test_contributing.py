"""The recipes of CONTRIBUTING.md, followed in a copy of the package."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROOMS = ("simulator", "mobility", "radio", "learning", "scenarios", "analysis")
PAGE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").partition("## Recipes")[2]
RECIPES = dict(re.findall(r"^### Add an? ([^\n]+)\n(.*?)(?=^### |\Z)", PAGE, re.MULTILINE | re.DOTALL))
BLOCK = re.compile(
    r'^```(python|text|sh)(?: file=(\S+?))?(?: (above|replace)="([^"]+)")?\n(.*?)^```', re.MULTILINE | re.DOTALL
)


def follow(package: Path, name: str, how: str, where: str, text: str) -> None:
    """Do what a block says: create a file, insert lines above others, or replace them."""
    file = package / name
    if not how:
        assert not file.exists(), name
        file.write_text(text, encoding="utf-8")
        return
    before = file.read_text(encoding="utf-8")
    assert before.count(where) == 1, f"{name} has {before.count(where)} times {where!r}"
    after = before.replace(where, text + where if how == "above" else text.rstrip("\n"))
    file.write_text(after, encoding="utf-8")


def test_there_is_a_recipe_for_every_kind_of_change() -> None:
    assert list(RECIPES) == ["algorithm", "mobility model", "radio", "data set", "column", "command"]


@pytest.mark.parametrize("recipe", RECIPES)
def test_the_recipe_works(tmp_path: Path, recipe: str) -> None:
    package = tmp_path / "fedmule"
    ignored = shutil.ignore_patterns("__pycache__", "*.ipynb")
    for room in ROOMS:
        shutil.copytree(ROOT / room, package / room, ignore=ignored)
    shutil.copy(ROOT / "__init__.py", package)
    shutil.copy(ROOT / "__main__.py", package)
    shutil.copytree(ROOT / "docs", tmp_path / "docs", ignore=shutil.ignore_patterns("*.png"))
    for language, name, how, where, text in BLOCK.findall(RECIPES[recipe]):
        if language != "sh":
            follow(package, name, how, where, text)
            continue
        for line in text.strip().splitlines():
            command = shlex.split(line.replace("fedmule ", "-m fedmule ", 1).removeprefix("python "))
            done = subprocess.run(
                [sys.executable, *command],
                cwd=tmp_path,
                env={**os.environ, "PYTHONPATH": str(tmp_path)},
                capture_output=True,
                text=True,
                check=False,
            )
            assert done.returncode == 0, f"{line}\n{done.stderr}"
    shown = subprocess.run(
        [sys.executable, "-m", "fedmule", "check", "--explain"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    for kind in re.findall(r'kind: Literal\["(\w+)"\]', RECIPES[recipe]):
        assert f'kind = "{kind}"' in shown
    if recipe == "column":
        assert "`arrived_s`" in (tmp_path / "docs/columns.md").read_text(encoding="utf-8")
