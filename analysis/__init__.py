"""Reading run folders and studies: tables, measures and pictures of what happened."""

from fedmule.analysis.loading import Run, load_run
from fedmule.analysis.studies import Study, load_study

__all__ = ["Run", "Study", "load_run", "load_study"]
