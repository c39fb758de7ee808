"""Pages of one file each: runs replayed on their maps, a study as a table and heat maps; and pictures of runs."""

from fedmule.analysis.replay.placing import NoTrackError
from fedmule.analysis.replay.run_page import run_page
from fedmule.analysis.replay.study_page import study_page

__all__ = ["NoTrackError", "run_page", "study_page"]
