"""What is wrong with data, in words for the person who has them."""

from __future__ import annotations


class DataError(ValueError):
    """Data that cannot be used, or are not there; the text says which and what to do."""


class MemoryShortError(Exception):
    """The clients' models and data do not fit on the device; the text says what to reduce."""
