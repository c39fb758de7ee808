"""Samples of the public data sets in the box and of the image sets in the cache."""

from __future__ import annotations

import numpy as np

from fedmule.learning.data import image_sets
from fedmule.learning.data.catalogue import boxed
from fedmule.learning.data.own_file import from_file
from fedmule.learning.data.samples import Samples


def digits() -> Samples:
    """Load the digits in the box: images of 8×8 pixels, scaled to [0, 1]."""
    return from_file(str(boxed("digits")), None, None, None)


def sonar() -> Samples:
    """Load the sonar echoes in the box."""
    return from_file(str(boxed("sonar")), None, None, None)


def images(name: str) -> Samples:
    """Load a cached image set, training and test parts together, with pixels scaled to [0, 1]."""
    pixels, labels = image_sets.load(name)
    features = pixels.reshape(len(pixels), -1).astype(np.float32)
    features /= 255
    return Samples(features, labels.astype(np.int64), 10, shape=pixels.shape[1:])


def mnist() -> Samples:
    """Load MNIST from the cache."""
    return images("mnist")


def fashion_mnist() -> Samples:
    """Load Fashion-MNIST from the cache."""
    return images("fashion_mnist")


def cifar10() -> Samples:
    """Load CIFAR-10 from the cache."""
    return images("cifar10")
