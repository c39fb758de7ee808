"""fedmule run: simulate a scenario."""

from __future__ import annotations

import sys
from typing import Any

from fedmule.simulator.commands import arguments
from fedmule.simulator.commands.failures import DIVERGED


def add(commands: Any) -> None:
    """The command `run`."""
    run = commands.add_parser(
        "run",
        help="run a scenario",
        description="Run a scenario and write a run folder.",
        epilog=arguments.examples(
            "run warzone", "run town.toml --set vehicle.speed_mps=8 --seed 1", "run town.toml --resume"
        ),
    )
    arguments.add_scenario(run)
    run.add_argument("--out", metavar="DIR", help="the run folder (default: runs/NAME, runs/NAME-2, …)")
    run.add_argument("--resume", action="store_true", help="resume an unfinished run of this scenario, if there is one")
    run.add_argument("--device", choices=["auto", "cpu", "cuda"], help="same as --set learning.device=…")
    run.add_argument(
        "--log-to", action="append", default=[], choices=["tensorboard", "mlflow"], metavar="TRACKER",
        help="follow the run in tensorboard (RUN/tensorboard) or mlflow (where MLFLOW_TRACKING_URI says) too",
    )  # fmt: skip
    run.add_argument(
        "--profile", action="store_true", help="show where CPU time went, and write it into RUN/profile.json"
    )
    run.add_argument("--quiet", action="store_true", help="print nothing unless something is wrong")
    run.set_defaults(command=_run)


def _run(given: Any) -> int:
    from fedmule.simulator.scenario.load import load_scenario
    from fedmule.simulator.scenario.plugins import load_plugins, plugin_folders

    overrides = list(given.overrides)
    if given.device:
        overrides.append(f'learning.device="{given.device}"')
    scenario = load_scenario(given.scenario, overrides, given.seed)
    plugins = load_plugins(scenario, given.allow_plugins, plugin_folders(given.scenario))

    from fedmule.simulator.runs.run import run_scenario

    ways: dict[str, Any] = {"quiet": given.quiet, "resume": given.resume, "log_to": given.log_to}
    if given.profile:
        from fedmule.simulator.runs.time_use import TimeUse

        time_use = TimeUse()
        with time_use.watching():
            summary = run_scenario(scenario, given.out, plugins, time_use=time_use, **ways)
        if not given.quiet:
            sys.stdout.write(time_use.table())
    else:
        summary = run_scenario(scenario, given.out, plugins, **ways)
    return {"interrupted": 130, "diverged": DIVERGED}.get(summary["stopped_by"] or "", 0)
