"""Radios: one file each."""
