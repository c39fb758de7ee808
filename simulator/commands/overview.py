"""fedmule list: what there is to choose from."""

from __future__ import annotations

import sys
from typing import Any

from fedmule.simulator.commands import arguments

# What can be listed: its title, and the table and key of a scenario that choose it.
PARTS = {
    "algorithms": ("learning.algorithm", "learning", "algorithm"),
    "models": ("learning.model", "learning", "model"),
    "radios": ("radio", "", "radio"),
    "mobility": ("clients.mobility", "clients", "mobility"),
    "walks": ("vehicle.walk", "vehicle", "walk"),
}
WHAT = ("scenarios", "studies", "experiments", "data", *PARTS)


def add(commands: Any) -> None:
    """The command `list`."""
    parser = commands.add_parser(
        "list",
        help="list scenarios, studies, data sets, algorithms, radios, …",
        description="List what there is to choose from, with a line each: scenarios, studies and experiments that "
        "ship, data sets, and the kinds of algorithms, models, radios, movement and walks that a scenario can name.",
        epilog=arguments.examples("list", "list scenarios", "list algorithms"),
    )
    parser.add_argument("what", nargs="?", choices=WHAT, metavar="WHAT", help=", ".join(WHAT) + " (default: all)")
    parser.set_defaults(command=_list)


def _list(given: Any) -> int:
    sys.stdout.write("\n".join(_section(what) for what in ([given.what] if given.what else WHAT)))
    return 0


def _section(what: str) -> str:
    if what == "data":
        from fedmule.learning.data.catalogue import list_text

        lines = "".join(f"  {line}\n" for line in list_text().splitlines())
        return f'data: learning.dataset = "…"\n{lines}'
    if what in PARTS:
        key, table, name = PARTS[what]
        return f'{what}: {key} = "…"\n{_columns(_kinds(table, name))}'
    from fedmule.simulator.scenario.shipped import experiments, scenarios, studies

    command, found = {
        "scenarios": ("fedmule run NAME", scenarios),
        "studies": ("fedmule study NAME", studies),
        "experiments": ("fedmule paper NAME", experiments),
    }[what]
    return f"{what}: {command}\n{_columns(found())}"


def _kinds(table: str, name: str) -> dict[str, str]:
    """What a key of a scenario's table can choose, with its meaning."""
    from fedmule.simulator.scenario import Scenario
    from fedmule.simulator.scenario.messages import kinds_of, tables_in

    root = next(iter(tables_in(Scenario.model_fields[table].annotation).values())) if table else Scenario
    return {kind: str(part.model_fields["kind"].description) for kind, part in kinds_of(root, name).items()}


def _columns(lines: dict[str, str]) -> str:
    width = max(map(len, lines))
    return "".join(f"  {name.ljust(width)}  {text}\n" for name, text in lines.items())
