"""fedmule report: draw all figures of a run or a study, with a page that explains them."""

from __future__ import annotations

import sys
from typing import Any

from fedmule.simulator.commands import arguments


def add(commands: Any) -> None:
    """Add the command `report`."""
    report = commands.add_parser(
        "report",
        help="draw all figures of a run or a study, with a page that explains them",
        description="Draw all figures that suit a run or a study (also one of fedmule compare or paper), and write a "
        "Markdown and an HTML page that explain them and say what is missing. Runs need not be finished.",
        epilog=arguments.examples("report runs/warzone", "report studies/warzone-gain --formats png,svg"),
    )
    report.add_argument("folder", metavar="RUN|STUDY", help="the folder of a run or a study")
    report.add_argument("--out", metavar="DIR", help="where to write figures and pages (default: FOLDER/figures)")
    report.add_argument(
        "--formats", type=arguments.names, default=["png", "pdf"], metavar="A,B",
        help="any of png, pdf and svg; png is always written (default png,pdf)",
    )  # fmt: skip
    report.set_defaults(command=_report)


def _report(given: Any) -> int:
    from fedmule.analysis.report import FORMATS, write_report
    from fedmule.simulator.errors import UserError
    from fedmule.simulator.runs.progress import ShareDone

    for kind in given.formats:
        if kind not in FORMATS:
            raise UserError(f"--formats {kind}: must be one of {', '.join(FORMATS)}")
    target = write_report(given.folder, given.out, given.formats, ShareDone("figures"))
    sys.stdout.write(f"figures and report.md in {target}\nopen {target / 'report.html'}\n")
    return 0
