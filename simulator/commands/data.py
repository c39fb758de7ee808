"""fedmule data: list, fetch or import data sets, or draw a partition of one."""

from __future__ import annotations

import sys
from typing import Any

from fedmule.simulator.commands import arguments


def add(commands: Any) -> None:
    """The command `data`."""
    data = commands.add_parser(
        "data",
        help="list, fetch or import data sets, or draw a partition of one",
        description="List the public data sets; print the card of one, and fetch or import its files if it is not in "
        "the box; or draw how a partition divides one among clients.",
        epilog=arguments.examples(
            "data", "data mnist", "data mnist --from FOLDER", "data digits --partition dirichlet"
        ),
    )
    data.add_argument("name", nargs="?", metavar="NAME", help="a public data set; with --partition any data set")
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
    from fedmule.learning.data.catalogue import PUBLIC, card_text, list_text
    from fedmule.learning.errors import DataError
    from fedmule.simulator.errors import UserError

    if given.name is None:
        if given.partition or given.folder:
            raise UserError("fedmule data: NAME the data set for --partition or --from")
        sys.stdout.write(list_text())
        return 0
    if given.partition:
        return _draw_partition(given)
    if given.name not in PUBLIC:
        raise UserError(f"{given.name}: must be one of {', '.join(PUBLIC)}")
    try:
        stored = _store(given.name, given.folder)
        sys.stdout.write(f"{card_text(given.name)}{stored}\n")
    except DataError as error:
        raise UserError(str(error)) from None
    return 0


def _store(name: str, folder: str | None) -> str:
    """Fetch or import a data set unless it is in the box; return what was done."""
    from pathlib import Path

    from fedmule.learning.data.catalogue import IN_THE_BOX, TO_IMPORT
    from fedmule.learning.data.image_sets import fetch, import_from
    from fedmule.learning.data.smartwatch import import_watch
    from fedmule.learning.errors import DataError
    from fedmule.simulator.runs.progress import Downloads

    files = Path(folder) if folder else None
    if name in IN_THE_BOX:
        if files:
            raise DataError(f"{name} is in the box: there is nothing to import, leave --from out")
        return f"{name}: in the box, nothing to fetch"
    if name in TO_IMPORT:
        kept = import_watch(files)
    elif files:
        kept = import_from(name, files)
    else:
        with Downloads() as progress:
            kept = fetch(name, progress)
    return f"{name}: verified and stored in {kept}"


def _draw_partition(given: Any) -> int:
    from fedmule.analysis.plots.labels import draw_labels
    from fedmule.simulator.build import build_data, label_counts
    from fedmule.simulator.scenario.load import scenario_of
    from fedmule.simulator.streams import Streams

    keys = [f"learning.dataset={given.name}", f"learning.partition={given.partition}"]
    mobility = ["clients.mobility=static", f"clients.count={given.clients}"]
    scenario = scenario_of({"name": "data"}, [*keys, *mobility], "fedmule data")
    counts = label_counts(build_data(scenario, Streams(given.seed), {}))
    picture = given.out or f"{given.name}-labels.png"
    draw_labels(counts, f"{given.name}, {given.partition}").savefig(picture, dpi=120)
    sizes = counts.sum(axis=1)
    sys.stdout.write(
        f"{len(counts)} clients with {sizes.min()} to {sizes.max()} samples and {(counts > 0).sum(axis=1).min()} to "
        f"{(counts > 0).sum(axis=1).max()} labels each; drawn in {picture}\n"
    )
    return 0
