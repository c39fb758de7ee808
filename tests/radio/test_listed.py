"""Contacts by a list: who hears whom when, against a direct reading of the intervals."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from making import Disc, WifiDirect

from fedmule.mobility.contact_lists import ContactList
from fedmule.mobility.traces.contacts import merged
from fedmule.radio.link import HAIR_S, rates_bps
from fedmule.radio.listed import ByList

NODES = 6  # 5 and 2 are vehicles, 0, 1 and 3 clients, and 4 takes no part
VEHICLES, CLIENTS = [5, 2], [0, 1, 3]


def vehicle(number: int) -> Any:
    return SimpleNamespace(number=number, way=None)


contacts_of = st.lists(
    st.tuples(st.integers(0, NODES - 1), st.integers(1, NODES - 1), st.integers(0, 40), st.integers(0, 9)),
    min_size=1,
    max_size=40,
)


def list_of(rows: list[tuple[int, int, int, int]]) -> ContactList:
    pairs = np.array([sorted((a, (a + step) % NODES)) for a, step, _, _ in rows])
    times = np.array([(start, start + long) for _, _, start, long in rows], dtype=float)
    return ContactList("list", [str(i) for i in range(NODES)], merged(pairs, times, NODES), {}, 3.0)


def spans(found: ContactList, a: int, b: int) -> list[tuple[float, float]]:
    c = found.contacts
    same = (c.a == min(a, b)) & (c.b == max(a, b)) & (c.end_s > c.start_s)
    return list(zip(c.start_s[same].tolist(), c.end_s[same].tolist(), strict=True))


@settings(max_examples=60)
@given(contacts_of, st.floats(0, 50), st.floats(0, 20))
def test_who_hears_whom(rows: list[tuple[int, int, int, int]], now: float, ahead: float) -> None:
    found = list_of(rows)
    by_list = ByList(found, VEHICLES, CLIENTS, Disc(range_m=9.0), np.zeros(3))
    for v, node in enumerate(VEHICLES):
        during = {c: spans(found, node, other) for c, other in enumerate(CLIENTS)}
        assert by_list.around(vehicle(v), now).tolist() == [
            c for c in range(3) if any(s <= now < e for s, e in during[c])
        ]
        assert by_list.passed(vehicle(v), now, now + ahead).tolist() == [
            c for c in range(3) if any(s <= now + ahead and now < e for s, e in during[c])
        ]
        for c in range(3):
            in_contact = any(s <= now < e for s, e in during[c])
            later = [s + HAIR_S for s, _ in during[c] if now < s and s + HAIR_S <= now + ahead]
            expected = min(([now] if in_contact else []) + later, default=None)
            assert by_list.first_heard(vehicle(v), c, now, now + ahead) == expected
            again = by_list.first_heard(vehicle(v), c, now, now + ahead, after_break=True)
            assert again == min(later, default=None)
    meeting = spans(found, *VEHICLES)
    expected = now if any(s <= now < e for s, e in meeting) else None
    assert by_list.first_meeting(vehicle(0), vehicle(1), now, now) == expected
    near = [c for c in (1, 2) if any(s <= now < e for s, e in spans(found, 0, CLIENTS[c]))]
    assert by_list.near(0, now).tolist() == near


@given(contacts_of, st.floats(0, 50))
def test_a_link_lasts_as_long_as_the_contact(rows: list[tuple[int, int, int, int]], start_s: float) -> None:
    found = list_of(rows)
    by_list = ByList(found, VEHICLES, CLIENTS, Disc(range_m=9.0, rate_mbps=2.0), np.zeros(3))
    t, during = start_s, spans(found, 5, 0)
    for stretch in by_list.link(vehicle(0), 0, start_s):
        middle = (t + min(stretch.end_s, t + 100.0)) / 2
        assert stretch.end_s > t
        assert stretch.rate_bps == (2e6 if any(s <= middle < e for s, e in during) else 0.0)
        t = stretch.end_s
    assert t == np.inf


def test_rates_and_delays_are_those_of_the_distance() -> None:
    radio, loss_db = WifiDirect(), np.array([0.0, 12.0, 60.0])
    found = list_of([(5, 1, 0, 9)])
    by_list = ByList(found, VEHICLES, CLIENTS, radio, loss_db)
    assert by_list.rates_bps.tolist() == rates_bps(radio, np.full(3, 3.0), loss_db).tolist()
    assert by_list.delay_s(vehicle(0), 0, 1.0) == radio.latency_s == by_list.meeting_delay_s(vehicle(0), vehicle(1), 1)
    assert next(by_list.link(vehicle(0), 0, 1.0)).rate_bps == by_list.rates_bps[0]
    assert by_list.met(np.inf).tolist() == [0]
    assert by_list.met(0.0).tolist() == []


def test_a_contact_shorter_than_a_moment_is_not_heard() -> None:
    pairs, times = np.array([[0, 5], [0, 5], [1, 5]]), np.array([[1.0, 1.0 + 1e-7], [3.0, 4.0], [1.0, 1.0 + 1e-7]])
    found = ContactList("list", [str(i) for i in range(NODES)], merged(pairs, times, NODES), {}, 3.0)
    by_list = ByList(found, VEHICLES, CLIENTS, Disc(range_m=9.0), np.zeros(3))
    assert by_list.first_heard(vehicle(0), 0, 0.0, 9.0) == 3.0 + HAIR_S
    assert by_list.first_heard(vehicle(0), 1, 0.0, 9.0) is None
