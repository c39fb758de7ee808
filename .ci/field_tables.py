"""Griffe extension: a class's fields and properties as one table, described by their comments.

The code says what a field means in a comment on its line, `speed_mps: float  # along the road`, and for the keys of a
scenario in the call that makes them, `speed_mps: Speed = key(10.0, "along the road")`.
"""

from __future__ import annotations

import io
import re
import tokenize
from importlib import import_module
from typing import Any

import griffe

TOOLS = ("fmt:", "noqa", "type:", "pragma:")  # comments that are for programs


class FieldTables(griffe.Extension):
    """Append the table to each class's docstring; keep formulas from being read as Markdown."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        """Escape an object's docstring."""
        if obj.docstring is not None:
            obj.docstring.value = _escaped(obj.docstring.value)

    def on_class(self, *, cls: griffe.Class, **_: Any) -> None:
        """Move what is known of a class's attributes into its docstring."""
        rows = []
        for name, member in cls.members.items():
            if name.startswith("_") or not isinstance(member, griffe.Attribute):
                continue
            text = member.docstring.value if member.docstring else _meaning(member)
            if text or (member.annotation and "property" not in member.labels):
                rows.append(griffe.DocstringAttribute(name, description=text, annotation=member.annotation))
                member.docstring = None  # or it would be shown twice
        if rows:
            cls.docstring = cls.docstring or griffe.Docstring("", parent=cls)
            text_above = griffe.DocstringSectionText(cls.docstring.value)
            cls.docstring.__dict__["parsed"] = [text_above, griffe.DocstringSectionAttributes(rows)]


def _meaning(field: griffe.Attribute) -> str:
    """Description of a field in its `key(default, "meaning")` or else in the comment on its line."""
    value = field.value
    if isinstance(value, griffe.ExprCall) and value.canonical_name == "key" and len(value.arguments) > 1:
        table = getattr(import_module(field.module.path), field.parent.name)
        text = table.model_fields[field.name].description
        return f"{_escaped(text)} (default `{value.arguments[0]}`)"
    if "property" in field.labels or field.lineno is None:
        return ""
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(field.source).readline))
    except (tokenize.TokenError, IndentationError):
        return ""
    comments = [token.string.lstrip("# ") for token in tokens if token.type == tokenize.COMMENT]
    return _escaped(next((text for text in comments if not text.startswith(TOOLS)), ""))


def _escaped(text: str) -> str:
    """Text with `*` and `<` as they are, except in code."""
    lines = text.split("\n")
    return "\n".join(line if line.startswith("    ") else re.sub(r"(`[^`]*`)|([*<])", _escape, line) for line in lines)


def _escape(found: re.Match[str]) -> str:
    return found[1] or f"\\{found[2]}".replace("\\<", "&lt;")
