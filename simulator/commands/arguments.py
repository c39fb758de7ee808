"""Argument types of the commands, and arguments that several commands share."""

from __future__ import annotations

import argparse
import math
from typing import Any

EXAMPLES = "examples:\n"


class Format(argparse.HelpFormatter):
    """Wraps everything but examples, which stand as they are."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return text if text.startswith(EXAMPLES) else super()._fill_text(text, width, indent)


class Parser(argparse.ArgumentParser):
    """The parser of the program and of its commands."""

    def __init__(self, *args: Any, **keys: Any) -> None:
        super().__init__(*args, **{"formatter_class": Format, **keys})


def examples(*lines: str) -> str:
    """Return the examples at the end of a command's help, given without the name of the program."""
    return EXAMPLES + "".join(f"  fedmule {line}\n" for line in lines)


def add_scenario(parser: argparse.ArgumentParser, many: bool = False) -> None:
    """Let a command take a scenario and overrides of its keys."""
    what = "a TOML file, a run folder, or the name of a scenario that ships, such as warzone"
    parser.add_argument("scenario", nargs="*" if many else None, metavar="SCENARIO", help=what)
    parser.add_argument("--seed", type=seed, metavar="N", help="same as --set seed=N")
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", dest="overrides",
        help="override one key by its dotted name, such as vehicle.speed_mps=8; may be repeated",
    )  # fmt: skip
    parser.add_argument(
        "--allow-plugins",
        action="store_true",
        help='let the scenario run your own classes ("package.module:Class")',
    )


def add_model(parser: argparse.ArgumentParser) -> None:
    """Let a command choose a model of a finished run."""
    parser.add_argument("run", metavar="RUN", help="the folder of a finished run")
    parser.add_argument("--client", type=seed, metavar="N", help="use the personal model of client N")
    parser.add_argument(
        "--token", action="store_true", help="use the token (default); with --client the one that client would receive"
    )
    parser.add_argument("--allow-plugins", action="store_true", help="let a model class of your own be imported")


def which_model(given: argparse.Namespace) -> str:
    """The model chosen, in words."""
    if given.client is None:
        return "the token"
    return f"client {given.client}'s {'token' if given.token else 'model'}"


def add_engine(parser: argparse.ArgumentParser) -> None:
    """Let a command that makes many runs choose where they run."""
    parser.add_argument("--jobs", type=count, metavar="N", help="parallel runs (default: one per core)")
    parser.add_argument("--engine", metavar="ADDRESS", help="run on the Dask cluster whose scheduler is at tcp://…")


def seed(text: str) -> int:
    """Parse a seed."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text}: must be a whole number, 0 or more")
    return int(text)


def count(text: str) -> int:
    """Parse a count."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text}: must be a whole number, 1 or more")
    return int(text)


def distances(text: str) -> list[float]:
    """Parse distances in metres, separated by commas."""
    try:
        values = [float(part) for part in text.split(",")]
    except ValueError:
        values = []
    if not values or not all(0 <= d < math.inf for d in values):
        raise argparse.ArgumentTypeError(f"{text}: must be distances in metres, such as 1,10,100")
    return values


def number(text: str) -> float:
    """Parse a finite number."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise argparse.ArgumentTypeError(f"{text}: must be a number")
    return value


def not_negative(text: str) -> float:
    """Parse a number, 0 or more."""
    if number(text) < 0:
        raise argparse.ArgumentTypeError(f"{text}: must be 0 or more")
    return float(text)


def positive(text: str) -> float:
    """Parse a number greater than 0."""
    if number(text) <= 0:
        raise argparse.ArgumentTypeError(f"{text}: must be greater than 0")
    return float(text)


def share(text: str) -> float:
    """Parse a number between 0 and 1."""
    if not 0 < number(text) < 1:
        raise argparse.ArgumentTypeError(f"{text}: must be between 0 and 1")
    return float(text)


def clock(text: str) -> float:
    """Parse a time in seconds, or as hours, minutes and seconds: 1200 or 0:20:00."""
    parts = text.split(":")
    if len(parts) == 1:
        return not_negative(text)
    if len(parts) != 3 or not all(part.isdecimal() for part in parts) or any(int(part) > 59 for part in parts[1:]):
        raise argparse.ArgumentTypeError(f"{text}: must be seconds, or a time such as 0:20:00")
    hours, minutes, seconds = map(int, parts)
    return float(3600 * hours + 60 * minutes + seconds)


def point(text: str) -> tuple[float, float]:
    """Parse two numbers separated by a comma."""
    values = [number(value) for value in text.split(",")]
    if len(values) != 2:
        raise argparse.ArgumentTypeError(f"{text}: must be two numbers separated by a comma")
    return values[0], values[1]


def names(text: str) -> list[str]:
    """Parse names separated by commas."""
    return [name.strip() for name in text.split(",")]
