"""fedmule compare: several algorithms on the same world and data."""

from __future__ import annotations

import sys
from typing import Any

from fedmule.simulator.commands import arguments
from fedmule.simulator.commands.failures import tell_failures


def add(commands: Any) -> None:
    """The command `compare`."""
    compare = commands.add_parser(
        "compare",
        help="compare algorithms on one scenario",
        description="Run a scenario with several algorithms, and always with local training, over the same seeds: same "
        "world, data and start model, and the same number of gradient steps per client. Prints accuracy, cost to a "
        "target accuracy, and who is better by more than chance.",
    )
    arguments.add_scenario(compare)
    compare.add_argument(
        "--algorithms", type=arguments.names, required=True, metavar="A,B,C",
        help="such as rwsadmm,fedavg,ditto; also slack, derived, printed, neighbourhood, fedavg_ft",
    )  # fmt: skip
    compare.add_argument("--seeds", type=arguments.count, default=3, metavar="N", help="seeds 0 to N − 1 (default 3)")
    compare.add_argument(
        "--target", type=arguments.share, metavar="ACC",
        help="personal accuracy to reach, such as 0.8 (default: nine tenths of the best)",
    )  # fmt: skip
    arguments.add_engine(compare)
    compare.add_argument("--out", metavar="DIR", help="where runs and tables go (default: studies/NAME-algorithms)")
    compare.set_defaults(command=_compare)


def _compare(given: Any) -> int:
    from pathlib import Path

    from fedmule.analysis.comparison import Contender, compare_table, usual_target
    from fedmule.analysis.experiments import as_text
    from fedmule.simulator.scenario.load import find_scenario, parse_override
    from fedmule.simulator.studies.compare import comparison
    from fedmule.simulator.studies.index import carry_out

    out = Path(given.out or f"studies/{find_scenario(given.scenario).stem}-algorithms")
    changes = dict(parse_override(option) for option in given.overrides)
    study, points = comparison(out.name, given.scenario, given.algorithms, changes, given.seeds, given.seed or 0)
    index, failures = carry_out(
        study, points, out, engine=given.engine, jobs=given.jobs, allow_plugins=given.allow_plugins
    )
    done = index[index["status"] == "done"]
    contenders = []
    for name in study.vary["learning.algorithm"]:
        runs = done[done["learning.algorithm"] == name]
        contenders.append(Contender(name, {row["replication"]: out / row["run"] for row in runs.to_dict("records")}))
    if any(contender.runs for contender in contenders):
        target = given.target or usual_target(contenders)
        sys.stdout.write(f"{as_text(compare_table(contenders, target))}\n\n{_legend(given.seeds)}\nwritten to {out}\n")
    return tell_failures(failures)


def _legend(seeds: int) -> str:
    if seeds < 2:
        return "With one seed nothing can be said about chance: use --seeds 5 or more."
    return "± is the 95 % interval over seeds; better: paired t test over seeds, Holm's correction, 5 %."
