"""The command line. Imports nothing heavy: each command imports what it needs."""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Sequence
from importlib import metadata
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    from simulator.batch import Failure
    from simulator.experiments import Entry, Experiment, Tried


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point of `fedmule`; returns the exit status: 0 fine, 1 failed, 2 bad input, 130 interrupted."""
    from simulator.errors import UserError

    arguments = _parser().parse_args(argv)
    try:
        return int(arguments.command(arguments))
    except UserError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    except BrokenPipeError:  # the reader of our output went away
        sys.stderr.close()
        return 0
    except OSError as error:  # a full disk, say
        sys.stderr.write(f"{error.filename or 'fedmule'}: {error.strerror or error}\n")
        return 1
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="fedmule",
        description="Simulate federated learning carried by a vehicle where there is no network.",
    )
    parser.add_argument("--version", action="version", version=f"fedmule {_version()}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    run = commands.add_parser("run", help="run a scenario", description="Run a scenario and write a run folder.")
    _add_scenario(run)
    run.add_argument("--out", metavar="DIR", help="the run folder (default: runs/NAME, runs/NAME-2, …)")
    run.add_argument("--device", choices=["auto", "cpu", "cuda"], help="same as --set learning.device=…")
    run.add_argument("--quiet", action="store_true", help="print nothing unless something is wrong")
    run.set_defaults(command=_run)

    data = commands.add_parser(
        "data",
        help="fetch, import or look at a data set",
        description="Fetch a public data set or import files at hand; or draw how a partition shares one out.",
    )
    data.add_argument("name", metavar="NAME", help="mnist, fashion_mnist or cifar10; with --partition any data set")
    data.add_argument("--from", dest="folder", metavar="DIR", help="take the files from this folder, not the network")
    data.add_argument(
        "--partition",
        metavar="KIND",
        help="draw what each client gets by labels, dirichlet, iid, column or '{ kind = \"dirichlet\", alpha = 1 }'",
    )
    data.add_argument("--clients", type=int, default=20, metavar="N", help="with --partition: how many (default 20)")
    data.add_argument("--seed", type=_seed, default=0, metavar="N", help="with --partition: the seed (default 0)")
    data.add_argument("--out", metavar="PNG", help="with --partition: the picture (default NAME-labels.png)")
    data.set_defaults(command=_data)

    paper = commands.add_parser(
        "paper",
        help="run the experiments of the RWSADMM paper and others like them",
        description="Run every row × column of an experiment over seeds, skipping what is done, and print the tables; "
        "or with tune choose hyper-parameters on validation data first.",
    )
    paper.add_argument(
        "name", nargs="+", metavar="[tune] NAME", help="an experiment that ships, such as table1, or a TOML file"
    )
    paper.add_argument("--cells", type=_names, metavar="A,B", help="only these rows")
    paper.add_argument("--columns", type=_names, metavar="A,B", help="only these columns")
    paper.add_argument("--seeds", type=_count, metavar="N", help="seeds 0 to N − 1 (default: as the experiment says)")
    paper.add_argument("--seed", type=_seed, default=1000, metavar="N", help="with tune: its seed (default 1000)")
    paper.add_argument("--jobs", type=_count, metavar="N", help="runs side by side (default: one per core)")
    paper.add_argument("--out", default="paper", metavar="DIR", help="where runs and tables go (default: paper)")
    paper.add_argument("--report", action="store_true", help="run nothing: print what is there")
    paper.set_defaults(command=_paper)

    link = commands.add_parser(
        "link",
        help="print the link budget of a radio",
        description="Print what becomes of a radio's signal over distance: loss, SNR, rate, errors and goodput.",
    )
    link.add_argument("kind", metavar="KIND", help="disc, wifi_direct, zigbee, ble, lora or acoustic")
    link.add_argument("--distances", type=_distances, metavar="1,10,100", help="in metres (default: up to the range)")
    link.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", dest="overrides",
        help="set a key of the radio's table, such as range_m=80 or propagation.exponent=2.5; may be repeated",
    )  # fmt: skip
    link.add_argument("--out", metavar="CSV", help="write the table here, and a picture of it beside it")
    link.add_argument("--plot", metavar="PNG", help="draw the picture here")
    link.set_defaults(command=_link)

    _add_trace_commands(commands)
    check = commands.add_parser(
        "check", help="validate scenarios", description="Validate scenarios without running them."
    )
    _add_scenario(check, many=True)
    check.add_argument("--explain", action="store_true", help="print every key of a scenario file with its meaning")
    check.set_defaults(command=_check)
    return parser


def _add_trace_commands(commands: Any) -> None:
    what = "a movement trace: CSV or Parquet (node, t, x, y), SUMO FCD, ns-2, BonnMotion, The ONE, GPX or GeoJSON"
    origin = "LON,LAT of (0, 0) in GPX and GeoJSON files (default: the south-west corner)"
    trace = commands.add_parser(
        "trace",
        help="look at a movement trace, or convert it",
        description="Print bounds, duration, nodes and speeds of a movement trace and draw it; convert it with --out.",
    )
    trace.add_argument("trace", metavar="TRACE", help=what)
    trace.add_argument("--out", metavar="FILE", help="write the trace there, in the format its suffix says")
    trace.add_argument(
        "--step-s",
        type=_positive,
        default=1.0,
        metavar="S",
        help="time between places where the format of --out holds samples (default 1)",
    )
    trace.add_argument("--origin", type=_point, metavar="LON,LAT", help=origin)
    trace.add_argument("--plot", metavar="PNG", help="the picture (default: the trace's name with -trace.png)")
    trace.set_defaults(command=_trace)

    contacts = commands.add_parser(
        "contacts",
        help="find who meets whom in a movement trace, and when",
        description="Find all times at which two nodes of a trace are within range, exactly, and print statistics.",
    )
    contacts.add_argument("trace", metavar="TRACE", help=what)
    contacts.add_argument("--range-m", type=_not_negative, required=True, metavar="R", help="the range, m")
    contacts.add_argument("--out", metavar="CSV", help="write the contacts there: a, b, start, end")
    contacts.add_argument("--until-s", type=_number, metavar="T", help="end there (default: where the trace ends)")
    contacts.add_argument("--origin", type=_point, metavar="LON,LAT", help=origin)
    contacts.add_argument("--plot", metavar="PNG", help="draw contact and inter-contact times and neighbours over time")
    contacts.set_defaults(command=_contacts)


def _add_scenario(parser: argparse.ArgumentParser, many: bool = False) -> None:
    what = "a TOML file, a run folder, or the name of a scenario that ships, such as warzone"
    parser.add_argument("scenario", nargs="*" if many else None, metavar="SCENARIO", help=what)
    parser.add_argument("--seed", type=_seed, metavar="N", help="same as --set seed=N")
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", dest="overrides",
        help="override one key by its dotted name, such as vehicle.speed_mps=8; may be repeated",
    )  # fmt: skip
    parser.add_argument(
        "--allow-plugins",
        action="store_true",
        help='let the scenario run your own classes ("package.module:Class")',
    )


def _seed(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text}: must be a whole number, 0 or more")
    return int(text)


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text}: must be a whole number, 1 or more")
    return int(text)


def _distances(text: str) -> list[float]:
    try:
        distances = [float(part) for part in text.split(",")]
    except ValueError:
        distances = []
    if not distances or not all(0 <= d < float("inf") for d in distances):
        raise argparse.ArgumentTypeError(f"{text}: must be distances in metres, such as 1,10,100")
    return distances


def _number(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise argparse.ArgumentTypeError(f"{text}: must be a number")
    return value


def _not_negative(text: str) -> float:
    if _number(text) < 0:
        raise argparse.ArgumentTypeError(f"{text}: must be 0 or more")
    return float(text)


def _positive(text: str) -> float:
    if _number(text) <= 0:
        raise argparse.ArgumentTypeError(f"{text}: must be greater than 0")
    return float(text)


def _point(text: str) -> tuple[float, float]:
    values = [_number(value) for value in text.split(",")]
    if len(values) != 2:
        raise argparse.ArgumentTypeError(f"{text}: must be two numbers with a comma between")
    return values[0], values[1]


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",")]


def _version() -> str:
    try:
        return metadata.version("fedmule")
    except metadata.PackageNotFoundError:
        return "(not installed)"


def _check(arguments: Any) -> int:
    from simulator.errors import UserError

    if arguments.explain:
        from simulator.explain import explain

        sys.stdout.write(explain())
        return 0
    if not arguments.scenario:
        raise UserError("fedmule check: name at least one SCENARIO, or --explain")
    from simulator.load import load_scenario, own_classes
    from simulator.plugins import load_plugins, plugin_folders
    from simulator.world import build_terrain, vehicle_start

    status = 0
    for name in arguments.scenario:
        try:
            scenario = load_scenario(name, arguments.overrides, arguments.seed)
            vehicle_start(scenario, build_terrain(scenario))
            note = ""
            if arguments.allow_plugins:
                load_plugins(scenario, True, plugin_folders(name))
            elif own_classes(scenario):
                note = " (names classes of your own: run it with --allow-plugins)"
            sys.stdout.write(f"{name}: fine{note}\n")
        except UserError as error:
            sys.stderr.write(f"{error}\n")
            status = 2
    return status


def _data(arguments: Any) -> int:
    from pathlib import Path

    from learning.errors import DataError
    from learning.image_sets import IMAGE_SETS, fetch, take_from
    from simulator.errors import UserError
    from simulator.progress import Downloads

    if arguments.partition:
        return _draw_partition(arguments)
    if arguments.name not in IMAGE_SETS:
        raise UserError(f"{arguments.name}: must be one of {', '.join(IMAGE_SETS)}")
    try:
        if arguments.folder:
            kept = take_from(arguments.name, Path(arguments.folder))
        else:
            with Downloads() as progress:
                kept = fetch(arguments.name, progress)
    except DataError as error:
        raise UserError(str(error)) from None
    sys.stdout.write(f"{arguments.name}: checked and kept in {kept}\n")
    return 0


def _link(arguments: Any) -> int:
    from pathlib import Path

    import numpy as np

    from analysis.experiments import as_text
    from simulator.link_budget import as_lines, radio_of, usual_distances, write_csv

    radio = radio_of(arguments.kind, arguments.overrides)
    budget = radio.budget(np.array(arguments.distances or usual_distances(radio)))
    delay_s = float(radio.delay_s(np.array([radio.range_m]))[0])
    sys.stdout.write(
        f"{as_text(as_lines(radio, budget))}\n\n{arguments.kind} reaches {radio.range_m:.6g} m; every contact takes "
        f"{radio.setup_s:g} s to set up, and at that distance {delay_s:.4g} s until the last byte is usable\n"
    )
    if arguments.out:
        write_csv(Path(arguments.out), budget)
        sys.stdout.write(f"written to {arguments.out}\n")
    picture = arguments.plot or (arguments.out and str(Path(arguments.out).with_suffix(".png")))
    if picture:
        from analysis.pictures import draw_link

        near = min([d for d in budget.distance_m if d > 0], default=1.0)
        far = max(radio.range_m, budget.distance_m.max(), 2 * near)
        fine = radio.budget(np.geomspace(near, far, 400))
        draw_link(fine, f"{arguments.kind}, {radio.range_m:.4g} m", radio.level).savefig(picture, dpi=120)
        sys.stdout.write(f"drawn in {picture}\n")
    return 0


def _draw_partition(arguments: Any) -> int:
    from analysis.pictures import draw_labels
    from simulator.learner import build_data, label_counts
    from simulator.load import scenario_of
    from simulator.streams import Streams

    keys = [f"learning.dataset={arguments.name}", f"learning.partition={arguments.partition}"]
    mobility = ["clients.mobility=static", f"clients.count={arguments.clients}"]
    scenario = scenario_of({}, [*keys, *mobility], "fedmule data")
    counts = label_counts(build_data(scenario, Streams(arguments.seed), {}))
    picture = arguments.out or f"{arguments.name}-labels.png"
    draw_labels(counts, f"{arguments.name}, {arguments.partition}").savefig(picture, dpi=120)
    sizes = counts.sum(axis=1)
    sys.stdout.write(
        f"{len(counts)} clients with {sizes.min()} to {sizes.max()} samples and {(counts > 0).sum(axis=1).min()} to "
        f"{(counts > 0).sum(axis=1).max()} labels each; drawn in {picture}\n"
    )
    return 0


def _paper(arguments: Any) -> int:
    from pathlib import Path

    from simulator.batch import run_batch
    from simulator.errors import UserError
    from simulator.experiments import load_experiment, plan, read_tuned, tune

    *words, name = arguments.name
    if words not in ([], ["tune"]):
        raise UserError(f"fedmule paper {' '.join(arguments.name)}: must be fedmule paper NAME or paper tune NAME")
    experiment, out = load_experiment(name), Path(arguments.out)
    tuned = read_tuned(out / "tuned.toml")
    entries = plan(experiment, arguments.cells, arguments.columns, arguments.seeds, tuned)
    failures: list[Failure] = []
    if words:
        tried, failures = tune(experiment, entries, arguments.seed, out, arguments.jobs)
        _tell_tried(tried, out)
        return _tell_failures(failures)
    if not arguments.report:
        failures = run_batch([s for entry in entries for s in entry.scenarios], out / "runs", arguments.jobs)
    _write_report(experiment, plan(experiment, seeds=arguments.seeds, tuned=tuned), entries, out)
    return _tell_failures(failures)


def _tell_tried(tried: Sequence[Tried], out: Path) -> None:
    """Print what tuning tried and chose."""
    from analysis.experiments import as_text
    from simulator.experiments import describe

    table = [["row", "column", "tried", "validation accuracy, %", ""]]
    for point in tried:
        score = "diverged" if point.validation_acc is None else f"{100 * point.validation_acc:.2f}"
        names = (point.entry.row.cell, point.entry.column.name)
        table.append([*names, describe(point.choice), score, "chosen" if point.chosen else ""])
    sys.stdout.write(f"{as_text(table)}\n\nwritten to {out / 'tuned.toml'}\n")


def _write_report(experiment: Experiment, entries: Sequence[Entry], asked: Sequence[Entry], out: Path) -> None:
    """Print the tables of what was asked for; write those of everything, with figures, into the folder."""
    from analysis.experiments import Cell, accuracy_table, as_text, cost_table, draw_curves, report
    from simulator.batch import is_done, run_folder
    from simulator.experiments import describe
    from simulator.runfolder import write_text

    def cell(entry: Entry) -> Cell:
        folders = [run_folder(out / "runs", scenario) for scenario in entry.scenarios]
        row, column = entry.row, entry.column.name
        done = tuple(folder for folder in folders if is_done(folder))
        published = (row.published.get(column), row.published_s.get(column))
        return Cell(row.cell, column, done, len(folders), describe(entry.chosen), *published)

    shown, cells = [cell(entry) for entry in asked], [cell(entry) for entry in entries]
    sys.stdout.write(f"{experiment.title}\n\n{as_text(accuracy_table(shown))}\n\n{as_text(cost_table(shown))}\n")
    out.mkdir(parents=True, exist_ok=True)
    figures = []
    if any(c.folders for c in cells):
        for against in ("visits", "gradients"):
            figures.append(f"{experiment.name}-{against}.png")
            draw_curves(cells, against).savefig(out / figures[-1], dpi=120)
    write_text(out / f"{experiment.name}.md", report(experiment.title, experiment.text, cells, figures))
    sys.stdout.write(f"\nwritten to {out / experiment.name}.md\n")


def _tell_failures(failures: Sequence[Failure]) -> int:
    """Say what failed, each reason once; returns the exit status."""
    from collections import Counter

    for error, count in Counter(failure.error for failure in failures).items():
        sys.stderr.write(f"{count} run{'s' if count > 1 else ''} failed: {error.rstrip()}\n")
    return 1 if failures else 0


def _trace(arguments: Any) -> int:
    from pathlib import Path

    from mobility.formats import read_trace, writer
    from mobility.traces import TraceError
    from simulator.errors import UserError
    from simulator.trace_text import trace_text, warnings_about

    try:
        kind, write = (
            (None, None) if arguments.out is None else writer(arguments.out, arguments.step_s, arguments.origin)
        )
        trace = read_trace(arguments.trace, arguments.origin)
        sys.stdout.write(f"{trace_text(trace, arguments.trace)}\n")
        warnings = warnings_about(trace, arguments.trace)
        if kind and write:
            write(trace)
            sys.stdout.write(f"  written   {arguments.out}, as {kind.name}\n")
            if trace.comes_and_goes and not kind.absence:
                warnings.append(
                    f"{kind.name} cannot say that nodes come and go: they stand where they first or last are"
                )
    except TraceError as error:
        raise UserError(str(error)) from None

    from analysis.movement import draw_trace

    picture = arguments.plot or f"{Path(arguments.trace).name.partition('.')[0]}-trace.png"
    draw_trace(trace, arguments.trace).savefig(picture, dpi=120)
    sys.stdout.write(f"  drawn in  {picture}\n")
    for warning in warnings:
        sys.stderr.write(f"warning: {warning}\n")
    return 0


def _contacts(arguments: Any) -> int:
    from pathlib import Path

    from mobility.contacts import find_contacts
    from mobility.formats import read_trace
    from mobility.formats.tables import write_contacts
    from mobility.traces import TraceError
    from simulator.errors import UserError
    from simulator.trace_text import ShareDone, contacts_text

    until_s = math.inf if arguments.until_s is None else arguments.until_s
    try:
        trace = read_trace(arguments.trace, arguments.origin)
        if trace.unfinished:
            sys.stderr.write(f"warning: {arguments.trace} breaks off: what comes after is not known\n")
        contacts = find_contacts(trace, arguments.range_m, until_s, ShareDone("contacts"))
        if arguments.out:
            write_contacts(Path(arguments.out), trace.names, contacts)
    except TraceError as error:
        raise UserError(str(error)) from None
    sys.stdout.write(f"{contacts_text(trace, contacts, arguments.range_m, until_s)}\n")
    if arguments.out:
        sys.stdout.write(f"  written to           {arguments.out}\n")
    if arguments.plot:
        from analysis.movement import draw_contacts

        title = f"{arguments.trace}, {arguments.range_m:g} m"
        draw_contacts(trace, contacts, until_s, title).savefig(arguments.plot, dpi=120)
        sys.stdout.write(f"  drawn in             {arguments.plot}\n")
    return 0


def _run(arguments: Any) -> int:
    from simulator.load import load_scenario
    from simulator.plugins import load_plugins, plugin_folders

    overrides = list(arguments.overrides)
    if arguments.device:
        overrides.append(f'learning.device="{arguments.device}"')
    scenario = load_scenario(arguments.scenario, overrides, arguments.seed)
    plugins = load_plugins(scenario, arguments.allow_plugins, plugin_folders(arguments.scenario))

    from simulator.run import run_scenario

    summary = run_scenario(scenario, arguments.out, plugins, quiet=arguments.quiet)
    return 130 if summary["stopped_by"] == "interrupted" else 0
