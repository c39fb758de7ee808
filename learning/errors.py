"""What is wrong with data, in words for the person who has them."""

from __future__ import annotations


class DataError(ValueError):
    """Data that cannot be used, or are not there; the text says which and what to do."""
