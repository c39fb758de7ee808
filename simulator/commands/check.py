"""fedmule check: validate scenarios without running them."""

from __future__ import annotations

import sys
from typing import Any

from fedmule.simulator.commands import arguments


def add(commands: Any) -> None:
    """The command `check`."""
    check = commands.add_parser(
        "check",
        help="validate scenarios, or explain their keys",
        description="Validate scenarios without running them, or explain the keys of a scenario file.",
        epilog=arguments.examples("check town.toml", "check --explain", "check --explain radio"),
    )
    arguments.add_scenario(check, many=True)
    check.add_argument(
        "--explain",
        nargs="?",
        const="",
        metavar="KEY",
        help="print every key of a scenario file with its meaning, or those of a table such as radio or a kind such as "
        "ble; with --allow-plugins also those of the scenario's own classes",
    )
    check.set_defaults(command=_check)


def _check(given: Any) -> int:
    from fedmule.simulator.errors import ScenarioError, UserError

    if given.explain is not None:
        return _explain(given)
    if not given.scenario:
        raise UserError("fedmule check: name at least one SCENARIO, or --explain")
    from fedmule.simulator.fleet import vehicle_starts
    from fedmule.simulator.listing import read_listing
    from fedmule.simulator.scenario.load import load_scenario, own_classes
    from fedmule.simulator.scenario.plugins import load_plugins, plugin_folders
    from fedmule.simulator.scenario.rules import file_problems
    from fedmule.simulator.world import build_terrain

    status = 0
    for name in given.scenario:
        try:
            notes: list[str] = []
            scenario = load_scenario(name, given.overrides, given.seed, notes)
            vehicle_starts(scenario, build_terrain(scenario))
            if problems := file_problems(scenario):
                raise ScenarioError(name, problems)
            read_listing(scenario)
            note = ""
            own = own_classes(scenario)
            if own and given.allow_plugins:  # what the user's classes take shows when they are made
                from fedmule.simulator.engine import Simulation  # heavy

                Simulation(scenario, load_plugins(scenario, True, plugin_folders(name)))
            elif own:
                note = " (names your own classes: run it with --allow-plugins)"
            sys.stdout.write("\n  ".join([f"{name}: ok{note}", *notes]) + "\n")
        except UserError as error:
            sys.stderr.write(f"{error}\n")
            status = 2
    return status


def _explain(given: Any) -> int:
    """Print every key, and those of the user's own classes that the scenarios name, where they are allowed."""
    from fedmule.simulator.errors import UserError
    from fedmule.simulator.scenario.explain import explain
    from fedmule.simulator.scenario.load import load_scenario, own_classes, packaged_scenarios
    from fedmule.simulator.scenario.parts import keys_class
    from fedmule.simulator.scenario.plugins import load_plugins, plugin_folders

    own, wanted = {}, given.explain
    if wanted.endswith(".toml") or wanted in packaged_scenarios():  # a scenario that follows --explain
        given.scenario.append(wanted)
        wanted = ""
    for name in given.scenario if given.allow_plugins else ():
        scenario = load_scenario(name, given.overrides, given.seed)
        classes = load_plugins(scenario, True, plugin_folders(name))
        for key, part in own_classes(scenario).items():
            own[f'{key}, kind = "{part.kind}"'] = keys_class(classes[key], part.provided)
    text = explain(own, wanted)
    if not text:
        raise UserError(f"fedmule check --explain {wanted}: no table, kind or key of this name")
    sys.stdout.write(text)
    return 0
