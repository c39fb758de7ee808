"""Random terrains for the tests, and measurements on them that share nothing with the program."""

import networkx as nx
import numpy as np
import shapely
from hypothesis import strategies as st

from fedmule.mobility.terrain import Obstacle, Terrain

SIZE_M = (50.0, 40.0)
GROUND = shapely.box(0, 0, *SIZE_M)

on_grid = st.integers(-4, 54).map(float)  # so that shapes touch and share edges and corners
anywhere = st.floats(-4, 54, allow_nan=False).map(lambda v: round(v, 3))
corner = st.tuples(on_grid, on_grid) | st.tuples(anywhere, anywhere)


@st.composite
def shapes(draw):
    """A rectangle, a triangle or another convex polygon, perhaps partly off the terrain."""
    if draw(st.booleans()):
        x, y = draw(corner)
        wide, high = draw(st.sampled_from([0.5, 3.0, 8.0, 20.0])), draw(st.sampled_from([0.5, 3.0, 8.0, 20.0]))
        return shapely.box(x, y, x + wide, y + high)
    points = draw(st.lists(corner, min_size=3, max_size=6))
    hull = shapely.MultiPoint(points).convex_hull
    if hull.geom_type != "Polygon" or hull.area > 500 or hull.minimum_rotated_rectangle.area < 0.1:
        return shapely.box(10, 10, 15, 15)
    return hull


def open_enough(polygons):
    """Whether there is open ground, with some wall on it."""
    walls = shapely.union_all(polygons)
    return GROUND.difference(walls).area > 200 and walls.boundary.intersection(GROUND.buffer(-0.1)).length > 1


polygon_lists = st.lists(shapes(), min_size=1, max_size=6).filter(open_enough)


def terrain_of(polygons):
    return Terrain(SIZE_M, [Obstacle(polygon) for polygon in polygons])


def open_point(polygons, rng, clearance_m=0.05):
    """A random position at least a clearance off every obstacle."""
    walls = shapely.union_all(polygons)
    while True:
        position = rng.uniform((0, 0), SIZE_M)
        if walls.distance(shapely.Point(position)) > clearance_m:
            return position


def by_the_wall(polygons, rng, most_m=0.03):
    """A random position within some centimetres of an obstacle's edge, inside it or outside."""
    for _ in range(200):
        edge = polygons[rng.integers(len(polygons))].boundary
        at = shapely.get_coordinates(edge.interpolate(rng.random(), normalized=True))[0]
        position = at + rng.uniform(-most_m, most_m, 2)
        if GROUND.distance(shapely.Point(position)) == 0:
            return position
    return open_point(polygons, rng)


def length(route):
    return float(np.hypot(*np.diff(route, axis=0).T).sum())


def length_inside(polygons, route):
    """Metres of a route that run inside obstacles."""
    line = shapely.LineString(route)
    return max(polygon.intersection(line).length for polygon in polygons)


def shortest_m(walls, corners_of, start, goal):
    """Length of the shortest path from corner to corner that avoids the inside of `walls`; inf if there is none."""
    corners = shapely.get_coordinates(corners_of)
    corners = corners[shapely.distance(GROUND, shapely.points(corners)) < 1e-9]
    nodes = np.concatenate([[start, goal], np.unique(corners, axis=0)])
    a, b = np.triu_indices(len(nodes), 1)
    shapely.prepare(walls)
    sees = ~shapely.intersects(walls, shapely.linestrings(np.stack([nodes[a], nodes[b]], axis=1)))
    graph = nx.Graph()
    graph.add_nodes_from((0, 1))
    graph.add_weighted_edges_from(zip(a[sees], b[sees], np.hypot(*(nodes[a[sees]] - nodes[b[sees]]).T), strict=True))
    return nx.dijkstra_path_length(graph, 0, 1) if nx.has_path(graph, 0, 1) else np.inf


def least_m(polygons, start, goal):
    """Lower bound of a route's length: it may touch corners and graze along walls."""
    walls = shapely.union_all(polygons)
    return shortest_m(walls.buffer(-1e-6), walls, start, goal)


def most_m(polygons, start, goal, clearance_m=0.012):
    """Length of a route that keeps a little more than the clearance off all walls."""
    walls = shapely.union_all(polygons)
    wide = walls.buffer(clearance_m, join_style="mitre")
    return shortest_m(walls.buffer(clearance_m - 5e-4, join_style="mitre"), wide, start, goal)
