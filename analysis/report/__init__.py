"""`fedmule report`: all figures of a run or a study, and a page that explains them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from fedmule.analysis.loading import Run, load_run
from fedmule.analysis.plots.style import save
from fedmule.analysis.report.content import Content
from fedmule.analysis.report.rendering import as_html, as_md
from fedmule.analysis.report.run_report import run_content
from fedmule.analysis.report.study_report import study_content
from fedmule.analysis.studies import load_study
from fedmule.simulator.errors import UserError
from fedmule.simulator.runs.folder import write_text

FORMATS = ("png", "pdf", "svg")


def content_of(folder: Path) -> Content:
    """Text, tables and figures of the report on a run's or a study's folder."""
    is_run, is_study = (folder / "manifest.json").is_file(), (folder / "index.parquet").is_file()
    if not (is_run or is_study):
        what = "is neither a run folder (it has no manifest.json) nor a study's (it has no index.parquet)"
        raise UserError(f"{folder}: {what if folder.exists() else 'no such folder'}")
    loaded = load_run(folder) if is_run else load_study(folder)
    return run_content(loaded) if isinstance(loaded, Run) else study_content(loaded)


def write_report(
    folder: str | Path,
    out: str | Path | None = None,
    formats: Sequence[str] = ("png", "pdf"),
    progress: Callable[[float], None] = lambda share: None,
) -> Path:
    """Write figures (always as PNG too), report.md and report.html; return their folder, FOLDER/figures or `out`."""
    content = content_of(Path(folder))
    target = Path(folder) / "figures" if out is None else Path(out)
    try:
        target.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        raise UserError(f"{target}: is a file; choose a folder with --out") from None
    drawn = []
    for i, item in enumerate(content.items):
        figure = item.draw()
        for kind in dict.fromkeys(("png", *formats)):
            save(figure, target / f"{item.name}.{kind}")
        drawn.append((item, (target / f"{item.name}.png").read_bytes()))
        progress((i + 1) / len(content.items))
    write_text(target / "report.md", as_md(content, [(item, f"{item.name}.png") for item, _ in drawn]))
    write_text(target / "report.html", as_html(content, drawn))
    return target
