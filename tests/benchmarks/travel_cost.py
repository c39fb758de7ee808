"""Cost of what a policy may ask for: CPU time of travel times, and of a choice, in the six stories.

python tests/benchmarks/travel_cost.py [--choices 40] [--story warzone …]

The vehicle stands at one client after the other, and asks for the way to another one or for the next client to visit.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedmule.radio.walks.past import Logbook
from fedmule.radio.walks.policy import Here
from fedmule.simulator.scenario.load import load_scenario
from fedmule.simulator.streams import Streams
from fedmule.simulator.world import World, build_world

FloatArray = NDArray[np.float64]

STORIES = ("warzone", "earthquake", "wildlife", "underwater", "city", "blackout")
POLICIES = ("oldest_first", "expected_gain")


@dataclass(frozen=True)
class Cost:
    """CPU time in one story, and how much longer fastest ways take than straight lines."""

    way_ms: float  # one fastest way
    bound_us: float  # lower bounds for all clients together
    detour: float  # mean seconds of the fastest way / of the bound
    choice_ms: dict[str, float]  # by policy


def measure(story: str, choices: int) -> Cost:
    """Ask for ways and let policies choose in the world of a story at time 0."""
    made = {name: build(story, name) for name in POLICIES}
    world = made[POLICIES[0]]
    clients = world.graph.reachable
    known = world.graph.known(clients)
    starts = known[np.arange(choices) % len(known)]
    starts = np.array([world.terrain.nearest_open(xy, world.terrain.nearest_area(xy)) for xy in starts])
    heres = [Here(None, xy, driving=world.driving[0]) for xy in starts]
    aims = known[(3 * np.arange(choices) + 1) % len(known)]
    for here, aim in zip(heres[:2], aims[:2], strict=True):  # compile
        here.travel_s(aim)
    began_s = time.process_time()
    seconds = np.array([here.travel_s(aim) for here, aim in zip(heres, aims, strict=True)])
    way_ms = 1e3 * (time.process_time() - began_s) / choices
    began_s = time.process_time()
    for here in heres:
        here.least_travel_s(known)
    bound_us = 1e6 * (time.process_time() - began_s) / choices
    least = np.array([here.least_travel_s(aim[None])[0] for here, aim in zip(heres, aims, strict=True)])
    apart = least > 0
    choice_ms = {name: 1e3 * seconds_of_choice(own, starts) for name, own in made.items()}
    return Cost(way_ms, bound_us, float((seconds[apart] / least[apart]).mean()), choice_ms)


def build(story: str, policy: str) -> World:
    """The world at time 0, and in its graph the clients that are there."""
    scenario = load_scenario(story, {"vehicle.walk": policy}, 0)
    world = build_world(scenario, Streams(scenario.seed), {})
    there = world.positions.there(0.0)
    world.graph.admit(world.graph.members if there is None else world.graph.members & there)
    return world


def seconds_of_choice(world: World, starts: FloatArray) -> float:
    """CPU seconds of a choice, with the vehicle at one start after the other."""
    past, draws = Logbook(len(world.graph.members)).past, np.random.default_rng(0)
    began_s = time.process_time()
    for k, xy in enumerate(starts):
        world.walks[0].next(Here(None, xy, 10.0 * k, 0.001 * k, past, world.driving[0]), draws)
    return (time.process_time() - began_s) / len(starts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--choices", type=int, default=40)
    parser.add_argument("--story", nargs="+", default=list(STORIES))
    given = parser.parse_args()
    print(
        "| story | a fastest way, ms | bounds for all, µs | way / bound | "
        + " | ".join(f"`{p}`, ms" for p in POLICIES)
        + " |"
    )
    print("|" + "---|" * (4 + len(POLICIES)))
    for story in given.story:
        cost = measure(story, given.choices)
        own = " | ".join(f"{cost.choice_ms[name]:.2f}" for name in POLICIES)
        print(f"| `{story}` | {cost.way_ms:.2f} | {cost.bound_us:.0f} | {cost.detour:.2f} | {own} |", flush=True)


if __name__ == "__main__":
    main()
