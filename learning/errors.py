"""Errors of learning, with messages for the person at the keyboard."""

from __future__ import annotations

# What some algorithms need of a model; for those of the program `fedmule check` knows it without building them.
TWO_LAYERS = "needs a model with at least two layers, a body and a head; learning.model has one"
FEATURES = "needs a model that gives the features below its last layer, such as mlp"


class DataError(ValueError):
    """Data are missing or cannot be used; the message says which and what to do."""


class MemoryShortError(Exception):
    """The clients' models and data do not fit on the device; the message says what to reduce."""


class ReplayError(Exception):
    """A replay differs from the recorded run; the message says where."""
