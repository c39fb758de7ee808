"""The command line: its commands, and how their errors are reported."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib import metadata

from fedmule.simulator.commands import check, compare, data, find, link, paper, replay, report, run, study, traces


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point of `fedmule`; returns the exit status: 0 ok, 1 failed, 2 bad input, 130 interrupted."""
    from fedmule.simulator.errors import UserError

    arguments = _parser().parse_args(argv)
    try:
        return int(arguments.command(arguments))
    except UserError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    except BrokenPipeError:  # the reader of our output went away
        sys.stderr.close()
        return 0
    except OSError as error:  # a full disk, say
        sys.stderr.write(f"{error.filename or 'fedmule'}: {error.strerror or error}\n")
        return 1
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="fedmule",
        description="Simulate federated learning carried by a vehicle where there is no network.",
    )
    parser.add_argument("--version", action="version", version=f"fedmule {_version()}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for module in (run, check, replay, report, study, compare, find, paper, data, link, traces):
        module.add(commands)
    return parser


def _version() -> str:
    try:
        return metadata.version("fedmule")
    except metadata.PackageNotFoundError:
        return "(not installed)"
