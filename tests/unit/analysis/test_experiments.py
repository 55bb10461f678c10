"""Descriptions of experiments, what is read off their runs, and the page about them."""

from __future__ import annotations

from dataclasses import replace
from math import exp, inf
from pathlib import Path
from typing import Any, cast

import pandas as pd
import pytest
import yaml
from omegaconf import OmegaConf

from analysis.about import COMPARED
from analysis.claims.ledger import Claim, claims_of_experiment, load_ledger
from analysis.experiments.cluster_measures import CLUSTER_MEASURES
from analysis.experiments.measures import MEASURES, consumption, update_s, use_weighted_frac
from analysis.experiments.page import compose, section, sections
from analysis.experiments.results import Results, measure_runs, paper_values, summary, verdict_frame
from analysis.experiments.samples import SAMPLES
from analysis.experiments.spec import (
    ALL,
    PREDICTOR,
    Spec,
    SpecError,
    cells,
    find_specs,
    load_spec,
    narrow,
    settings_of,
)
from analysis.figures.style import STRATEGY_COLOURS
from analysis.records.load import Run, load_run
from runtime.config.choices import merged
from runtime.config.instantiate import instantiate
from runtime.run.preflight import preflight
from strategies.protocol import Launch
from tests.unit.analysis.test_fidelity import story

ROOT = Path(__file__).resolve().parents[3]
SPECS = find_specs(ROOT / "conf" / "experiment")

WHOLE: dict[str, Any] = {
    "title": "two systems",
    "where": "Table I",
    "settings": ["runtime=virtual", "workload.epochs=2"],
    "axes": {
        "role": {"worker": ["straggler=persistent"], "server": ["straggler=persistent_server"]},
        "system": {"bsp": ["strategy=bsp"], "asp": ["strategy=asp", "workload.epochs=3"]},
    },
    "seeds": [0, 1],
    "measures": ["jct_s", "wait_frac"],
    "figure": {"kind": "bars", "panels": "role"},
}


def written(folder: Path, **changes: Any) -> Path:
    path = folder / "toy_table.yaml"
    path.write_text(yaml.safe_dump({**WHOLE, **changes}, sort_keys=False))
    return path


def spec_of(folder: Path, **changes: Any) -> Spec:
    return load_spec(written(folder, **changes))


def test_an_experiment_is_the_product_of_its_axes_and_later_settings_win(tmp_path: Path) -> None:
    spec = spec_of(tmp_path)
    found = [cell.name for cell in cells(spec)]
    assert found[:4] == ["worker_bsp_seed0", "worker_asp_seed0", "server_bsp_seed0", "server_asp_seed0"]
    assert len(set(found)) == 8
    assert (spec.paper, spec.live) == ("toy", False)
    first, second, *_ = cells(spec)
    assert settings_of(spec, first) == [
        *("runtime=virtual", "workload.epochs=2", "straggler=persistent", "strategy=bsp", "seed=0")
    ]
    assert "workload.epochs=3" in settings_of(spec, second)
    assert "workload.epochs=2" not in settings_of(spec, second)


def test_all_strategies_are_those_for_servers_that_launch_no_nodes(tmp_path: Path) -> None:
    paths = sorted((ROOT / "conf" / "strategy").glob("*.yaml"))
    specs = {path.stem: OmegaConf.to_container(merged(path.stem, [path.parent]), resolve=True) for path in paths}
    made = {name: instantiate(cast("dict[str, Any]", spec), "strategy") for name, spec in specs.items()}
    wanted = [name for name, one in made.items() if Launch not in one.needs and "ps" in one.topologies]
    assert list(ALL) == wanted
    assert set(wanted) == set(COMPARED), "their about.toml says so"
    assert spec_of(tmp_path, axes={"role": {"worker": []}, "system": "all"}).levels["system"] == list(ALL)


def test_parts_of_all_combinations_are_named_by_levels_and_seeds(tmp_path: Path) -> None:
    parts = [{"role": ["worker"], "system": ["bsp"]}, {"role": ["server"]}]
    spec = spec_of(tmp_path, parts=parts, without=[{"system": ["bsp", "asp"], "role": "server", "seed": ["1"]}])
    assert {cell.name for cell in cells(spec)} == {
        *("worker_bsp_seed0", "server_bsp_seed0", "server_asp_seed0", "worker_bsp_seed1")
    }


def test_a_part_of_an_experiment(tmp_path: Path) -> None:
    part = narrow(spec_of(tmp_path), [4], {"system": ["asp"]})
    assert [cell.name for cell in cells(part)] == ["worker_asp_seed4", "server_asp_seed4"]
    with pytest.raises(SpecError, match="--only speed: toy_table has no such axis; there are role, system"):
        narrow(part, None, {"speed": ["asp"]})
    with pytest.raises(SpecError, match="--only system=bps: no such level"):
        narrow(part, None, {"system": ["bps"]})


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"titel": "x"}, "unknown field `titel`"),
        ({"axes": {"system": {}}}, "axes.system: has no level"),
        ({"axes": {"system": ["bsp"]}}, "axes.system=['bsp']: must be levels by name"),
        ({"target": {"size": "x"}}, "target: size is not one of the axes"),
        ({"gain": {"axis": "size", "for_s": 1}}, "gain: size is not one of the axes"),
        ({"axes": {"system": {"bsp": "strategy=bsp"}}}, "axes.system.bsp=strategy=bsp: must be a list of settings"),
        ({"axes": {"system": {"bsp": [{"strategy": "bsp"}]}}}, "must be a list of settings, such as [strategy=ssp]"),
        ({"figure": {"names": {"bsp": 1}}}, "figure.names.bsp=1: must be text; put it in quotes"),
        ({"axes": {"role": {"a b": []}, "system": {"x": []}}}, "axes.role.a b: a level is letters"),
        ({"figure": {"kind": "bars", "panels": "size"}}, "figure: size is not one of the axes"),
        ({"without": [{"role": "link"}]}, "without: role=link is no level"),
        ({"parts": [{"system": ["bps"]}]}, "parts: system=bps is no level"),
        ({"pacing": "cluster.x"}, "pacing: cluster.x is not one of the settings of all runs"),
        ({"settings": ["cluster.x=1"], "pacing": "cluster.x"}, "pacing: names the setting that the level paced of"),
        ({"figure": {"kind": "agreement"}}, "kind=agreement: the axes are straggler, strategy and side: live, virtual"),
        ({"excess": {"more_s": {"system": "bps"}}}, "excess: more_s: system=bps is no level"),
        ({"seeds": [0, 0]}, "seeds=[0, 0]: each once"),
        ({"seeds": []}, "seeds=[]"),
        ({"settings": ["seed=3"]}, "seed=3: seed is chosen by the program"),
        ({"settings": ["+draw=false"]}, "draw is chosen by the program (seed, draw, view, hydra.*); leave it"),
        ({"settings": ["fast"]}, "fast: must be setting=value"),
        ({"target": {"system": "bps"}}, "target: system=bps is no level"),
        ({"gain": {"axis": "system", "for_s": 1}}, "gain: the levels of system must be numbers of updates"),
        ({"measures": ["jct"]}, "measures: jct: there are jct_s, wait_frac"),
        ({"measures": ["jct_s", "tta_s"]}, "target_s is the time to the job's own target"),
        ({"measures": ["jct_s", "tta_s"], "target": {"system": "asp"}}, "tta_s is what `target` adds"),
        ({"figure": {"kind": "bars", "looks": {"bps": "bsp"}}}, "figure: looks: bps is no level of system"),
        ({"figure": {"kind": "against", "fixed": ["ssp"]}}, "figure: fixed: ssp is no level of system"),
        ({"figure": {"kind": "bars", "names": {"ssp": "S"}}}, "figure: names: ssp is no level of any axis"),
        ({"figure": {"kind": "bar"}}, "figure: kind=bar: there are against, agreement, bars"),
        ({"figure": {"kind": "bars", "value": "bpt_s"}}, "figure: value: bpt_s is not measured (jct_s, wait_frac)"),
    ],
)
def test_a_bad_description_is_refused(changes: dict[str, Any], said: str, tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"toy_table\.yaml: ") as caught:
        spec_of(tmp_path, **changes)
    assert said in str(caught.value)
    (tmp_path / "toy_table.yaml").write_text("title: [")
    with pytest.raises(SpecError, match=r"toy_table\.yaml: "):
        load_spec(tmp_path / "toy_table.yaml")


MLFABRIC = ("order", "delays", "groups", "replicas", "convergence")
COMPUTED = ("gc_tables", "dropcompute_threshold", *(f"mlfabric_{name}" for name in MLFABRIC))
"""Nothing is run for them: tests/unit/scripts/test_coding_tables.py."""


@pytest.mark.parametrize("name", SPECS)
def test_an_experiment_names_measures_and_a_figure_that_there_are(name: str) -> None:
    spec = load_spec(SPECS[name])
    assert (ROOT / "analysis" / "figures" / "experiment" / f"{spec.figure.kind}.py").is_file()
    assert {*spec.figure.looks.values()} <= {*STRATEGY_COLOURS}
    assert (spec.table is not None) == (name in COMPUTED)
    if spec.table is None:
        assert set(spec.measures) <= set(MEASURES) or set(spec.measures) <= set(CLUSTER_MEASURES)
        assert {one.measure for one in spec.figure.several} <= {*spec.columns, *SAMPLES}


COMPOSED = ("antdt_fig9", "antdt_fig16", "gc_fig3", "star_fig14")
"""For every commit: live and virtual, on hosts and without, of every paper."""


@pytest.mark.few(1)
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[] if name in COMPOSED else pytest.mark.long)
        for name in SPECS
        if name not in COMPUTED and name != "harm"  # which shows what is refused
    ],
)
def test_an_experiment_could_start(name: str, tmp_path: Path) -> None:
    """It composes, and names strategies and stragglers that exist; a tenth of a second for each level."""
    spec = load_spec(SPECS[name])
    found = [cell for cell in cells(spec) if cell.seed == spec.seeds[0]]
    for cell in found:  # every level once; the script itself tries every combination
        if len(cell.levels.items() - found[0].levels.items()) <= 1:
            preflight([*settings_of(spec, cell), f"hydra.run.dir={tmp_path / cell.name}"])


@pytest.mark.parametrize("name", [name for name in SPECS if "_" in name])
def test_its_claims_are_about_its_cells(name: str) -> None:
    spec = load_spec(SPECS[name])
    ledger = load_ledger(spec.paper)
    assert {claim.experiment for claim in ledger.values() if claim.experiment} <= set(SPECS)
    scored = [{PREDICTOR: level} for level in spec.predictors] or [{}]
    there = [{**cell.levels, **more} for cell in cells(spec) for more in scored]
    for claim in claims_of_experiment(ledger, name):
        assert claim.of in spec.columns, claim.id
        for cell in (claim.subject, *({**claim.subject, **other} for other in claim.against)):
            assert any(cell.items() <= levels.items() for levels in there), f"{claim.id}: {cell}"


def test_measures_of_a_run(tmp_path: Path) -> None:
    received = story("asp", epochs=3)
    received.lines[-1]["note"]["shards_done"] -= 2
    run = load_run(received.write(tmp_path / "run"))
    assert MEASURES["jct_s"](run) == run.lines[-1].t
    assert MEASURES["shards_missing"](run) == 2
    taken = consumption(run)
    assert taken["samples"].sum() == 3 * 128
    assert taken["shards"].sum() == pytest.approx(3 * 16)


def test_time_per_update_and_usage(tmp_path: Path) -> None:
    run = load_run(story("bsp").write(tmp_path / "run"))
    rows = run.tables.iterations
    assert update_s(run) == pytest.approx(run.lines[-1].t / rows["applied_version"].nunique())
    cut_off = story("bsp")
    cut_off.lines[-1]["note"]["epochs_done"] = 0
    cut_off.meta["job"]["max_time_s"] = cut_off.lines[-1]["t"]
    assert update_s(load_run(cut_off.write(tmp_path / "cut off"))) == inf
    workers = rows["worker"].nunique()
    devices = [{"per_sample_s": 0.001 * (1 + worker)} for worker in range(workers)]
    run.meta["job"]["devices"] = devices
    by_worker = (rows["compute_s"] - rows["injected_s"]).groupby(rows["worker"]).sum()
    speeds = [1 / device["per_sample_s"] for device in devices]
    weighted = sum(by_worker[worker] * speed for worker, speed in enumerate(speeds))
    assert use_weighted_frac(run) == pytest.approx(weighted / (sum(speeds) * run.lines[-1].t))


def test_delays_are_those_of_applied_gradients(tmp_path: Path) -> None:
    run = load_run(story("asp").write(tmp_path / "run"))
    rows = pd.DataFrame(
        {
            "fate": ["applied", "dropped", "applied", "applied", "empty", "open"],
            "staleness": pd.array([1, None, 3, 5, None, None], dtype="Int64"),
        }
    )
    vars(run)["tables"] = replace(run.tables, iterations=rows)
    vars(run)["contents"] = replace(run.contents, discarded=2)
    found = [MEASURES[name](run) for name in ("delay_mean", "delay_std", "delay_max", "dropped_frac")]
    assert found == pytest.approx([3.0, (8 / 3) ** 0.5, 5.0, (1 + 2) / (1 + 2 + 3)])


def test_the_mean_of_a_metric_over_time_and_over_samples(tmp_path: Path) -> None:
    """From 0 straight up to 1: within 30 of 90 s (mean of the first 60: 0.75), by samples the first 6 of 8 (0.625)."""
    run = load_run(story("bsp").write(tmp_path / "run"))
    metric = str(run.job["metric"])
    curve = pd.DataFrame({"asked_s": [0.0, 30.0, 90.0], metric: [0.0, 1.0, 1.0]})
    updates = pd.DataFrame(
        {"t": [1.0, 2.0, 29.0, 30.5, 31.0], "samples": [2, 2, 2, 2, 5], "void": [False] * 4 + [True]}
    )
    vars(run)["tables"] = replace(run.tables, evaluations=curve, updates=updates)
    assert MEASURES["error_first_min"](run) == pytest.approx(0.25)
    assert MEASURES["error_by_updates"](run) == pytest.approx(0.375)
    assert MEASURES["nats_first_min"](run) == pytest.approx(-0.75)
    assert MEASURES["nats_by_updates"](run) == pytest.approx(-0.625)
    ended = curve.assign(asked_s=[0.0, 15.0, 30.0])  # and stays at 1 from then on
    vars(run)["tables"] = replace(run.tables, evaluations=ended)
    assert MEASURES["error_first_min"](run) == pytest.approx(1 - (7.5 + 45) / 60)


def scored(folder: Path, values: list[float], **received: Any) -> Run:
    """A run that is evaluated every 0.1 s with these accuracies; nothing else of it is looked at."""
    run = load_run(story(epochs=3, **received).write(folder))
    times = [0.1 * index for index in range(len(values))]
    frame = pd.DataFrame({"asked_s": times, "accuracy": values})
    run.__dict__["tables"] = replace(run.tables, evaluations=frame)
    return run


def test_tta_is_to_where_the_cell_of_reference_converges(tmp_path: Path) -> None:
    """Mean of the last fifth of ASP's 0.2, 0.8, ...: 0.7. BSP of one seed is there at 0.2 s, of the other never."""
    spec = spec_of(
        tmp_path, target={"system": "asp"}, axes={"system": WHOLE["axes"]["system"]}, figure={"kind": "bars"}
    )
    asp = [0.2, *[0.8] * 8, 0.6, 0.7, 0.8]
    curves = {"asp": {0: asp, 1: asp}, "bsp": {0: [0.1, 0.69, 0.7, 0.9], 1: [0.1, 0.6, 0.69]}}
    found = [(cell, scored(tmp_path / cell.name, curves[cell.levels["system"]][cell.seed])) for cell in cells(spec)]
    frame = measure_runs(spec, found).set_index(["system", "seed"])["tta_s"]
    assert frame.round(9).to_dict() == {("bsp", 0): 0.2, ("asp", 0): 0.1, ("bsp", 1): inf, ("asp", 1): 0.1}
    alone = measure_runs(spec, [pair for pair in found if pair[0].levels["system"] == "bsp"])
    assert alone["tta_s"].isna().all()


def test_excess_is_over_the_reference_of_the_same_seed_and_repetitions_are_seeds(tmp_path: Path) -> None:
    """ASP takes 1.5 times as long as BSP, with seed 1 nobody knows how much longer: it was cut off."""
    spec = spec_of(
        tmp_path,
        axes={"system": WHOLE["axes"]["system"], "turn": {"a": [], "b": []}},
        repeats="turn",
        excess={"more_s": {"system": "bsp"}},
        figure={"kind": "bars", "value": "more_s"},
    )
    found = []
    for cell in cells(spec):
        asp, number = cell.levels["system"] == "asp", 2 * cell.seed + (cell.levels["turn"] == "b")
        received = story(cell.levels["system"], seed=number, factor=1.5 if asp else 1.0)
        if asp and cell.seed == 1:
            received.lines[-1]["note"]["epochs_done"] = 0
            received.meta["job"]["max_time_s"] = received.lines[-1]["t"]
        found.append((cell, load_run(received.write(tmp_path / cell.name))))
    frame = measure_runs(spec, found).set_index(["system", "seed"])
    took, more = frame["jct_s"].to_dict(), frame["more_s"].to_dict()
    assert sorted(more) == [(system, seed) for system in ("asp", "bsp") for seed in range(4)]
    assert [more["bsp", seed] for seed in range(4)] == [0.0] * 4
    assert [more["asp", seed] for seed in (0, 1)] == [took["asp", seed] - took["bsp", seed] for seed in (0, 1)]
    assert more["asp", 0] != pytest.approx(more["asp", 1])
    assert [more["asp", seed] for seed in (2, 3)] == [inf, inf]


def test_perplexity_is_of_the_loss_where_it_converged(tmp_path: Path) -> None:
    run = scored(tmp_path / "run", [0.0] * 6)
    run.tables.evaluations["loss"] = [9.0, 9.0, 9.0, 9.0, 1.0, 2.0]
    assert MEASURES["perplexity"](run) == pytest.approx(exp(1.5))


def results_of(folder: Path, *, asp: float = 1.0, claims: list[Claim] | None = None, **changes: Any) -> Results:
    """Both systems as simulated, with ASP's clock stretched by ``asp``."""
    spec = spec_of(folder, **changes)
    found = []
    for cell in cells(spec):
        received = story(cell.levels["system"], seed=cell.seed, factor=asp if cell.levels["system"] == "asp" else 1.0)
        found.append((cell, load_run(received.write(folder / cell.name))))
    first = {cell.name: (cell, run) for cell, run in found if cell.seed == 0}
    frame = measure_runs(spec, found)
    return Results(spec=spec, runs=frame, metas=[run.meta for _, run in found], claims=claims or CLAIMS, records=first)


CLAIMS = [
    Claim(id="toy.bsp", where="I", check="number", value=2.0, unit="s", subject={"role": "worker", "system": "bsp"}),
    Claim(
        **{"id": "toy.worse", "where": "I", "check": "shape", "accept": (0.0, None), "unit": "%", "how": "longer"},
        **{"subject": {"role": "worker", "system": "asp"}, "against": ({"system": "bsp"},)},
    ),
    Claim(id="toy.other", where="II", check="context", value=3.0, unit="h"),
]


def test_runs_become_a_frame_verdicts_and_a_section_of_the_page_that_can_be_replaced(tmp_path: Path) -> None:
    found = results_of(tmp_path, asp=10.0, notes="Why **ours** differs.")
    assert (len(found.runs), set(found.runs["runtime"])) == (8, {"live"})
    verdicts = verdict_frame(found)
    sides, sizes = (verdicts.set_index("id")[name].to_dict() for name in ("side", "size"))
    assert sides == {"toy.bsp": "", "toy.worse": "met", "toy.other": "context"}
    assert sizes == {"toy.bsp": "missed", "toy.worse": "", "toy.other": ""}
    table = summary(found)
    assert table[["role", "system"]].drop_duplicates().shape == (4, 2)
    assert (table["low"] <= table["value"]).all()
    paper = paper_values(found)
    assert paper.iloc[0].to_dict() == {"role": "worker", "system": "bsp", "value": 2.0, "std": 0.0, "how": "value"}
    text = section(found, "images/toy.png", "make figures EXPERIMENT=toy_table")
    for part in (
        "## Table I: two systems",
        "(images/toy.png)",
        "| `bsp` | 2 s |",
        "| missed |",
        "Why **ours** differs.",
    ):
        assert part in text
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    assert len(lines) == 2 + len(CLAIMS)
    page = compose("Toy", "About it.", {"toy_table": text, "toy_fig9": text.replace("table", "fig9")}, verdicts, CLAIMS)
    assert page.index("toy_fig9") < page.index("<!-- experiment: toy_table")
    assert "- **Side** of 2 claims: 1 met, 1 context.\n" in page
    assert "uncommitted" not in page
    for version in ("1a2b3c4-dirty", "0.1.0 (1a2b3c4-dirty)"):
        changed = text.replace("toy_table", "toy_fig9") + f"Stragglab {version}."
        again = compose("Toy", "About it.", {"toy_table": text, "toy_fig9": changed}, verdicts, CLAIMS)
        assert "Made with uncommitted changes; to be repeated: toy_fig9.\n" in again
    assert compose("Toy", "About it.", sections(page), verdicts, CLAIMS) == page
