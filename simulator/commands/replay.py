"""fedmule replay: show a run or a study as one HTML page."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from fedmule.simulator.commands import arguments

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


def add(commands: Any) -> None:
    """Add the command `replay`."""
    replay = commands.add_parser(
        "replay",
        help="watch a run on its map, or browse a study, in a browser",
        description="Write one HTML file that replays a run on its map, or shows a study (also one of fedmule compare "
        "or paper) as a table and heat maps. It needs no network and opens from disk.",
        epilog=arguments.examples("replay runs/warzone", "replay studies/warzone-gain --out gain.html"),
    )
    replay.add_argument("folder", metavar="RUN|STUDY", help="the folder of a run, finished or not, or of a study")
    replay.add_argument("--out", metavar="FILE", help="where to write the page (default: FOLDER/replay.html)")
    replay.add_argument(
        "--runs", action="store_true", help="for a study: also write the page of every run that is done"
    )
    opening = replay.add_mutually_exclusive_group()
    opening.add_argument("--open", action="store_true", help="open the page without asking")
    opening.add_argument("--no-open", action="store_true", help="do not ask whether to open it")
    replay.set_defaults(command=_replay)


def _replay(given: Any) -> int:
    from pathlib import Path

    from fedmule.simulator.errors import UserError
    from fedmule.simulator.runs.folder import write_text

    folder = Path(given.folder)
    is_run, is_study = (folder / "manifest.json").is_file(), (folder / "index.parquet").is_file()
    if not (is_run or is_study):
        what = "has neither a run's manifest.json nor a study's index.parquet" if folder.is_dir() else "no such folder"
        raise UserError(f"{folder}: {what}")
    if given.runs and is_run:
        raise UserError(f"{folder}: is a run; --runs is for studies")
    file = Path(given.out or folder / "replay.html")
    if file.is_dir():
        raise UserError(f"--out {file}: is a folder; name a file")
    html = _run_page(folder) if is_run else _study_page(folder, file, given.runs)
    file.parent.mkdir(parents=True, exist_ok=True)
    write_text(file, html)
    sys.stdout.write(f"written to {file}, {len(html.encode()) / 1e6:.2f} MB\n")
    _offer(file, given.open, given.no_open)
    return 0


def _run_page(folder: Path) -> str:
    from fedmule.analysis import load_run
    from fedmule.analysis.replay import NoTrackError, run_page
    from fedmule.simulator.errors import UserError

    try:
        return run_page(load_run(folder))
    except NoTrackError as error:
        raise UserError(str(error)) from None


def _study_page(folder: Path, file: Path, write_runs: bool) -> str:
    """The page of a study, to be written to `file`, with links to the pages of its runs that exist."""
    import os
    from urllib.parse import quote

    from fedmule.analysis import load_study
    from fedmule.analysis.replay import study_page

    study = load_study(folder)
    if write_runs:
        _write_run_pages([folder / name for name in study.done["run"]])
    links = {}
    for name in study.index["run"]:
        page = folder / name / "replay.html"
        if page.exists():
            links[name] = quote(os.path.relpath(page, file.parent).replace(os.sep, "/"))
    return study_page(study, links)


def _write_run_pages(folders: Sequence[Path]) -> None:
    """Write the page of each run into its folder, with a warning for those that cannot be replayed."""
    from fedmule.simulator.errors import UserError
    from fedmule.simulator.runs.folder import write_text
    from fedmule.simulator.runs.progress import ShareDone

    report = ShareDone("pages of runs")
    for done, folder in enumerate(folders, start=1):
        try:
            write_text(folder / "replay.html", _run_page(folder))
        except UserError as error:
            sys.stderr.write(f"warning: {error}\n")
        report(done / len(folders))


def _offer(file: Path, at_once: bool, never: bool) -> None:
    """Open the page in the browser: at once, or if the user at the terminal agrees."""
    if never or not (at_once or (sys.stdin.isatty() and sys.stdout.isatty())):
        return
    if not at_once:
        try:
            answer = input("open it in the browser? [Y/n] ")
        except EOFError:
            return
        if answer.strip().lower() not in ("", "y", "yes"):
            return
    import webbrowser

    if not webbrowser.open(file.resolve().as_uri()):
        sys.stderr.write("warning: no browser was found; open the file yourself\n")
