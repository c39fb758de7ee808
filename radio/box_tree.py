"""A tree of boxes: which of many polygons a ray can meet, in compiled loops."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedmule.mobility.compiler import inner

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

AT_ONCE = 4  # boxes in a leaf
MARGIN_M = 1e-6  # by which a ray may miss a box and still counts, whatever rounding does


class BoxTree(NamedTuple):
    """Nodes of a tree, each before those below it."""

    boxes: FloatArray  # [t,4] lowest x and y, highest x and y of all below a node
    skip: IntArray  # [t] the node that follows all below this one
    held: IntArray  # [t,2] the boxes in a leaf: from the first up to the second


def box_tree(boxes: FloatArray) -> tuple[IntArray, BoxTree]:
    """Return an order of boxes [n,4], and a tree over the boxes in that order."""
    order: list[int] = []
    nodes: list[FloatArray] = []
    skip: list[int] = []
    held: list[tuple[int, int]] = []
    waiting = [np.arange(len(boxes))] if len(boxes) else []
    above: list[tuple[int, int]] = []  # nodes that are not complete, and how many were waiting below each
    while waiting:
        ids = waiting.pop()
        here = boxes[ids]
        nodes.append(np.concatenate([here[:, :2].min(axis=0), here[:, 2:].max(axis=0)]))
        if len(ids) <= AT_ONCE:
            held.append((len(order), len(order) + len(ids)))
            order.extend(ids.tolist())
            skip.append(len(nodes))
        else:
            held.append((0, 0))
            skip.append(-1)
            above.append((len(nodes) - 1, len(waiting)))
            middles = here[:, :2] + here[:, 2:]
            axis = int(np.argmax(np.ptp(middles, axis=0)))
            by_middle = ids[np.argsort(middles[:, axis], kind="stable")]
            waiting += [by_middle[len(ids) // 2 :], by_middle[: len(ids) // 2]]
        while above and len(waiting) == above[-1][1]:
            skip[above.pop()[0]] = len(nodes)
    return np.array(order, dtype=np.int64), BoxTree(
        np.array(nodes).reshape(-1, 4), np.array(skip, dtype=np.int64), np.array(held, dtype=np.int64).reshape(-1, 2)
    )


@inner
def may_meet(box: FloatArray, ax: float, ay: float, bx: float, by: float) -> bool:
    """Whether a ray between two positions passes a box, or nearly does."""
    if max(ax, bx) < box[0] or max(ay, by) < box[1] or min(ax, bx) > box[2] or min(ay, by) > box[3]:
        return False
    wide, high = abs(bx - ax), abs(by - ay)
    off = (bx - ax) * (box[1] + box[3] - ay - by) - (by - ay) * (box[0] + box[2] - ax - bx)  # twice that of the middle
    return bool(abs(off) <= (box[2] - box[0]) * high + (box[3] - box[1]) * wide + MARGIN_M * (wide + high))
