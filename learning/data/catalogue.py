"""The public data sets: where each is, and its card."""

from __future__ import annotations

from pathlib import Path

from fedmule.learning.data.cache import cached
from fedmule.learning.data.card import CARD, Card, read_card

BOX = Path(__file__).parent / "box"
IN_THE_BOX = ("digits", "sonar")
TO_FETCH = ("mnist", "fashion_mnist", "cifar10")
TO_IMPORT = ("watch",)  # from a package
PUBLIC = (*IN_THE_BOX, *TO_FETCH, *TO_IMPORT)


def card_of(name: str) -> Card:
    """Return the card of a public data set."""
    return read_card(BOX / f"{name}{CARD}")


def boxed(name: str) -> Path:
    """Return the file of a data set in the box."""
    return BOX / f"{name}.csv.gz"


def stored(name: str) -> dict[str, Path]:
    """Return the files that a run reads, by the names under which it records them."""
    if name in IN_THE_BOX:
        return {name: boxed(name), f"{name}{CARD}": BOX / f"{name}{CARD}"}
    return {name: cached(name)}


def whereabouts(name: str) -> str:
    """Say where a data set is, or how to get it."""
    if name in IN_THE_BOX:
        return "in the box"
    if cached(name).exists():
        return "in the cache"
    return f"fedmule data {name}" + (" (needs seglearn)" if name in TO_IMPORT else "")


def list_text() -> str:
    """Return a line for each public data set."""
    lines = [("name", "samples", "features", "classes", "licence", "where it is", "source")]
    for name in PUBLIC:
        card = card_of(name)
        amounts = (f"{card.samples:,}", f"{card.feature_count:,}", str(len(card.classes)))
        lines.append((name, *amounts, card.licence, whereabouts(name), card.source))
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    text = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in lines]
    return "".join(f"{line.rstrip()}\n" for line in text)


def card_text(name: str) -> str:
    """Return the card of a public data set for reading."""
    card = card_of(name)
    shape = f" ({' × '.join(map(str, card.shape))})" if card.shape else ""
    lines = {
        "sample": card.sample,
        "samples": f"{card.samples:,}" + (f" of {card.clients} natural clients" if card.clients else ""),
        "features": f"{card.feature_count:,}{shape}",
        "classes": f"{len(card.classes)}: {', '.join(map(str, card.classes))}",
        "licence": card.licence,
        "source": card.source,
        "citation": card.citation,
        "changes": card.changes,
    }
    return f"{card.title}\n" + "".join(f"  {key:10}{text}\n" for key, text in lines.items() if text)
