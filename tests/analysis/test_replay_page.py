"""The replay page in a real browser shows what the run logged."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from browser import OpenTab, Tab
from PIL import Image

from fedmule.analysis import Run, load_run
from fedmule.analysis.replay import run_page
from fedmule.analysis.replay.groups import groups_of
from fedmule.simulator.runs.run import run_scenario
from fedmule.simulator.scenario import Scenario

HOSTILE = "</script><script>window.hacked = 1; alert(1)</script>\"'<img src=x onerror=alert(2)> @@content@@ ünïcødé 🐴"
SCENARIO: dict[str, Any] = {
    "name": HOSTILE,
    "terrain": {
        "size_m": [300, 200],
        "obstacles": [
            {"name": HOSTILE, "polygon": [[120, 60], [180, 60], [180, 140], [120, 140]], "radio_loss_db": 15},
            {
                "name": "<b>wood</b>",
                "polygon": [[20, 20], [80, 20], [50, 60]],
                "stops_movement": False,
                "radio_loss_db": 3,
            },
        ],
        "surfaces": [{"name": "<i>", "polygon": [[0, 150], [300, 150], [300, 170], [0, 170]], "speed_factor": 2.0}],
    },
    "clients": {"count": 8, "mobility": {"kind": "waypoint", "speed_mps": [2.0, 4.0], "pause_s": [0.0, 5.0]}},
    "radio": {"kind": "disc", "range_m": 60, "rate_mbps": 0.02},  # so slow that exchanges take seconds and break
    "learning": {
        "algorithm": {"kind": "rwsadmm", "try_at": 0.0},  # who trains alone sends nothing
        "dataset": {"samples": [20, 60]},
        "evaluate_every": 5,
    },
    "stop": {"visits": 40},
}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("replay") / "run"
    run_scenario(Scenario.model_validate(SCENARIO), str(folder), quiet=True)
    return load_run(folder)


@pytest.fixture(scope="module")
def file(run: Run) -> Path:
    page = run.folder / "replay.html"
    page.write_text(run_page(run), encoding="utf-8")
    return page


def seek(tab: Tab, time_s: float) -> None:
    """Move the slider as a reader would."""
    tab.js(f"(() => {{ const s = document.getElementById('slider'); s.value = '{time_s}';"
           "s.dispatchEvent(new Event('input')); })()")  # fmt: skip
    tab.settle()


def positions(tab: Tab) -> np.ndarray[Any, Any]:
    """Positions of all nodes on the page [nodes, 2], vehicles first; nan if absent."""
    x, y = tab.js("[Array.from(replay.stages[0].history.x, String), Array.from(replay.stages[0].history.y, String)]")
    xy = np.array([x, y], dtype=float).T
    xy[np.isnan(xy[:, 0])] = np.nan
    return xy


def position_of(track: pd.DataFrame, node: str, number: int, time_s: float) -> tuple[float, float]:
    """Position of a node, computed independently from the track's columns."""
    rows = track[(track["node"] == node) & (track["id"] == number)]
    passed = rows[rows["sim_time_s"] <= time_s]
    here = (passed if len(passed) else rows.head(1)).iloc[-1]
    ahead = rows[rows["sim_time_s"] > time_s].head(1)
    if not len(ahead) or np.isnan(here["x_m"]) or np.isnan(ahead["x_m"].iloc[0]):
        return here["x_m"], here["y_m"]
    there = ahead.iloc[0]
    share = max(0.0, (time_s - here["sim_time_s"]) / (there["sim_time_s"] - here["sim_time_s"]))
    return tuple(here[c] + share * (there[c] - here[c]) for c in ("x_m", "y_m"))


def hours(time_s: float) -> str:
    whole = int(time_s)
    return f"{whole // 3600}:{whole // 60 % 60:02}:{whole % 60:02}"


def test_everyone_is_where_the_track_says(run: Run, file: Path, open_tab: OpenTab) -> None:
    tab = open_tab(file)
    end_s = run.track["sim_time_s"].max()
    for time_s in [*np.random.default_rng(0).uniform(0, end_s, 12), 0.0, end_s]:
        seek(tab, time_s)
        nodes = [("vehicle", 0), *(("client", i) for i in range(8))]
        expected = np.array([position_of(run.track, *node, time_s) for node in nodes])
        np.testing.assert_allclose(positions(tab), expected, atol=0.03)  # 10 m/s × half a millisecond, and 5 mm
        assert tab.page.inner_text(".clock") == hours(time_s)
    assert tab.is_clean()


def test_keys_move_time_and_map(run: Run, file: Path, open_tab: OpenTab) -> None:
    tab = open_tab(file)
    end_s = run.track["sim_time_s"].max()
    ends, spans = run.contacts["sim_time_s"].to_numpy(), run.contacts["contact_s"].to_numpy()
    middles = np.sort(ends - spans / 2)
    assert 0 < run.contacts["in_passing"].sum() == len(ends) - 40
    tab.press("ArrowRight")
    assert tab.time_s == pytest.approx(0.01 * end_s)
    tab.press("Shift+ArrowRight")
    assert tab.time_s == pytest.approx(0.11 * end_s)
    tab.press("ArrowLeft")
    assert tab.time_s == pytest.approx(0.10 * end_s)
    tab.press("End")
    assert tab.time_s == pytest.approx(end_s, abs=1e-3)
    tab.press("Home")
    assert tab.time_s == 0
    tab.press(".")
    tab.press(".")
    assert tab.time_s == pytest.approx(middles[1], abs=2e-3)
    begun = int((ends - spans <= middles[1]).sum())
    assert tab.page.inner_text(".visit") == f"contact {begun} of {len(ends)}"
    tab.press(",")
    assert tab.time_s == pytest.approx(middles[0], abs=2e-3)
    tab.press("+")
    assert tab.js("replay.stages[0].view.zoom") == pytest.approx(1.4)
    tab.press("0")
    assert tab.js("replay.stages[0].view.zoom") == pytest.approx(1.0)
    tab.press("?")
    assert tab.page.is_visible("#help")
    tab.press("Escape")
    assert not tab.page.is_visible("#help")
    before = tab.time_s
    tab.press(" ")
    tab.wait(f"replay.player.time > {before} + 1")
    tab.press(" ")
    stopped = tab.time_s
    tab.page.wait_for_timeout(100)
    assert tab.time_s == stopped
    speed = tab.js("replay.player.speed")
    tab.press("ArrowUp")
    assert tab.js("replay.player.speed") > speed
    assert tab.is_clean()


def test_keys_skip_no_contact_during_another(run: Run, tmp_path: Path, open_tab: OpenTab) -> None:
    """A contact of 40 s has its middle before those of others that end before it."""
    contacts = run.contacts.copy()
    contacts.loc[20, "contact_s"] = 40.0
    middles = (contacts["sim_time_s"] - contacts["contact_s"] / 2).to_numpy()
    assert middles[20] < middles[17] < middles[18] < middles[19]
    file = tmp_path / "replay.html"
    file.write_text(run_page(dataclasses.replace(run, contacts=contacts)), encoding="utf-8")
    tab = open_tab(file)
    for middle in np.sort(middles):
        tab.press(".")
        assert tab.time_s == pytest.approx(middle, abs=2e-3)
    for middle in np.sort(middles)[-2::-1]:
        tab.press(",")
        assert tab.time_s == pytest.approx(middle, abs=2e-3)


def test_links_are_those_of_the_contact(run: Run, file: Path, open_tab: OpenTab) -> None:
    tab = open_tab(file)
    assert (run.contacts["delivered"] < run.contacts["active"]).any()  # else lost links are not tested
    exchanging = run.contacts[run.contacts["contact_s"] > 0]  # towards the end nothing is sent
    assert len(exchanging) > 20
    begin, end = run.contacts["sim_time_s"] - run.contacts["contact_s"], run.contacts["sim_time_s"]
    at_once = []
    for row in exchanging.itertuples():
        middle = row.sim_time_s - row.contact_s / 2
        under_way = np.flatnonzero((begin <= middle) & (middle <= end)).tolist()
        assert tab.js(f"replay.stages[0].history.contactsNear({middle}, 0)") == under_way
        at_once.append(len(under_way))
        links = tab.js(f"replay.stages[0].history.exchanges({row.Index})")
        assert [link["client"] for link in links] == list(row.active_ids)
        assert [link["client"] for link in links if link["delivered"]] == list(row.delivered_ids)
        assert row.Index not in tab.js(
            f"replay.stages[0].history.contactsNear({row.sim_time_s - row.contact_s - 0.01}, 0)"
        )
    assert {1, 2} <= set(at_once)  # a contact in passing may be under way when a visit begins
    lost = exchanging[(exchanging["delivered"] < exchanging["active"]) & (exchanging["contact_s"] > 0.1)]
    visit = lost[~lost["in_passing"]].iloc[0]
    seek(tab, visit["sim_time_s"] - visit["contact_s"] / 2)
    seen = tab.page.inner_text(".doing")
    assert seen == f"with client {visit['client']}: {visit['delivered']} of {visit['active']} delivered"
    assert set(tab.js(COLOURS_DRAWN)) == {"delivered", "lost"}
    passing = lost[lost["in_passing"]].iloc[-1]
    middle = passing["sim_time_s"] - passing["contact_s"] / 2
    seek(tab, middle)
    target = run.visits.loc[run.visits.index > passing.name, "client"].iloc[0]
    served = run.contacts.loc[(begin <= middle) & (middle <= end), "client"]
    seen = tab.page.inner_text(".doing")
    assert seen == f"on the way to client {target}, serving {', '.join(map(str, served))} in passing"
    assert "lost" in tab.js(COLOURS_DRAWN)


# The colours of links that occur on the live layer.
COLOURS_DRAWN = """(() => {
  const canvas = document.querySelector(".live");
  const pixels = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
  const wanted = Object.fromEntries(["delivered", "lost"].map((name) => [name,
    replay.stages[0].map.colour(name).match(/[0-9a-f]{2}/g).map((part) => parseInt(part, 16))]));
  return Object.keys(wanted).filter((name) => {
    for (let i = 0; i < pixels.length; i += 4) {
      if (pixels[i + 3] === 255 && wanted[name].every((part, k) => pixels[i + k] === part)) return true;
    }
    return false;
  });
})()"""


def test_a_client_under_the_pointer_shows_its_numbers(run: Run, file: Path, open_tab: OpenTab) -> None:
    tab = open_tab(file)
    evaluated = sorted(run.clients["sim_time_s"].unique())
    seek(tab, (evaluated[3] + evaluated[4]) / 2)
    on_screen = "(({ view, history }) => [view.screenX(history.x[6]), view.screenY(history.y[6])])"
    x, y = tab.js(f"{on_screen}(replay.stages[0])")
    box = tab.page.locator(".live").bounding_box()
    tab.page.mouse.move(box["x"] + x, box["y"] + y)
    tab.settle()
    # another client may stand at the same position
    nearest = int(np.nanargmin(np.hypot(*(positions(tab)[1:] - positions(tab)[6]).T)))
    assert tab.page.inner_text("#client-title") == f"Client {nearest}"
    row = run.clients[(run.clients["sim_time_s"] == evaluated[3]) & (run.clients["client"] == nearest)].iloc[0]
    assert tab.page.inner_text("#client-accuracy") == f"{100 * row['test_acc']:.1f} %"
    shown = {n: tab.page.inner_text(f"#client-{n}") for n in ("visits", "exchanges", "steps", "received")}
    assert int(shown["visits"]) == row["visits"]
    assert int(shown["exchanges"]) == row["participations"]
    assert int(shown["steps"].replace(",", "")) == row["gradient_steps"]
    number, unit = shown["received"].split()
    assert float(number) * {"B": 1, "kB": 1e3, "MB": 1e6}[unit] == pytest.approx(row["bytes_down"], rel=0.01)
    tab.page.mouse.down()
    tab.page.mouse.up()
    tab.page.mouse.move(box["x"] + 2, box["y"] + box["height"] - 2)
    tab.settle()
    assert tab.page.input_value("#client") == str(nearest)  # kept after a click
    assert tab.page.inner_text("#client-title") == f"Client {nearest}"


def test_curves_show_and_set_the_time(run: Run, file: Path, open_tab: OpenTab) -> None:
    tab = open_tab(file)
    box = tab.page.locator("#accuracy-chart").bounding_box()
    left, wide = tab.js("[replay.cards[0].chart.left, replay.cards[0].chart.wide]")
    tab.page.mouse.click(box["x"] + left + 0.6 * wide, box["y"] + 40)
    tab.settle()
    end_s = run.track["sim_time_s"].max()
    assert tab.time_s == pytest.approx(0.6 * end_s, rel=0.01)
    past = run.contacts[run.contacts["sim_time_s"] <= tab.time_s]
    token = past["token_test_acc"].dropna().iloc[-1]
    assert tab.page.inner_text("#personal-now") == f"{100 * past['personal_test_acc_mean'].iloc[-1]:.1f} %"
    assert tab.page.inner_text("#token-now") == f"{100 * token:.1f} %"
    number, unit = tab.page.inner_text("#up-now").split()
    assert float(number) * {"B": 1, "kB": 1e3, "MB": 1e6}[unit] == pytest.approx(past["bytes_up"].sum(), rel=0.01)
    assert tab.is_clean()


def test_mouse_and_fingers_zoom_and_pan(file: Path, open_tab: OpenTab) -> None:
    tab = open_tab(file, has_touch=True)
    box = tab.page.locator(".live").bounding_box()
    x, y = box["x"] + 200, box["y"] + 150
    under = tab.js("replay.stages[0].view.toMap(200, 150)")
    tab.page.mouse.move(x, y)
    tab.page.mouse.wheel(0, -100)
    tab.wait("replay.stages[0].view.zoom > 1.2")
    after = tab.js("replay.stages[0].view.toMap(200, 150)")
    assert after == pytest.approx(under, abs=0.1)  # the position under the pointer stays there
    tab.page.mouse.down()
    tab.page.mouse.move(x + 50, y + 20, steps=4)
    tab.page.mouse.up()
    assert tab.js("replay.stages[0].view.toMap(250, 170)") == pytest.approx(under, abs=3)
    tab.press("0")
    touch = tab.page.context.new_cdp_session(tab.page)
    for kind, apart in (("touchStart", 40), ("touchMove", 60), ("touchMove", 80), ("touchEnd", None)):
        points = [] if apart is None else [{"x": x - apart, "y": y, "id": 0}, {"x": x + apart, "y": y, "id": 1}]
        touch.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})
    tab.settle()
    assert tab.js("replay.stages[0].view.zoom") == pytest.approx(2.0, rel=0.1)


def test_text_from_scenarios_stays_text(file: Path, open_tab: OpenTab) -> None:
    tab = open_tab(file)
    assert tab.page.inner_text("#name") == HOSTILE
    assert tab.page.title() == f"{HOSTILE} · Fedmule"
    assert tab.js("replay.stages[0].map.ground.shapes.map((shape) => shape.name)") == ["<i>", HOSTILE, "<b>wood</b>"]
    assert tab.js("window.hacked") is None
    assert tab.js("document.images.length") == 0
    assert tab.js("document.scripts.length") == 3
    text = file.read_text(encoding="utf-8")
    (content,) = re.findall(r'id="content">(.*?)</script>', text, re.DOTALL)
    assert not set("<>&") & set(content)
    assert json.loads(content)["title"] == HOSTILE
    assert tab.is_clean()


def test_the_page_can_load_nothing(file: Path, open_tab: OpenTab) -> None:
    tab = open_tab(file)
    blocked = tab.js("fetch('http://127.0.0.1:1/').then(() => 'loaded', (error) => error.name)")
    assert blocked == "TypeError"
    assert any("Content Security Policy" in text for text in tab.complaints)
    with pytest.raises(Exception, match=r"unsafe-eval|Content Security Policy"):
        tab.page.add_script_tag(content="window.hacked = 1")
    assert tab.js("window.hacked") is None


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_fits_a_phone(file: Path, open_tab: OpenTab, scheme: str) -> None:
    tab = open_tab(file, 360, 640, is_mobile=True, has_touch=True, color_scheme=scheme)
    assert tab.js("document.scrollingElement.scrollWidth") <= 360
    play, canvas = tab.page.locator("#play").bounding_box(), tab.page.locator(".live").bounding_box()
    assert canvas["y"] + canvas["height"] < play["y"]
    assert play["y"] + play["height"] <= 640  # play is visible without scrolling
    assert canvas["height"] >= 200
    paper = tab.js("getComputedStyle(document.body).backgroundColor")
    tab.page.tap("#theme")
    other = tab.js("getComputedStyle(document.body).backgroundColor")
    brightness = [sum(map(int, re.findall(r"\d+", colour))) for colour in (paper, other)]
    assert (brightness[0] > brightness[1]) == (scheme == "light")
    assert abs(brightness[0] - brightness[1]) > 400


def test_everything_has_a_name(file: Path, open_tab: OpenTab) -> None:
    tab = open_tab(file)
    nameless = """[...document.querySelectorAll("button, select, input, [role=img]")].filter((e) =>
        !(e.getAttribute("aria-label") || e.labels?.length || e.textContent.trim())).map((e) => e.id)"""
    assert tab.js(nameless) == []
    tab.page.keyboard.press("Tab")
    assert tab.js("getComputedStyle(document.activeElement).outlineStyle") == "solid"


def test_arrivals_departures_jumps_and_several_vehicles(run: Run, tmp_path: Path, open_tab: OpenTab) -> None:
    end_s = run.track["sim_time_s"].max()
    track = run.track[~((run.track["node"] == "client") & (run.track["id"] == 2))]
    own = pd.DataFrame(  # jumps at 10 s, leaves at 20 s, is back at 30 s
        {
            "sim_time_s": [0.0, 10.0, 10.0, 20.0, 20.0, 30.0, end_s],
            "node": "client",
            "id": 2,
            "x_m": [10.0, 20.0, 200.0, 210.0, np.nan, 50.0, 60.0],
            "y_m": [10.0, 10.0, 100.0, 100.0, np.nan, 30.0, 30.0],
        }
    )
    second = run.track[run.track["node"] == "vehicle"].assign(id=7, x_m=lambda t: 300 - t["x_m"])
    contacts = run.contacts.copy()
    contacts.loc[contacts["visit"] % 2 == 0, "vehicle"] = 7
    changed = dataclasses.replace(run, track=pd.concat([track, own, second]), contacts=contacts)
    file = tmp_path / "replay.html"
    file.write_text(run_page(changed), encoding="utf-8")
    tab = open_tab(file)
    for time_s, position in [(5, [15, 10]), (9.99, [20, 10]), (10, [200, 100]), (15, [205, 100]), (30, [50, 30])]:
        seek(tab, time_s)
        np.testing.assert_allclose(positions(tab)[2 + 2], position, atol=0.05)
    for time_s in (20.0, 25.0, 29.9):
        seek(tab, time_s)
        assert np.isnan(positions(tab)[2 + 2]).all()
    seek(tab, 0.5 * end_s)
    first, other = positions(tab)[:2]
    np.testing.assert_allclose(other, [300 - first[0], first[1]], atol=0.03)
    visits = contacts.loc[~contacts["in_passing"], "vehicle"]
    counts = [int((visits == vehicle).sum()) for vehicle in (0, 7)]
    assert sum(counts) == 40
    assert tab.js("replay.stages[0].history.ofVehicle.map((own) => own.length)") == counts
    begin, end = contacts["sim_time_s"] - contacts["contact_s"], contacts["sim_time_s"]
    edges, tick_s = np.concatenate([begin, end]), tab.js("replay.stages[0].history.content.tick_s")
    times: dict[tuple[int, int], list[float]] = {}  # by the number of contacts under way, and of their vehicles
    for time_s in np.arange(0.0, end_s, 0.5).tolist():
        under_way = contacts[(begin <= time_s) & (time_s <= end)]
        if np.abs(edges - time_s).min() > 2 * tick_s:
            times.setdefault((len(under_way), under_way["vehicle"].nunique()), []).append(time_s)
    assert {(0, 0), (1, 1), (2, 1), (2, 2)} <= set(times)  # (2, 1): a vehicle serves two clients in passing
    for (_, busy), during in times.items():
        for time_s in during[:: max(1, len(during) // 10)]:
            seek(tab, time_s)
            assert tab.page.inner_text(".doing") == f"{busy} of 2 vehicles in contact"
    assert tab.is_clean()


def test_a_run_killed_before_its_first_contact(run: Run, tmp_path: Path, open_tab: OpenTab) -> None:
    killed = dataclasses.replace(
        run,
        manifest={**run.manifest, "finished": False, "stopped_by": None},
        summary={},
        contacts=run.contacts.head(0),
        clients=run.clients.head(0),
        track=run.track.head(40),
    )
    file = tmp_path / "replay.html"
    file.write_text(run_page(killed), encoding="utf-8")
    tab = open_tab(file)
    assert tab.page.inner_text("#ending") == "unfinished"
    for key in ("End", ".", ",", "Home", " "):
        tab.press(key)
    assert tab.page.inner_text("#personal-now") == "–"
    assert tab.is_clean()


def test_a_client_takes_its_colour_at_its_contact(run: Run, file: Path, open_tab: OpenTab) -> None:
    tab = open_tab(file)
    now = dict(enumerate(run.clients[run.clients["contact"] == 0]["test_acc"]))
    evaluated = set(run.clients["contact"])
    changed = 0
    for row in run.contacts.itertuples():
        seek(tab, row.sim_time_s)
        before = dict(now)
        now |= dict(zip(row.delivered_ids, row.delivered_test_acc, strict=True))
        if row.contact in evaluated:
            now = dict(enumerate(run.clients[run.clients["contact"] == row.contact]["test_acc"]))
        else:
            changed += now != before
        seen = tab.js("Array.from({ length: 8 }, (_, i) => replay.stages[0].history.accuracies.of(i))")
        assert seen == pytest.approx(list(now.values()), abs=1e-4), row.contact
    assert changed > 5
    seek(tab, run.contacts["sim_time_s"].iloc[2])  # back: as on the way there
    first = run.contacts.iloc[:3]
    expected = dict(enumerate(run.clients[run.clients["contact"] == 0]["test_acc"]))
    for row in first.itertuples():
        expected |= dict(zip(row.delivered_ids, row.delivered_test_acc, strict=True))
    seen = tab.js("Array.from({ length: 8 }, (_, i) => replay.stages[0].history.accuracies.of(i))")
    assert seen == pytest.approx(list(expected.values()), abs=1e-4)


@pytest.mark.parametrize("speed", [1, 60, 36000])
def test_links_stay_long_enough_to_be_seen(run: Run, file: Path, open_tab: OpenTab, speed: int) -> None:
    """0.4 s of real time after their contact, at any speed, and not where the reader has jumped to."""
    tab = open_tab(file)
    row = run.contacts[run.contacts["delivered"] < run.contacts["active"]].iloc[0]
    after = row["sim_time_s"] + min(0.4 * speed, run.track["sim_time_s"].max() - row["sim_time_s"])
    tab.js(f"replay.player.setSpeed({speed}); replay.player.seek({after - 0.001});")
    tab.settle()
    assert not [opacity for contact, opacity in tab.js(LINKS_DRAWN) if contact == row.name]
    tab.js("replay.player.advance(0.001 / replay.player.speed); replay.changed();")
    tab.settle()
    opacity = [opacity for contact, opacity in tab.js(LINKS_DRAWN) if contact == row.name]
    assert opacity == [1] * row["active"]


# The contact and the opacity of every link in a frame.
LINKS_DRAWN = """(() => {
  const { map } = replay.stages[0];
  const { live } = map.contexts;
  const found = [];
  let contact = null;
  map.drawLinks = function (context, number, ...rest) {
    contact = number;
    Object.getPrototypeOf(this).drawLinks.call(this, context, number, ...rest);
    contact = null;
  };
  live.lineTo = function (x, y) {
    if (contact !== null) found.push([contact, this.globalAlpha]);
    CanvasRenderingContext2D.prototype.lineTo.call(this, x, y);
  };
  replay.draw(performance.now());
  delete map.drawLinks;
  delete live.lineTo;
  return found;
})()"""


def test_training_alone_has_its_curve(run: Run, file: Path, open_tab: OpenTab) -> None:
    tab = open_tab(file)
    seek(tab, run.track["sim_time_s"].max())
    last = run.contacts["alone_test_acc_mean"].dropna().iloc[-1]
    assert tab.page.inner_text("#alone-now") == f"{100 * last:.1f} %"
    lines = tab.js("replay.cards[0].chart.lines.map(({ id, colour, dash }) => [id, colour, dash])")
    assert {line[0] for line in lines} == {"personal", "token", "alone"}
    assert len({line[2] for line in lines}) == 3  # told apart without colours
    assert tab.page.locator("#curves .readout").first.inner_text().split()[::3] == ["personal", "token", "alone"]


def test_groups_are_told_apart_by_shape(run: Run, tmp_path: Path, open_tab: OpenTab) -> None:
    assert groups_of(run).names == []
    squads = {"kind": "squads", "squads": 3}
    clients = {**run.scenario["clients"], "mobility": squads}
    changed = dataclasses.replace(run, scenario={**run.scenario, "clients": clients})
    file = tmp_path / "replay.html"
    file.write_text(run_page(changed), encoding="utf-8")
    tab = open_tab(file)
    assert tab.page.locator("#group-list li").all_inner_texts() == ["squad 0", "squad 1", "squad 2"]
    groups = "replay.stages[0].history.groups"
    seen = tab.js(f"Array.from({{ length: 8 }}, (_, i) => [{groups}.nameOf(i), {groups}.shapeOf(i)])")
    assert [name for name, _ in seen] == [f"squad {i * 3 // 8}" for i in range(8)]
    assert len({tuple(pair) for pair in seen}) == len({shape for _, shape in seen}) == 3
    tab.js("replay.select(4)")
    tab.settle()
    assert tab.page.inner_text("#client-title") == "Client 4, squad 1"
    assert tab.is_clean()


def test_groups_are_those_of_the_scenario_their_squads_or_sites(run: Run) -> None:
    def names(groups: list[dict[str, Any]]) -> list[str]:
        scenario = {**run.scenario, "clients": {**run.scenario["clients"], "groups": groups}}
        found = groups_of(dataclasses.replace(run, scenario=scenario))
        return [found.names[i] for i in found.of]

    assert names([{"name": f"crew {i}", "count": 1} for i in range(8)]) == [f"crew {i}" for i in range(8)]
    scouts = {"name": "scouts", "count": 5, "mobility": {"kind": "squads", "squads": 2}}
    expected = ["group 0"] * 3 + ["scouts, squad 0"] * 3 + ["scouts, squad 1"] * 2
    assert names([{"name": "", "count": 3}, scouts]) == expected
    sites = groups_of(dataclasses.replace(run, clients=run.clients.assign(site=run.clients["client"] % 2)))
    assert sites.names == ["site 0", "site 1"]
    assert sites.of.tolist() == [0, 1] * 4


def test_many_groups_are_named_on_the_map(run: Run, tmp_path: Path, open_tab: OpenTab) -> None:
    """There are eight shapes."""
    herds = {"kind": "herd", "herds": 12}
    clients = {**run.scenario["clients"], "count": 12, "mobility": herds}
    twelve = dataclasses.replace(run, scenario={**run.scenario, "clients": clients})
    file = tmp_path / "replay.html"
    file.write_text(run_page(twelve), encoding="utf-8")
    tab = open_tab(file)
    assert tab.page.locator("#group-list li").count() == 0
    assert tab.page.inner_text("#groups-note").startswith("Names of groups stand on the map")
    middles = tab.js("replay.stages[0].history.groups.middles(replay.stages[0].history)")
    assert [name for name, _, _ in middles] == [f"herd {i}" for i in range(8)]  # of those that are there
    seen = positions(tab)[1:9]
    np.testing.assert_allclose([middle[1:] for middle in middles], seen, atol=1e-6)
    assert tab.is_clean()


def test_a_client_that_does_not_exist_is_refused(file: Path, open_tab: OpenTab) -> None:
    tab = open_tab(file)
    for asked in ("99", "-1", "2.5"):
        tab.page.fill("#client", asked)
        tab.settle()
        assert tab.page.inner_text("#client-wrong") == f"There is no client {asked}: they are 0 to 7."
        assert tab.page.inner_text("#client-title") == "Client"
    tab.page.fill("#client", "7")
    tab.settle()
    assert tab.page.inner_text("#client-wrong") == ""
    assert tab.page.inner_text("#client-title") == "Client 7"
    tab.js("location.hash = '#t=12&client=8'")
    tab.wait("document.getElementById('client-wrong').textContent !== ''")
    assert tab.page.inner_text("#client-wrong") == "There is no client 8: they are 0 to 7."
    assert tab.time_s == 12
    tab.js("location.hash = '#client=3'")
    tab.wait("replay.selected === 3")
    assert tab.is_clean()


def test_the_radio_range_is_drawn_round_every_vehicle(run: Run, tmp_path: Path, open_tab: OpenTab) -> None:
    second = run.track[run.track["node"] == "vehicle"].assign(id=7, x_m=lambda t: 300 - t["x_m"])
    changed = dataclasses.replace(run, track=pd.concat([run.track, second]))
    file = tmp_path / "replay.html"
    file.write_text(run_page(changed), encoding="utf-8")
    tab = open_tab(file)
    arcs = tab.js("""(() => {
      const arcs = [];
      const { live } = replay.stages[0].map.contexts;
      const arc = live.arc;
      live.arc = function (x, y, radius, ...rest) {
        arcs.push([x, y, radius]);
        arc.call(this, x, y, radius, ...rest);
      };
      replay.draw(performance.now());
      const { view, history } = replay.stages[0];
      const found = [0, 1].map((i) => arcs.some(([x, y, radius]) => Math.abs(radius - 60 * view.scale) < 0.01
        && Math.abs(x - view.screenX(history.x[i])) < 0.01 && Math.abs(y - view.screenY(history.y[i])) < 0.01));
      return found;
    })()""")
    assert arcs == [True, True]
    assert tab.page.inner_text("[data-kind=range]") == "radio range in the open: 60 m"


def test_two_runs_share_a_clock(run: Run, tmp_path: Path, open_tab: OpenTab) -> None:
    """The shorter run stays at its end."""
    other = {**SCENARIO, "vehicle": {"speed_mps": 4.0}, "stop": {"visits": 12}}
    run_scenario(Scenario.model_validate(other), str(tmp_path / "slow"), quiet=True)
    slow = load_run(tmp_path / "slow")
    file = tmp_path / "two.html"
    file.write_text(run_page(run, slow), encoding="utf-8")
    tab = open_tab(file)
    ends = [float(each.track["sim_time_s"].max()) for each in (run, slow)]
    assert ends[0] > ends[1] + 10
    assert tab.js("replay.player.end") == pytest.approx(ends[0], abs=1e-3)
    titles = tab.page.locator(".stage-title").all_inner_texts()
    assert [re.sub(r"\s+", " ", title) for title in titles] == [
        "A vehicle speed, m/s: 10; stop visits: 40",
        "B vehicle speed, m/s: 4; stop visits: 12",
    ]
    for time_s in (0.5 * ends[1], 0.5 * sum(ends), ends[0]):
        seek(tab, time_s)
        clocks = tab.page.locator(".clock").all_inner_texts()
        assert clocks == [hours(time_s), hours(min(time_s, ends[1]))]
        for number, each in enumerate((run, slow)):
            x, y = tab.js(f"[0, 1].map((k) => replay.stages[{number}].history['xy'[k]][0])")
            at = position_of(each.track, "vehicle", 0, min(time_s, ends[number]))
            assert (x, y) == pytest.approx(at, abs=0.03)
            past = each.contacts[each.contacts["sim_time_s"] <= time_s + 1e-3]
            personal = past["personal_test_acc_mean"].iloc[-1]
            assert tab.page.inner_text(f"#personal-{number}-now") == f"{100 * personal:.1f} %"
    assert tab.page.locator(".doing").all_inner_texts()[1].endswith("the run has ended")
    charts = tab.js("replay.cards.map(({ chart }) => [chart.end, chart.lines.length])")
    assert [lines for _, lines in charts] == [4, 2, 2]
    assert {end for end, _ in charts} == {tab.js("replay.player.end")}
    tab.js("replay.select(5)")
    tab.settle()
    rows = [each.clients[each.clients["client"] == 5].iloc[-1] for each in (run, slow)]
    assert tab.page.inner_text("#client-visits") == " | ".join(str(row["visits"]) for row in rows)
    tab.press("+")
    assert tab.js("replay.stages.map((stage) => stage.view.zoom)") == pytest.approx([1.4, 1.4])
    assert tab.is_clean()
    phone = open_tab(file, 390, 844, is_mobile=True, has_touch=True)
    assert phone.js("document.scrollingElement.scrollWidth") <= 390
    boxes = [phone.page.locator(".live").nth(i).bounding_box() for i in (0, 1)]
    assert boxes[0]["y"] + boxes[0]["height"] < boxes[1]["y"]


def test_the_picture_is_what_is_shown(run: Run, file: Path, tmp_path: Path, open_tab: OpenTab) -> None:
    tab = open_tab(file)
    seek(tab, 0.4 * run.track["sim_time_s"].max())
    with tab.page.expect_download() as download:
        tab.page.click("#picture")
    assert re.fullmatch(r"script.*0h\d\dm\d\ds\.png", download.value.suggested_filename)
    download.value.save_as(tmp_path / "picture.png")
    with Image.open(tmp_path / "picture.png") as picture:
        width, height = tab.js("[replay.stages[0].view.width, replay.stages[0].view.height]")
        assert picture.width == pytest.approx(2 * (width + 32), abs=2)
        assert picture.height > 2 * (height + 100)
        colours = {colour for _, colour in picture.convert("RGB").getcolors(picture.width * picture.height)}
    shown = [tab.js(f"replay.stages[0].map.colour('{name}')") for name in ("personal", "token", "vehicle-0", "wall")]
    assert {tuple(bytes.fromhex(colour[1:])) for colour in shown} <= colours
    assert tab.is_clean()
