"""fedmule paper: run experiments, tune hyper-parameters, print tables."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from fedmule.simulator.commands import arguments
from fedmule.simulator.commands.failures import report_failures

if TYPE_CHECKING:
    from pathlib import Path

    from fedmule.analysis.result_tables import Entry
    from fedmule.simulator.studies.experiment import Experiment
    from fedmule.simulator.studies.tuning import Trial

    Entries = dict[str, list[Entry]]  # by part of the experiment


def add(commands: Any) -> None:
    """Add the command `paper`."""
    paper = commands.add_parser(
        "paper",
        help="run the experiments of the RWSADMM paper, and your own like them",
        description="Run every row × column of an experiment over seeds and print its tables; or, with tune, choose "
        "hyper-parameters by validation data first. Runs that are done are skipped, unless the program or their data "
        "have changed since.",
        epilog=arguments.examples(
            "paper table1 --cells mnist/mlr", "paper tune stories", "paper stories", "paper mine.toml --seeds 5"
        ),
    )
    paper.add_argument(
        "name", nargs="+", metavar="[tune] NAME", help="an experiment that ships, such as table1, or a TOML file"
    )
    paper.add_argument("--cells", type=arguments.names, metavar="A,B", help="run only these rows")
    paper.add_argument("--columns", type=arguments.names, metavar="A,B", help="run only these columns")
    paper.add_argument(
        "--seeds", type=arguments.count, metavar="N", help="number of seeds, 0 to N − 1 (default: the experiment's)"
    )
    paper.add_argument(
        "--seed", type=arguments.seed, default=1000, metavar="N", help="with tune: the seed (default 1000)"
    )
    arguments.add_engine(paper)
    paper.add_argument("--out", default="paper", metavar="DIR", help="write to DIR/NAME (default: paper/NAME)")
    paper.add_argument("--allow-plugins", action="store_true", help="let scenarios run your own classes")
    paper.add_argument("--report", action="store_true", help="run nothing, only print what is there")
    paper.set_defaults(command=_paper)


def _paper(given: Any) -> int:
    from pathlib import Path

    from fedmule.simulator.errors import UserError
    from fedmule.simulator.runs.folder import folder_name
    from fedmule.simulator.studies.experiment import load_experiment

    *words, name = given.name
    if words not in ([], ["tune"]):
        raise UserError(f"fedmule paper {' '.join(given.name)}: must be fedmule paper NAME or fedmule paper tune NAME")
    experiment = load_experiment(name)
    folder, tuned = Path(given.out) / folder_name(experiment.name), Path(given.out) / "tuned.toml"
    return (_tune if words else _run)(given, experiment, folder, tuned)


def _run(given: Any, experiment: Experiment, folder: Path, tuned_file: Path) -> int:
    """Run what was asked for, and write the tables of everything that has been run so far."""
    from fedmule.analysis.result_tables import entry_of
    from fedmule.simulator.studies.batch import run_plan
    from fedmule.simulator.studies.experiment import chosen_for, pairs, plan_experiment
    from fedmule.simulator.studies.tuning import describe_choice, read_tuned

    tuned = read_tuned(tuned_file)
    asked = {(row.cell, column.name) for row, column in pairs(experiment, given.cells, given.columns)}
    plan = plan_experiment(experiment, seeds=given.seeds, tuned=tuned)
    wanted = [point for point in plan.points if (point.parameters["cell"], point.parameters["column"]) in asked]
    outcome = run_plan(plan, folder, only=[] if given.report else wanted, **_where(given))
    pooled = {section.name: section.pooled for section in experiment.sections}
    entries: Entries = {part: [] for part in pooled}
    for row, column in pairs(experiment):
        rows = outcome.index[(outcome.index["cell"] == row.cell) & (outcome.index["column"] == column.name)]
        chosen, source = chosen_for(experiment, row, column, tuned), column.published_as or column.name
        published = (row.published.get(source), row.published_s.get(source))
        beside = {"chosen": describe_choice(chosen), "published": published[0], "published_s": published[1]}
        entries[row.part].append(entry_of(row.cell, column.name, rows, folder, **beside, pooled=pooled[row.part]))
    for section in experiment.sections:
        if shown := [entry for entry in entries[section.name] if (entry.row, entry.column) in asked]:
            _print_tables(": ".join(filter(None, [experiment.title, section.title])), shown, experiment.reference)
    _write_page(experiment, entries, folder)
    return report_failures(outcome.failures, outcome.diverged)


def _tune(given: Any, experiment: Experiment, folder: Path, tuned_file: Path) -> int:
    """Run the grids of what was asked for, and enter the choices into tuned.toml."""
    from fedmule.simulator.studies.batch import run_plan
    from fedmule.simulator.studies.tuning import plan_tuning, trials_of, write_tuned

    plan = plan_tuning(experiment, given.seed, given.cells, given.columns)
    outcome = run_plan(plan, folder / "tuning", **_where(given))
    trials = trials_of(plan, outcome.index)
    write_tuned(tuned_file, experiment.name, trials)
    _print_trials(trials, tuned_file)
    return report_failures(outcome.failures)


def _where(given: Any) -> dict[str, Any]:
    return {"engine": given.engine, "jobs": given.jobs, "allow_plugins": given.allow_plugins}


def _print_trials(trials: Sequence[Trial], tuned_file: Path) -> None:
    from fedmule.analysis.result_tables import as_text
    from fedmule.simulator.studies.tuning import describe_choice

    table = [["row", "column", "tried", "validation accuracy, %", ""]]
    for trial in trials:
        score = "diverged" if trial.validation_acc is None else f"{100 * trial.validation_acc:.2f}"
        chosen = "chosen" if trial.chosen else ""
        table.append([trial.cell, trial.column, describe_choice(trial.choice), score, chosen])
    sys.stdout.write(f"{as_text(table)}\n")
    if any(trial.chosen for trial in trials):
        sys.stdout.write(f"\nwritten to {tuned_file}\n")


def _print_tables(title: str, entries: Sequence[Entry], reference: str | None) -> None:
    from fedmule.analysis import result_tables as tables

    sys.stdout.write(f"{title}\n")
    compared = tables.with_alone(entries, reference) if reference else entries
    differences = tables.difference_table(compared, reference) if reference else []
    found = (tables.accuracy_table(compared), differences, tables.agreement_table(entries), tables.cost_table(entries))
    for table in found:
        if len(table) > 1:
            sys.stdout.write(f"\n{tables.as_text(table)}\n")


def _write_page(experiment: Experiment, entries: Entries, folder: Path) -> None:
    """Write NAME.md with tables and curves into the experiment's folder."""
    from fedmule.analysis.result_tables import Part, report
    from fedmule.simulator.runs.folder import write_text

    parts = []
    for section in experiment.sections:
        found = entries[section.name]
        figures = _draw_figures(found, folder, "-".join(filter(None, [folder.name, section.name])))
        parts.append(Part(found, figures, section.why, section.title, section.text, experiment.reference))
    page = folder / f"{folder.name}.md"
    write_text(page, report(experiment.title, experiment.text, parts))
    sys.stdout.write(f"\nwritten to {page}\n")


def _draw_figures(entries: Sequence[Entry], folder: Path, name: str) -> list[str]:
    """Draw the curves of what has been run; return the names of the files."""
    from fedmule.analysis.result_curves import draw_curves

    figures = []
    if any(entry.runs for entry in entries):
        for against in ("visits", "gradients"):
            figures.append(f"{name}-{against}.png")
            draw_curves(entries, against).savefig(folder / figures[-1], dpi=120)
    return figures
