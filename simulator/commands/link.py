"""fedmule link: the link budget of a radio."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from fedmule.simulator.commands import arguments

if TYPE_CHECKING:
    from fedmule.radio.link import Radio


def add(commands: Any) -> None:
    """The command `link`."""
    link = commands.add_parser(
        "link",
        help="print the link budget of a radio",
        description="Print a radio's path loss, SNR, rate, errors and goodput over distance.",
        epilog=arguments.examples("link zigbee", "link ble --distances 1,10,50 --set tx_power_dbm=8 --out ble.csv"),
    )
    link.add_argument("kind", metavar="KIND", help="disc, wifi_direct, zigbee, ble, lora or acoustic")
    link.add_argument(
        "--distances", type=arguments.distances, metavar="1,10,100", help="in metres (default: up to the range)"
    )
    link.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", dest="overrides",
        help="set a key of the radio's table, such as range_m=80 or propagation.exponent=2.5; may be repeated",
    )  # fmt: skip
    link.add_argument("--out", metavar="CSV", help="write the table here, and a picture of it beside it")
    link.add_argument("--plot", metavar="PNG", help="draw the picture here")
    link.set_defaults(command=_link)


def _link(given: Any) -> int:
    from pathlib import Path

    import numpy as np

    from fedmule.analysis.result_tables import as_text
    from fedmule.radio.budget import as_lines, usual_distances, write_csv

    radio = _radio_of(given.kind, given.overrides)
    budget = radio.budget(np.array(given.distances or usual_distances(radio)))
    delay_s = float(radio.delay_s(np.array([radio.range_m]))[0])
    sys.stdout.write(
        f"{as_text(as_lines(radio, budget))}\n\n{given.kind} reaches {radio.range_m:.6g} m; every contact takes "
        f"{radio.setup_s:g} s to set up, and at that distance {delay_s:.4g} s until the last byte is usable\n"
    )
    if given.out:
        write_csv(Path(given.out), budget)
        sys.stdout.write(f"written to {given.out}\n")
    picture = given.plot or (given.out and str(Path(given.out).with_suffix(".png")))
    if picture:
        from fedmule.analysis.plots.link import draw_link

        near = min([d for d in budget.distance_m if d > 0], default=1.0)
        far = max(radio.range_m, budget.distance_m.max(), 2 * near)
        fine = radio.budget(np.geomspace(near, far, 400))
        draw_link(fine, f"{given.kind}, {radio.range_m:.4g} m", radio.level).savefig(picture, dpi=120)
        sys.stdout.write(f"drawn in {picture}\n")
    return 0


def _radio_of(kind: str, overrides: Sequence[str]) -> Radio:
    """The radio of that kind, with keys of its table set as KEY=VALUE."""
    from fedmule.simulator.errors import UserError
    from fedmule.simulator.scenario import Scenario
    from fedmule.simulator.scenario.load import scenario_of
    from fedmule.simulator.scenario.messages import kinds_of
    from fedmule.simulator.scenario.plugins import load_plugins
    from fedmule.simulator.streams import Streams
    from fedmule.simulator.world import build_radio

    kinds = list(kinds_of(Scenario, "radio"))
    if kind not in kinds:
        raise UserError(f"fedmule link {kind}: no such radio; must be one of {', '.join(kinds)}")
    scenario = scenario_of({"radio": {"kind": kind}}, [f"radio.{o}" for o in overrides], f"fedmule link {kind}")
    return build_radio(scenario, Streams(scenario.seed), load_plugins(scenario, allowed=False))
