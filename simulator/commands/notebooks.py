"""fedmule notebooks: copy the notebooks to a folder."""

from __future__ import annotations

import sys
from typing import Any

from fedmule.simulator.commands import arguments


def add(commands: Any) -> None:
    """The command `notebooks`."""
    notebooks = commands.add_parser(
        "notebooks",
        help="copy the notebooks to a folder",
        description="Copy the notebooks that ship to a folder of yours: a first run, speed and range, algorithms, "
        "theory, and parts of your own. To open them: pip install 'fedmule[notebook]', then jupyter lab DIR. Nothing "
        "that exists is overwritten.",
        epilog=arguments.examples("notebooks notebooks"),
    )
    notebooks.add_argument("folder", metavar="DIR", help="where to copy them")
    notebooks.set_defaults(command=_notebooks)


def _notebooks(given: Any) -> int:
    from importlib import resources
    from pathlib import Path

    from fedmule.simulator.errors import UserError
    from fedmule.simulator.runs.folder import write_text

    folder = Path(given.folder)
    if folder.exists() and not folder.is_dir():
        raise UserError(f"{folder}: is a file; choose a folder")
    source = resources.files("fedmule.analysis") / "notebooks"
    found = {file.name: file.read_text(encoding="utf-8") for file in source.iterdir() if file.name.endswith(".ipynb")}
    there = sorted(name for name in found if (folder / name).exists())
    if there:
        raise UserError(f"{folder / there[0]}: exists already; choose another folder")
    folder.mkdir(parents=True, exist_ok=True)
    for name in sorted(found):
        write_text(folder / name, found[name])
    sys.stdout.write(f"{', '.join(sorted(found))} copied to {folder}; open them with: jupyter lab {folder}\n")
    return 0
