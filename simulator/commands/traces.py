"""fedmule trace and fedmule contacts: describe and convert movement traces, and find contacts in them."""

from __future__ import annotations

import math
import sys
from typing import Any

from fedmule.simulator.commands import arguments


def add(commands: Any) -> None:
    """The commands `trace` and `contacts`."""
    what = "a movement trace: CSV or Parquet (node, t, x, y), SUMO FCD, ns-2, BonnMotion, The ONE, GPX or GeoJSON"
    partial = "use a trace that is truncated as far as it goes"
    origin = "LON,LAT of (0, 0) in files with degrees (default: the south-west corner)"
    trace = commands.add_parser(
        "trace",
        help="describe a movement trace, or convert it",
        description="Print bounds, duration, nodes and speeds of a movement trace and draw it; convert it with --out.",
        epilog=arguments.examples("trace town.xml", "trace town.xml --out town.csv"),
    )
    trace.add_argument("trace", metavar="TRACE", help=what)
    trace.add_argument("--out", metavar="FILE", help="write the trace there, in the format its suffix says")
    trace.add_argument(
        "--step-s",
        type=arguments.positive,
        default=1.0,
        metavar="S",
        help="time between positions where the format of --out holds samples (default 1)",
    )
    trace.add_argument("--partial", action="store_true", help=partial)
    trace.add_argument("--origin", type=arguments.point, metavar="LON,LAT", help=origin)
    trace.add_argument("--plot", metavar="PNG", help="the picture (default: the trace's name with -trace.png)")
    trace.set_defaults(command=_trace)

    contacts = commands.add_parser(
        "contacts",
        help="find the contacts in a movement trace",
        description="Find the exact times at which two nodes of a trace are within range, and print statistics.",
        epilog=arguments.examples("contacts town.csv --range-m 100 --out contacts.csv --plot contacts.png"),
    )
    contacts.add_argument("trace", metavar="TRACE", help=what)
    contacts.add_argument("--range-m", type=arguments.not_negative, required=True, metavar="R", help="the range, m")
    contacts.add_argument("--out", metavar="CSV", help="write the contacts there: a, b, start, end")
    contacts.add_argument(
        "--until-s", type=arguments.number, metavar="T", help="end there (default: where the trace ends)"
    )
    contacts.add_argument("--partial", action="store_true", help=partial)
    contacts.add_argument("--origin", type=arguments.point, metavar="LON,LAT", help=origin)
    contacts.add_argument("--plot", metavar="PNG", help="draw contact and inter-contact times and neighbours over time")
    contacts.set_defaults(command=_contacts)


def _trace(given: Any) -> int:
    from pathlib import Path

    from fedmule.mobility.traces.description import trace_text, warnings_about
    from fedmule.mobility.traces.formats import read_trace, writer
    from fedmule.mobility.traces.trace import TraceError
    from fedmule.simulator.errors import UserError

    try:
        kind, write = (None, None) if given.out is None else writer(given.out, given.step_s, given.origin)
        trace = read_trace(given.trace, given.origin, given.partial)
        sys.stdout.write(f"{trace_text(trace, given.trace)}\n")
        warnings = warnings_about(trace, given.trace)
        if kind and write:
            write(trace)
            sys.stdout.write(f"  written   {given.out}, as {kind.name}\n")
            if trace.comes_and_goes and not kind.absence:
                warnings.append(
                    f"{kind.name} cannot express that nodes come and go: they wait at their first and last positions"
                )
    except TraceError as error:
        raise UserError(str(error)) from None

    from fedmule.analysis.movement import draw_trace

    picture = given.plot or f"{Path(given.trace).name.partition('.')[0]}-trace.png"
    draw_trace(trace, given.trace).savefig(picture, dpi=120)
    sys.stdout.write(f"  drawn in  {picture}\n")
    for warning in warnings:
        sys.stderr.write(f"warning: {warning}\n")
    return 0


def _contacts(given: Any) -> int:
    from pathlib import Path

    from fedmule.mobility.traces.contacts import find_contacts
    from fedmule.mobility.traces.description import contacts_text
    from fedmule.mobility.traces.formats import read_trace
    from fedmule.mobility.traces.formats.tables import write_contacts
    from fedmule.mobility.traces.trace import TraceError
    from fedmule.simulator.errors import UserError
    from fedmule.simulator.runs.progress import ShareDone

    until_s = math.inf if given.until_s is None else given.until_s
    try:
        trace = read_trace(given.trace, given.origin, given.partial)
        if trace.unfinished:
            sys.stderr.write(f"warning: {given.trace} is cut off: the rest is missing\n")
        contacts = find_contacts(trace, given.range_m, until_s, ShareDone("contacts"))
        if given.out:
            write_contacts(Path(given.out), trace.names, contacts)
    except TraceError as error:
        raise UserError(str(error)) from None
    sys.stdout.write(f"{contacts_text(trace, contacts, given.range_m, until_s)}\n")
    if given.out:
        sys.stdout.write(f"  written to           {given.out}\n")
    if given.plot:
        from fedmule.analysis.movement import draw_contacts

        title = f"{given.trace}, {given.range_m:g} m"
        draw_contacts(trace, contacts, until_s, title).savefig(given.plot, dpi=120)
        sys.stdout.write(f"  drawn in             {given.plot}\n")
    return 0
