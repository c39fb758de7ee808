"""Statistics of contacts: contact times, inter-contact times and degrees."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedmule.mobility.traces.contacts import Contacts
from fedmule.mobility.traces.trace import FloatArray, IntArray, Trace


def contact_times(contacts: Contacts) -> FloatArray:
    """Duration [m] of each contact, s."""
    return np.asarray(contacts.end_s - contacts.start_s)


def inter_contact_times(contacts: Contacts) -> FloatArray:
    """Times between the end of each contact of a pair and the start of its next, s."""
    again = (contacts.a[1:] == contacts.a[:-1]) & (contacts.b[1:] == contacts.b[:-1])
    return np.asarray((contacts.start_s[1:] - contacts.end_s[:-1])[again])


@dataclass(frozen=True)
class Degrees:
    """Number of others a node is in contact with, as a mean over the nodes present, at times [m]."""

    t: FloatArray
    mean: FloatArray
    there: IntArray  # number of nodes present


def degrees(trace: Trace, contacts: Contacts, until_s: float = np.inf, count: int = 500) -> Degrees:
    """Mean degree 2·contacts/nodes in the middle of each of `count` equal spans of time."""
    begin, end = trace.begin_s, min(trace.end_s, until_s)
    t = begin + (end - begin) * (np.arange(count) + 0.5) / count
    there = _open(trace.legs.start_s, trace.legs.end_s, t)
    together = _open(contacts.start_s, contacts.end_s, t)
    return Degrees(t, 2 * together / np.maximum(there, 1), there)


def _open(start_s: FloatArray, end_s: FloatArray, t: FloatArray) -> IntArray:
    """Number of spans [start, end) that contain each time."""
    begun = np.searchsorted(np.sort(start_s), t, side="right")
    return (begun - np.searchsorted(np.sort(end_s), t, side="right")).astype(np.int64)
