"""Arrays embedded in a page: differences, split into byte planes, deflated, as base64."""

from __future__ import annotations

import base64
import zlib
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass
class Arrays:
    """Named arrays to embed in a page; arrays.js reads them."""

    layout: list[dict[str, Any]] = field(default_factory=list)  # name, type, length, whether differences
    _parts: list[bytes] = field(default_factory=list)

    def add(self, name: str, values: NDArray[Any], differences: bool = False) -> None:
        """Add an array; stored as differences of neighbours it is smaller if values ascend or change little.

        Differences of integers wrap around and are exact; those of float64 are exact only for whole numbers.
        """
        values = np.ascontiguousarray(values).astype(values.dtype.newbyteorder("<")).ravel()
        entry = {"name": name, "type": values.dtype.name, "length": len(values), "differences": differences}
        self.layout.append(entry)
        self._parts.append(packed(values, differences))

    def text(self) -> str:
        """All arrays as base64."""
        return base64.b64encode(deflated(b"".join(self._parts))).decode("ascii")


def deflated(content: bytes) -> bytes:
    """Compress at zlib's default level: the highest takes ten times as long to save 1 %."""
    return zlib.compress(content, 6)


def packed(values: NDArray[Any], differences: bool) -> bytes:
    """Byte planes of an array: all lowest bytes, then all second ones, …, which deflate compresses better."""
    if differences and len(values):
        values = np.diff(values, prepend=np.zeros(1, values.dtype))
    return values.view(np.uint8).reshape(len(values), values.dtype.itemsize).T.tobytes()
