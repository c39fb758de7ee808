"""A report as Markdown with image files beside it, and as one self-contained HTML page."""

from __future__ import annotations

import base64
import struct
from collections.abc import Sequence
from html import escape

from fedmule.analysis.plots.style import FILE_DPI
from fedmule.analysis.plots.words import unbroken
from fedmule.analysis.replay.page import page
from fedmule.analysis.report.content import Content, Item
from fedmule.analysis.result_tables import Table, as_markdown

STYLES, SCRIPTS = ("base.css", "report.css"), ("theme.js", "report.js")
MOST_LINES = 16  # of the table that is open at once
SCREEN_PER_FILE = 96 / FILE_DPI  # pixels
WIDE = 800  # pixels; figures that are wider scroll on a phone


def as_md(content: Content, items: Sequence[tuple[Item, str]]) -> str:
    """The report as Markdown, with images by file name."""
    parts = [
        f"# {_md(content.title)}",
        "\n\n".join(_md(line) for line in content.findings),
        as_markdown(_md_table(content.summary)),
        _md(content.legend),
    ]
    for item, file in items:
        parts += [f"## {_md(item.title)}", f"![{_md(item.title)}]({file})", _md(item.text)]
    for title, table in content.tables.items():
        parts += [f"## {_md(title)}", as_markdown(_md_table(table))]
    if content.missing:
        parts += ["## What is not shown, and why", "\n".join(f"- {_md(line)}" for line in content.missing)]
    return "\n\n".join(part for part in parts if part) + "\n"


def as_html(content: Content, items: Sequence[tuple[Item, bytes]]) -> str:
    """The report as HTML with its images (PNG) embedded; all text is escaped."""
    parts = []
    if content.findings:
        parts.append(f'<section class="card">{_html_list(content.findings, "findings")}</section>')
    opened = " open" if len(content.summary) <= MOST_LINES + 1 or not items else ""
    legend = f'\n<p class="note">{escape(content.legend)}</p>' if content.legend else ""
    parts.append(
        f'<section class="card"><details{opened}><summary>In numbers</summary>\n'
        f"{_html_table(content.summary)}{legend}</details></section>"
    )
    parts += [_html_figure(item, image) for item, image in items]
    for title, table in content.tables.items():
        parts.append(f'<section class="card"><h2>{escape(title)}</h2>\n{_html_table(table)}</section>')
    if content.missing:
        lines = _html_list(content.missing, "plain")
        parts.append(f'<section class="card"><h2>What is not shown, and why</h2>\n{lines}</section>')
    return page("report.html", STYLES, SCRIPTS, content.title, body="\n".join(parts))


def _html_figure(item: Item, image: bytes) -> str:
    width, height = (round(SCREEN_PER_FILE * side) for side in struct.unpack(">II", image[16:24]))  # of a PNG
    source = f"data:image/png;base64,{base64.b64encode(image).decode()}"
    kind = "wide" if width > WIDE else "narrow"
    return (
        f'<section class="card"><h2>{escape(item.title)}</h2>\n<figure><div class="scroll" tabindex="0">'
        f'<img class="{kind}" alt="{escape(item.title)}" width="{width}" height="{height}" src="{source}"></div>\n'
        f"<figcaption>{escape(item.text)}</figcaption></figure></section>"
    )


def _html_list(lines: Sequence[str], kind: str) -> str:
    return f'<ul class="{kind}">\n' + "\n".join(f"<li>{escape(unbroken(line))}</li>" for line in lines) + "\n</ul>"


def _html_table(table: Table) -> str:
    header, *lines = table
    head = "".join(f"<th>{escape(cell)}</th>" for cell in header)
    rows = "\n".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in line) + "</tr>" for line in lines)
    return f'<div class="scroll" tabindex="0"><table>\n<tr>{head}</tr>\n{rows}\n</table></div>'


def _md_table(table: Table) -> Table:
    return [[_md(cell).replace("|", r"\|") for cell in line] for line in table]


def _md(text: str) -> str:
    """Text on one line that Markdown shows literally: no tags, no links."""
    line = " ".join(escape(text, quote=False).split())
    return line.replace("[", r"\[").replace("]", r"\]").replace("`", r"\`").replace("*", r"\*")
