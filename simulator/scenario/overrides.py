"""Values of a varied key, as users write them: lists, words and ranges."""

from __future__ import annotations

import math
import re
import tomllib
from typing import Any

from fedmule.simulator.errors import UserError

NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
RANGE = re.compile(rf"({NUMBER})\.\.({NUMBER}):(x?)({NUMBER})")
MOST_VALUES = 10_000  # of one range
MOST_DEPTH = 60  # of tables and lists in each other
TOO_DEEP = f"tables and lists are nested more than {MOST_DEPTH} deep, as in no scenario"


def parse_value(text: str, where: str) -> Any:
    """Parse a value of TOML; raise ValueError if it is none, and UserError if it is nested too deeply."""
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except RecursionError:
        raise UserError(f"{where}: {TOO_DEEP}") from None
    require_flat(value, where)
    return value


def require_flat(value: Any, where: str) -> None:
    """Raise UserError if tables and lists are nested too deeply."""
    inside = [value]
    for _ in range(MOST_DEPTH):
        inside = [part for outer in inside for part in _parts(outer)]
        if not inside:
            return
    raise UserError(f"{where}: {TOO_DEEP}")


def _parts(value: Any) -> list[Any]:
    """The tables and lists in a table or a list."""
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [part for part in parts if isinstance(part, dict | list)]


def parse_vary(option: str) -> tuple[str, tuple[Any, ...]]:
    """Parse KEY=a,b,c; a value is TOML, a plain word or a range."""
    key, equals, text = option.partition("=")
    if not equals or not key.strip() or not text.strip():
        raise UserError(f"--vary {option}: must be KEY=a,b,c or KEY=a..b:step, such as vehicle.speed_mps=5,10,20")
    found: list[Any] = []
    for part in _split(text):
        if RANGE.fullmatch(part):
            found += expand_range(part, f"--vary {key}")
        else:
            found.append(_value(part))
    return key.strip(), tuple(found)


def expand_range(text: str, where: str) -> list[int | float]:
    """`a..b:step` is a, a + step … up to b; `a..b:xfactor` is a, a·factor … up to b."""
    match = RANGE.fullmatch(text.replace(" ", ""))
    if match is None:
        raise UserError(f'{where} = "{text}": must be a..b:step, such as 5..20:5, or a..b:xfactor, such as 1..1000:x10')
    low, high, by_factor, step = (float(match[1]), float(match[2]), bool(match[3]), float(match[4]))
    if high < low or (by_factor and (low <= 0 or step <= 1)) or (not by_factor and step <= 0):
        raise UserError(f'{where} = "{text}": must ascend: from low to high, by a step above 0 or a factor above 1')
    steps = math.log(high / low) / math.log(step) if by_factor else (high - low) / step
    if steps > MOST_VALUES:
        raise UserError(f'{where} = "{text}": gives more than {MOST_VALUES} values')
    count = math.floor(steps + 1e-9) + 1
    values = [low * step**i if by_factor else low + i * step for i in range(count)]
    whole = all(re.fullmatch(r"[-+]?\d+", match[i]) for i in (1, 2, 4))
    return [round(value) if whole else float(f"{value:.12g}") for value in values]


def _split(text: str) -> list[str]:
    """Split at commas outside brackets, braces and quotes."""
    parts, depth, quote, start = [], 0, "", 0
    for i, letter in enumerate(text):
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "\"'":
            quote = letter
        elif letter in "[{":
            depth += 1
        elif letter in "]}":
            depth -= 1
        elif letter == "," and depth == 0:
            parts.append(text[start:i])
            start = i + 1
    return [part.strip() for part in [*parts, text[start:]] if part.strip()]


def _value(text: str) -> Any:
    try:
        return parse_value(text, "--vary")
    except ValueError:
        return text
