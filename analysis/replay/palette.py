"""256 colours for an animation: the commonest ones as they are, so that plain areas keep theirs."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from scipy.spatial import cKDTree

EXACT = 96  # of the 256
COARSE = 4  # step between the values of red, green and blue for which the nearest colour is looked up
Pixels = NDArray[np.uint8]  # [height, width, 3]


class Palette:
    """Colours that suit some pixels, and all others as far as the nearest colour does."""

    def __init__(self, pixels: Pixels) -> None:
        found, counts = np.unique(_packed(pixels), return_counts=True)
        common = found[np.argsort(counts)[::-1][:EXACT]]
        exact = np.stack([common >> 16 & 255, common >> 8 & 255, common & 255], axis=1).astype(np.uint8)
        rest = pixels[~np.isin(_packed(pixels), common)]
        self.colours = np.concatenate([exact, _chosen(rest, 256 - EXACT)])
        levels = np.arange(0, 256, COARSE) + COARSE // 2
        grid = np.stack(np.meshgrid(levels, levels, levels, indexing="ij"), axis=-1).reshape(-1, 3)
        nearest = cKDTree(self.colours).query(grid)[1].astype(np.uint8).reshape(3 * (len(levels),))
        for axis in range(3):
            nearest = nearest.repeat(COARSE, axis)
        self._index = nearest.ravel()  # by packed colour
        self._index[common] = np.arange(len(common))

    def image(self, pixels: Pixels) -> Image.Image:
        """These pixels as an image with this palette."""
        image = Image.fromarray(self._index[_packed(pixels)])
        image.putpalette(self.colours.ravel().tolist())
        return image


def _packed(pixels: Pixels) -> NDArray[np.uint32]:
    """Each colour as one number."""
    red, green, blue = (pixels[..., i].astype(np.uint32) for i in range(3))
    return np.asarray(red << 16 | green << 8 | blue, dtype=np.uint32)


def _chosen(pixels: Pixels, count: int) -> Pixels:
    """At most so many colours that suit pixels [k,3]."""
    if not len(pixels):
        return np.zeros((0, 3), np.uint8)
    chosen = Image.fromarray(pixels[None]).quantize(count, method=Image.Quantize.MEDIANCUT).getpalette()
    return np.array(chosen, np.uint8).reshape(-1, 3)[:count]
