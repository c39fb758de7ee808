"""fedmule study: vary keys of scenarios over seeds, and list all results in one table."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from fedmule.simulator.commands import arguments
from fedmule.simulator.commands.failures import report_failures

if TYPE_CHECKING:
    from pathlib import Path

    from fedmule.simulator.studies.plan import Plan, StudyFile


def add(commands: Any) -> None:
    """Add the command `study`."""
    study = commands.add_parser(
        "study",
        help="vary keys of a scenario over seeds",
        description="Run every combination of the values given over seeds, and write one table of parameters and "
        "results. Runs that are done are skipped, unless the program or their data have changed since. All "
        "combinations have the same seeds, so that they differ only in what is varied.",
        epilog=arguments.examples(
            "study gain/warzone",
            "study town.toml --vary vehicle.speed_mps=2,6,18 --vary radio.range_m=30,80 --seeds 5",
        ),
    )
    study.add_argument(
        "scenario", nargs="+", metavar="SCENARIO",
        help="scenario files, scenarios that ship, or one study: a file, or gain/NAME or walks/NAME that ship",
    )  # fmt: skip
    study.add_argument(
        "--vary", action="append", default=[], metavar="KEY=a,b,c",
        help="values of a key: a list, or a range such as 5..20:5 or 1..1000:x10; repeat it to vary several keys",
    )  # fmt: skip
    study.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", dest="overrides",
        help="set a key in every run; may be repeated",
    )  # fmt: skip
    study.add_argument("--seeds", type=arguments.count, metavar="N", help="number of seeds, 0 to N − 1 (default 3)")
    study.add_argument("--fresh-seeds", action="store_true", help="give every combination seeds of its own")
    arguments.add_engine(study)
    study.add_argument("--out", metavar="DIR", help="where to write runs and table (default: studies/NAME)")
    study.add_argument("--allow-plugins", action="store_true", help="let scenarios run your own classes")
    study.add_argument("--quiet", action="store_true", help="print nothing unless something is wrong")
    study.set_defaults(command=_study)


def _study(given: Any) -> int:
    from pathlib import Path

    from fedmule.analysis.findings import findings
    from fedmule.analysis.result_tables import as_text
    from fedmule.analysis.studies import combinations_table, load_study
    from fedmule.simulator.runs.folder import folder_name
    from fedmule.simulator.studies.batch import run_plan
    from fedmule.simulator.studies.plan import plan_study

    plan = plan_study(_asked_for(given))
    out = Path(given.out) if given.out else Path("studies") / folder_name(plan.study.name)
    if not given.quiet:
        sys.stderr.write(_announcement(plan, out))
    outcome = run_plan(
        plan, out, engine=given.engine, jobs=given.jobs, allow_plugins=given.allow_plugins, quiet=given.quiet
    )
    if not given.quiet:
        table = combinations_table(outcome.index, list(plan.points[0].parameters))
        found = "".join(f"{sentence}\n" for sentence in findings(load_study(out)))
        sys.stdout.write(
            f"{as_text(table)}\n\nwritten to {out / 'index.parquet'}\n"
            f"fedmule report {out} draws it, fedmule replay {out} shows it as a page\n\n{found}"
        )
    return report_failures(outcome.failures, outcome.diverged)


def _asked_for(given: Any) -> StudyFile:
    """The study file named, or the study that the command line describes."""
    from fedmule.simulator.errors import UserError
    from fedmule.simulator.scenario.load import find_scenario, parse_override
    from fedmule.simulator.scenario.overrides import parse_vary
    from fedmule.simulator.studies.plan import StudyFile, find_study, load_study_file

    changes: dict[str, Any] = {}
    file = find_study(given.scenario[0])
    if len(given.scenario) == 1 and file is not None:
        study = load_study_file(file)
    else:
        for name in given.scenario:
            if find_study(name) is not None:
                raise UserError(f"{name}: is a study file, which cannot be combined with other files")
        study = StudyFile(name=find_scenario(given.scenario[0]).stem, scenarios=tuple(given.scenario))
    if given.vary:
        changes["vary"] = {**study.vary, **dict(parse_vary(option) for option in given.vary)}
    if given.overrides:
        changes["set"] = {**study.set, **dict(parse_override(option) for option in given.overrides)}
    if given.seeds:
        changes["seeds"] = given.seeds
    if given.fresh_seeds:
        changes["common_random_numbers"] = False
    return study.model_copy(update=changes)


def _announcement(plan: Plan, out: Path) -> str:
    """What is about to be run."""
    study = plan.study
    seeds = study.seeds if isinstance(study.seeds, int) else len(study.seeds)
    which = "the same for every combination" if study.common_random_numbers else "other ones for every combination"
    count = len(plan.points) // seeds
    combinations = f"{count} combination{'s' if count > 1 else ''}"
    return f"{combinations} × {seeds} seed{'s' if seeds > 1 else ''}, {which} → {out}\n"
