"""What the contacts of a trace amount to: how long they last, how long pairs wait for the next, how many at a time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedmule.mobility.traces.contacts import Contacts
from fedmule.mobility.traces.trace import FloatArray, IntArray, Trace


def contact_times(contacts: Contacts) -> FloatArray:
    """How long each contact [m] lasts, s."""
    return contacts.end_s - contacts.start_s


def inter_contact_times(contacts: Contacts) -> FloatArray:
    """From the end of each contact of a pair to the start of its next, s."""
    again = (contacts.a[1:] == contacts.a[:-1]) & (contacts.b[1:] == contacts.b[:-1])
    return (contacts.start_s[1:] - contacts.end_s[:-1])[again]


@dataclass(frozen=True)
class Degrees:
    """How many others a node is in contact with, mean over the nodes that are there, at times [m]."""

    t: FloatArray
    mean: FloatArray
    there: IntArray  # nodes that are there


def degrees(trace: Trace, contacts: Contacts, until_s: float = np.inf, count: int = 500) -> Degrees:
    """Mean degree 2·contacts/nodes at the middles of `count` equal spans of time."""
    begin, end = trace.begin_s, min(trace.end_s, until_s)
    t = begin + (end - begin) * (np.arange(count) + 0.5) / count
    there = _open(trace.legs.start_s, trace.legs.end_s, t)
    together = _open(contacts.start_s, contacts.end_s, t)
    return Degrees(t, 2 * together / np.maximum(there, 1), there)


def _open(start_s: FloatArray, end_s: FloatArray, t: FloatArray) -> IntArray:
    """How many of the spans [start, end) hold each time."""
    begun = np.searchsorted(np.sort(start_s), t, side="right")
    return (begun - np.searchsorted(np.sort(end_s), t, side="right")).astype(np.int64)
