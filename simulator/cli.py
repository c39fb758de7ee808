"""The command line: its commands, and how their errors are reported."""

from __future__ import annotations

import difflib
import os
import sys
from collections.abc import Sequence
from importlib import metadata

from fedmule.simulator.commands import (
    arguments,
    check,
    compare,
    completion,
    data,
    export,
    find,
    link,
    new,
    notebooks,
    overview,
    paper,
    predict,
    replay,
    report,
    run,
    schema,
    study,
    traces,
    verify,
)

# fmt: off
COMMANDS = (
    run, overview, new, check, replay, report, predict, export, verify, study, compare, find, paper, data, link, traces,
    notebooks, schema, completion,
)
# fmt: on


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point of `fedmule`; returns the exit status: 0 ok, 1 failed, 2 bad input, 3 diverged, 130 interrupted."""
    from fedmule.simulator.errors import UserError

    words = list(sys.argv[1:] if argv is None else argv)
    parser, names = _parser()
    if "_ARGCOMPLETE" in os.environ:
        completion.complete(parser)
    given = parser.parse_args(_known(words, names))
    try:
        return int(given.command(given))
    except UserError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    except BrokenPipeError:  # the reader of our output went away
        sys.stderr.close()
        return 0
    except OSError as error:  # a full disk, say
        sys.stderr.write(f"{error.filename or 'fedmule'}: {error.strerror or error}\n")
        return 1
    except MemoryError as error:
        sys.stderr.write(f"not enough memory: {error or 'the scenario is too large for this computer'}\n")
        return 1
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        return 130


def _parser() -> tuple[arguments.Parser, list[str]]:
    """The parser, and the names of the commands."""
    parser = arguments.Parser(
        prog="fedmule",
        description="Simulate federated learning carried by a vehicle where there is no network.",
        epilog=arguments.examples("run warzone", "compare warzone", "study gain/warzone", "list"),
    )
    parser.add_argument("--version", action="version", version=f"fedmule {_version()}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for module in COMMANDS:
        module.add(commands)
    return parser, list(commands.choices)


def _known(words: list[str], names: list[str]) -> list[str]:
    """The words of a command line; ends the program with status 2 if they begin with a command that is not known."""
    if words and not words[0].startswith("-") and words[0] not in names:
        near = difflib.get_close_matches(words[0], names, n=1)
        hint = f"did you mean fedmule {near[0]}?" if near else f"commands: {', '.join(names)}"
        sys.stderr.write(f"fedmule {words[0]}: no such command; {hint}\n")
        raise SystemExit(2)
    return words


def _version() -> str:
    try:
        return metadata.version("fedmule")
    except metadata.PackageNotFoundError:
        return "(not installed)"
