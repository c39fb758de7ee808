"""Cards: what a data file holds, and where it comes from, in a small TOML file beside it."""

from __future__ import annotations

import difflib
import gzip
import hashlib
import tomllib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from fedmule.learning.errors import DataError

ENDINGS = (".csv.gz", ".csv", ".parquet", ".npz")  # of data files
CARD = ".card.toml"


@dataclass(frozen=True)
class Card:
    """Description of a data set. A file is checked against whatever its card says."""

    title: str = ""
    sample: str = ""  # what one sample is
    samples: int | None = None  # how many there are
    features: int | tuple[str, ...] | None = None  # how many numbers a sample has, or the columns that hold them
    shape: tuple[int, ...] = ()  # of one sample, such as (channels, height, width)
    scale: float = 1.0  # features are divided by this
    label: str | None = None  # column of labels
    classes: tuple[str | int, ...] = ()  # the labels, in the order in which they are numbered
    client: str | None = None  # column with the client of each sample
    clients: int | None = None  # how many natural clients there are
    recording: str | None = None  # column with the recording of each sample
    source: str = ""
    licence: str = ""
    citation: str = ""
    changes: str = ""  # what differs from the source
    sha256: str = ""  # of the uncompressed content

    @property
    def feature_count(self) -> int | None:
        """How many features a sample has, if the card says so."""
        return len(self.features) if isinstance(self.features, tuple) else self.features

    def columns(self) -> list[str]:
        """Return the names of the columns that are on the card."""
        named = [name for name in (self.label, self.client, self.recording) if name]
        return [*(self.features if isinstance(self.features, tuple) else ()), *named]


def card_path(file: Path) -> Path:
    """Return where the card of a data file is: readings.csv has readings.card.toml beside it."""
    stem = next((file.name.removesuffix(ending) for ending in ENDINGS if file.name.endswith(ending)), file.stem)
    return file.with_name(stem + CARD)


def card_beside(file: Path) -> Card | None:
    """Return the card of a data file, or None if it has none."""
    path = card_path(file)
    return read_card(path) if path.is_file() else None


def read_card(path: Path) -> Card:
    """Read a card; raise a DataError that lists everything wrong with it."""
    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise DataError(f"{path}: is not a card in TOML: {error}") from None
    names = [field.name for field in fields(Card)]
    problems = []
    for name, value in raw.items():
        if name not in names:
            near = difflib.get_close_matches(name, names, n=1)
            hint = f"did you mean {near[0]}?" if near else f"a card has {', '.join(names)}"
            problems.append(f"{name}: unknown key, {hint}")
        elif not _ALLOWED[name][0](value):
            problems.append(f"{name} = {value!r}: must be {_ALLOWED[name][1]}")
    if problems:
        raise DataError(f"{path}: {'; '.join(problems)}")
    given: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in raw.items()}
    return Card(**given)


def check_columns(file: Path, card: Card, found: Iterable[str]) -> None:
    """Raise a DataError unless a file has the columns that its card names, and no others if it names all."""
    found, wanted = list(found), card.columns()
    named = len(wanted) - (card.feature_count or 0) if isinstance(card.features, tuple) else len(wanted)
    problems = [f"there is no {_list(set(wanted) - set(found), wanted)}"] if set(wanted) - set(found) else []
    if isinstance(card.features, tuple) and set(found) - set(wanted):
        problems.append(f"{_list(set(found) - set(wanted), found)} is not on the card")
    elif isinstance(card.features, int) and not problems and len(found) - named != card.features:
        problems.append(f"there are {len(found) - named} features, not {card.features}")
    if problems:
        raise DataError(f"{file}: has other columns than {card_path(file).name} says: {'; '.join(problems)}")


def check_content(file: Path, card: Card) -> None:
    """Raise a DataError unless the content of a file has the checksum on its card, if there is one."""
    if not card.sha256:
        return
    try:
        with gzip.open(file) if file.suffix == ".gz" else file.open("rb") as content:
            found = hashlib.file_digest(content, "sha256").hexdigest()
    except (OSError, EOFError) as error:
        raise DataError(f"{file}: cannot be read: {error}") from None
    if found != card.sha256:
        raise DataError(
            f"{file}: its content is not what {card_path(file).name} says: its SHA-256 checksum is {found}, not "
            f"{card.sha256}"
        )


def _list(names: set[str], order: list[str]) -> str:
    """Show some of these names, in this order."""
    shown = [repr(name) for name in order if name in names]
    more = f" and {len(shown) - 5} more" if len(shown) > 5 else ""
    return ", ".join(shown[:5]) + more


def _string(value: Any) -> bool:
    return isinstance(value, str) and value != ""


def _count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _distinct(value: Any, allowed: Callable[[Any], bool]) -> bool:
    return isinstance(value, list) and len(value) > 0 and all(map(allowed, value)) and len(set(value)) == len(value)


_STRING = (_string, "a string")
_COUNT = (_count, "a whole number, 1 or more")
_ALLOWED: dict[str, tuple[Callable[[Any], bool], str]] = {
    "title": _STRING,
    "sample": _STRING,
    "samples": _COUNT,
    "features": (
        lambda value: _count(value) or _distinct(value, _string),
        "a list of different column names, or how many there are",
    ),
    "shape": (lambda value: isinstance(value, list) and all(map(_count, value)), "a list of whole numbers, 1 or more"),
    "scale": (
        lambda value: isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < float("inf"),
        "a number greater than 0",
    ),
    "label": _STRING,
    "classes": (
        lambda value: _distinct(value, lambda v: isinstance(v, (str, int))) and len(value) > 1,
        "a list of two or more different labels, strings or whole numbers",
    ),
    "client": _STRING,
    "clients": _COUNT,
    "recording": _STRING,
    "source": _STRING,
    "licence": _STRING,
    "citation": _STRING,
    "changes": _STRING,
    "sha256": (
        lambda value: isinstance(value, str) and len(value) == 64 and set(value) <= set("0123456789abcdef"),
        "64 hexadecimal digits",
    ),
}
