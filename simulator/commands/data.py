"""fedmule data: fetch or import a data set, or draw a partition of it."""

from __future__ import annotations

import sys
from typing import Any

from fedmule.simulator.commands import arguments


def add(commands: Any) -> None:
    """The command `data`."""
    data = commands.add_parser(
        "data",
        help="fetch or import a data set, or draw a partition of it",
        description="Fetch a public data set or import its files; or draw how a partition divides one among clients.",
    )
    data.add_argument("name", metavar="NAME", help="mnist, fashion_mnist or cifar10; with --partition any data set")
    data.add_argument("--from", dest="folder", metavar="DIR", help="take the files from this folder, not the network")
    data.add_argument(
        "--partition",
        metavar="KIND",
        help="draw what each client gets with labels, dirichlet, iid, column or '{ kind = \"dirichlet\", alpha = 1 }'",
    )
    data.add_argument("--clients", type=int, default=20, metavar="N", help="with --partition: how many (default 20)")
    data.add_argument(
        "--seed", type=arguments.seed, default=0, metavar="N", help="with --partition: the seed (default 0)"
    )
    data.add_argument("--out", metavar="PNG", help="with --partition: the picture (default NAME-labels.png)")
    data.set_defaults(command=_data)


def _data(given: Any) -> int:
    from pathlib import Path

    from fedmule.learning.data.image_sets import IMAGE_SETS, fetch, import_from
    from fedmule.learning.errors import DataError
    from fedmule.simulator.errors import UserError
    from fedmule.simulator.runs.progress import Downloads

    if given.partition:
        return _draw_partition(given)
    if given.name not in IMAGE_SETS:
        raise UserError(f"{given.name}: must be one of {', '.join(IMAGE_SETS)}")
    try:
        if given.folder:
            kept = import_from(given.name, Path(given.folder))
        else:
            with Downloads() as progress:
                kept = fetch(given.name, progress)
    except DataError as error:
        raise UserError(str(error)) from None
    sys.stdout.write(f"{given.name}: verified and stored in {kept}\n")
    return 0


def _draw_partition(given: Any) -> int:
    from fedmule.analysis.plots.labels import draw_labels
    from fedmule.simulator.build import build_data, label_counts
    from fedmule.simulator.scenario.load import scenario_of
    from fedmule.simulator.streams import Streams

    keys = [f"learning.dataset={given.name}", f"learning.partition={given.partition}"]
    mobility = ["clients.mobility=static", f"clients.count={given.clients}"]
    scenario = scenario_of({}, [*keys, *mobility], "fedmule data")
    counts = label_counts(build_data(scenario, Streams(given.seed), {}))
    picture = given.out or f"{given.name}-labels.png"
    draw_labels(counts, f"{given.name}, {given.partition}").savefig(picture, dpi=120)
    sizes = counts.sum(axis=1)
    sys.stdout.write(
        f"{len(counts)} clients with {sizes.min()} to {sizes.max()} samples and {(counts > 0).sum(axis=1).min()} to "
        f"{(counts > 0).sum(axis=1).max()} labels each; drawn in {picture}\n"
    )
    return 0
