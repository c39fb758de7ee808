"""fedmule paper: run experiments, choose hyper-parameters, print tables."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from fedmule.simulator.commands import arguments
from fedmule.simulator.commands.failures import tell_failures

if TYPE_CHECKING:
    from pathlib import Path

    from fedmule.simulator.studies.batch import Failure
    from fedmule.simulator.studies.experiment import Entry, Experiment, Tried


def add(commands: Any) -> None:
    """The command `paper`."""
    paper = commands.add_parser(
        "paper",
        help="run the experiments of the RWSADMM paper and others like them",
        description="Run every row × column of an experiment over seeds, skipping what is done, and print the tables; "
        "or with tune choose hyper-parameters on validation data first.",
    )
    paper.add_argument(
        "name", nargs="+", metavar="[tune] NAME", help="an experiment that ships, such as table1, or a TOML file"
    )
    paper.add_argument("--cells", type=arguments.names, metavar="A,B", help="only these rows")
    paper.add_argument("--columns", type=arguments.names, metavar="A,B", help="only these columns")
    paper.add_argument(
        "--seeds", type=arguments.count, metavar="N", help="seeds 0 to N − 1 (default: as the experiment says)"
    )
    paper.add_argument(
        "--seed", type=arguments.seed, default=1000, metavar="N", help="with tune: its seed (default 1000)"
    )
    arguments.add_engine(paper)
    paper.add_argument("--out", default="paper", metavar="DIR", help="where runs and tables go (default: paper)")
    paper.add_argument("--report", action="store_true", help="run nothing: print what is there")
    paper.set_defaults(command=_paper)


def _paper(given: Any) -> int:
    from pathlib import Path

    from fedmule.simulator.errors import UserError
    from fedmule.simulator.studies.batch import run_batch
    from fedmule.simulator.studies.experiment import load_experiment, plan, read_tuned, tune
    from fedmule.simulator.studies.workers import engine_for

    *words, name = given.name
    if words not in ([], ["tune"]):
        raise UserError(f"fedmule paper {' '.join(given.name)}: must be fedmule paper NAME or paper tune NAME")
    experiment, out = load_experiment(name), Path(given.out)
    tuned = read_tuned(out / "tuned.toml")
    entries = plan(experiment, given.cells, given.columns, given.seeds, tuned)
    failures: list[Failure] = []
    if words:
        with engine_for(given.engine, given.jobs, out) as engine:
            tried, failures = tune(experiment, entries, given.seed, out, engine)
        _tell_tried(tried, out)
        return tell_failures(failures)
    if not given.report:
        with engine_for(given.engine, given.jobs, out) as engine:
            failures = run_batch([s for entry in entries for s in entry.scenarios], out / "runs", engine)
    _write_report(experiment, plan(experiment, seeds=given.seeds, tuned=tuned), entries, out)
    return tell_failures(failures)


def _tell_tried(tried: Sequence[Tried], out: Path) -> None:
    """Print what tuning tried and chose."""
    from fedmule.analysis.experiments import as_text
    from fedmule.simulator.studies.experiment import describe

    table = [["row", "column", "tried", "validation accuracy, %", ""]]
    for point in tried:
        score = "diverged" if point.validation_acc is None else f"{100 * point.validation_acc:.2f}"
        names = (point.entry.row.cell, point.entry.column.name)
        table.append([*names, describe(point.choice), score, "chosen" if point.chosen else ""])
    sys.stdout.write(f"{as_text(table)}\n\nwritten to {out / 'tuned.toml'}\n")


def _write_report(experiment: Experiment, entries: Sequence[Entry], asked: Sequence[Entry], out: Path) -> None:
    """Print the tables of what was asked for; write those of everything, with figures, into the folder."""
    from fedmule.analysis.experiments import (
        Cell,
        accuracy_table,
        agreement_table,
        as_text,
        cost_table,
        draw_curves,
        report,
    )
    from fedmule.simulator.runs.folder import is_done, write_text
    from fedmule.simulator.studies.batch import run_folder
    from fedmule.simulator.studies.experiment import describe

    def cell(entry: Entry) -> Cell:
        folders = [run_folder(out / "runs", scenario) for scenario in entry.scenarios]
        row, column = entry.row, entry.column
        done = tuple(folder for folder in folders if is_done(folder))
        source = column.published_as or column.name
        published = (row.published.get(source), row.published_s.get(source))
        return Cell(row.cell, column.name, done, len(folders), describe(entry.chosen), *published)

    shown, cells = [cell(entry) for entry in asked], [cell(entry) for entry in entries]
    sys.stdout.write(f"{experiment.title}\n")
    for table in (accuracy_table(shown), agreement_table(shown), cost_table(shown)):
        if len(table) > 1:
            sys.stdout.write(f"\n{as_text(table)}\n")
    out.mkdir(parents=True, exist_ok=True)
    figures = []
    if any(c.folders for c in cells):
        for against in ("visits", "gradients"):
            figures.append(f"{experiment.name}-{against}.png")
            draw_curves(cells, against).savefig(out / figures[-1], dpi=120)
    write_text(out / f"{experiment.name}.md", report(experiment.title, experiment.text, cells, figures, experiment.why))
    sys.stdout.write(f"\nwritten to {out / experiment.name}.md\n")
