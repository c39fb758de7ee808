"""Messages about what pydantic found wrong, for the person who wrote the file."""

from __future__ import annotations

import difflib
from typing import Any, get_args

from pydantic import BaseModel, Tag, ValidationError

from fedmule.simulator.errors import Problem

# By pydantic's error type; {} is filled from the error's context.
WORDS = {
    "greater_than": "must be greater than {gt:g}",
    "greater_than_equal": "must be at least {ge:g}",
    "less_than": "must be less than {lt:g}",
    "less_than_equal": "must be at most {le:g}",
    "float_type": "must be a number",
    "int_type": "must be a whole number",
    "int_from_float": "must be a whole number",
    "bool_type": "must be true or false",
    "string_type": "must be a string",
    "finite_number": "must be a finite number, not nan or inf",
    "missing": "is missing, and has no default",
    "literal_error": "must be {expected}",
    "tuple_type": "must be a list in square brackets",
    "too_short": "must have at least {min_length} entries",
    "too_long": "must have at most {max_length} entries",
    "model_type": "must be a table",
    "model_attributes_type": "must be a table",
    "dict_type": "must be a table",
    "string_pattern_mismatch": 'must be a class as "package.module:Class"',
}


def problems_of(error: ValidationError, root: type[BaseModel]) -> list[Problem]:
    """Return all problems, one per key, in the order of the file's keys."""
    found: dict[str, Problem] = {}
    for detail in error.errors():
        key, parent = _key_and_table(detail["loc"], root)
        problem = _problem(key, parent, detail)
        if problem.key in found and problem.message not in found[problem.key].message:
            problem = Problem(problem.key, f"{found[problem.key].message}, or {problem.message}", problem.value)
        found[problem.key] = problem
    return list(found.values())


def _problem(key: str, table: type[BaseModel] | None, detail: Any) -> Problem:
    context = detail.get("ctx", {})
    if detail["type"] == "extra_forbidden":
        fields = list(table.model_fields) if table else []
        near = difflib.get_close_matches(key.rpartition(".")[2], fields, n=1)
        hint = f"did you mean {near[0]}?" if near else f"known keys: {', '.join(fields)}"
        return Problem(key, f"unknown key; {hint}", detail["input"])
    if detail["type"] == "union_tag_invalid" and not isinstance(detail["input"], dict):
        return Problem(key, "must be a table with a kind, or the kind as a string", detail["input"])
    if detail["type"] == "union_tag_invalid":
        kinds = [k for k in context["expected_tags"].replace("'", "").split(", ") if k != "own"]
        near = difflib.get_close_matches(context["tag"], kinds, n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        message = f'must be one of {", ".join(kinds)}, or your own class as "package.module:Class"{hint}'
        return Problem(f"{key}.kind", message, context["tag"])
    if detail["type"] == "missing":
        return Problem(key, WORDS["missing"])
    words = WORDS.get(detail["type"])
    if detail["type"] == "string_pattern_mismatch" and not key.endswith("kind"):
        words = "must not contain control characters"
    message = words.format(**context) if words else detail["msg"][0].lower() + detail["msg"][1:]
    return Problem(key, message, detail["input"])


def _key_and_table(loc: tuple[int | str, ...], root: type[BaseModel]) -> tuple[str, type[BaseModel] | None]:
    """Return the dotted key of an error's location, and its table.

    Pydantic puts the chosen member of a union into the location; that is no key of the file and is left out.
    """
    key = ""
    table: type[BaseModel] | None = root
    rest = list(loc)
    while rest:
        step = rest.pop(0)
        if isinstance(step, int):
            key += f"[{step}]"
        elif table is not None:
            key = f"{key}.{step}" if key else step
            if any(isinstance(s, str) for s in rest):  # the location continues inside
                inner = tables_in(table.model_fields[step].annotation)
                table = inner[str(rest.pop(0))] if len(inner) > 1 else next(iter(inner.values()), None)
                # With no table inside, what is left names members of a union of plain values.
    return key, table


def tables_in(annotation: Any) -> dict[str, type[BaseModel]]:
    """Return the tables an annotation can hold, by the tag pydantic gives them where there are several."""
    found: dict[str, type[BaseModel]] = {}
    tags = [note.tag for note in getattr(annotation, "__metadata__", ()) if isinstance(note, Tag)]
    for inner in [annotation, *get_args(annotation)]:
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            found[tags[0] if tags else inner.__name__] = inner
        elif inner is not annotation and not isinstance(inner, str):
            found |= tables_in(inner)
    return found


def kinds_of(table: type[BaseModel], key: str) -> dict[str, type[BaseModel]]:
    """Return the program's own parts that a key of a table can choose, by kind."""
    tables = tables_in(table.model_fields[key].annotation)
    return {tag: part for tag, part in tables.items() if tag != "own"}
