"""Experiments as described: their runs, of which the missing ones are made, and the results."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec
import pandas as pd
from omegaconf import OmegaConf
from rich.console import Console

from analysis.claims.ledger import Claim, claims_of_experiment, load_ledger
from analysis.claims.pages import load_pages
from analysis.experiments.results import Results, measure_runs, measure_sets, warnings_of_live
from analysis.experiments.samples import pool
from analysis.experiments.spec import SEED, Also, Cell, Part, Spec, cells, find_specs, settings_of
from analysis.figures.names import id_of
from analysis.measures.agreement import FOLLOWING, PROBED, SIDE, SIDES
from analysis.measures.memory_speed import UNREAD, halves, speeds, windows
from analysis.records.cluster import Cluster
from analysis.records.either import Record, load_record
from analysis.records.load import RecordError, Run
from analysis.records.sums import SUMS
from analysis.reports.fidelity import processor_speed
from reading import Unreadable
from reading.plain import load_yaml
from runtime.config import project
from runtime.config.command_line import parse_arguments
from runtime.config.compose import composing
from runtime.config.hydra_errors import own_part
from runtime.errors import ConfigError
from runtime.house import ROOT
from runtime.record.meta import describe_versions
from runtime.record.progress import counted
from runtime.run.preflight import preflight
from runtime.virtual.costs import load_costs
from runtime.virtual.machines.speeds import SETTING as SPEEDS
from stragglab.grids.code import sha256_of
from stragglab.grids.forks import in_forks, processors, run_here
from stragglab.grids.grid import QUIET, Runner, fill, quote, record_of, run_child
from stragglab.tables.coding import coding
from stragglab.tables.delayed_sgd import delayed_sgd
from stragglab.tables.dropcompute import dropcompute
from stragglab.tables.predictor_rates import RatesOf, choose_settings, fitted_files, rates_of
from stragglab.tables.transfers import delays, groups, replicas, transfers
from stragglab.vouching.fitted_since import is_refitted

SPECS = ROOT / "conf" / "experiment"
DIRTY = "-dirty"
"""Suffix of a commit's name if there are uncommitted changes."""
TABLES = {
    **{"coding": coding, "delayed_sgd": delayed_sgd, "dropcompute": dropcompute},
    **{"transfers": transfers, "delays": delays, "groups": groups, "replicas": replicas},
}
"""Tables by the name that experiments use."""
SCORES = "scores"
"""The folder of the scores of predictors, a file per record, within an experiment's folder."""
SCORING = (
    *(Path("analysis", "measures", name) for name in ("prediction.py", "prediction_labels.py", "injections.py")),
    Path("stragglab", "tables", "predictor_rates.py"),
)
"""Scores depend on these files and on the predictors."""
APART = ("hydra", "names")
"""Parts of a stored configuration that do not describe the job."""


def known_specs() -> dict[str, Path]:
    """Paths of all experiments by name, the user's project included; raises :class:`ConfigError`."""
    ours, own = find_specs(SPECS), project.conf()
    theirs = {} if own is None else find_specs(own / SPECS.name)
    for name in ours.keys() & theirs.keys():
        raise ConfigError(f"{theirs[name]}: {name} is one of ours ({ours[name]}); give yours another name")
    return ours | theirs


def of_paper(spec: Spec) -> bool:
    """Whether it answers claims of a paper, on whose page its results are shown: none of a user's project does."""
    return spec.paper in load_pages() and spec.name in find_specs(SPECS)


def claims_of(spec: Spec) -> list[Claim]:
    """The claims of its paper that an experiment answers; none for one of a user's own."""
    return claims_of_experiment(load_ledger(spec.paper), spec.name) if of_paper(spec) else []


def marked_claims(spec: Spec) -> list[Claim]:
    """The claims of other experiments that its figure marks, too."""
    ledger = load_ledger(spec.paper) if of_paper(spec) else {}
    return [claim for name in spec.figure.marks_of for claim in claims_of_experiment(ledger, name)]


def folder_of(spec: Spec, asked: argparse.Namespace) -> Path:
    """Directory of its records and of the output for a part."""
    folder: Path = (asked.out / spec.name).absolute()
    return folder


def make_records(
    spec: Spec, asked: argparse.Namespace, out: Path, console: Console, runner: Runner | None = None
) -> list[tuple[Cell, Record]]:
    """All records, of which missing and outdated ones are made. ``runner``: instead of ``run.py``, for tests.

    Virtual runs come first, in forks; then those that are timed, one after another; and then virtual ones whose
    settings follow from live ones.
    """
    there = list(cells(spec))
    console.print(f"{spec.name}: {spec.title} ({spec.where}), {len(there)} runs", soft_wrap=True)
    first = [cell for cell in there if cell.levels.get(SIDE) not in FOLLOWING]
    timed = [cell for cell in first if spec.measures_time(cell)]
    if timed or (runner and not asked.jobs):  # refuse before the first run, not at the last
        check(spec, first, out)
    found = make_some(spec, [cell for cell in first if cell not in timed], asked, out, console, runner)
    found |= make_some(spec, timed, asked, out, console, runner, live=True)
    if last := [cell for cell in there if cell not in first]:
        found |= make_some(following(spec, last, found), last, asked, out, console, runner)
    return [(cell, found[cell.name]) for cell in there]


def check(spec: Spec, some: Sequence[Cell], out: Path) -> None:
    """Refuse settings that cannot be run. Of one seed: whether they are valid does not depend on it."""
    for words in dict.fromkeys(tuple(settings_of(spec, cell)) for cell in some if cell.seed == spec.seeds[0]):
        preflight([*words, *QUIET, f"hydra.run.dir={quote(out / 'check')}"])


def make_some(
    spec: Spec,
    some: Sequence[Cell],
    asked: argparse.Namespace,
    out: Path,
    console: Console,
    runner: Runner | None,
    *,
    live: bool = False,
) -> dict[str, Any]:
    """The records of these cells by name; ``live``: they are timed."""
    wanted = {cell.name: [*settings_of(spec, cell), *QUIET] for cell in some}
    forks = 0 if live or (runner and not asked.jobs) else asked.jobs or processors()
    chosen = runner or (run_child if live else run_here)
    kept = {"again": asked.again, "commit": asked.commit}
    return make_runs(wanted, out, console, chosen, live=live, forks=forks, failing=spec.failing, **kept)


def make_runs(
    wanted: Mapping[str, Sequence[str]],
    out: Path,
    console: Console,
    runner: Runner,
    *,
    live: bool,
    forks: int = 0,
    again: bool = False,
    commit: str | None = None,
    failing: bool = False,
) -> dict[str, Any]:
    """The records of these settings by name: current ones are kept, unless ``again``. The rest is as of ``fill``."""
    with composed_words() as compose_words:
        found = {
            name: None if again else current(record_of(out, name), partial(compose_words, words), commit)
            for name, words in wanted.items()
        }
    return fill(wanted, found, out, console, runner, live=live, forks=forks, failing=failing)


def following(spec: Spec, some: Sequence[Cell], found: Mapping[str, Any]) -> Spec:
    """The experiment with the speed of the processors of these cells, by the live and virtual records of the same.

    They are as fast as live on the whole (``spec.pacing``), or second by second as the memory's speed predicts by a law
    that is fitted to the even seconds of the live runs.
    """
    pairs = {cell.name: _pair_of(cell, found) for cell in some}
    probed = [pairs[cell.name] for cell in some if cell.levels[SIDE] == PROBED]
    measured = halves(windows(probed))
    if probed and measured is None:
        raise RecordError(f"{probed[0][0].path}: {UNREAD} in an even and an odd second; repeat live runs (--again)")
    lines = []
    for cell in some:
        live, virtual = pairs[cell.name]
        if measured is not None and cell.levels[SIDE] == PROBED:
            line = f"+{SPEEDS}=[{','.join(f'{speed:.4g}' for speed in speeds(live, measured.law))}]"
        else:
            (usual,) = [word for word in settings_of(spec, cell) if word.startswith(f"{spec.pacing}=")]
            line = f"{spec.pacing}={float(usual.partition('=')[2]) * processor_speed(live, virtual):.6g}"
        at: Part = {axis: (level,) for axis, level in {**cell.levels, SEED: str(cell.seed)}.items()}
        lines.append(Also(at, (line,)))
    return msgspec.structs.replace(spec, also=(*spec.also, *lines))


def _pair_of(cell: Cell, found: Mapping[str, Any]) -> tuple[Run, Run]:
    """The live and the virtual record of the same case and seed."""
    live, virtual = (Cell({**cell.levels, SIDE: side}, cell.seed) for side in SIDES[:2])
    if not {live.name, virtual.name} <= found.keys():
        raise ConfigError(f"{cell.name}: follows from {live.name} and {virtual.name}; name their sides, too")
    return found[live.name], found[virtual.name]


def commit_of(asked: argparse.Namespace, console: Console) -> str | None:
    """With ``--fresh`` the commit that records must be of; raises :class:`ConfigError` for uncommitted changes."""
    commit = describe_versions()["commit"]
    if asked.fresh and (commit == "unknown" or commit.endswith(DIRTY)):
        why = "this is no git repository" if commit == "unknown" else "there are uncommitted changes; commit them first"
        raise ConfigError(f"--fresh: {why}")
    if commit.endswith(DIRTY):
        said = f"there are uncommitted changes: records made now say {commit}, and so will their page"
        console.print(said, soft_wrap=True)
    return commit if asked.fresh else None


@contextmanager
def composed_words() -> Iterator[Any]:
    """A function from settings to what ``run.py`` would store as ``.hydra/config.yaml``."""
    with composing(parse_arguments([])) as composer:
        yield lambda words: plain(own_part(composer.compose(words)))


def plain(config: Any) -> dict[str, Any]:
    """The configuration with interpolations unresolved, since their values differ between runs."""
    content: Any = OmegaConf.to_container(config, resolve=False) if OmegaConf.is_config(config) else config
    return {str(key): value for key, value in content.items() if key not in APART}


def current(path: Path, composed: Callable[[], dict[str, Any]], commit: str | None = None) -> Record | None:
    """The record, if it exists with these settings, the current cost model and fitted files, and any ``commit``.

    ``composed`` returns the settings; it takes a tenth of a second, so it is called last.
    """
    if not (path / "meta.json").exists():
        return None
    run = load_record(path)
    if commit is not None and run.meta["versions"].get("commit") != commit:
        return None
    try:
        said, config = load_yaml(path / ".hydra" / "config.yaml"), composed()
    except Unreadable:  # it is made again
        return None
    if not isinstance(said, dict) or plain(said) != config or is_refitted(run.meta.get("fitted") or (), config):
        return None
    if run.meta["runtime"] != "virtual" or isinstance(run, Cluster):  # each job of a cluster has its own cost model
        return run
    model = load_costs(config["cluster"]["costs"])
    return run if model.is_of(run.meta.get("calibration")) else None


def read_records(spec: Spec, out: Path) -> list[tuple[Cell, Record]]:
    """The existing records, even if some are missing."""
    found = [(cell, record_of(out, cell.name)) for cell in cells(spec)]
    there = [(cell, path) for cell, path in found if path.exists()]
    runs = [(cell, load_record(path)) for cell, path in counted(there, len(there), "reading records")]
    if not runs:
        raise RecordError(f"{out}: no record of {spec.name} here; run it without --redraw first")
    return runs


def collect(spec: Spec, runs: Sequence[tuple[Cell, Record]], out: Path) -> Results:
    """Measures of all runs; the records of the first seed are kept in memory. ``out``: for scores of predictors."""
    single = [(cell, run) for cell, run in runs if isinstance(run, Run)]
    sets = [(cell, run) for cell, run in runs if isinstance(run, Cluster)]
    scorers = fitted_files(spec)
    frame, samples = measure_sets(spec, sets) if sets else (None, pool([]))
    return Results(
        spec=spec,
        runs=measure_single(spec, single, out) if frame is None else frame,
        samples=samples,
        metas=[{**run.meta, "fitted": [*(run.meta.get("fitted") or ()), *scorers]} for _, run in runs],
        claims=claims_of(spec),
        marked=marked_claims(spec),
        records={cell.name: (cell, run) for cell, run in single if cell.seed == spec.seeds[0]},
        evaluations=[(cell, run.tables.evaluations) for cell, run in single],
        warnings=warnings_of_live([run for _, run in single]),
    )


def measure_single(spec: Spec, runs: Sequence[tuple[Cell, Run]], out: Path) -> pd.DataFrame:
    """The frame of single jobs, with a row for every predictor that is scored on them."""
    frame = measure_runs(spec, runs, score_in_forks(spec, runs, out))
    return choose_settings(spec, frame) if spec.predictors else frame


def score_in_forks(spec: Spec, runs: Sequence[tuple[Cell, Run]], out: Path) -> RatesOf | None:
    """Scores of the predictors of ``spec`` on these runs, several at a time; None if it has none.

    Scores stay in ``out`` and are not made again while record, predictors and code are the same.
    """
    if (rates := rates_of(spec)) is None:
        return None
    folder, by_name = out / SCORES, {cell.name: run for cell, run in runs}
    folder.mkdir(parents=True, exist_ok=True)
    own = (path.relative_to(ROOT) for path in (ROOT / "predictors").rglob("*") if path.suffix in (".py", ".npz"))
    asked = msgspec.json.encode([spec.predictors, spec.labels, sha256_of([*own, *SCORING])])
    sums = {name: sha256(asked + (run.path / SUMS).read_bytes()).hexdigest() for name, run in by_name.items()}

    def there(name: str) -> Any:
        try:
            found = json.loads((folder / f"{name}.json").read_text())
        except (OSError, ValueError):  # none, or half of one
            return None
        return found["rates"] if found["of"] == sums[name] else None

    def work(name: str) -> int:
        (folder / f"{name}.json").write_text(json.dumps({"of": sums[name], "rates": rates(by_name[name])}))
        return 0

    missing = [name for name in by_name if there(name) is None]
    for name, code in counted(in_forks(missing, work, processors()), len(missing), "scoring predictors"):
        if code:
            raise RecordError(f"{by_name[name].path}: the predictors of {spec.name} could not be scored on it")
    found = {run.path: there(name) for name, run in by_name.items()}
    return lambda run: found[run.path]


def results_of_table(spec: Spec) -> Results:
    """The results of an experiment in which nothing is run."""
    rows = TABLES[spec.table or ""](spec)
    return Results(spec=spec, runs=rows, metas=[], claims=claims_of(spec))


def names_in_records(spec: Spec) -> dict[str, str]:
    """``figure.names``; a level that is one setting also names that setting, as records know no levels."""
    names = dict(spec.figure.names)
    for levels in spec.axes.values():
        for level, words in levels.items():
            if level in spec.figure.names and len(words) == 1:
                setting, _, value = words[0].partition("=")
                names.setdefault(id_of(setting, value), spec.figure.names[level])
    return names
