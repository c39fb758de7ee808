"""fedmule compare: several algorithms on the same world and data."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from simulator.commands import arguments
from simulator.commands.failures import tell_failures

if TYPE_CHECKING:
    from simulator.study import StudyPoint

# Algorithms that are another with keys set.
VARIANTS: dict[str, dict[str, Any]] = {
    "slack": {"learning.algorithm": "rwsadmm", "learning.variant": "slack"},
    "derived": {"learning.algorithm": "rwsadmm", "learning.variant": "derived"},
    "printed": {"learning.algorithm": "rwsadmm", "learning.variant": "printed"},
    "neighbourhood": {"learning.algorithm": "rwsadmm", "learning.token": "neighbourhood"},
    "fedavg_ft": {"learning.algorithm": "fedavg", "learning.fine_tune": True},
}


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
        help=f"such as rwsadmm,fedavg,ditto; also {', '.join(VARIANTS)}",
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

    from analysis.comparison import Contender, compare_table, usual_target
    from analysis.experiments import as_text
    from simulator.batch import run_batch, run_folder
    from simulator.engines import engine_for
    from simulator.load import find_scenario
    from simulator.plugins import load_plugins, plugin_folders
    from simulator.runfolder import is_done
    from simulator.study import Study, index_of, write_study

    names = list(dict.fromkeys(["local", *given.algorithms]))
    points, folders = _points(given, names), plugin_folders(given.scenario)
    for point in points:
        load_plugins(point.scenario, given.allow_plugins, folders)
    out = Path(given.out or f"studies/{find_scenario(given.scenario).stem}-algorithms")
    root, failures = out / "runs", None
    try:
        with engine_for(given.engine, given.jobs, out) as engine:
            allowed = folders if given.allow_plugins else None
            failures = run_batch([p.scenario for p in points], root, engine, plugin_folders=allowed)
    finally:
        study = Study(name=out.name, scenarios=(given.scenario,), vary={"learning.algorithm": tuple(names)})
        write_study(out, study.model_copy(update={"seeds": given.seeds}), index_of(points, root, failures or ()))
    contenders = []
    for name in names:
        runs = {p.replication: run_folder(root, p.scenario) for p in points if p.changes["learning.algorithm"] == name}
        contenders.append(Contender(name, {seed: folder for seed, folder in runs.items() if is_done(folder)}))
    if any(contender.runs for contender in contenders):
        target = given.target or usual_target(contenders)
        sys.stdout.write(f"{as_text(compare_table(contenders, target))}\n\n{_legend(given.seeds)}\nwritten to {out}\n")
    return tell_failures(failures)


def _points(given: Any, names: list[str]) -> list[StudyPoint]:
    """Every algorithm × seed, with the scenario's number of gradient steps per client."""
    from simulator.experiments import Column, Experiment, Row, plan
    from simulator.load import load_scenario, parse_override
    from simulator.study import StudyPoint

    changes = dict(parse_override(option) for option in given.overrides)
    columns = tuple(Column(name=name, set=VARIANTS.get(name, {"learning.algorithm": name})) for name in names)
    row = Row(cell=given.scenario, scenario=given.scenario, set=changes)
    equal = load_scenario(given.scenario, changes).stop.visits is not None
    experiment = Experiment(name="fedmule compare", title="", equal_steps=equal, rows=(row,), columns=columns)
    first = given.seed or 0
    return [
        StudyPoint(given.scenario, {"learning.algorithm": entry.column.name}, first + i, scenario)
        for entry in plan(experiment, seeds=given.seeds)
        for i, scenario in enumerate(s.model_copy(update={"seed": first + s.seed}) for s in entry.scenarios)
    ]


def _legend(seeds: int) -> str:
    if seeds < 2:
        return "With one seed nothing can be said about chance: use --seeds 5 or more."
    return "± is the 95 % interval over seeds; better: paired t test over seeds, Holm's correction, 5 %."
