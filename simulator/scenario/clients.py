"""Keys of the clients."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from fedmule.simulator.errors import Problem
from fedmule.simulator.scenario.keys import Count, NotNegative, Part, Positive, Share, key
from fedmule.simulator.scenario.mobility import Mobility

if TYPE_CHECKING:
    from fedmule.simulator.scenario import Scenario


class Clients(Part):
    count: Count = key(20, "number of clients")
    mobility: Mobility = key("squads", "how they move")
    report_period_s: Positive = key(10.0, "time between satellite reports of their positions, s")
    report_error_m: NotNegative = key(2.0, "standard deviation of a reported position along each axis, m")
    late: Annotated[int, Field(ge=0)] = key(0, "number of clients (the last ones) that join late")
    late_at: Share = key(0.5, "share of the run after which late clients join")
    compute_flops_per_s: Positive = key(1e9, "floating-point operations per second of a client's device")

    training: Literal["at_contact", "between_contacts"] = key(
        "at_contact",
        "when they compute: while the vehicle is with them, or between contacts, on what they got at the last one",
    )
    training_share: Annotated[float, Field(gt=0, le=1)] = key(
        1.0, "between_contacts: share of its processor that a device spends on training"
    )
    max_steps: Count = key(40, "between_contacts: local steps that a client takes at most between two contacts")

    def rules(self, at: str, scenario: Scenario) -> Iterator[Problem]:
        """Check that somebody is there from the start, and that there is time between contacts."""
        if self.late >= self.count:
            yield Problem(f"{at}.late", f"must be less than the number of clients, {self.count}", self.late)
        if self.training == "between_contacts" and scenario.learning.server == "star":
            message = 'must be "at_contact" with learning.server = "star": there is no time between its rounds'
            yield Problem(f"{at}.training", message, self.training)
