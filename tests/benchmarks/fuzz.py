"""Damage files of every kind that Fedmule reads, and see that each is refused with a message, or read.

    python tests/benchmarks/fuzz.py                       # some hundreds, as in the tests
    python tests/benchmarks/fuzz.py --count 20000 --seed 7 --keep DIR

A command must end with a status, never with a traceback; bad input (status 2) must name the file. What fails is printed
once per kind of failure, and kept in DIR.
"""

from __future__ import annotations

import argparse
import bz2
import contextlib
import gzip
import io
import json
import lzma
import os
import random
import shutil
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

FORMATS = Path(__file__).parents[1] / "reference" / "formats"
LONGEST = 4000  # bytes of a file before it is packed
STATUSES = {0, 1, 2, 3}

GPX = b"""<?xml version="1.0"?><gpx version="1.1" xmlns="http://www.topografix.com/GPX/1/1"><trk><trkseg>
<trkpt lat="47.0" lon="8.0"><time>2020-01-01T00:00:00Z</time></trkpt>
<trkpt lat="47.001" lon="8.0"><time>2020-01-01T00:01:00Z</time></trkpt></trkseg></trk></gpx>"""
TRACK = json.dumps(
    {
        "type": "Feature",
        "properties": {"coordTimes": ["2020-01-01T00:00:00Z", "2020-01-01T00:01:00Z"], "id": "a"},
        "geometry": {"type": "LineString", "coordinates": [[8.0, 47.0], [8.001, 47.0]]},
    }
).encode()
TOWN = json.dumps(
    {
        "type": "FeatureCollection",
        "features": [
            {
                "type": "Feature",
                "properties": {"building": "yes"},
                "geometry": {"type": "Polygon", "coordinates": [[[10, 10], [30, 10], [30, 30], [10, 10]]]},
            }
        ],
    }
).encode()
SCENARIO = b"""format = 2
[clients]
count = 8
mobility = { kind = "squads", squads = 2, speed_mps = [0.5, 1.5] }
[radio]
kind = "zigbee"
shadowing = { db = 6, distance_m = 25 }
[learning]
algorithm = { kind = "ditto", strength = 0.1 }
partition = { kind = "dirichlet", alpha = 0.5 }
[stop]
visits = 3
"""
STUDY = b"""scenarios = ["smoke"]
seeds = 2
[vary]
"vehicle.speed_mps" = [1, 2]
"vehicle.walk" = ["tour", "degree"]
[set]
"stop.visits" = 2
"""
EXPERIMENT = b"""title = "t"
seeds = 1
[[rows]]
cell = "a"
scenario = "smoke"
set = { "stop.visits" = 2 }
[[columns]]
name = "b"
set = { "learning.algorithm" = "local" }
tune = { "learning.step_size" = [0.1, 0.3] }
"""
TABLE = b"x,y,label,client\n" + b"".join(f"{i},{i % 7}.5,{'ab'[i % 2]},{i % 4}\n".encode() for i in range(40))
CONTACTS = b"a,b,start,end\n0,1,0,10\n1,2,5,25.5\n0,2,30,31\n"


@dataclass(frozen=True)
class Reader:
    """A command, the files that it is given, and which of them are damaged."""

    files: dict[str, bytes]  # by name; the first is damaged
    command: Callable[[Path], list[str]]  # given the damaged file
    program: Callable[[list[str]], int] | None = None  # instead of fedmule's


def scenario_with(key: str, **table: str) -> Callable[[Path], list[str]]:
    """`fedmule check` of a scenario whose key names the file."""
    rest = "".join(f", {name} = {value}" for name, value in table.items())

    def command(file: Path) -> list[str]:
        return ["check", "smoke", "--set", "terrain.obstacles=[]", "--set", f'{key}={{ path = "{file}"{rest} }}']

    return command


def readers() -> Iterator[Reader]:
    """Every kind of file, as it should be."""
    for file in sorted(FORMATS.iterdir()):
        if file.suffix != ".gz":
            yield from packed(file.name, file.read_bytes()[:LONGEST], trace, contacts)
    for name, content in {
        "a.gpx": GPX,
        "a.geojson": TRACK,
        "a.csv": b"node,t,x,y\n0,0,1,2\n0,5,3,4\n1,0,0,0\n",
    }.items():
        yield from packed(name, content, trace, contacts, scenario_with("clients.mobility", kind='"trace"'))
    yield from packed("list.csv", CONTACTS, scenario_with("clients.mobility", kind='"contacts"'))
    yield from packed("town.geojson", TOWN, lambda file: ["check", "smoke", "--set", f'terrain.obstacles="{file}"'])
    for suffix, content in (("csv", TABLE), ("csv.gz", gzip.compress(TABLE))):
        yield Reader({f"data.{suffix}": content}, run_on)
    card = b'features = ["x", "y"]\nlabel = "label"\nclient = "client"\nclasses = ["a", "b"]\n'
    yield Reader({"data.card.toml": card, "data.csv": TABLE}, lambda file: run_on(file.with_name("data.csv")))
    for name, content in {"data.npz": npz(), "data.parquet": parquet()}.items():
        yield Reader({name: content}, run_on)
    yield Reader({"s.toml": SCENARIO}, lambda file: ["check", str(file)])
    yield Reader({"study.toml": STUDY}, lambda file: [str(file)], plan)
    yield Reader({"e.toml": EXPERIMENT}, lambda file: ["paper", str(file), "--report"])
    for name, content in run_files().items():
        others = {other: there for other, there in run_files().items() if other != name}
        for command in (["replay"], ["report", "--formats", "png"], ["verify"], ["check"]):  # check reads scenario.toml
            if command != ["replay"] or not name.startswith("run/models"):
                yield Reader({name: content, **others}, in_run(command))
        if name.startswith("run/models"):
            yield Reader({name: content, **others, "s.csv": samples()}, in_run(["predict"], "s.csv"))
    for name, content in study_files().items():
        others = {other: there for other, there in study_files().items() if other != name}
        for command in (["replay"], ["verify"]):
            yield Reader({name: content, **others}, in_run(command))


def plan(words: list[str]) -> int:
    """Plan a study, and run nothing."""
    from fedmule.simulator.errors import UserError
    from fedmule.simulator.studies.plan import load_study_file, plan_study

    try:
        plan_study(load_study_file(Path(words[0])))
    except UserError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    return 0


def trace(file: Path) -> list[str]:
    return ["trace", str(file)]


def contacts(file: Path) -> list[str]:
    return ["contacts", str(file), "--range-m", "50", "--out", str(file.parent / "found.csv")]


def run_on(file: Path) -> list[str]:
    dataset = f'learning.dataset={{ kind = "file", path = "{file}" }}'
    return ["run", "smoke", "--quiet", "--out", str(file.parent / "out"), "--set", dataset, "--set", "stop.visits=1"]


def in_run(command: list[str], *more: str) -> Callable[[Path], list[str]]:
    def build(file: Path) -> list[str]:
        root = file
        while root.name != "run":
            root = root.parent
        return [command[0], str(root), *(str(root.parent / name) for name in more), *command[1:]]

    return build


def packed(name: str, content: bytes, *commands: Callable[[Path], list[str]]) -> Iterator[Reader]:
    for suffix, pack in {"": bytes, ".gz": gzip.compress, ".xz": lzma.compress, ".bz2": bz2.compress}.items():
        for command in commands:
            yield Reader({name + suffix: pack(content)}, command)


def npz() -> bytes:
    import numpy as np

    content = io.BytesIO()
    draws = np.random.default_rng(0)
    np.savez(content, features=draws.normal(size=(40, 3)), label=np.arange(40) % 2, client=np.arange(40) % 12)
    return content.getvalue()


def parquet() -> bytes:
    import pandas as pd

    content = io.BytesIO()
    pd.read_csv(io.BytesIO(TABLE)).to_parquet(content)
    return content.getvalue()


def study_files() -> dict[str, bytes]:
    """The files of a study, without its runs."""
    if not STUDY_FILES:
        from fedmule.simulator import api

        with tempfile.TemporaryDirectory() as scratch:
            values, few = {"vehicle.speed_mps": [1, 2]}, {"stop.visits": 2}
            folder = api.study("smoke", values, seeds=1, set=few, out=f"{scratch}/s", quiet=True, jobs=1).folder
            STUDY_FILES.update(
                {f"run/{name}": (folder / name).read_bytes() for name in ("index.parquet", "study.toml")}
            )
    return STUDY_FILES


def samples() -> bytes:
    return b",".join(b"f%d" % i for i in range(60)) + b"\n" + b",".join([b"0.5"] * 60) + b"\n"


RUN: dict[str, bytes] = {}
STUDY_FILES: dict[str, bytes] = {}


def run_files() -> dict[str, bytes]:
    """The files of a finished run, by their names."""
    if not RUN:
        from fedmule.simulator import api

        with tempfile.TemporaryDirectory() as scratch:
            folder = api.run("smoke", {"stop.visits": 3}, out=f"{scratch}/run", quiet=True).folder
            RUN.update(
                {f"run/{f.relative_to(folder)}": f.read_bytes() for f in sorted(folder.rglob("*")) if f.is_file()}
            )
    return RUN


def damaged(content: bytes, draws: random.Random) -> bytes:
    """Flip bits, cut, remove and insert, a few times."""
    found = bytearray(content)
    for _ in range(draws.choice([1, 1, 2, 5])):
        if not found:
            break
        chance, at = draws.random(), draws.randrange(len(found))
        if chance < 0.4:
            found[at] ^= 1 << draws.randrange(8)
        elif chance < 0.55:
            del found[at:]
        elif chance < 0.75:
            del found[at : at + draws.randrange(1, 20)]
        else:
            odd = (b"\x00", b"nan", b"1e400", b"-1", b"\xff\xfe", b"\n\n", b"<", b'"', b"9" * 400, b"[[", b"=", b"{}")
            found[at:at] = draws.choice(odd)
    return bytes(found)


def failure(reader: Reader, draws: random.Random, folder: Path) -> str | None:
    """Damage the first file of a reader and run its command; what went wrong, if anything did."""
    from fedmule.simulator.cli import main

    program = reader.program or main
    shutil.rmtree(folder, ignore_errors=True)
    first = next(iter(reader.files))
    for name, content in reader.files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(damaged(content, draws) if name == first else content)
    err = io.StringIO()
    before = Path.cwd()
    os.chdir(folder)
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(err), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            status = program(reader.command(folder / first))
    except SystemExit as end:
        return f"ended with {end.code}: {err.getvalue()[-200:]}"
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        return f"{type(error).__name__} in {where.name}, {Path(where.filename).name}: {str(error)[:80]}"
    finally:
        os.chdir(before)
    if status not in STATUSES:
        return f"status {status}"
    if status == 2 and not err.getvalue().strip():
        return "bad input without a message"
    if "Traceback" in err.getvalue():
        return f"a traceback: {err.getvalue()[-200:]}"
    return None


def fuzz(count: int, seed: int, keep: Path | None = None) -> dict[str, str]:
    """Damage and read this many files; the first of each kind of failure, with what was read."""
    draws, every = random.Random(seed), list(readers())
    found: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "here"
        for i in range(count):
            reader = every[i] if i < len(every) else draws.choice(every)
            wrong = failure(reader, draws, folder)
            if wrong is not None and wrong not in found:
                found[wrong] = f"{next(iter(reader.files))}: {reader.command(Path('/run'))[0]}"
                if keep is not None:
                    shutil.copytree(folder, keep / str(len(found)))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=600)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", type=Path)
    given = parser.parse_args()
    found = fuzz(given.count, given.seed, given.keep)
    for wrong, what in found.items():
        print(f"{what}: {wrong}")
    print(f"{given.count} damaged files, {len(found)} kinds of failure")
    raise SystemExit(bool(found))


if __name__ == "__main__":
    main()
