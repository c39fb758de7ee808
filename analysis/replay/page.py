"""One self-contained HTML file from a template, styles, scripts and content."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from collections.abc import Sequence
from importlib import resources
from typing import Any


def page(
    template: str,
    styles: Sequence[str],
    scripts: Sequence[str],
    title: str,
    content: Any = None,
    arrays: str = "",
    body: str = "",
) -> str:
    """Build a page from head.html and a template; its policy allows only our script to run, and nothing to load.

    `content` and `arrays` are data for the script; `body` is HTML whose images are embedded.
    """
    style = "\n".join(_file(name) for name in styles)
    script = "\n".join(['"use strict";', *(_file(name) for name in scripts)])
    policy = (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; "
        f"{'img-src data:; ' if body else ''}base-uri 'none'; form-action 'none'"
    )
    parts = {
        "title": html.escape(title),
        "policy": policy,
        "style": style,
        "script": script,
        "content": safe_json(content),
        "arrays": arrays,
        "body": body,
        "theme": _file("theme.html"),
    }
    # In one pass, so that text from a scenario is never expanded as a part of the template.
    return re.sub(r"@@(\w+)@@", lambda found: parts[found[1]], _file("head.html") + _file(template))


def safe_json(content: Any) -> str:
    """JSON that cannot end or change the script element it stands in."""
    text = json.dumps(content, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode("ascii")


def _file(name: str) -> str:
    return resources.files("fedmule.analysis.replay").joinpath("parts", name).read_text(encoding="utf-8")
