"""Reads run folders: tables for pandas, and pictures."""

from analysis.loading import Run, load_run

__all__ = ["Run", "load_run"]
