"""Where everybody is on the map of a run: as logged, or on a schematic map."""

from __future__ import annotations

from dataclasses import replace

from fedmule.analysis.loading import Run, has_positions
from fedmule.analysis.replay.schematic import SIZE_M, in_the_middle, schematic_track


class NoTrackError(ValueError):
    """The run has no track to replay."""


def placed(run: Run) -> tuple[Run, tuple[float, float]]:
    """The run with a position for everybody, and the size of its map; a run without positions gets a schematic one."""
    scenario = run.scenario
    if not has_positions(scenario):
        track = schematic_track(int(scenario["vehicle"]["count"]), int(scenario["clients"]["count"]))
        return replace(run, track=track, contacts=in_the_middle(run.contacts, track)), SIZE_M
    server = scenario["learning"]["server"]
    if server != "vehicle":
        why = f'learning.server = "{server}": no vehicle drove'
    elif (run.track["node"] == "vehicle").any():
        width_m, height_m = scenario["terrain"]["size_m"]
        return run, (width_m, height_m)
    elif not scenario["log"]["track"]:
        why = "log.track = false: no positions were logged"
    else:
        why = "it ended before anything was logged"
    raise NoTrackError(f"{run.folder}: cannot be replayed: {why}")
