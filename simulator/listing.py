"""Worlds made of a contact list: which of its nodes are vehicles and clients, and their sites."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedmule.mobility.contact_lists import ContactList
from fedmule.mobility.contact_lists.readers import ListError
from fedmule.mobility.models.unplaced import Unplaced
from fedmule.mobility.traces.trace import TraceError
from fedmule.radio.link import Radio
from fedmule.radio.listed import ByList
from fedmule.simulator.errors import Problem, ScenarioError
from fedmule.simulator.scenario import Scenario
from fedmule.simulator.scenario.parts import choose

KEY = "clients.mobility"
FEW = 5  # nodes that a message names


@dataclass(frozen=True)
class Listing:
    """A contact list, and the indices of its nodes that are vehicles and clients."""

    contact_list: ContactList
    vehicles: list[int]
    clients: list[int]  # the first ones of the list that are not vehicles

    def movement(self) -> Unplaced:
        """The clients, without positions, but with their classes if the list has one for each."""
        names = [self.contact_list.names[i] for i in self.clients]
        classes = [self.contact_list.class_of[name] for name in names if name in self.contact_list.class_of]
        return Unplaced(len(names), classes if len(classes) == len(names) else None)


def read_listing(scenario: Scenario) -> Listing | None:
    """The contact list that a scenario names, None if it names none. Raises ScenarioError with all that is wrong."""
    keys = scenario.clients.contact_list
    if keys is None:
        return None
    try:
        contact_list: ContactList = choose(keys, KEY, {}).make()
    except ListError as error:
        raise ScenarioError(scenario.name, [Problem(f"{KEY}.path", line) for line in error.messages]) from None
    except TraceError as error:
        raise ScenarioError(scenario.name, [Problem(f"{KEY}.path", str(error))]) from None
    names, problems, vehicles = contact_list.names, [], []
    number = {name: i for i, name in enumerate(names)}
    for at, node in scenario.vehicle.following():
        if node in number:
            vehicles.append(number[node])
        else:
            some = ", ".join(names[:FEW]) + (", …" if len(names) > FEW else "")
            message = f"must be one of the {len(names)} nodes of {contact_list.path}: {some}"
            problems.append(Problem(f"{at}.follows", message, node))
    others, count = [i for i in range(len(names)) if i not in set(vehicles)], scenario.clients.count
    if len(others) < count:
        message = f"must be at most {len(others)}: {contact_list.path} has {len(names)} nodes, vehicles included"
        problems.append(Problem("clients.count", message, count))
    if problems:
        raise ScenarioError(scenario.name, problems)
    return Listing(contact_list, vehicles, others[:count])


def build_encounters(scenario: Scenario, listing: Listing, radio: Radio, extra_loss_db: NDArray[np.float64]) -> ByList:
    """The contacts of the list. Raises ScenarioError if the radio does not reach that far, or nobody meets a client."""
    encounters = ByList(listing.contact_list, listing.vehicles, listing.clients, radio, extra_loss_db)
    if not encounters.rates_bps.all():
        deaf = np.flatnonzero(encounters.rates_bps == 0)
        message = f"must be within reach of the radio: client {deaf[0]} has no link over this distance"
        raise ScenarioError(scenario.name, [Problem(f"{KEY}.distance_m", message, listing.contact_list.distance_m)])
    if not encounters.met(np.inf).size:
        at, node = scenario.vehicle.following()[0]
        raise ScenarioError(
            scenario.name, [Problem(f"{at}.follows", "meets none of the clients by the contact list", node)]
        )
    return encounters


def list_warnings(scenario: Scenario, listing: Listing, encounters: ByList) -> list[str]:
    """Warn of a run longer than its list, and of clients that no vehicle meets."""
    found, until_s, end_s = [], scenario.stop.sim_time_s or np.inf, listing.contact_list.end_s
    if end_s < until_s:
        found.append(f"the contact list ends after {end_s:g} s, and stop.sim_time_s is {until_s:g} s")
    alone = len(listing.clients) - len(encounters.met(until_s))
    if alone:
        found.append(f"{alone} of {len(listing.clients)} clients meet no vehicle by the contact list")
    return found
