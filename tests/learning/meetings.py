"""Visits for tests of neighbourhoods: who was visited, who was in range."""

import numpy as np

from fedmule.learning.algorithms.base import Contact


def meeting(visited, near, clients=None, progress=0.0):
    """The mule came to a client; those delivered are all in range unless told."""
    near = np.array(sorted({visited, *near}))
    who = near if clients is None else np.array(sorted(clients))
    return Contact(who, len(near), progress, visited, near)


def meetings(clients, visits, seed=0, progress=0.0):
    """Random visits at which some are in range and some of those are delivered."""
    generator = np.random.default_rng(seed)
    made = []
    for _ in range(visits):
        visited = int(generator.integers(clients))
        near = {visited, *generator.choice(clients, 3, replace=False).tolist()}
        delivered = [j for j in near if j == visited or generator.random() < 0.7]
        made.append(meeting(visited, near, delivered, progress))
    return made


class Fixed:
    """Neighbourhoods that are known and equal inside."""

    def __init__(self, group):
        self.group = np.array(group)

    def visit(self, client, near):
        pass

    def weights(self, client):
        index = np.flatnonzero(self.group == self.group[client])
        return index, np.ones(len(index))
