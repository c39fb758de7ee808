"""What ships beside the program: scenarios, studies of them and experiments over them, each with a line about it."""

from __future__ import annotations

import tomllib
from pathlib import Path

from fedmule.simulator.scenario.load import OTHER_FILES, packaged_scenarios

SHORT = 40  # characters; what is shorter than this says too little
STUDIES = tuple(folder for folder in OTHER_FILES if folder != "experiments")


def scenarios() -> dict[str, str]:
    """The scenarios by name, with the beginning of the comment at the head of each; the stories come first."""
    found = packaged_scenarios()
    return {name: beginning(found[name]) for name in sorted(found, key=lambda name: ("/" in name, name))}


def studies() -> dict[str, str]:
    """The studies by name, with their titles."""
    return _titles(STUDIES, keep_folder=True)


def experiments() -> dict[str, str]:
    """The experiments by name, with their titles."""
    return _titles(("experiments",), keep_folder=False)


def beginning(file: Path) -> str:
    """The first sentence or two of the comment at the head of a scenario file; empty if there is none."""
    head = []
    for line in file.read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            break
        head.append(line.lstrip("# "))
    first, *others = " ".join(head).removesuffix(".").split(". ")
    return f"{first}. {others[0]}" if others and len(first) < SHORT else first


def _titles(folders: tuple[str, ...], keep_folder: bool) -> dict[str, str]:
    from fedmule import scenarios as shipped

    root = Path(shipped.__file__).parent
    found = {}
    for folder in folders:
        for file in sorted((root / folder).glob("*.toml")):
            title = tomllib.loads(file.read_text(encoding="utf-8")).get("title")
            if title:
                found[f"{folder}/{file.stem}" if keep_folder else file.stem] = str(title)
    return found
