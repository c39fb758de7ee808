"""fedmule verify: whether a folder still holds what its runs have found."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from fedmule.simulator.commands import arguments


def add(commands: Any) -> None:
    """The command `verify`."""
    verify = commands.add_parser(
        "verify",
        help="check that the results in a folder are what its runs have found",
        description="Compare the tables, the summary and the models of a run, or of all runs of a study, with the "
        "digests in manifest.json. With --rerun, run them again and compare: the same seed gives the same bits, with "
        "the same program and libraries on the same kind of processor. Exit status 1 if anything differs.",
        epilog=arguments.examples("verify runs/warzone", "verify runs/warzone --rerun", "verify studies/warzone-gain"),
    )
    verify.add_argument("folder", metavar="RUN|STUDY", help="the folder of a finished run, or of a study")
    verify.add_argument(
        "--rerun", action="store_true", help="run again, in a temporary folder, and compare the results"
    )
    verify.add_argument("--allow-plugins", action="store_true", help="with --rerun, let scenarios run your own classes")
    verify.set_defaults(command=_verify)


def _verify(given: Any) -> int:
    status = 0
    for folder in _runs(Path(given.folder)):
        wrong = _damage(folder)
        if not wrong and given.rerun:
            wrong = _rerun(folder, given.allow_plugins)
        sys.stdout.write(f"{folder}: {'; '.join(wrong) if wrong else 'ok'}\n")
        status = 1 if wrong else status
    return status


def _runs(folder: Path) -> list[Path]:
    """The folders of the finished runs."""
    from fedmule.analysis import load_study
    from fedmule.simulator.errors import UserError

    if (folder / "index.parquet").exists():
        return [folder / run for run in load_study(folder).ended["run"]]
    if not (folder / "manifest.json").exists():
        raise UserError(f"{folder}: is not the folder of a run or of a study")
    return [folder]


def _damage(folder: Path) -> list[str]:
    from fedmule.simulator.runs.digests import damage
    from fedmule.simulator.runs.folder import read_manifest

    manifest = read_manifest(folder)
    recorded = manifest.get("digests")
    if not isinstance(recorded, dict):
        return ["has no digests: the run has not ended, or an older version made it"]
    return damage(folder, recorded)


def _rerun(folder: Path, allow_plugins: bool) -> list[str]:
    """Run the scenario of a folder again, and say what differs."""
    import tempfile

    from fedmule.simulator.runs.digests import differences, digests_of
    from fedmule.simulator.runs.folder import read_manifest
    from fedmule.simulator.runs.identity import differences as other_program
    from fedmule.simulator.runs.identity import identity_of
    from fedmule.simulator.runs.machine import made_with
    from fedmule.simulator.runs.run import run_scenario
    from fedmule.simulator.scenario.load import load_scenario
    from fedmule.simulator.scenario.plugins import load_plugins, plugin_folders

    scenario = load_scenario(str(folder))
    plugins = load_plugins(scenario, allow_plugins, plugin_folders(str(folder)))
    before, now = read_manifest(folder), made_with()
    reasons = other_program(folder, identity_of(scenario, plugins))
    reasons += [f"{name} was {before.get(name)}, and is {now[name]}" for name in ("cpu", "cpu_features", "threads")
                if before.get(name) != now[name]]  # fmt: skip
    with tempfile.TemporaryDirectory() as scratch:
        again = Path(
            run_scenario(scenario, f"{scratch}/run", plugins, keep_models=(folder / "models").exists())["folder"]
        )
        found = differences(digests_of(folder), digests_of(again))
    if not found:
        return []
    listed = ", ".join(found[:5]) + (f" and {len(found) - 5} more" if len(found) > 5 else "")
    return [f"runs again with other results: {listed}", *reasons]
