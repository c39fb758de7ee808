"""The tables in docs/columns.md, written from the table of columns.

    python -m fedmule.simulator.runs.columns_page docs/columns.md

replaces every table between `<!-- NAME -->` and `<!-- end of NAME -->`; the text around them is written by hand.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from pathlib import Path

from fedmule.simulator.runs.column_kinds import Column
from fedmule.simulator.runs.columns import SUMMARY, TABLES
from fedmule.simulator.runs.folder import write_text
from fedmule.simulator.runs.progress import WHY

MARKED = re.compile(r"(<!-- (\w+) -->\n).*?(<!-- end of \2 -->)", re.DOTALL)


def with_tables(text: str) -> str:
    """The page with its tables as they should be."""
    tables = {name: _columns(columns) for name, columns in TABLES.items()}
    tables["summary"] = _columns(SUMMARY, in_summary=True)
    tables["stopped_by"] = _table(("value", "the run ended because"), ((f"`{key}`", why) for key, why in WHY.items()))
    return MARKED.sub(lambda found: f"{found[1]}\n{tables[found[2]]}\n{found[3]}", text)


def _columns(columns: Iterable[Column], in_summary: bool = False) -> str:
    """A line per column; `in_summary` says of totals and last values of contacts that they are."""
    rows = []
    for column in columns:
        meaning = column.meaning + (" *" if column.all_clients else "")
        if in_summary and column.summary is not None:
            meaning = f"{'total' if column.summary == 'total' else 'last value'} of `{column.name}` in contacts"
        rows.append((f"`{column.name}`", str(column.type), column.unit, meaning))
    return _table(("column", "type", "unit", "meaning"), rows)


def _table(header: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [header, ("---",) * len(header), *rows]
    escaped = [[cell.replace("|", r"\|") for cell in line] for line in lines]
    return "".join(f"| {' | '.join(line)} |\n" for line in escaped)


def main() -> None:
    """Write the tables into the page named on the command line."""
    page = Path(sys.argv[1])
    write_text(page, with_tables(page.read_text(encoding="utf-8")))


if __name__ == "__main__":
    main()
