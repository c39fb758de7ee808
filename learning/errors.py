"""Errors of learning, with messages for the person at the keyboard."""

from __future__ import annotations


class DataError(ValueError):
    """Data are missing or cannot be used; the message says which and what to do."""


class MemoryShortError(Exception):
    """The clients' models and data do not fit on the device; the message says what to reduce."""


class ReplayError(Exception):
    """A replay differs from the recorded run; the message says where."""
