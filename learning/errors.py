"""Errors of learning, in words for the person at the keyboard."""

from __future__ import annotations


class DataError(ValueError):
    """Data that cannot be used, or are not there; the text says which and what to do."""


class MemoryShortError(Exception):
    """The clients' models and data do not fit on the device; the text says what to reduce."""


class ReplayError(Exception):
    """The replay of a run did not take the course of the run itself; the text says where it left it."""
