"""fedmule study: vary keys of scenarios over seeds, and put all results into one table."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from fedmule.simulator.commands import arguments
from fedmule.simulator.commands.failures import tell_failures

if TYPE_CHECKING:
    from pathlib import Path

    from fedmule.simulator.studies.plan import Study


def add(commands: Any) -> None:
    """The command `study`."""
    study = commands.add_parser(
        "study",
        help="vary keys of a scenario over seeds",
        description="Run every combination of the values given over seeds, skipping what is done, and write one table "
        "of parameters and results. All points have the same seeds, so that they differ in what is varied only.",
    )
    study.add_argument(
        "scenario", nargs="+", metavar="SCENARIO", help="scenarios that ship, scenario files, or one study file"
    )
    study.add_argument(
        "--vary", action="append", default=[], metavar="KEY=a,b,c",
        help="values of a key: a list, or a range as 5..20:5 or 1..1000:x10; may be repeated for every combination",
    )  # fmt: skip
    study.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", dest="overrides",
        help="set one key at all points; may be repeated",
    )  # fmt: skip
    study.add_argument("--seeds", type=arguments.count, metavar="N", help="replications, seeds 0 to N − 1 (default 3)")
    study.add_argument("--fresh-seeds", action="store_true", help="other random numbers at every point")
    arguments.add_engine(study)
    study.add_argument("--out", metavar="DIR", help="where runs and the table go (default: studies/NAME)")
    study.add_argument("--allow-plugins", action="store_true", help="let scenarios run your own classes")
    study.add_argument("--quiet", action="store_true", help="print nothing unless something is wrong")
    study.set_defaults(command=_study)


def _study(given: Any) -> int:
    from pathlib import Path

    from fedmule.analysis.experiments import as_text
    from fedmule.analysis.studies import points_table
    from fedmule.simulator.studies.index import carry_out
    from fedmule.simulator.studies.plan import plan

    study = _asked_for(given)
    points = plan(study)
    out = Path(given.out or f"studies/{study.name}")
    _tell_plan(study, len(points), out, given.quiet)
    index, failures = carry_out(
        study,
        points,
        out,
        engine=given.engine,
        jobs=given.jobs,
        allow_plugins=given.allow_plugins,
        quiet=given.quiet,
    )
    if not given.quiet:
        sys.stdout.write(
            f"{as_text(points_table(index, list(points[0].changes)))}\n\nwritten to {out / 'index.parquet'}\n"
            f'from fedmule import load_study; study = load_study("{out}"); study.index\n'
        )
    return tell_failures(failures)


def _asked_for(given: Any) -> Study:
    """The study file, or the one that the command line describes."""
    from pathlib import Path

    from fedmule.simulator.errors import UserError
    from fedmule.simulator.scenario.load import find_scenario, parse_override
    from fedmule.simulator.scenario.overrides import parse_vary
    from fedmule.simulator.studies.plan import Study, is_study, load_study_file

    changes: dict[str, Any] = {}
    if len(given.scenario) == 1 and is_study(Path(given.scenario[0])):
        study = load_study_file(Path(given.scenario[0]))
    else:
        for name in given.scenario:
            if is_study(Path(name)):
                raise UserError(f"{name}: is a study; name it alone")
        study = Study(name=find_scenario(given.scenario[0]).stem, scenarios=tuple(given.scenario))
    if given.vary:
        changes["vary"] = {**study.vary, **dict(parse_vary(option) for option in given.vary)}
    if given.overrides:
        changes["set"] = {**study.set, **dict(parse_override(option) for option in given.overrides)}
    if given.seeds:
        changes["seeds"] = given.seeds
    if given.fresh_seeds:
        changes["common_random_numbers"] = False
    return study.model_copy(update=changes)


def _tell_plan(study: Study, runs: int, out: Path, quiet: bool) -> None:
    if not quiet:
        seeds = "the same seeds" if study.common_random_numbers else "seeds of its own"
        count = study.seeds if isinstance(study.seeds, int) else len(study.seeds)
        sys.stderr.write(f"{runs // count} points × {count} replications, each point with {seeds} → {out}\n")
