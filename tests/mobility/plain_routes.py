"""A plain twin of the search for shortest routes: the complete visibility graph, with shapely and networkx."""

import networkx as nx
import numpy as np
import shapely


class PlainRouter:
    """Shortest routes over the corners of a router, along all straight legs that keep off the core of its walls."""

    def __init__(self, router):
        self.core, self.corners = router.core, router.corners
        shapely.prepare(self.core)
        self.graph = nx.Graph()
        self.graph.add_nodes_from(range(len(self.corners)))
        for i in range(len(self.corners)):
            self._add(self.graph, i, self.corners[i], np.arange(i))

    def sees(self, position, others):
        """Which other positions [m,2] are in sight of a position [2]."""
        lines = shapely.linestrings(np.stack([np.broadcast_to(position, others.shape), others], axis=1))
        return ~shapely.intersects(self.core, lines)

    def length(self, start, goal, without=()):
        """Length of the shortest route; inf if there is none. `without`: pairs of corners between which it must not."""
        if self.sees(start, goal[None])[0]:
            return float(np.hypot(*(goal - start)))
        graph = self.graph.copy()
        graph.remove_edges_from(without)
        graph.add_nodes_from(("start", "goal"))
        self._add(graph, "start", start, np.arange(len(self.corners)))
        self._add(graph, "goal", goal, np.arange(len(self.corners)))
        try:
            return nx.dijkstra_path_length(graph, "start", "goal")
        except nx.NetworkXNoPath:
            return np.inf

    def _add(self, graph, node, position, others):
        seen = others[self.sees(position, self.corners[others])]
        lengths = np.hypot(*(self.corners[seen] - position).T)
        graph.add_weighted_edges_from((node, int(v), length) for v, length in zip(seen, lengths, strict=True))
