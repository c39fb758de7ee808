"""Scenario files: every key with its default, unit and meaning; a file of this folder for each table."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from fedmule.simulator.scenario.clients import Clients
from fedmule.simulator.scenario.keys import Count, NotNegative, Part, Positive, Share, key
from fedmule.simulator.scenario.learning import Learning
from fedmule.simulator.scenario.radio import Radio
from fedmule.simulator.scenario.terrain import Terrain
from fedmule.simulator.scenario.vehicle import Vehicle

DEFAULT_VISITS = 300
MOST_VISITS = 10_000  # where only bytes or accuracy would end the run: they may never be reached


class Stop(Part):
    visits: Count | None = key(
        None,
        f"stop after this many visits; by default {DEFAULT_VISITS}, or {MOST_VISITS} beside other limits than time",
    )
    sim_time_s: Positive | None = key(None, "stop at this simulated time, s")
    total_bytes: Count | None = key(None, "stop when this many bytes were on the air")
    accuracy: Share | None = key(None, "stop when personal_test_acc_mean reaches this")

    @model_validator(mode="before")
    @classmethod
    def _always_end(cls, value: Any) -> Any:
        if not isinstance(value, dict) or {"visits", "sim_time_s"} & set(value):
            return value
        return {**value, "visits": MOST_VISITS if value else DEFAULT_VISITS}


class Log(Part):
    track: bool = key(True, "whether to log the movement of vehicle and clients")
    graph_every: Annotated[int, Field(ge=0)] = key(20, "visits between snapshots of the contact graph; 0 for none")
    checkpoint_s: NotNegative = key(60.0, "host seconds between checkpoints, for --resume; 0 for none, s")
    models: bool | None = key(
        None, "whether models are kept at the end; by default if they are smaller than 100 MB, and not in studies"
    )


class Scenario(Part):
    """A complete scenario; everything has a default, so an empty file is valid."""

    format: Literal[2] = key(2, "version of the format of this file")
    name: Annotated[str, Field(pattern=r"^[^\x00-\x1f\x7f]*$")] = key("", "name of the run; by default the file's")
    seed: Annotated[int, Field(ge=0)] = key(0, "same seed, same bits")
    terrain: Terrain = key(Terrain(), "the ground")
    vehicle: Vehicle = key(Vehicle(), "what carries the token")
    clients: Clients = key(Clients(), "the devices it visits")
    radio: Radio = key("wifi_direct", "how they communicate")
    learning: Learning = key(Learning(), "what they learn and how")
    stop: Stop = key(Stop(), "when the run ends: at whichever comes first")
    log: Log = key(Log(), "what is logged beside the contacts")
