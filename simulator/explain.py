"""The reference of scenario keys, printed from where they are defined."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, get_args

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from simulator.load import to_toml
from simulator.problems import tables_in
from simulator.scenario import OwnClass, Scenario


def explain() -> str:
    """Every key: name, default, what is allowed, what it means."""
    lines = [
        "Every key of a scenario file, with its default. An empty file is valid.",
        'Where a table has a kind, a plain string stands for its kind: radio = "disc".',
        'A kind may also name a class of your own, "package.module:Class"; it then needs --allow-plugins.',
    ]
    for table, key, default, allowed, meaning in entries():
        if table != lines[-1] and f"[{table}]" not in lines:
            lines += ["", f"[{table}]"]
        lines.append(f"  {key} = {default}".ljust(38) + f" # {meaning}" + (f" ({allowed})" if allowed else ""))
    return "\n".join(lines) + "\n"


def entries() -> Iterator[tuple[str, str, str, str, str]]:
    """For each key: its table, name, default, what is allowed, and its meaning."""
    yield from _entries(Scenario, "")


def _entries(part: type[BaseModel], table: str) -> Iterator[tuple[str, str, str, str, str]]:
    below = []
    for name, field in part.model_fields.items():
        dotted = f"{table}.{name}" if table else name
        tables = {tag: t for tag, t in tables_in(field.annotation).items() if t is not OwnClass}
        if tables and "default" and not _has_keys(tables):
            kinds = ", ".join(tables)
            yield table, name, _show(field.default), kinds, str(field.description)
        elif tables:
            below.append((dotted, tables))
        else:
            yield table, name, _default(field), _allowed(field), str(field.description)
    for dotted, tables in below:
        for tag, inner in tables.items():
            kind = f', kind = "{tag}"' if "kind" in inner.model_fields else ""
            yield from _entries(inner, f"{dotted}{kind}")


def _has_keys(tables: dict[str, type[BaseModel]]) -> bool:
    return any(list(t.model_fields) != ["kind"] for t in tables.values())


def _default(field: FieldInfo) -> str:
    return "…" if field.is_required() else _show(field.default)


def _show(value: Any) -> str:
    if value is None:
        return "not set"
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, tuple):
        return "[" + ", ".join(_show(v) for v in value) + "]"
    return str(value).lower() if isinstance(value, bool) else f"{value:g}" if isinstance(value, float) else str(value)


def _allowed(field: FieldInfo) -> str:
    """Limits and choices, from the annotation."""
    text = " ".join(repr(m) for m in _metadata(field))
    signs = {"gt": ">", "ge": "≥", "lt": "<", "le": "≤"}
    limits = [f"{signs[k]} {float(v):g}" for k, v in re.findall(r"\b(gt|ge|lt|le)=([-\d.]+)", text)]
    choices = [f'"{c}"' for c in _literals(field.annotation)]
    return " or ".join(([", ".join(choices)] if len(choices) > 1 else []) + ([", ".join(limits)] if limits else []))


def _metadata(field: FieldInfo) -> list[Any]:
    found = list(field.metadata)
    for inner in get_args(field.annotation):
        found += getattr(inner, "__metadata__", ())
    return found


def _literals(annotation: Any) -> list[str]:
    found = []
    for inner in get_args(annotation):
        found += [inner] if isinstance(inner, str) else _literals(inner)
    return found


__all__ = ["entries", "explain", "to_toml"]
