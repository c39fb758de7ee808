"""Keys of the clients and of groups of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, model_validator

from fedmule.simulator.errors import Problem
from fedmule.simulator.scenario.keys import Count, NotNegative, OneOrSpan, OwnClass, Part, Positive, Share, key, ordered
from fedmule.simulator.scenario.mobility import ContactsMobility, Mobility, MobilityKeys
from fedmule.simulator.scenario.radio import PhysicalRadio

if TYPE_CHECKING:
    from fedmule.simulator.scenario import Scenario


class Group(Part):
    count: Count = Field(description="number of clients in the group")
    name: Annotated[str, Field(pattern=r"^[^\x00-\x1f\x7f]*$")] = key("", "its name in results; by default its number")
    mobility: Mobility | None = key(None, "how they move; by default as clients.mobility")
    compute_flops_per_s: Positive | None = key(
        None, "floating-point operations per second of their devices; by default clients.compute_flops_per_s"
    )
    site: Annotated[int, Field(ge=0)] | None = key(
        None, "the site to which all of them belong: 0, 1, …; by default their squads, or where they start, decide"
    )
    radio_gain_db: float = key(0.0, "how much weaker than `radio` theirs is: 0, or less than 0, dB")

    def rules(self, at: str, scenario: Scenario) -> Iterator[Problem]:
        """Check the movement, and that a weaker radio is one that can be weaker."""
        if self.mobility is not None:
            yield from _rules_of(self.mobility, f"{at}.mobility", self.count, scenario)
        if self.radio_gain_db > 0:
            message = (
                "must be 0 or less: a link is as good as its weaker direction, so more power at one end is no help"
            )
            yield Problem(f"{at}.radio_gain_db", message, self.radio_gain_db)
        elif self.radio_gain_db < 0 and not isinstance(scenario.radio, PhysicalRadio | OwnClass):
            message = (
                f'must be 0 for radio = "{scenario.radio.kind}", which has no link budget: any loss cuts its links'
            )
            yield Problem(f"{at}.radio_gain_db", message, self.radio_gain_db)


@dataclass(frozen=True)
class Division:
    """A group of clients with every key that it has or takes from [clients]."""

    label: str  # its name or number; "" where there are no groups
    count: int
    mobility: Mobility
    mobility_key: str  # where that stands, dotted
    compute_flops_per_s: float
    site: int | None = None
    radio_gain_db: float = 0.0


class Clients(Part):
    count: Count = key(20, "number of clients; with groups their sum, and may be left out")
    mobility: Mobility = key("squads", "how they move")
    report_period_s: Positive = key(10.0, "time between a client's satellite reports of its position, s")
    report_error_m: NotNegative = key(2.0, "standard deviation of a reported position along each axis, m")
    report_stagger: bool = key(True, "whether each reports at moments of its own; false: all at once")
    report_delay_s: OneOrSpan = key((0.0, 0.0), "time until a report arrives: a number, or drawn from [least, most], s")
    report_loss: Annotated[float, Field(ge=0, lt=1)] = key(0.0, "share of the reports that never arrive")
    report_bytes: Annotated[int, Field(ge=0)] = key(50, "bytes of a report, counted apart from those of the radio")
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
    groups: Annotated[tuple[Group, ...], Field(strict=False)] | None = key(
        None, "tables [[clients.groups]]: clients that move, compute or send differently, numbered group after group"
    )

    @model_validator(mode="before")
    @classmethod
    def _add_up(cls, value: Any) -> Any:
        """Count the clients of the groups where their number is not given."""
        groups = value.get("groups") if isinstance(value, dict) else None
        if not isinstance(groups, list | tuple) or not groups or "count" in value:
            return value
        counts = [group.get("count") if isinstance(group, dict) else getattr(group, "count", None) for group in groups]
        return {**value, "count": sum(counts)} if all(type(n) is int and n > 0 for n in counts) else value

    @property
    def contact_list(self) -> ContactsMobility | None:
        """Return the keys of the list that has their contacts; None if they have positions."""
        part: Part = self.mobility
        return part if isinstance(part, ContactsMobility) else None

    def divisions(self) -> tuple[Division, ...]:
        """Return the groups in order; all clients as one where there are none."""
        usual = ("clients.mobility", self.mobility)
        if self.groups is None:
            return (Division("", self.count, usual[1], usual[0], self.compute_flops_per_s),)
        found = []
        for i, group in enumerate(self.groups):
            where, mobility = usual if group.mobility is None else (f"clients.groups[{i}].mobility", group.mobility)
            flops = group.compute_flops_per_s or self.compute_flops_per_s
            label = group.name or str(i)
            found.append(Division(label, group.count, mobility, where, flops, group.site, group.radio_gain_db))
        return tuple(found)

    def rules(self, at: str, scenario: Scenario) -> Iterator[Problem]:
        """Check that somebody is there from the start, and that groups add up."""
        yield from ordered(f"{at}.report_delay_s", self.report_delay_s)
        if self.late >= self.count:
            yield Problem(f"{at}.late", f"must be less than the number of clients, {self.count}", self.late)
        if self.training == "between_contacts" and scenario.learning.server == "star":
            message = 'must be "at_contact" with learning.server = "star": there is no time between its rounds'
            yield Problem(f"{at}.training", message, self.training)
        if self.groups is None:
            yield from _rules_of(self.mobility, f"{at}.mobility", self.count, scenario, grouped=False)
            return
        if not self.groups:
            yield Problem(f"{at}.groups", "must have at least one group, or be left out", [])
            return
        total = sum(group.count for group in self.groups)
        if self.count != total:
            message = f"must be the sum of the groups, {total}, or be left out"
            yield Problem(f"{at}.count", message, self.count)
        labels = Counter(division.label for division in self.divisions())
        sites = {group.site for group in self.groups if group.site is not None}
        for i, group in enumerate(self.groups):
            where = f"{at}.groups[{i}]"
            if labels[group.name] > 1:
                yield Problem(f"{where}.name", "must differ from the names and numbers of other groups", group.name)
            if group.site is not None and group.site >= len(sites):
                message = f"must be less than {len(sites)}, the number of sites given: they are numbered from 0 on"
                yield Problem(f"{where}.site", message, group.site)
            if group.mobility is None:
                for problem in _rules_of(self.mobility, f"{at}.mobility", group.count, scenario):
                    yield replace(problem, message=f"{problem.message} ({where} has no mobility of its own)")


def _rules_of(mobility: Part, at: str, count: int, scenario: Scenario, grouped: bool = True) -> Iterator[Problem]:
    """What is wrong with a mobility model for this many clients; the user's own say it when they are made."""
    if isinstance(mobility, MobilityKeys):
        if grouped and mobility.redraws:
            message = "cannot be that of a group: it redraws the positions of all clients"
            yield Problem(f"{at}.kind", message, mobility.kind)
            return
        yield from mobility.rules_for(at, count, scenario)
