"""Events at exact times."""

from __future__ import annotations

import math

import simpy
from hypothesis import given
from hypothesis import strategies as st

from fedmule.simulator.event_queue import Environment

times = st.floats(0.0, 1e7, allow_nan=False)


@given(times, times)
def test_an_event_occurs_at_exactly_its_time(start_s: float, ahead_s: float) -> None:
    """As it does not always at now plus a delay: 0.1 + (0.7 - 0.1) is not 0.7."""
    at_s = start_s + ahead_s
    env = Environment(start_s)
    event = env.timeout_at(at_s)
    assert env.due(event)[0] == at_s
    env.step()
    assert event.processed
    assert env.now == at_s
    assert env.due(event) == (None, math.inf)


def test_events_at_once_occur_in_the_order_in_which_they_were_scheduled() -> None:
    env, order = Environment(), []
    for name, event in (("a", env.timeout_at(2.0)), ("b", env.timeout(2.0)), ("c", env.timeout_at(2.0))):
        event.callbacks.append(lambda event, name=name: order.append(name))
    env.run()
    assert order == ["a", "b", "c"]


def test_a_function_is_called_after_every_event() -> None:
    env, seen = Environment(), []
    env.timeout(1.0)
    env.timeout(3.0)
    env.after_event = lambda: seen.append(env.now)
    env.run()
    assert seen == [1.0, 3.0]


def test_who_waits_for_an_event_gets_its_value() -> None:
    env = Environment(5.0)

    def wait() -> simpy.events.ProcessGenerator:
        yield env.timeout_at(7.5)
        return env.now

    assert env.run(until=env.process(wait())) == 7.5
