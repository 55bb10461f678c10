"""The description of an experiment: a YAML in ``conf/experiment/`` that names runs, a figure and its claims."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, product
from math import inf
from pathlib import Path
from typing import Any, Literal

import msgspec

from analysis.about import COMPARED
from analysis.experiments.cluster_measures import CLUSTER_MEASURES
from analysis.experiments.measures import MEASURES
from analysis.experiments.samples import SAMPLES
from analysis.experiments.shapes import misshapen
from analysis.files import natural
from analysis.measures.agreement import CASE, PACED, SIDE, SIDES, TOLERANCE_FRAC
from analysis.measures.prediction import ALARMS, PLACES, RATES
from reading import Unreadable
from reading.errors import shown
from reading.plain import load_yaml

LEVEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9.+-]*(_[A-Za-z0-9.+-]+)*")
"""Names of experiments and levels become parts of paths."""
PREDICTOR = "predictor"
"""The axis that ``predictors`` add."""
TUNED = "_tuned"
"""The end of a predictor's name if one half of the seeds has chosen its setting."""
PAIRED = "jct_ratio"
"""The measure that ``paired`` adds."""
ALL_LEVELS = "all"
"""In ``target``: every level of the axis."""
ALL = {name: [f"strategy={name}"] for name in sorted(COMPARED)}
"""The levels of an axis that is ``all``."""
KINDS = tuple(
    sorted(
        path.stem
        for path in (Path(__file__).parents[1] / "figures" / "experiment").glob("*.py")
        if path.stem != "__init__"
    )
)
"""All kinds of figures."""
OF_MEASURES = ("bars", "groups", "lines", "against", "delays", "map", "dots", "cdf", "profile")
"""Figures of ``figure.value``, or of what ``figure.shows`` says; others show what happened over time."""
OF_SHOWS = ("dots", "cdf", "elastic")
"""Figures of what ``figure.shows``: panels, or (``elastic``, a single one) bars below its panels."""
OVER_TIME = ("curves", "loss")
"""Figures of the metric over time, which rows have, too."""
CHOSEN = ("seed", "draw", "view")
"""Settings that experiments choose themselves."""
AGREEMENT = "agreement"
"""The figure that compares the levels of the axis ``side``: live runs with virtual ones."""
SEED = "seed"
"""The seed, where parts of an experiment are named as if it were an axis."""
TIMES = ("jct_s",)
"""Measures of runs without a record."""
CLUSTER_KINDS = ("bars", "groups", "lines", "against", "map", "dots", "cdf", "profile")
"""Figures of measures alone, which sets of jobs and runs without a record have, too."""


class SpecError(ValueError):
    """A description that cannot be used: the file, the field and the cure."""


class Shown(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A measure that has a panel (``dots``), or a distribution that has (``cdf``)."""

    label: str
    measure: str = ""
    """Its name; empty: the key in ``figure.shows``."""
    title: str = ""
    share: str = "runs"
    """The things of which a distribution is a share."""
    scale: float = 1.0
    log: bool = False
    ends: tuple[float, float] | None = None
    """Ends of the axis, in the plotted unit; null: by the data."""
    claims: str = ""
    """The measure whose claims are marked, if it is another."""
    groups: dict[str, str] = {}
    """Names for the parts of a distribution."""
    marks: dict[str, tuple[tuple[float, float], ...]] = {}
    """The paper's points of a distribution, by level or group: the value, and how many per cent are not above it."""


class Printed(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A value that the paper prints and no claim of the experiment has."""

    at: dict[str, str]
    """The cell: a level for each axis."""
    value: float
    """In the plotted unit."""


Part = dict[str, tuple[str, ...]]
"""Some cells: their levels, by axis or ``seed``; of others any."""


class Drawing(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The figure and its parameters: see the modules of ``analysis/figures/experiment/``."""

    kind: str
    panels: str | None = None
    """The axis with one panel per level; null: a single panel."""
    by: str = "system"
    """The axis with one colour per level."""
    along: str | None = None
    """The axis of numeric levels that is plotted horizontally."""
    value: str = "jct_s"
    """The measure that is plotted."""
    label: str = "job completion time (s)"
    along_label: str = ""
    scale: float = 1.0
    """Factor for the plotted measure."""
    log: bool = False
    hide: tuple[str, ...] = ()
    """Levels of ``by`` that are not plotted: references."""
    fixed: tuple[str, ...] = ()
    """Levels of ``by`` among which the best is the reference (``against``), or that have a colour (``profile``)."""
    names: dict[str, str] = {}
    """The figure's names for levels of any axis; strategies have names already."""
    within_frac: float = TOLERANCE_FRAC
    """Relative difference of two times that counts as none (``agreement``)."""
    looks: dict[str, str] = {}
    """The strategy that a level of ``by`` looks like, if it is called otherwise."""
    shows: dict[str, Shown] = {}
    """The measures that have a panel each (``dots``, ``cdf``), or bars (``elastic``); none: ``value``, or no bars."""
    printed: tuple[Printed, ...] = ()
    marks_of: tuple[str, ...] = ()
    """Other experiments with the same levels, whose claims are marked, too."""
    anchor: Part = {}
    """The cells to whose values of ours the paper's ratios are applied; none: they are to the paper's own values."""

    @property
    def alone(self) -> Shown:
        """The only measure, of figures without ``shows``."""
        return Shown(self.label, measure=self.value, scale=self.scale, log=self.log)

    @property
    def several(self) -> list[Shown]:
        """Everything that has a panel, with the name of its measure."""
        named = [msgspec.structs.replace(one, measure=one.measure or name) for name, one in self.shows.items()]
        return named or [self.alone]


class Prediction(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A straggler predictor that is scored on every run: see docs/predictors.md."""

    name: str
    settings: dict[str, Any] = {}
    """Those that differ from its defaults."""
    lead_s: float = 0.0
    """How long before an iteration begins it is asked, in seconds."""
    tune: dict[str, tuple[float, ...]] = {}
    """Other values of settings, one changed at a time. Every other seed chooses among them; the level ``NAME_tuned``
    has the choice's results with the rest of the seeds."""


class Numbers(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A table of medians on the page: a row per cell, a column per measure."""

    columns: dict[str, str]
    """The heading of every measure."""
    scale: dict[str, float] = {}
    """Factors for measures that are not shown as they are."""
    ratios: tuple[str, ...] = ()
    """Measures that are also shown as ratios to the cell ``over``."""
    over: dict[str, str] = {}
    """The levels of the reference; it has the run's other levels and seed."""


class Gain(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The increase of the metric after an update, whose number is the level of an axis."""

    axis: str
    for_s: float


class Also(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """More settings of some cells, which override their levels' settings."""

    at: Part
    settings: tuple[str, ...]


class Spec(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """An experiment: the product of its axes and seeds."""

    name: str
    title: str
    where: str
    """Figure, table or section of the paper."""
    settings: tuple[str, ...] = ()
    """``setting=value`` pairs that apply to every run."""
    axes: dict[str, dict[str, tuple[str, ...]]]
    """The settings of each level of each axis; later axes override earlier ones, and those the common settings."""
    also: tuple[Also, ...] = ()
    """Settings of combinations of levels."""
    without: tuple[dict[str, str | tuple[str, ...]], ...] = ()
    """Cells that are left out: their level, or levels, by axis or ``seed``."""
    parts: tuple[Part, ...] = ()
    """The cells, if not all combinations of levels are wanted: those of any part."""
    pacing: str = ""
    """The setting by which virtual processors become as fast as they were live, in the cells ``side: paced``."""
    seeds: tuple[int, ...] = (0,)
    table: Literal["coding", "transfers", "delays", "groups", "replicas", "delayed_sgd", "dropcompute"] | None = None
    """No runs: the rows are computed by a function of ``python run.py experiment``'s ``TABLES``."""
    repeats: str | None = None
    """An axis whose levels are repetitions, like seeds, and are not compared."""
    measures: tuple[str, ...] = ("jct_s",)
    """Functions of :mod:`analysis.experiments.measures`."""
    excess: dict[str, dict[str, str]] = {}
    """Additional measures: JCT minus the named cell's JCT, for the same seed."""
    target: dict[str, str] = {}
    """Adds the measure ``tta_s``: seconds until the metric reaches what this cell's converges to, with the other levels
    and the seed as in the run (STAR, section III: ASGD); with ``ALL_LEVELS`` the worst that any level's does. Of a set
    of jobs: the mean over jobs until the held-out loss is what the same job converges to there."""
    until_target: dict[str, str] = {}
    """Additional measures with a ``target``: another measure, which is a rate, times ``tta_s``."""
    paired: dict[str, str] = {}
    """Adds the measure ``jct_ratio`` of a set of jobs: the median over its jobs of the completion time relative to the
    same job in this cell, with the run's other levels and seed; runs without a record compare their own times."""
    times_only: bool = False
    """Virtual runs leave no record but the time of the job, or why there is none: grids of thousands of jobs."""
    keep_rows: bool = False
    """Whether what each run measured stays as a row next to the page (:mod:`analysis.experiments.rows`), so that runs
    can be made in pieces, on several days and machines, and pages need no records."""
    failing: bool = False
    """Whether jobs of a set may fail, which is what is measured: a set that is over counts, however its jobs ended."""
    gain: Gain | None = None
    """Adds the measure ``gain``."""
    predictors: dict[str, Prediction] = {}
    """Each is scored on every run. Adds the axis ``predictor``, whose levels need no runs of their own, and the
    measures ``analysis.measures.prediction.RATES``, ``ALARMS`` and ``PLACES`` of a job."""
    labels: Literal["realised", "plan", "faults"] = "realised"
    """The truth for ``predictors``: see :mod:`analysis.measures.prediction_labels`."""
    numbers: Numbers | None = None
    """A table on the page."""
    figure: Drawing
    notes: str = ""
    """For the page: what was scaled and chosen, and why our results differ where they do (Markdown)."""

    @property
    def shown_levels(self) -> list[str]:
        """The levels that get a colour."""
        return [level for level in self.levels[self.figure.by] if level not in self.figure.hide]

    @property
    def levels(self) -> dict[str, list[str]]:
        """The levels of every axis that results have, ``predictor`` included."""
        levels = {axis: list(there) for axis, there in self.axes.items()}
        also = [f"{name}{TUNED}" for name, one in self.predictors.items() if one.tune]
        return levels | ({PREDICTOR: [*self.predictors, *also]} if self.predictors else {})

    @property
    def compared_axes(self) -> list[str]:
        """The axes whose levels are compared."""
        return [axis for axis in self.levels if axis != self.repeats]

    @property
    def columns(self) -> list[str]:
        """The columns that results have."""
        more = {"tta_s": self.target, "gain": self.gain, PAIRED: self.paired}
        rates = (*RATES, *ALARMS, *PLACES) if self.predictors else ()
        return [
            *self.measures,
            *self.excess,
            *self.until_target,
            *(name for name, wanted in more.items() if wanted),
            *rates,
        ]

    @property
    def paper(self) -> str:
        """Name of the ledger: the first word of the experiment's name."""
        return self.name.partition("_")[0]

    @property
    def lines(self) -> tuple[str, ...]:
        """All settings of all runs, as the description has them."""
        levels = (level for levels in self.axes.values() for level in levels.values())
        return tuple(chain(self.settings, *levels, *(also.settings for also in self.also)))

    @property
    def has_records(self) -> bool:
        """Whether its results are made from records."""
        return self.table is None and not self.times_only and not self.keep_rows

    @property
    def clusters(self) -> bool:
        """Whether its runs are sets of jobs."""
        return self.table is None and any(_has_jobs(self, cell) for cell in cells(self))

    @property
    def live(self) -> bool:
        """Whether any run is timed on this machine."""
        return self.table is None and any("runtime=virtual" not in settings_of(self, cell) for cell in cells(self))

    def measures_time(self, cell: Cell) -> bool:
        """Whether the run is timed on this machine, or its decisions are: such runs are made one after another."""
        return "runtime=virtual" not in settings_of(self, cell) or "runtime.decisions=measured" in self.lines


class Cell(msgspec.Struct, frozen=True):
    """One run of an experiment: a level for each axis, and a seed."""

    levels: dict[str, str]
    seed: int

    @property
    def name(self) -> str:
        """Name of the run's record directory."""
        return "_".join([*self.levels.values(), f"seed{self.seed}"])

    def within(self, part: Mapping[str, str | Sequence[str]]) -> bool:
        """Whether it has one of the levels that are named for each axis."""
        mine = {**self.levels, SEED: str(self.seed)}
        return all(mine[axis] == there or mine[axis] in tuple(there) for axis, there in part.items())


def load_spec(path: Path) -> Spec:
    """Read and check the description in ``path``; raises :class:`SpecError`."""
    try:
        fields = load_yaml(path)
        if isinstance(fields, dict) and isinstance(axes := fields.get("axes"), dict):
            fields["axes"] = {axis: ALL if levels == "all" else levels for axis, levels in axes.items()}
        if isinstance(fields, dict) and (wrong := misshapen(fields)):
            raise SpecError(f"{path}: {shown(wrong, 400)}")
        spec = msgspec.convert({"name": path.stem, **fields}, Spec)
    except Unreadable as error:
        raise SpecError(f"{path}: {error}") from None
    except (msgspec.ValidationError, TypeError) as error:
        raise SpecError(f"{path}: {shown(error, 400)}") from None
    if problem := _problem(spec):
        raise SpecError(f"{path}: {shown(problem, 400)}")
    return spec


def find_specs(folder: Path) -> dict[str, Path]:
    """Paths by name, in natural order."""
    return {path.stem: path for path in sorted(folder.glob("*.yaml"), key=lambda path: natural(path.stem))}


def cells(spec: Spec) -> Iterator[Cell]:
    """Every run; seeds are the outer loop, so that slow changes of the machine affect all cells alike."""
    for seed in spec.seeds:
        for levels in product(*spec.axes.values()):
            cell = Cell(dict(zip(spec.axes, levels, strict=True)), seed)
            kept = not spec.parts or any(map(cell.within, spec.parts))
            if kept and not any(map(cell.within, spec.without)):
                yield cell


def settings_of(spec: Spec, cell: Cell) -> list[str]:
    """The command-line settings of a run: common settings, its levels' settings, the seed."""
    lines = [*spec.settings]
    for axis, level in cell.levels.items():
        lines += spec.axes[axis][level]
    for also in spec.also:
        if cell.within(also.at):
            lines += also.settings
    merged = {line.partition("=")[0]: line for line in [*lines, f"seed={cell.seed}"]}
    return list(merged.values())


def narrow(spec: Spec, seeds: Sequence[int] | None, only: Mapping[str, Sequence[str]]) -> Spec:
    """A part of the experiment; raises :class:`SpecError` for an axis or level that it does not have."""
    axes: dict[str, Any] = dict(spec.axes)
    for axis, levels in only.items():
        if axis not in axes:
            raise SpecError(f"--only {axis}: {spec.name} has no such axis; there are {', '.join(spec.axes)}")
        for level in levels:
            if level not in axes[axis]:
                raise SpecError(f"--only {axis}={level}: no such level; there are {', '.join(axes[axis])}")
        axes[axis] = {level: axes[axis][level] for level in levels}
    return msgspec.structs.replace(spec, axes=axes, seeds=tuple(seeds) if seeds else spec.seeds)


def _problem(spec: Spec) -> str | None:
    return (
        _axes_problem(spec)
        or _cells_problem(spec)
        or _times_problem(spec)
        or _rows_problem(spec)
        or _figure_problem(spec)
        or _clocks_problem(spec)
        or _more_problem(spec)
        or _measures_problem(spec)
        or _settings_problem(spec)
        or _clusters_problem(spec)
    )


def _axes_problem(spec: Spec) -> str | None:
    for axis, levels in spec.axes.items():
        if not levels:
            return f"axes.{axis}: has no level"
        for level in levels:
            if not LEVEL.fullmatch(level):
                return f"axes.{axis}.{level}: a level is letters, digits, '.', '+', '-' and '_' between them"
    if spec.repeats is not None and spec.repeats not in spec.axes:
        return f"repeats: {spec.repeats} is not one of the axes ({', '.join(spec.axes)})"
    return None


def _figure_problem(spec: Spec) -> str | None:
    if spec.figure.kind not in KINDS:
        return f"figure: kind={spec.figure.kind}: there are {', '.join(KINDS)}"
    for drawn in (spec.figure.panels, spec.figure.by, spec.figure.along):
        if drawn is not None and drawn not in spec.compared_axes:
            return f"figure: {drawn} is not one of the axes ({', '.join(spec.compared_axes)})"
    by = spec.levels[spec.figure.by]
    for key, levels in (("fixed", spec.figure.fixed), ("looks", spec.figure.looks)):
        if strange := [level for level in levels if level not in by]:
            return f"figure: {key}: {strange[0]} is no level of {spec.figure.by}"
    for level in spec.figure.names:
        if not any(level in levels for levels in spec.levels.values()):
            return f"figure: names: {level} is no level of any axis ({', '.join(spec.levels)})"
    if spec.figure.kind == "against" and not spec.figure.fixed:
        return f"figure: fixed: names no level of {spec.figure.by}; against needs those that are the reference"
    return _map_problem(spec.figure) if spec.figure.kind == "map" else _marks_problem(spec)


def _marks_problem(spec: Spec) -> str | None:
    """Problems of the panels, and of the paper's marks."""
    if spec.figure.shows and spec.figure.kind not in OF_SHOWS:
        return f"figure: shows: has no effect with kind={spec.figure.kind}; there are {', '.join(OF_SHOWS)}"
    named = [("printed", axis, level) for one in spec.figure.printed for axis, level in one.at.items()]
    named += [("anchor", axis, level) for axis, levels in spec.figure.anchor.items() for level in levels]
    for key, axis, level in named:
        if level not in spec.levels.get(axis, ()):
            return f"figure: {key}: {axis}={level} is no level"
    axes = spec.compared_axes
    for one in spec.figure.printed:
        if {*one.at} != {*axes}:
            return f"figure: printed: {one.at} names no single cell; it needs a level for {', '.join(axes)}"
    return None


def _clocks_problem(spec: Spec) -> str | None:
    """Problems of comparing live with virtual runs."""
    if spec.figure.kind == AGREEMENT and not (
        {*spec.axes} == {*CASE, SIDE} and {*SIDES[:2]} <= {*spec.axes[SIDE]} <= {*SIDES}
    ):
        axes, (live, virtual, *others) = ", ".join(CASE), SIDES
        return (
            f"figure: kind={AGREEMENT}: the axes are {axes} and {SIDE}: {live}, {virtual}, perhaps {', '.join(others)}"
        )
    if spec.pacing and not any(line.startswith(f"{spec.pacing}=") for line in spec.settings):
        return f"pacing: {spec.pacing} is not one of the settings of all runs; give its usual value there"
    if bool(spec.pacing) != (PACED in spec.axes.get(SIDE, ())):
        return f"pacing: names the setting that the level {PACED} of the axis {SIDE} needs; give both or neither"
    return None


def _map_problem(figure: Drawing) -> str | None:
    if figure.along is None:
        return "figure: along: names no axis; map needs its columns"
    for name, others in (("along", (figure.by, figure.panels)), ("by", (figure.panels,))):
        if (axis := getattr(figure, name)) in others:
            return f"figure: {name}={axis}: is drawn twice; columns (along), rows (by) and panels need an axis each"
    return None


def _more_problem(spec: Spec) -> str | None:
    """Problems of the measures that ``target`` and ``gain`` add."""
    axes = ", ".join(spec.axes)
    for axis, level in spec.target.items():
        if axis not in spec.axes:
            return f"target: {axis} is not one of the axes ({axes})"
        if level not in (ALL_LEVELS, *spec.axes[axis]):
            return f"target: {axis}={level} is no level"
    for name, rate in spec.until_target.items():
        if not spec.target:
            return f"until_target: {name}: needs a target"
        if rate not in spec.measures:
            return f"until_target: {name}: {rate} is not one of the measures ({', '.join(spec.measures)})"
    if spec.gain is not None:
        if spec.gain.axis not in spec.axes:
            return f"gain: {spec.gain.axis} is not one of the axes ({axes})"
        if not all(level.isdecimal() for level in spec.axes[spec.gain.axis]):
            return f"gain: the levels of {spec.gain.axis} must be numbers of updates"
    return _predictors_problem(spec) or _numbers_problem(spec)


def _predictors_problem(spec: Spec) -> str | None:
    if spec.predictors and PREDICTOR in spec.axes:
        return f"predictors: they are the axis {PREDICTOR}; rename the one that there is"
    for level, each in spec.predictors.items():
        if not LEVEL.fullmatch(level):
            return f"predictors.{level}: a level is letters, digits, '.', '+', '-' and '_' between them"
        if not 0 <= each.lead_s < inf:
            return f"predictors.{level}: lead_s={each.lead_s:g}: must be a finite number of seconds, 0 or more"
    return None


def _numbers_problem(spec: Spec) -> str | None:
    if spec.numbers is None:
        return None
    for measure in (*spec.numbers.columns, *spec.numbers.scale, *spec.numbers.ratios):
        if measure not in spec.columns:
            return f"numbers: {measure} is not measured ({', '.join(spec.columns)})"
    if bool(spec.numbers.ratios) != bool(spec.numbers.over):
        return "numbers: ratios and over need each other"
    for axis, level in spec.numbers.over.items():
        if level not in spec.levels.get(axis, ()):
            return f"numbers: over: {axis}={level} is no level"
    return None


def _cells_problem(spec: Spec) -> str | None:
    known: dict[str, Any] = {SEED: list(map(str, spec.seeds)), **spec.axes}
    named: list[tuple[str, Mapping[str, Any]]] = [("without", part) for part in spec.without]
    named += [("parts", part) for part in spec.parts] + [("also", also.at) for also in spec.also]
    named += [(f"excess: {name}", reference) for name, reference in spec.excess.items()]
    for what, levels in named:
        for axis, there in levels.items():
            for level in [there] if isinstance(there, str) else there:
                if level not in known.get(axis, {}):
                    return f"{what}: {axis}={level} is no level"
    if not spec.seeds or len(set(spec.seeds)) < len(spec.seeds):
        return f"seeds={list(spec.seeds)}: each once, and at least one"
    names = [cell.name for cell in cells(spec)]
    return "axes: two cells have the same name; rename a level" if len(set(names)) < len(names) else None


def _beside(field: str, others: Mapping[str, bool]) -> str | None:
    """A field that has no effect with one of these, which are set or not."""
    for other, there in others.items():
        if there:
            return f"{field}: has no effect with {other}; leave one of them out"
    return None


def _times_problem(spec: Spec) -> str | None:
    """Problems of runs of which only the time is kept."""
    if not spec.times_only:
        return None
    if problem := _beside("times_only", {"table": spec.table is not None, "failing": spec.failing}):
        return problem
    if spec.clusters:
        return "times_only: is of single jobs; leave out jobs=NAME"
    if spec.live:
        return "times_only: is of the virtual clock; give every run runtime=virtual"
    return None


def _rows_problem(spec: Spec) -> str | None:
    """Problems of an experiment whose rows stay."""
    if not spec.keep_rows:
        return None
    if problem := _beside("keep_rows", {"table": spec.table is not None, "times_only": spec.times_only}):
        return problem
    if spec.clusters:
        return "keep_rows: a row is of a single job; leave out jobs=NAME"
    if spec.predictors:
        return "keep_rows: predictors are scored on records; leave one of them out"
    known = [kind for kind in (*OF_MEASURES, *OVER_TIME) if kind != "cdf"]
    if spec.figure.kind not in known:
        return f"figure: kind={spec.figure.kind} needs records, and keep_rows has none; there are {', '.join(known)}"
    return None


def _has_jobs(spec: Spec, cell: Cell) -> bool:
    return any(line.startswith("jobs=") and line != "jobs=none" for line in settings_of(spec, cell))


def _measures_problem(spec: Spec) -> str | None:
    """Measures of single jobs that do not exist, or that the figure shows without being measured."""
    if spec.table is not None or spec.clusters:
        return None
    for name in spec.measures:
        if name == "tta_s":
            cure = "leave it out here" if spec.target else "target_s is the time to the job's own target"
            return f"measures: tta_s is what `target` adds (time to what another cell converges to); {cure}"
        if name not in MEASURES and name not in CLUSTER_MEASURES:
            return f"measures: {name}: there are {', '.join(MEASURES)}"
    return _shown_problem(spec) if spec.figure.kind in OF_MEASURES else None


def _shown_problem(spec: Spec) -> str | None:
    """Something to be drawn that is not measured."""
    known = [*spec.columns, *(SAMPLES if spec.clusters and spec.figure.kind == "cdf" else ())]
    for one in spec.figure.several:
        if one.measure not in known:
            where = f"shows: {one.measure}" if spec.figure.shows else f"value: {one.measure}"
            return f"figure: {where} is not measured ({', '.join(known)})"
    return None


def _clusters_problem(spec: Spec) -> str | None:
    """Problems of runs that are sets of jobs, or without records; of others, what only such runs have."""
    if not spec.clusters and not spec.times_only:
        one = [name for name in spec.measures if name in CLUSTER_MEASURES]
        if spec.paired or spec.failing or one:
            named = "paired" if spec.paired else "failing" if spec.failing else f"measures: {one[0]}"
            return f"{named}: is of sets of jobs; give every run jobs=NAME"
        return None
    if spec.clusters and (single := next((cell.name for cell in cells(spec) if not _has_jobs(spec, cell)), None)):
        return f"jobs: {single} is one job and others are sets of jobs; make two experiments of them"
    what, known = ("times without records", TIMES) if spec.times_only else ("sets of jobs", tuple(CLUSTER_MEASURES))
    for name in ("repeats", "excess", "gain", "predictors", *(["target"] if spec.times_only else [])):
        if getattr(spec, name):
            return f"{name}: is of single jobs; leave it out, as runs are {what}"
    for name in spec.measures:
        if name not in known:
            return f"measures: {name} is not of {what}; there are {', '.join(known)}"
    return _paired_problem(spec)


def _paired_problem(spec: Spec) -> str | None:
    """Problems of the reference and of the figure where single jobs have no records."""
    for axis, level in spec.paired.items():
        if level not in spec.axes.get(axis, {}):
            return f"paired: {axis}={level} is no level"
    if spec.figure.kind not in CLUSTER_KINDS:
        return f"figure: kind={spec.figure.kind} shows a single job; there are {', '.join(CLUSTER_KINDS)}"
    return _shown_problem(spec)


def _settings_problem(spec: Spec) -> str | None:
    for line in spec.lines:
        setting, sign, _ = line.lstrip("+").partition("=")
        if not sign:
            return f"{line}: must be setting=value"
        if setting in CHOSEN or setting.startswith("hydra."):
            return f"{line}: {setting} is chosen by the program ({', '.join(CHOSEN)}, hydra.*); leave it out"
    return None
