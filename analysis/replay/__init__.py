"""Interactive pages: a run replayed on its map, a study as a table and heat maps. One file each, no network."""

from fedmule.analysis.replay.placing import NoTrackError
from fedmule.analysis.replay.run_page import run_page
from fedmule.analysis.replay.study_page import study_page

__all__ = ["NoTrackError", "run_page", "study_page"]
