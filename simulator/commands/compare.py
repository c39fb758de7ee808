"""fedmule compare: several algorithms on the same world and data."""

from __future__ import annotations

import sys
from typing import Any

from fedmule.simulator.commands import arguments
from fedmule.simulator.commands.failures import report_failures


def add(commands: Any) -> None:
    """Add the command `compare`."""
    compare = commands.add_parser(
        "compare",
        help="compare algorithms on one scenario",
        description="Run a scenario with several algorithms, and always with local training, over the same seeds: the "
        "same world, data and start model, and the same number of gradient steps per visit. Prints accuracy, the cost "
        "of a target accuracy, which differences are more than chance, and who is ahead in a sentence.",
        epilog=arguments.examples("compare warzone", "compare city --algorithms rwsadmm,ditto,fedavg_ft --seeds 5"),
    )
    arguments.add_scenario(compare)
    compare.add_argument(
        "--algorithms", type=arguments.names, default=["rwsadmm", "fedavg_ft"], metavar="A,B,C",
        help="such as rwsadmm,fedavg,ditto; also slack, derived, printed, neighbourhood, fedavg_ft "
        "(default: rwsadmm,fedavg_ft)",
    )  # fmt: skip
    compare.add_argument("--seeds", type=arguments.count, default=3, metavar="N", help="number of seeds (default 3)")
    compare.add_argument(
        "--target", type=arguments.share, metavar="ACC",
        help="personal accuracy to reach, such as 0.8 (default: nine tenths of the best)",
    )  # fmt: skip
    arguments.add_engine(compare)
    compare.add_argument(
        "--out", metavar="DIR", help="where to write runs and table (default: studies/NAME-algorithms)"
    )
    compare.set_defaults(command=_compare)


def _compare(given: Any) -> int:
    from pathlib import Path

    from fedmule.analysis.comparison import compare_table, usual_target, verdict
    from fedmule.analysis.result_tables import as_text, entry_of
    from fedmule.simulator.scenario.load import find_scenario, parse_override
    from fedmule.simulator.studies.batch import run_plan
    from fedmule.simulator.studies.compare import ALGORITHM, plan_comparison

    out = Path(given.out or f"studies/{find_scenario(given.scenario).stem}-algorithms")
    changes = dict(parse_override(option) for option in given.overrides)
    plan = plan_comparison(
        out.name, given.scenario, given.algorithms, changes, given.seeds, given.seed or 0, given.allow_plugins
    )
    outcome = run_plan(plan, out, engine=given.engine, jobs=given.jobs, allow_plugins=given.allow_plugins)
    entries = []
    for name in plan.study.vary[ALGORITHM]:
        rows = outcome.index[outcome.index[ALGORITHM] == name]
        entries.append(entry_of(given.scenario, name, rows, out))
    if any(entry.runs for entry in entries):
        target = given.target or usual_target(entries)
        table = as_text(compare_table(entries, target))
        sys.stdout.write(f"{table}\n\n{_legend(given.seeds)}\nwritten to {out}\n\n{' '.join(verdict(entries))}\n")
    return report_failures(outcome.failures, outcome.diverged)


def _legend(seeds: int) -> str:
    if seeds < 2:
        return "One seed cannot show whether a difference is more than chance: use --seeds 5 or more."
    return "± is the 95 % interval over seeds; better than: paired t test over seeds, Holm's correction, 5 %."
