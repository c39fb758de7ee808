"""fedmule completion: shell completion of commands, options and names."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from fedmule.simulator.commands import arguments

if TYPE_CHECKING:
    import argparse

SHELLS = ("bash", "zsh", "fish")


def add(commands: Any) -> None:
    """The command `completion`."""
    completion = commands.add_parser(
        "completion",
        help="print what makes a shell complete commands, options and scenarios",
        description="Print the lines that make a shell complete commands, options and names of scenarios. In bash and "
        'zsh: eval "$(fedmule completion bash)", for good in ~/.bashrc or ~/.zshrc. In fish: fedmule completion fish | '
        "source, for good in ~/.config/fish/config.fish.",
        epilog=arguments.examples("completion bash", "completion zsh", "completion fish"),
    )
    completion.add_argument("shell", choices=SHELLS, metavar="SHELL", help=", ".join(SHELLS))
    completion.set_defaults(command=_completion)


def _completion(given: Any) -> int:
    from argcomplete.shell_integration import shellcode

    sys.stdout.write(shellcode(["fedmule"], shell=given.shell) + "\n")
    return 0


def complete(parser: argparse.ArgumentParser) -> None:
    """Answer a shell that asks how a command line goes on, and end the program."""
    import argcomplete
    from argcomplete.completers import FilesCompleter

    names, files = _names(), FilesCompleter()

    def scenarios(prefix: str, **others: Any) -> list[str]:
        return [name for name in names if name.startswith(prefix)] + list(files(prefix, **others))

    for action in _actions(parser):
        if action.dest in ("scenario", "source"):
            action.completer = scenarios
    argcomplete.autocomplete(parser)


def _names() -> list[str]:
    """The scenarios and studies that ship."""
    from fedmule.simulator.scenario.shipped import scenarios, studies

    return [*scenarios(), *studies()]


def _actions(parser: argparse.ArgumentParser) -> list[Any]:
    """The arguments of all commands."""
    found: list[Any] = []
    for action in parser._actions:
        parsers = action.choices.values() if isinstance(action.choices, dict) else ()
        found += [action, *(inner for command in parsers for inner in _actions(command))]
    return found
