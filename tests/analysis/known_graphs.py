"""Graphs whose walks are known in closed form, and their transition matrices."""

from __future__ import annotations

from typing import Any

import networkx as nx
import numpy as np

from fedmule.radio.walks.random import transition_matrix


def matrix(graph: nx.Graph, rule: Any = "degree", jump: float = 0.0) -> Any:
    """P on a graph with nodes 0 … n − 1."""
    edges = np.array([sorted(e) for e in graph.edges], dtype=np.int64).reshape(-1, 2)
    return transition_matrix(edges, np.ones(graph.number_of_nodes(), dtype=bool), rule, jump)


def two_groups() -> nx.Graph:
    """A triangle and a ring of five, not connected."""
    return nx.disjoint_union(nx.cycle_graph(3), nx.cycle_graph(5))


def with_one_alone() -> nx.Graph:
    """A triangle and an isolated client."""
    return nx.disjoint_union(nx.cycle_graph(3), nx.empty_graph(1))
