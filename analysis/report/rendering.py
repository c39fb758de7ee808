"""A report as Markdown with image files beside it, and as one self-contained HTML page."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from html import escape

from fedmule.analysis.report.content import Content, Item
from fedmule.analysis.result_tables import Table, as_markdown

STYLE = """
:root { color-scheme: light dark; --ink: #1c1c1c; --ground: #fff; --line: #d0d0d0; --quiet: #666; }
@media (prefers-color-scheme: dark) { :root { --ink: #e8e8e8; --ground: #16181b; --line: #3a3d42; --quiet: #a0a0a0; } }
body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--ground);
       max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.2rem; margin-top: 2.2rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: .9rem; }
th, td { text-align: left; white-space: nowrap; vertical-align: top;
         padding: .25rem .8rem .25rem 0; border-bottom: 1px solid var(--line); }
td:last-child { white-space: normal; }
figure { margin: 0; }
img { max-width: 100%; height: auto; background: #fff; border-radius: 6px; padding: 6px; box-sizing: border-box; }
figcaption, .quiet { color: var(--quiet); }
"""


def as_md(content: Content, items: Sequence[tuple[Item, str]]) -> str:
    """The report as Markdown, with images by file name."""
    parts = [
        f"# {_md(content.title)}",
        _md(content.verdict),
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
    parts = [f"<h1>{escape(content.title)}</h1>"]
    if content.verdict:
        parts.append(f"<p>{escape(content.verdict)}</p>")
    parts.append(_html_table(content.summary))
    if content.legend:
        parts.append(f'<p class="quiet">{escape(content.legend)}</p>')
    for item, image in items:
        source = f"data:image/png;base64,{base64.b64encode(image).decode()}"
        parts.append(
            f"<h2>{escape(item.title)}</h2>\n"
            f'<figure><img alt="{escape(item.title)}" src="{source}">\n'
            f"<figcaption>{escape(item.text)}</figcaption></figure>"
        )
    for title, table in content.tables.items():
        parts.append(f"<h2>{escape(title)}</h2>\n{_html_table(table)}")
    if content.missing:
        lines = "\n".join(f"<li>{escape(line)}</li>" for line in content.missing)
        parts.append(f"<h2>What is not shown, and why</h2>\n<ul>\n{lines}\n</ul>")
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(content.title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n"
        + "\n".join(parts)
        + "\n</body>\n</html>\n"
    )


def _html_table(table: Table) -> str:
    header, *lines = table
    head = "".join(f"<th>{escape(cell)}</th>" for cell in header)
    rows = "\n".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in line) + "</tr>" for line in lines)
    return f'<div class="wide"><table>\n<tr>{head}</tr>\n{rows}\n</table></div>'


def _md_table(table: Table) -> Table:
    return [[_md(cell).replace("|", r"\|") for cell in line] for line in table]


def _md(text: str) -> str:
    """Text on one line that Markdown shows literally: no tags, no links."""
    line = " ".join(escape(text, quote=False).split())
    return line.replace("[", r"\[").replace("]", r"\]").replace("`", r"\`").replace("*", r"\*")
