"""Whatever is written for any setting of any file of conf/ is either taken or refused in one line: never a traceback.

Every leaf of every choice gets values that nobody should write. What is no plain value of its kind, and what is no
number, must be refused by the setting's own name.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from functools import partial
from importlib.util import find_spec
from math import inf, nan
from pathlib import Path
from typing import Any

import pytest

from runtime.config.command_line import parse_arguments
from runtime.config.compose import composing
from runtime.errors import ConfigError
from runtime.live.joining.token import new_token
from runtime.run.checking import check
from runtime.run.preflight import preflight, recomposed
from tests.contract.catalogue import on_replicas
from tests.support.runs import ROOT

CONF = ROOT / "conf"
GROUPS = ("backend", "cluster", "jobs", "launcher", "placement", "policy", "prevention", "runtime", "scheduler")
GROUPS += ("straggler", "strategy", "topology", "workload")
OF_NO_KIND: list[Any] = [{"odd": 1}, nan, inf]
ODD: list[Any] = [-1, 10**15, "", "no/such/file.csv", None, [], [1, 2], {}, True]
HOSTS = "cluster=hosts"
JOBS = "jobs=list cluster=star_servers"
ESTIMATED = "backend=none workload.target=null"
NEEDS = {
    "backend/none": "workload.target=null",
    "backend/numpy": "workload=ledger",
    "cluster/hybrid": "topology=allreduce",
    "jobs/list": "cluster=star_servers",
    "launcher/join": "launcher.listen=127.0.0.1",
    "launcher/ray": "launcher.listen=127.0.0.1",
    "jobs/mode_change": "cluster=star_servers cluster.hosts.overrides=null placement=spread strategy=star_h",
    "jobs/philly": "cluster=star_servers jobs.num_jobs=3",
    "jobs/poisson": "cluster=star_servers jobs.num_jobs=3",
    "jobs/table": "cluster=star_servers jobs.num_jobs=3",
    "placement": JOBS,
    "policy": JOBS,
    "prevention": JOBS,
    "prevention/star": f"{JOBS} strategy=star_h strategy.prevent=true",
    **{f"strategy/{name}": "topology=allreduce" for name in on_replicas()},
    "straggler/trace": "straggler.path=injectors/traces/example.csv",
    "straggler/disrupted_host": HOSTS,
    "straggler/link_throttle": HOSTS,
    "straggler/link_transient": HOSTS,
    **{f"straggler/{name}": HOSTS for name in ("cpu_throttle", "cpu_transient", "markov", "on_off")},
    **{f"workload/{name}": ESTIMATED for name in ("cifar_scale", "criteo_scale", "imagenet_scale", "ledger")},
    "workload/lda": "backend=numpy",
    "workload/lda_wikipedia": "backend=numpy",
}
"""What else a choice, or all of a group, needs for a job that can run."""
ELSEWHERE = {"scheduler/trace", "workload/lda_wikipedia"}
"""Choices whose own files are not here."""
MANY = "num_jobs", None
"""All jobs of a trace: to check ten thousand of them takes a minute and a half."""
FREE = {"labels", "predictor_settings", "settings"}
"""Sections whose keys are those of something else, and are refused by the name of that, if at all."""
LIVE = ("launcher", "runtime")
"""Groups of which not everything can be chosen with ``runtime=virtual``."""
JOBLIB = "hydra/launcher=joblib"
OWN = ("sweep.dir", "sweep.subdir", "sweeper.params", "sweeper.params.seed", "sweeper.max_batch_size")
OWN += ("job.chdir", "job.name")
OF_HYDRA = {f"hydra.{name}": "" for name in OWN}
OF_HYDRA |= {f"hydra.launcher.{name}": JOBLIB for name in ("n_jobs", "batch_size", "backend")}
"""Hydra's settings that matter to a sweep, and which launcher has them."""
WORDS = ("{odd: 1}", "nan", "-1", "1e15", "''", "no/such/file.csv", "null", "[]", "[1,2]", "{}", "true")

Steps = tuple[str | int, ...]


def choices() -> list[str]:
    found = [f"{group}/{path.stem}" for group in GROUPS for path in sorted((CONF / group).glob("*.yaml"))]
    return [one for one in found if one not in ELSEWHERE]


def leaves(tree: Any, steps: Steps) -> Iterator[Steps]:
    """Every setting, sections included, and of a list of settings the first."""
    if steps[-1] == "_target_":
        return
    yield steps
    if isinstance(tree, dict):
        for key, value in tree.items():
            yield from leaves(value, (*steps, key))
    elif isinstance(tree, list) and tree and isinstance(tree[0], dict):
        yield from leaves(tree[0], (*steps, 0))


def changed(raw: dict[str, Any], steps: Steps, value: Any) -> dict[str, Any]:
    copy: Any = deepcopy(raw)
    section = copy
    for step in steps[:-1]:
        section = section[step]
    section[steps[-1]] = deepcopy(value)
    if steps[0] == "launcher":
        copy["runtime"] = {**copy["runtime"], "launcher": copy["launcher"]}
    return copy  # type: ignore[no-any-return]


def at(raw: Any, steps: Steps) -> Any:
    for step in steps:
        raw = raw[step]
    return raw


def fault(steps: Steps, was: Any, value: Any, said: str | None) -> str:
    """What is wrong with this answer to ``value`` for a setting that ``was`` something else; empty if nothing."""
    setting = f"{steps}={value}"
    if said is not None and (not said or "\n" in said):
        return f"{setting} is not refused in one line"
    if not any(value is one for one in OF_NO_KIND) or isinstance(was, dict) or steps[-1] in FREE:
        return ""
    if said is None:
        return f"{setting} is taken"
    return "" if any(str(name) in said for name in steps[-2:]) else f"{setting} is refused as {said}"


def test_a_wrong_answer_is_a_fault() -> None:
    steps, nothing = ("strategy", "gate", "bound"), OF_NO_KIND[1]
    assert fault(steps, 3, nothing, "strategy.gate.bound=nan: must be a finite number") == ""
    assert fault(steps, 3, -1, None) == fault(steps, {"a": 1}, OF_NO_KIND[0], None) == ""
    assert "is taken" in fault(steps, 3, nothing, None)
    assert "is refused as" in fault(steps, 3, nothing, "strategy: must be a finite number")
    assert "in one line" in fault(steps, 3, -1, "bound=-1:\nmust be 0 or more")
    assert "in one line" in fault(steps, 3, -1, "")


@pytest.mark.few(2)
@pytest.mark.parametrize("choice", choices())
def test_an_odd_value_is_refused_in_one_line_or_taken(
    choice: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    if choice == "launcher/ray" and find_spec("ray") is None:
        pytest.skip("Ray is not installed, and nothing else of launcher=ray is looked at then")
    group, _, name = choice.partition("/")
    words = [f"{group}={name}", *NEEDS.get(choice, NEEDS.get(group, "")).split()]
    if choice == "launcher/join":
        token = tmp_path / "token"
        new_token(token)
        words.append(f"launcher.token_file={token}")
    if group not in LIVE:
        words.append("runtime=virtual")
    with composing(parse_arguments(words)) as composer:
        job = next(iter(composer.jobs(composer.master())))

        def refusal(raw: dict[str, Any]) -> str | None:
            try:
                check(raw, Path.cwd(), partial(recomposed, composer, job))
            except ConfigError as error:
                return str(error)
            return None

        assert refusal(job.raw) is None
        for steps in leaves(job.raw[group], (group,)):
            for value in [*OF_NO_KIND, *ODD]:
                if (steps[-1], value) != MANY:
                    said = refusal(changed(job.raw, steps, value))
                    assert fault(steps, at(job.raw, steps), value, said) == "", choice


@pytest.mark.few(1)
@pytest.mark.parametrize("setting", OF_HYDRA)
def test_an_odd_value_of_a_setting_of_hydra_s_is_refused_in_one_line_or_taken(
    setting: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    if OF_HYDRA[setting] == JOBLIB and find_spec("hydra_plugins.hydra_joblib_launcher") is None:
        pytest.skip("hydra-joblib-launcher is not installed")
    chosen = [OF_HYDRA[setting]] if OF_HYDRA[setting] else []
    for value in WORDS:
        said = ""
        try:
            preflight(["-m", "runtime=virtual", "seed=0", *chosen, f"{setting}={value}"])
        except ConfigError as error:
            said = str(error)
        assert "\n" not in said
        assert said.startswith((setting, "'")) or not said, (value, said)
