"""MkDocs hook: reference pages from the tree as it is, one for the public names and one for each package."""

from __future__ import annotations

import ast
import posixpath
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.plugins import event_priority
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
ROOMS = ("simulator", "mobility", "radio", "learning", "analysis", "scenarios")

# Kept until the build ends. The package is this folder, whose name need not be the package's.
_link = tempfile.TemporaryDirectory()


@event_priority(100)  # before mkdocstrings reads its configuration
def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Say where the package is, and append the reference to the navigation."""
    link = Path(_link.name) / "fedmule"
    if not link.exists():
        link.symlink_to(ROOT, target_is_directory=True)
    config.plugins["mkdocstrings"].config["handlers"]["python"]["paths"] = [_link.name]
    rooms = [{room: [{name.removeprefix(f"{room}."): _page(name)} for name in _packages(room)]} for room in ROOMS]
    config.nav = [
        *(config.nav or []),
        {"Reference": ["reference/index.md", {"fedmule": "reference/fedmule.md"}, *rooms]},
    ]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages; nothing is written into docs/."""
    contents = "\n".join(f"- [`{name}`][fedmule.{name}]" for name in _public_names())
    entries = "\n".join(f"::: fedmule.{name}\n" for name in _public_names())
    _add(files, config, "reference/fedmule.md", f"# fedmule\n\n{_docstring(ROOT)}\n\n{contents}\n\n{entries}")
    for package in (name for room in ROOMS for name in _packages(room)):
        folder = ROOT.joinpath(*package.split("."))
        modules = sorted(file.stem for file in folder.glob("*.py") if not file.stem.startswith("_"))
        names = [*_definitions(folder / "__init__.py"), *modules]
        entries = "\n".join(f"::: fedmule.{package}.{name}\n" for name in names)
        _add(files, config, _page(package), f"# fedmule.{package}\n\n{_docstring(folder)}\n\n{entries}")
    css = ROOT / ".ci" / "reference.css"
    files.append(File.generated(config, css.name, abs_src_path=str(css)))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Drop links that lead out of docs/, and keep their text: the site has no such page."""
    folder = posixpath.dirname(page.file.src_uri)

    def link(found: re.Match[str]) -> str:
        outside = posixpath.normpath(posixpath.join(folder, found[2])).startswith("..")
        return found[1] if outside else found[0]

    return re.sub(r"\[([^\]]*)\]\((\.\./[^)]*)\)", link, markdown)


def _packages(room: str) -> Iterator[str]:
    """A room and the packages in it, dotted."""
    for file in sorted((ROOT / room).rglob("__init__.py")):
        yield ".".join(file.parent.relative_to(ROOT).parts)


def _page(package: str) -> str:
    return f"reference/{package}.md"


def _add(files: Files, config: MkDocsConfig, uri: str, content: str) -> None:
    files.append(File.generated(config, uri, content=content))


def _docstring(package: Path) -> str:
    return ast.get_docstring(_tree(package / "__init__.py")) or ""


def _definitions(file: Path) -> list[str]:
    """Public classes and functions that a module defines."""
    made = (node for node in _tree(file).body if isinstance(node, ast.ClassDef | ast.FunctionDef))
    return [node.name for node in made if not node.name.startswith("_")]


def _public_names() -> list[str]:
    """Names of `fedmule`, in the order of its table of homes."""
    for node in _tree(ROOT / "__init__.py").body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Dict):
            return [str(key.value) for key in node.value.keys if isinstance(key, ast.Constant)]
    raise ValueError("fedmule/__init__.py has no table of public names")


def _tree(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"))
