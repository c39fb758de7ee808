"""fedmule new: a scenario file of your own, from one that ships."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from fedmule.simulator.commands import arguments


def add(commands: Any) -> None:
    """The command `new`."""
    parser = commands.add_parser(
        "new",
        help="write a scenario file to begin with",
        description="Write a scenario file to change: a copy of one that ships, with its comments, and with the maps, "
        "traces and data that it names beside it. Nothing that exists is overwritten.",
        epilog=arguments.examples("new town", "new town --from earthquake"),
    )
    parser.add_argument("name", metavar="NAME", help="of the new scenario: writes NAME.toml; may begin with a folder")
    parser.add_argument(
        "--from", dest="source", default="warzone", metavar="SCENARIO", help="what to copy (default: warzone)"
    )
    parser.set_defaults(command=_new)


def _new(given: Any) -> int:
    from fedmule.simulator.errors import UserError
    from fedmule.simulator.runs.folder import write_bytes
    from fedmule.simulator.scenario.load import find_scenario, load_scenario, read_toml

    load_scenario(given.source)  # one that is wrong is not copied
    source = find_scenario(given.source)
    file = Path(given.name if given.name.endswith(".toml") else f"{given.name}.toml")
    head = f"# Begun as a copy of {given.source}; fedmule check --explain says what every key means.\n\n"
    copies = {file.parent / name: (source.parent / name).read_bytes() for name in _beside(source, read_toml(source))}
    copies[file] = head.encode() + source.read_bytes()
    for target, content in copies.items():
        if target.exists() and (target == file or target.read_bytes() != content):
            raise UserError(f"{target}: exists already; choose another NAME, or begin it with a folder")
    for target, content in copies.items():  # the scenario last
        if not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            write_bytes(target, content)
    others = (
        f", with {', '.join(target.name for target in copies if target != file)} beside it" if len(copies) > 1 else ""
    )
    sys.stdout.write(f"{file}: written{others}. Change it, then\n  fedmule check {file}\n  fedmule run {file}\n")
    return 0


def _beside(source: Path, value: Any) -> list[str]:
    """The files in the scenario's folder, or below it, that its values name, and their cards."""
    from fedmule.learning.data.card import card_path

    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        return list(dict.fromkeys(name for inner in value for name in _beside(source, inner)))
    if not isinstance(value, str) or Path(value).is_absolute() or ".." in Path(value).parts:
        return []
    beside = [value, str(card_path(Path(value)))] if value else []
    return [name for name in beside if (source.parent / name).is_file()]
