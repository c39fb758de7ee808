"""fedmule find: the smallest value of a key that is good enough."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from fedmule.simulator.commands import arguments
from fedmule.simulator.commands.failures import report_failures

if TYPE_CHECKING:
    from pathlib import Path


def add(commands: Any) -> None:
    """Add the command `find`."""
    find = commands.add_parser(
        "find",
        help="find the smallest value of a key that is good enough",
        description="Find the smallest value of a key, such as a speed, with at least a gain over training alone, by "
        "bisection: every value tried is run over the same seeds. Prints the value with its interval, or that there is "
        "none. If the gain falls as the key grows, finds the largest value. Runs that are done are not made again: "
        "the same command continues a search.",
        epilog=arguments.examples(
            "find warzone --by vehicle.speed_mps=1..20 --gain 5",
            "find city --by radio.range_m=20..200 --gain 10 --seeds 5",
        ),
    )
    find.add_argument("scenario", metavar="SCENARIO", help="a TOML file, or the name of a scenario that ships")
    find.add_argument(
        "--by", action="append", required=True, metavar="KEY=a..b",
        help="the key and its range, such as vehicle.speed_mps=1..20; a..b:step tries only values of that grid",
    )  # fmt: skip
    wanted = find.add_mutually_exclusive_group(required=True)
    wanted.add_argument(
        "--gain", type=arguments.number, metavar="POINTS",
        help="gain over training alone at the end, in percentage points of personal test accuracy",
    )  # fmt: skip
    wanted.add_argument(
        "--at-least", type=arguments.number, metavar="VALUE", help="the least --quantity wanted, in its own unit"
    )
    find.add_argument(
        "--quantity", metavar="NAME",
        help="with --at-least: any number of a run's summary, such as personal_test_acc_mean or visits (default "
        "gain_over_alone, as a share)",
    )  # fmt: skip
    find.add_argument("--seeds", type=arguments.count, default=5, metavar="N", help="seeds of each value (default 5)")
    find.add_argument(
        "--tolerance", type=arguments.positive, metavar="WIDTH",
        help="how near the values on both sides of the answer must be (default: a 20th of the range; of whole numbers "
        "1)",
    )  # fmt: skip
    find.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", dest="overrides",
        help="set a key in every run; may be repeated",
    )  # fmt: skip
    arguments.add_engine(find)
    find.add_argument("--out", metavar="DIR", help="where to write runs and answer (default: studies/NAME-KEY)")
    find.add_argument("--allow-plugins", action="store_true", help="let the scenario run your own classes")
    find.add_argument("--quiet", action="store_true", help="print only the answer")
    find.set_defaults(command=_find)


def _find(given: Any) -> int:
    from pathlib import Path

    from fedmule.simulator.errors import UserError
    from fedmule.simulator.scenario.load import parse_override
    from fedmule.simulator.studies.question import ask, target_of
    from fedmule.simulator.studies.search import answer
    from fedmule.simulator.studies.search_text import spacing_text, tried_text

    if len(given.by) > 1:
        raise UserError(f"--by {' --by '.join(given.by)}: only one key can be searched; set the others with --set")
    quantity, target = target_of(given.gain, given.at_least, given.quantity)
    changes = dict(parse_override(option) for option in given.overrides)
    question = ask(
        given.scenario, given.by[0], target,
        quantity=quantity, seeds=given.seeds, tolerance=given.tolerance, changes=changes,
    )  # fmt: skip
    out = Path(given.out or question.folder)

    def say(text: str) -> None:
        if not given.quiet:
            sys.stderr.write(f"{text}\n")

    seeds = f"{given.seeds} seed{'s' if given.seeds > 1 else ''}"
    say(f"{given.by[0]}, {spacing_text(question)}, {seeds} for each value → {out}")
    found = answer(
        question, out, engine=given.engine, jobs=given.jobs, allow_plugins=given.allow_plugins, quiet=given.quiet,
        report=lambda tried: say(tried_text(question, tried)),
    )  # fmt: skip
    sys.stdout.write(f"{found}\n")
    say(f"written to {out / 'find.json'}" + (f" and {figure}" if (figure := _draw(out, quantity)) else ""))
    return report_failures(found.failures) or int(found.outcome == "undecided")


def _draw(out: Path, quantity: str) -> Path | None:
    """Draw the search into its folder; None if no run has a result to draw."""
    from fedmule.analysis.plots.search import draw_search
    from fedmule.analysis.plots.style import save
    from fedmule.analysis.studies import load_study

    study, figure = load_study(out), out / "figures" / "find.png"
    if not len(study.done) or quantity not in study.done:
        return None
    figure.parent.mkdir(exist_ok=True)
    save(draw_search(study), figure)
    return figure
