"""Samples before they are partitioned."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fedmule.learning.data.client_data import check_features, check_labels
from fedmule.learning.errors import DataError

IntArray = NDArray[np.int64]


@dataclass(frozen=True)
class Samples:
    """N samples, and the client and the recording each belongs to if the data say so.

    Samples of one recording, such as overlapping windows of a signal, are much alike. They stay together: with one
    client, and there in training, validation or test.
    """

    features: NDArray[np.float32]  # [N,f]
    labels: IntArray  # [N] 0 … classes−1
    classes: int
    owner: IntArray | None = None  # [N] 0 … m−1, or None
    shape: tuple[int, ...] = ()  # of one sample, such as (channels, height, width); () for plain features
    recording: IntArray | None = None  # [N] whole numbers, or None if every sample is on its own

    def checked(self) -> Samples:
        """Return the samples converted to the types above from any arrays or lists; raise a DataError if invalid."""
        features, labels = np.asarray(self.features), np.asarray(self.labels)
        if features.dtype.kind not in "biuf":
            raise DataError(f"features must be numbers, not {features.dtype}")
        with np.errstate(over="ignore"):  # values too large for float32 become inf, which is reported below
            features = np.ascontiguousarray(features, dtype=np.float32)
        check_features(features, self.shape)
        check_labels(labels, len(features), self.classes, labels.dtype.kind in "biu")
        owner = _numbers("owner", self.owner, len(labels))
        recording = _numbers("recording", self.recording, len(labels))
        if owner is not None and recording is not None:
            pairs = np.unique(np.stack([recording, owner]), axis=1)[0]
            if (several := pairs[1:][pairs[1:] == pairs[:-1]]).size:
                row = int(np.argmax(recording == several[0]))
                raise DataError(f"the recording of row {row} belongs to several clients; it must belong to one")
        return replace(self, features=features, labels=labels.astype(np.int64), owner=owner, recording=recording)


def _numbers(name: str, given: IntArray | None, samples: int) -> IntArray | None:
    """Return one number per sample as int64; raise a DataError unless they are whole numbers, 0 or more."""
    if given is None:
        return None
    numbers = np.asarray(given)
    if numbers.shape != (samples,) or numbers.dtype.kind not in "iu" or numbers.min() < 0:
        raise DataError(f"{name} must hold one whole number, 0 or more, for each of the {samples} samples")
    return numbers.astype(np.int64)
