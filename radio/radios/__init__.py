"""Radios, one per file."""
