"""fedmule export: write what a run has learnt as an ONNX file."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from fedmule.simulator.commands import arguments


def add(commands: Any) -> None:
    """The command `export`."""
    export = commands.add_parser(
        "export",
        help="write what a run has learnt as an ONNX file",
        description="Write the token of a finished run, or a client's personal model, as an ONNX file, for programs "
        "without Python. It takes samples as they are in the data and returns a score per class, with the client's "
        "prior where the run had one. Needs: pip install 'fedmule[onnx]'.",
        epilog=arguments.examples("export runs/warzone client3.onnx --client 3", "export runs/warzone token.onnx"),
    )
    arguments.add_model(export)
    export.add_argument("file", metavar="FILE", help="where to write, ending in .onnx")
    export.set_defaults(command=_export)


def _export(given: Any) -> int:
    from fedmule.simulator.errors import UserError
    from fedmule.simulator.runs.onnx_file import export_model

    if not given.file.endswith(".onnx"):
        raise UserError(f"{given.file}: must end in .onnx")
    folder, file = Path(given.run), Path(given.file)
    export_model(folder, file, given.client, given.token or None, given.allow_plugins)
    sys.stdout.write(f"{file}: {arguments.which_model(given)} of {folder}, {file.stat().st_size / 1e3:.1f} kB\n")
    return 0
