"""The reference of scenario keys, generated from their definitions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from fedmule.simulator.scenario import Scenario
from fedmule.simulator.scenario.keys import OwnClass
from fedmule.simulator.scenario.map_files import MapKeys
from fedmule.simulator.scenario.messages import tables_in

HEAD = """\
# Every key of a scenario file, with its default. An empty file is valid.
# Where a table has a kind, a plain string stands for its kind: radio = "disc".
# A kind may also name a class of your own, "package.module:Class"; running it needs --allow-plugins.
"""


@dataclass(frozen=True)
class Entry:
    """One key of a scenario file."""

    table: str  # the heading it stands under, such as 'radio, kind = "disc"'
    key: str
    default: str
    allowed: str
    meaning: str


def explain(own: Mapping[str, type[BaseModel]] | None = None, wanted: str = "") -> str:
    """Every key: name, default, meaning, what is allowed; then those of the user's own classes, by heading.

    With `wanted` only those of a table and the tables in it, of a kind, or a single key; empty if there is none.
    """
    lines, table = [] if wanted else [HEAD.rstrip()], None
    ours = [entry for heading, keys in (own or {}).items() for entry in entries(keys, heading)]
    maps = entries(MapKeys, "a map: { geojson = … } for obstacles, surfaces, jamming_zones, roads or route")
    for entry in dict.fromkeys([*entries(), *maps, *ours]):  # what several kinds have in common is explained once
        if wanted and not _about(entry, wanted):
            continue
        if entry.table != table:
            table = entry.table
            lines += ["", f"[{table}]"] if table else [""]
        allowed = f" ({entry.allowed})" if entry.allowed else ""
        lines.append(f"{entry.key} = {entry.default}".ljust(36) + f" # {entry.meaning}{allowed}")
    return "\n".join(lines).lstrip("\n") + "\n" if lines else ""


def _about(entry: Entry, wanted: str) -> bool:
    """Whether an entry belongs to a table such as "radio" or "vehicle.walk", to a kind, or is a key."""
    table, _, kind = entry.table.partition(', kind = "')
    dotted = f"{table}.{entry.key}" if table else entry.key
    return wanted in (kind.rstrip('"'), dotted, entry.key) or f"{table}.".startswith(f"{wanted}.")


def entries(
    part: type[BaseModel] = Scenario, table: str = "", above: frozenset[type[BaseModel]] = frozenset()
) -> Iterator[Entry]:
    """The keys of a table, then those of the tables in it, except tables that are explained beside it already."""
    below = []
    for name, field in part.model_fields.items():
        inside = tables_in(field.annotation)
        tables = {tag: inner for tag, inner in inside.items() if not issubclass(inner, OwnClass)}
        has_kinds = any("kind" in inner.model_fields for inner in tables.values())
        if not tables or has_kinds or field.default is None or get_origin(field.annotation) is tuple:
            allowed = " or ".join(f'"{tag}"' for tag in tables) if has_kinds else _allowed(field)
            default = "…" if field.is_required() else _show(field.default)
            yield Entry(table, name, default, allowed, str(field.description))
        dotted = f"{table.partition(',')[0]}.{name}" if table else name
        below += [(f'{dotted}, kind = "{tag}"' if has_kinds else dotted, inner) for tag, inner in tables.items()]
    explained = above | {inner for _, inner in below}
    for heading, inner in below:
        if list(inner.model_fields) != ["kind"] and inner not in above:
            yield from entries(inner, heading, explained)


def _show(value: Any) -> str:
    if value is None:
        return "(not set)"
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return "[" + ", ".join(_show(v) for v in value) + "]"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _allowed(field: FieldInfo) -> str:
    """Describe choices and limits, from the annotation."""
    choices, limits = [], []
    for part in _parts(field.annotation, tuple(field.metadata)):
        if isinstance(part, str):
            choices.append(f'"{part}"')
        for sign, name in ((">", "gt"), ("≥", "ge"), ("<", "lt"), ("≤", "le")):
            limit = getattr(part, name, None)
            if limit is not None and f"{sign} {limit:g}" not in limits:
                limits.append(f"{sign} {limit:g}")
    named = " or ".join(choices) if len(choices) > 1 else ""
    return ", or ".join(text for text in (named, ", ".join(limits)) if text)


def _parts(annotation: Any, metadata: tuple[Any, ...] = ()) -> Iterator[Any]:
    """Yield what an annotation says about its values: choices and limits."""
    for note in (*metadata, *getattr(annotation, "__metadata__", ())):
        yield from getattr(note, "metadata", None) or [note]
    if get_origin(annotation) is Literal:
        yield from get_args(annotation)
    else:
        for inner in get_args(annotation):
            if not isinstance(inner, (str, FieldInfo)):
                yield from _parts(inner)
