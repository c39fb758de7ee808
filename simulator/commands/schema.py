"""fedmule schema: the JSON schema of scenario files."""

from __future__ import annotations

import sys
from typing import Any

from fedmule.simulator.commands import arguments


def add(commands: Any) -> None:
    """The command `schema`."""
    schema = commands.add_parser(
        "schema",
        help="print the JSON schema of scenario files, for editors",
        description="Print the JSON schema of scenario files. An editor that knows TOML schemas (such as VS Code with "
        "Even Better TOML) then completes, explains and checks keys: save the schema beside a scenario, and begin the "
        "scenario with the line  #:schema fedmule.schema.json",
        epilog=arguments.examples("schema > fedmule.schema.json", "schema --format 2"),
    )
    schema.add_argument("--format", type=arguments.count, default=2, metavar="N", help="version of the format")
    schema.set_defaults(command=_schema)


def _schema(given: Any) -> int:
    import json

    from fedmule.simulator.errors import UserError
    from fedmule.simulator.scenario.renamed import FORMAT
    from fedmule.simulator.scenario.schema import schema

    if given.format != FORMAT:
        raise UserError(f"fedmule schema: knows format {FORMAT} of scenario files, not {given.format}")
    sys.stdout.write(json.dumps(schema(), indent=1, ensure_ascii=False) + "\n")
    return 0
