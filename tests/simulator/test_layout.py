"""Rules for the entire project: imports, packages, file names, reference data, and the commands CI runs."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from configparser import ConfigParser
from itertools import combinations
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


def modules(*folders: str) -> Iterator[Path]:
    for folder in folders:
        yield from sorted((ROOT / folder).rglob("*.py"))


def tree(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"))


def setup() -> ConfigParser:
    parser = ConfigParser()
    parser.read(ROOT / "setup.cfg", encoding="utf-8")
    return parser


# --- imports --------------------------------------------------------------------------------------------------


def imports_of(package: str) -> set[str]:
    found = set()
    for file in modules(package):
        if file.parent.name == "commands" or file == ROOT / "simulator" / "api.py":
            continue  # the command line and the Python interface are where everything meets
        for node in ast.walk(tree(file)):
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
    for file in modules("analysis"):
        assert "fedmule.simulator.engine" not in file.read_text(encoding="utf-8")


# --- packages and file names ----------------------------------------------------------------------------------


def test_setup_lists_the_packages_of_the_tree() -> None:
    """`packages` is written by hand: a forgotten one would be missing from the wheel only."""
    listed = setup()["options"]["packages"].split()
    folders = {file.parent.relative_to(ROOT) for file in modules(*MAY_IMPORT)}
    assert listed == sorted({"fedmule", *(".".join(["fedmule", *folder.parts]) for folder in folders)})
    assert all((ROOT / folder / "__init__.py").exists() for folder in folders)


# Pairs of file names that are a letter or a plural apart, and stay so.
NEAR: set[tuple[str, str]] = set()  # pairs of names that may be as near as that


def are_near(short: str, long: str) -> bool:
    """Whether two names, the shorter first, differ by one letter or by a plural only."""
    if long in (f"{short}es", f"{short[:-1]}ies"):
        return True
    same = next((i for i, (a, b) in enumerate(zip(short, long, strict=False)) if a != b), len(short))
    return short != long and short[same + (len(short) == len(long)) :] == long[same + 1 :]


@pytest.mark.parametrize(
    ("one", "other", "near"),
    [
        ("engine", "engines", True),
        ("study", "studies", True),
        ("batch", "batches", True),
        ("traced", "traces", True),
        ("road", "roads", True),
        ("bounds", "rounds", True),
        ("graph", "graph", False),
        ("walk", "walking", False),
        ("chain", "mixing", False),
    ],
)
def test_near_names_are_recognised(one: str, other: str, near: bool) -> None:
    assert are_near(one, other) == near


def test_no_two_file_names_differ_by_a_letter_or_a_plural() -> None:
    """Across all rooms. A command's file has the command's name, whatever else is called alike."""
    names = {file.stem for file in modules(*MAY_IMPORT, "tests") if file.parent.name != "commands"}
    pairs = combinations(sorted(names, key=lambda name: (len(name), name)), 2)
    assert {pair for pair in pairs if are_near(*pair)} <= NEAR


# --- evidence and CI ------------------------------------------------------------------------------------------


def reaches_outside(file: Path) -> bool:
    """Whether a test goes up beyond the repository's root: Path(__file__).parents[n] with too large an n."""
    above = len(file.relative_to(ROOT).parts)
    parents = [
        node.slice
        for node in ast.walk(tree(file))
        if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Attribute) and node.value.attr == "parents"
    ]
    return any(not isinstance(n, ast.Constant) or int(str(n.value)) >= above for n in parents)


def test_tests_read_nothing_outside_the_repository() -> None:
    """But for MNIST, whose folder one fixture names: reference data are in tests/reference, so no comparison skips."""
    fixture = ROOT / "tests" / "conftest.py"
    assert [file for file in modules("tests") if reaches_outside(file)] == [fixture]
    text = fixture.read_text(encoding="utf-8")
    assert text.count("parents[") == text.count('parents[2] / "shared" / "data" / "mnist"') == 1
    for file in modules("tests"):
        if file not in (fixture, Path(__file__)):
            assert '"shared"' not in file.read_text(encoding="utf-8"), file


def test_every_reference_file_is_described() -> None:
    folder = ROOT / "tests" / "reference"
    text = (folder / "README.md").read_text(encoding="utf-8")
    assert {path.name for path in folder.iterdir() if path.is_dir()} == {"contacts", "formats", "radio"}
    for file in [*folder.glob("contacts/*"), *folder.glob("radio/*")]:
        assert f"`{file.name}`" in text


def test_the_architecture_page_names_files_that_exist() -> None:
    """In the text they have their folder; in the diagram the frame or the line before them says it."""
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    prose, diagram, more = text.split("```")
    for name in re.findall(r"`([a-z_/]+(?:\.py|/))`", prose + more):
        assert (ROOT / name).exists(), name
    known = {file.name for file in modules(*MAY_IMPORT)}
    assert set(re.findall(r"\w+\.py", diagram)) <= known
    for name in re.findall(r"(?<![\w/])(?:\w+/)+(?!\w)", diagram):
        assert any(ROOT.glob(name)) or any(ROOT.glob(f"*/{name}")), name


def test_the_citation_is_of_this_version() -> None:
    text = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\nversion: {setup()['metadata']['version']}\n" in text
    assert f"\nlicense: {setup()['metadata']['license']}\n" in text


def test_workflows_call_the_same_ci() -> None:
    assert "run: .ci/run\n" in (ROOT / ".github/workflows/ci.yml").read_text(encoding="utf-8")


def test_ci_runs_the_readmes_test_command() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    commands = [line for line in readme.splitlines() if line.startswith("python3 -m venv .venv")]
    assert len(commands) == 2
    assert "fedmule run scenarios/warzone.toml" in commands[0]
    assert "pytest" in commands[1]
    assert "grep '^python3 -m venv .*pytest' README.md" in (ROOT / ".ci/run").read_text(encoding="utf-8")
