"""Sources of jobs: what they read and draw, and what they refuse, with the row and the column."""

from __future__ import annotations

import importlib
import json
import math
import pkgutil
import tomllib
import zoneinfo
from dataclasses import fields
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
from omegaconf import OmegaConf
from scipy import stats

from injectors import arrivals
from injectors.arrivals import distributions
from injectors.arrivals.base import Arrivals, Submission
from injectors.arrivals.distributions import Choice, Constant, Exponential, Lognormal, Uniform, UniformWhole
from injectors.arrivals.listed import Listed
from injectors.arrivals.philly import Philly
from injectors.arrivals.poisson import Poisson
from injectors.arrivals.table import JobTable
from injectors.arrivals.times import PACIFIC
from runtime.config.instantiate import instantiate
from tests.support.runs import ROOT

NAMES = sorted(path.stem for path in (ROOT / "conf/jobs").glob("*.yaml"))
FOLDER = "injectors/traces/philly"
SLICE, LOG = f"{FOLDER}/slice.csv", f"{FOLDER}/cluster_job_log.sample.json"
HEADER = "timestamp,duration,num_gpus,gpu_time,cluster\n"


def spec(name: str, **changes: Any) -> dict[str, Any]:
    loaded = OmegaConf.to_container(OmegaConf.load(ROOT / f"conf/jobs/{name}.yaml"))
    fields = {str(key): value for key, value in dict(loaded).items() if key != "defaults"}  # type: ignore[call-overload]
    return {**fields, **changes}


def source(name: str, **changes: Any) -> Arrivals:
    made: Arrivals = instantiate(spec(name, **changes), "jobs")
    return made


def refusal(made: Arrivals) -> str:
    with pytest.raises(ValueError, match=r"\w") as caught:
        made.submissions(0)
    text = str(caught.value)
    assert "\n" not in text
    return text


@pytest.mark.parametrize("name", NAMES)
def test_as_shipped_it_gives_the_same_jobs_for_the_same_seed_in_order(name: str) -> None:
    jobs = source(name).submissions(3)
    assert jobs == source(name).submissions(3)
    assert set(spec(name)) - {"_target_"} == {one.name for one in fields(source(name))}  # type: ignore[arg-type]
    assert [one.submit_s for one in jobs] == sorted(one.submit_s for one in jobs)
    assert len({one.job for one in jobs}) == len(jobs)
    assert bool(jobs) == (name != "none")
    assert all(one.submit_s >= 0 and one.gpus >= 1 for one in jobs)


def test_every_source_has_a_file_in_conf_and_the_other_way_round() -> None:
    for module in pkgutil.walk_packages(arrivals.__path__, "injectors.arrivals."):
        importlib.import_module(module.name)
    own = {f"{cls.__module__}.{cls.__name__}" for cls in Arrivals.__subclasses__()}
    assert {name for name in own if name.startswith("injectors.")} == {spec(name)["_target_"] for name in NAMES}


GRID = [(n + 0.5) / 4000 for n in range(4000)]


@pytest.mark.parametrize(
    ("made", "wanted"),
    [
        (Uniform(low=2, high=6), stats.uniform(2, 4)),
        (Exponential(mean=5), stats.expon(scale=5)),
        (Lognormal(median=60, sigma=1.2), stats.lognorm(1.2, scale=60)),
        (UniformWhole(low=4, high=12), stats.randint(4, 13)),
        (Choice(values=(1, 2, 8), weights=(0.5, 0.3, 0.2)), stats.rv_discrete(values=((1, 2, 8), (0.5, 0.3, 0.2)))),
    ],
)
def test_quantiles_are_scipys(made: distributions.Distribution, wanted: Any) -> None:
    assert [made.quantile(part) for part in GRID] == pytest.approx(wanted.ppf(GRID).tolist())


def test_distributions_have_finite_ends_and_parameters_that_make_sense() -> None:
    for made in (Constant(value=3), Exponential(mean=1), Lognormal(median=1, sigma=2), Choice(values=(1,))):
        assert all(math.isfinite(made.quantile(part)) for part in (0.0, 1 - 2.0**-53))
    assert {UniformWhole(low=1, high=3).quantile(part) for part in (0.0, 0.5, 1 - 2.0**-53)} == {1, 2, 3}
    for make, about, said in (
        (Uniform, {"low": 2, "high": 1}, "high=1"),
        (Lognormal, {"median": 1, "sigma": -1}, "sigma=-1"),
        (Choice, {"values": (1, 2), "weights": (1,)}, "weights="),
        (Choice, {"values": ()}, "values="),
        (Choice, {"values": (1,), "weights": (0,)}, "weights="),
    ):
        with pytest.raises(ValueError, match=f"^{said}"):
            make(**about)


def test_poisson_arrivals_and_independent_streams() -> None:
    made = {"num_jobs": 4000, "rate_per_hour": 120.0, "gpus": UniformWhole(low=1, high=4)}
    jobs = Poisson(**made, duration_s=Exponential(mean=50.0)).submissions(0)
    gaps = [b.submit_s - a.submit_s for a, b in pairwise(jobs)]
    assert stats.kstest(gaps, stats.expon(scale=30.0).cdf).pvalue > 0.001
    assert fmean(one.duration_s or 0.0 for one in jobs) == pytest.approx(50.0, rel=0.1)
    others = Poisson(**made, servers="uniform", models=("a", "b")).submissions(0)
    assert [(one.submit_s, one.gpus) for one in others] == [(one.submit_s, one.gpus) for one in jobs]
    assert {one.model for one in others} == {"a", "b"}
    assert all(1 <= (one.servers or 0) <= one.gpus for one in others)
    assert Poisson(**made).submissions(1) != Poisson(**made).submissions(0)


def test_a_list_in_a_file_is_the_same_as_in_the_settings(tmp_path: Path) -> None:
    file = tmp_path / "jobs.yaml"
    file.write_text(
        "- {job: b, submit_s: 5, gpus: 2, duration_s: 10, settings: [seed=1]}\n- {job: a, submit_s: 1, gpus: 1}\n"
    )
    jobs = Listed(path=str(file), time_scale=2.0).submissions(0)
    assert jobs == [
        Submission(job="a", submit_s=2.0, gpus=1),
        Submission(job="b", submit_s=10.0, gpus=2, duration_s=20.0, settings=("seed=1",)),
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("- {job: a, submit_s: 0, gpus: 1, gpu: 2}", "entries[0], column gpu: no such field"),
        ("- {job: a, submit_s: x, gpus: 1}", "Expected float, got str; entries[0].submit_s"),
        ("- {job: a, submit_s: -1, gpus: 1}", "entries[0], column submit_s, -1.0: must be a finite number, 0 or more"),
        ("- {job: a/b, submit_s: 0, gpus: 1}", "entries[0], column job, a/b: must be up to 100 letters"),
        ("[{job: a, submit_s: 0, gpus: 1}, {job: a, submit_s: 1, gpus: 1}]", "entries[1], column job, a: entries[0]"),
        ("a: [", "is not a YAML file (line 2"),
    ],
)
def test_a_bad_list_is_refused(text: str, said: str, tmp_path: Path) -> None:
    file = tmp_path / "jobs.yaml"
    file.write_text(text)
    assert f"path={file}: {said}" in refusal(Listed(path=str(file)))


def test_the_three_jobs_of_the_original_schema() -> None:
    """One with two attempts, one with three of which an end is "None", one without any."""
    jobs = Philly(path=LOG).submissions(0)
    assert [(one.job, one.submit_s, one.gpus, one.duration_s, one.user) for one in jobs] == [
        ("application_1506638472019_14199", 0.0, 8, 193256.0, "ce2f4c"),  # 74 + 193,182 s, as in philly.csv
        ("application_1506638472019_16565", 179557.0, 1, 43.0, "2c46d5"),
    ]


def test_philly_as_it_is_shipped() -> None:
    jobs = Philly(path=SLICE, begin="2017-10-09", end="2017-10-14").submissions(0)
    assert (len(jobs), sum(one.gpus >= 2 for one in jobs), sum(one.gpus >= 4 for one in jobs)) == (1353, 290, 191)
    # 350 jobs of 4 to 12 workers, each with 1 to as many servers; another seed gives another one
    jobs = source("philly").submissions(0)
    assert len(jobs) == 350
    assert {one.gpus for one in jobs} == set(range(4, 13))
    assert all(1 <= (one.servers or 0) <= one.gpus for one in jobs)
    assert {one.job for one in jobs} != {one.job for one in source("philly").submissions(1)}


def table_of(tmp_path: Path, *rows: str, header: str = HEADER) -> str:
    file = tmp_path / "philly.csv"
    file.write_text(header + "".join(f"{row}\n" for row in rows))
    return str(file)


def test_philly_times_are_local_and_windows_half_open(tmp_path: Path) -> None:
    """Three hours on the clock from 00:30 to 03:30 were four; of the hour that exists twice the first is meant."""
    rows = ("2017-11-05 00:30:00,1,1,1,a", "2017-11-05 01:30:00,1,1,1,b", "2017-11-05 03:30:00,1,1,1,c")
    jobs = Philly(path=table_of(tmp_path, *rows)).submissions(0)
    assert [one.submit_s for one in jobs] == [0.0, 3600.0, 4 * 3600.0]
    path = table_of(
        tmp_path, "2017-10-09 00:00:00,5,1,5,a", "2017-10-09 12:00:00,5,1,5,b", "2017-10-10 00:00:00,5,1,5,c"
    )
    made = Philly(path=path, begin="2017-10-08 23:00:00", end="2017-10-10", time_scale=0.5, max_duration_s=2.0)
    jobs = made.submissions(0)
    assert [(one.submit_s, one.duration_s) for one in jobs] == [(1800.0, 2.0), (13 * 1800.0, 2.0)]


@pytest.mark.parametrize(
    ("row", "said"),
    [("-5,1,5,a", "column duration, -5"), ("5,1.5,5,a", "column num_gpus, 1.5"), ("5,1", "has 3 cells, the header 5")],
)
def test_a_bad_row_is_refused(row: str, said: str, tmp_path: Path) -> None:
    assert f"line 2{'' if 'cells' in said else ','} {said}" in refusal(
        Philly(path=table_of(tmp_path, f"2017-10-09 08:00:00,{row}"))
    )


def test_other_files_are_refused(tmp_path: Path) -> None:
    pointer = tmp_path / "trace.csv"
    pointer.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:2037\nsize 1055988361\n")
    assert "is a Git-LFS pointer and not the data; get them with: git lfs pull" in refusal(Philly(path=str(pointer)))
    assert "is a Git-LFS pointer" in refusal(JobTable(path=str(pointer), submit_column="t", gpus_column="g"))
    for header, said in (("", "no column num_gpus"), (",num_gpus,color", "column color has no meaning")):
        assert said in refusal(Philly(path=table_of(tmp_path, header=f"timestamp,duration{header}\n")))
    assert "has no usable job" in refusal(Philly(path=table_of(tmp_path)))
    path = table_of(tmp_path, "2017-10-09 08:00:00,60.0,2,120.0,a")
    assert "no job was submitted until end=None" in refusal(Philly(path=path, begin="2018-01-01"))
    assert "num_jobs=9: the window has 1 jobs" in refusal(Philly(path=path, num_jobs=9))
    assert "min_gpus=3: of 1 jobs in the window none" in refusal(Philly(path=path, min_gpus=3))
    assert "there is no such file" in refusal(Philly(path="nowhere.csv"))


def logged(tmp_path: Path, *jobs: dict[str, Any]) -> str:
    file = tmp_path / "cluster_job_log"
    file.write_text(json.dumps(list(jobs)))
    return str(file)


ATTEMPT = {
    "start_time": "2017-10-09 08:00:00",
    "end_time": "2017-10-09 09:00:00",
    "detail": [{"ip": "m1", "gpus": ["gpu0"]}],
}
GOOD = {
    "jobid": "good",
    "submitted_time": "2017-10-09 07:00:00",
    "attempts": [ATTEMPT],
    "status": "Pass",
    "vc": "v",
    "user": "u",
}


@pytest.mark.parametrize("nothing", [None, "", "None"])
def test_jobs_whose_times_are_unknown_are_left_out(nothing: str | None, tmp_path: Path) -> None:
    others = [
        {**GOOD, "jobid": "a", "submitted_time": nothing},
        {**GOOD, "jobid": "b", "attempts": [{**ATTEMPT, "start_time": nothing}]},
        {**GOOD, "jobid": "c", "attempts": [{**ATTEMPT, "end_time": nothing}, {**ATTEMPT, "start_time": nothing}]},
        {**GOOD, "jobid": "d", "attempts": []},
        {**GOOD, "jobid": "e", "attempts": [{**ATTEMPT, "detail": []}]},
        {**GOOD, "jobid": "f", "attempts": None},
    ]
    jobs = Philly(path=logged(tmp_path, *others, GOOD)).submissions(0)
    assert [(one.job, one.duration_s) for one in jobs] == [("good", 3600.0)]


@pytest.mark.parametrize(
    ("jobs", "said"),
    [
        ([{**GOOD, "attempts": [{**ATTEMPT, "end_time": "2017-10-09 07:59:59"}]}], "column attempts[0].end_time"),
        ([GOOD, GOOD], "job 2 (good), column job, good: job 1 (good) has the same name"),
        ([{"status": "Pass"}], "is not a cluster_job_log (Object missing required field `jobid`"),
    ],
)
def test_a_bad_log_is_refused(jobs: list[dict[str, Any]], said: str, tmp_path: Path) -> None:
    assert said in refusal(Philly(path=logged(tmp_path, *jobs)))


def other_table(tmp_path: Path, text: str, **changes: Any) -> JobTable:
    file = tmp_path / "jobs.csv"
    file.write_text(text)
    return JobTable(**{"path": str(file), "submit_column": "at", "gpus_column": "gpus", **changes})


def test_a_table_with_other_names_and_units(tmp_path: Path) -> None:
    text = "id,at,gpus,iters,each,who,what,ps,cores,c\nx,2000,4,100,0.5,ann,vgg,2,1.5,r\ny,1000,1,10,2,bob,lstm,0,1,b\n"
    columns = {"iterations": "iters", "seconds_per_iteration": "each", "job": "id", "user": "who", "model": "what"}
    columns |= {"servers": "ps", "worker_cpu_cores": "cores"}
    named = {f"{name}_column": column for name, column in columns.items()}
    y, x = other_table(tmp_path, text, submit_unit_s=0.001, **named).submissions(0)
    about: dict[str, Any] = {"iterations": 100, "servers": 2, "user": "ann", "model": "vgg", "worker_cpu_cores": 1.5}
    assert x == Submission(job="x", submit_s=2.0, gpus=4, duration_s=50.0, **about)
    assert (y.job, y.submit_s, y.duration_s) == ("y", 1.0, 20.0)


@pytest.mark.parametrize(
    ("changes", "lengths"),
    [
        ({}, [(100, 50.0), (10, 20.0)]),
        ({"time_scale": 2.0, "max_duration_s": 30.0}, [(60, 30.0), (15, 30.0)]),
        ({"time_scale": 0.001}, [(1, 0.05), (1, 0.02)]),
    ],
)
def test_iterations_are_scaled_and_cut_with_their_seconds(
    changes: dict[str, Any], lengths: list[tuple[int, float]], tmp_path: Path
) -> None:
    text = "at,gpus,iters,each\n0,1,100,0.5\n0,1,10,2\n"
    made = other_table(tmp_path, text, iterations_column="iters", seconds_per_iteration_column="each", **changes)
    assert [(one.iterations, one.duration_s) for one in made.submissions(0)] == lengths
    alone = other_table(tmp_path, text, iterations_column="iters", time_scale=0.25)
    assert [(one.iterations, one.duration_s) for one in alone.submissions(0)] == [(100, None), (10, None)]


def test_parquet_and_times_with_zones(tmp_path: Path) -> None:
    import pandas as pd

    file = tmp_path / "jobs.parquet"
    at = pd.to_datetime(["2020-01-01 00:01:00", "2020-01-01 00:00:00"]).tz_localize("UTC")
    pd.DataFrame({"at": at, "gpus": [2, 1], "s": [5.0, 6.0]}).to_parquet(file)
    made = JobTable(path=str(file), submit_column="at", submit_as="time", gpus_column="gpus", duration_column="s")
    assert [(one.job, one.submit_s, one.duration_s) for one in made.submissions(0)] == [
        ("row2", 0.0, 6.0),
        ("row1", 60.0, 5.0),
    ]


@pytest.mark.parametrize(
    ("text", "changes", "said"),
    [
        ("at,gpus\n2020-01-01 00:00:00,1\n", {"submit_as": "time"}, "column at, 2020-01-01 00:00:00: is a time with"),
        ("at,gpus\n2020-01-01T00:00:00,1\n", {}, "submit_as=time reads times"),
        ("at,gpus\n", {}, "has no jobs"),
        ("at,gpus\n-5,1\n", {}, "column at, -5: must be 0 or more"),
        ("at,gpus\n5,1\n", {"num_jobs": 2}, "num_jobs=2: it has only 1 jobs"),
    ],
)
def test_a_bad_table_is_refused(text: str, changes: dict[str, Any], said: str, tmp_path: Path) -> None:
    assert said in refusal(other_table(tmp_path, text, **changes))


@pytest.mark.parametrize(
    ("text", "changes", "said"),
    [
        ("at,gpu\n5,1\n", {}, "did you mean gpu?"),
        ("at,size\n5,1\n", {}, "it has at, size"),
        ("at,size\n5,1\n", {"gpus_column": "size", "user_column": "who"}, "user_column=null: the table has none"),
        ("at   gpus\n5   1\n", {}, "must be apart by commas, semicolons, tabs or | (sacct: --parsable2)"),
    ],
)
def test_a_column_that_a_setting_names_and_the_file_has_not_is_an_error_about_the_setting(
    text: str, changes: dict[str, Any], said: str, tmp_path: Path
) -> None:
    assert refusal(other_table(tmp_path, text, **changes)).endswith(said)


def test_what_is_no_duration_or_no_name_is_refused(tmp_path: Path) -> None:
    for wrong in ("00:61:00", "1-5", "-1:00:00", "10:00", "h", "5x", "P"):
        made = other_table(tmp_path, f"at,gpus,s\n0,1,{wrong}\n", duration_column="s")
        assert f"row 1 (line 2), column s, {wrong}: must be a finite number" in refusal(made)
    for name in ("\x1b[31mred", "x" * 201):
        (tmp_path / "jobs.csv").write_text(f"at,gpus,who\n0,1,{name}\n")
        made = JobTable(path=str(tmp_path / "jobs.csv"), submit_column="at", gpus_column="gpus", user_column="who")
        with pytest.raises(ValueError, match=r"column user, .*: must be up to 200 letters") as caught:
            made.submissions(0)
        assert str(caught.value).isprintable()


def test_a_line_that_is_there_twice_counts_once_if_jobs_have_names(tmp_path: Path) -> None:
    """A job that is logged twice is one; without names equal rows are two jobs; the rest of a row need not agree."""
    text = "at,gpus,id,note\n5,1,a,x\n6,2,b,x\n5,1,a,y\n"
    named = other_table(tmp_path, text, job_column="id")
    assert [(one.job, one.submit_s) for one in named.submissions(0)] == [("a", 5.0), ("b", 6.0)]
    assert [one.job for one in other_table(tmp_path, text).submissions(0)] == ["row1", "row3", "row2"]
    other = other_table(tmp_path, text.replace("5,1,a,y", "5,4,a,y"), job_column="id")
    assert refusal(other).endswith("a name stands for one job; job_column=null numbers the rows instead")


def test_the_first_of_the_jobs_that_are_drawn_is_at_0(tmp_path: Path) -> None:
    """Of an epoch; a number stays where it is."""
    text = "at,gpus\n" + "".join(f"{1000 + 7 * row},1\n" for row in range(20))
    moved = other_table(tmp_path, text, submit_as="epoch", num_jobs=3).submissions(1)
    stay = other_table(tmp_path, text, num_jobs=3).submissions(1)
    assert [one.submit_s for one in moved] == [one.submit_s - stay[0].submit_s for one in stay]
    assert stay[0].submit_s >= 1000


def test_zones_are_known_without_a_database_of_the_system() -> None:
    """The package of them is declared."""
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    assert "tzdata" in declared
    zoneinfo.reset_tzpath([])
    try:
        assert zoneinfo.ZoneInfo.no_cache(PACIFIC).utcoffset(datetime(2017, 10, 9)) == timedelta(hours=-7)
    finally:
        zoneinfo.reset_tzpath()
