"""Descriptions of a trace and its contacts, as `fedmule trace` and `fedmule contacts` print them."""

from __future__ import annotations

import numpy as np

from fedmule.mobility.traces.contacts import Contacts
from fedmule.mobility.traces.statistics import contact_times, degrees, inter_contact_times
from fedmule.mobility.traces.trace import FloatArray, Trace

AT_THE_CORNER_M = 1000.0  # a trace nearer than this is not far from (0, 0)
LEAST_M = 1.0  # a trace with a smaller extent is probably not in metres


def trace_text(trace: Trace, name: str) -> str:
    """Describe a trace: bounds, duration, nodes and speeds."""
    low_x, low_y, high_x, high_y = trace.bounds
    legs = trace.legs
    seconds, speed = legs.seconds, legs.speed_mps
    moving = speed > 0
    lines = [
        f"{name}: {len(trace)} nodes, {len(trace.t)} waypoints",
        f"  bounds    x {low_x:.1f} to {high_x:.1f} m, y {low_y:.1f} to {high_y:.1f} m "
        f"({high_x - low_x:.1f} × {high_y - low_y:.1f} m)",
        f"  duration  {clock(trace.end_s - trace.begin_s)}, from {trace.begin_s:.10g} to {trace.end_s:.10g} s",
    ]
    if moving.any():
        mean = np.average(speed[moving], weights=seconds[moving])
        rest = seconds[~moving].sum() / seconds.sum()
        lines.append(
            f"  speeds    mean {mean:.2f} m/s while moving, slowest {speed[moving].min():.2f}, fastest "
            f"{speed.max():.2f}; at rest {rest:.1%} of the time"
        )
    else:
        lines.append("  speeds    nobody moves")
    if trace.comes_and_goes:
        present = seconds.sum() / max(trace.end_s - trace.begin_s, 1e-9)
        lines.append(f"  present   nodes come and go: {present:.1f} are present on average")
    return "\n".join(lines)


def warnings_about(trace: Trace, name: str) -> list[str]:
    """Warn about properties of a trace that are likely to be mistakes."""
    low_x, low_y, high_x, high_y = trace.bounds
    found = []
    if trace.unfinished:
        found.append(f"{name} is truncated: the rest is unknown")
    if min(low_x, low_y) < 0:
        found.append("part of it lies west or south of (0, 0), off any terrain: shift it")
    elif low_x > max(high_x - low_x, AT_THE_CORNER_M) or low_y > max(high_y - low_y, AT_THE_CORNER_M):
        found.append(f"it lies far from (0, 0), from ({low_x:.0f}, {low_y:.0f}) on: shift it to fit a terrain")
    if trace.legs.speed_mps.any() and max(high_x - low_x, high_y - low_y) < LEAST_M:
        found.append("it is less than a metre across: if positions are in degrees, give --origin LON,LAT near them")
    return found


def contacts_text(trace: Trace, contacts: Contacts, range_m: float, until_s: float) -> str:
    """Describe contacts: how many, how long, how long in between, and how many at a time."""
    pairs = np.count_nonzero((np.diff(contacts.a) != 0) | (np.diff(contacts.b) != 0)) + (len(contacts) > 0)
    degree = degrees(trace, contacts, until_s)
    return "\n".join(
        [
            f"{len(contacts)} contacts of {pairs} pairs of {len(trace)} nodes within {range_m:g} m",
            f"  contact times        {_spread(contact_times(contacts))}",
            f"  inter-contact times  {_spread(inter_contact_times(contacts))}",
            f"  degree over time     mean {degree.mean.mean():.2f}, from {degree.mean.min():.2f} to "
            f"{degree.mean.max():.2f} neighbours per node",
        ]
    )


def _spread(seconds: FloatArray) -> str:
    if not len(seconds):
        return "none"
    low, middle, high = np.quantile(seconds, [0.1, 0.5, 0.9])
    return f"mean {seconds.mean():.1f} s, median {middle:.1f} s, 80 % between {low:.1f} and {high:.1f} s"


def clock(seconds: float) -> str:
    """Format seconds as hours, minutes and seconds."""
    minutes, s = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02d}:{s:02d}"
