"""The composition of a command line, compared with Hydra's own for the same words."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import DictConfig, OmegaConf, open_dict

from runtime.config.command_line import parse_arguments
from runtime.config.compose import Composer, announce, composing, to_raw
from runtime.config.hydra_internal import Kept, ReadOnce
from runtime.errors import ConfigError
from tests.support.long_tests import long_after

SWEEPS = [
    "-m strategy=bsp,ssp seed=1 workload=digits,ledger",
    "-m seed=choice(4,5) +names.x=1,2 ++names.y=3",
    "-m strategy=asp,ssp strategy.lr_rule=unit seed=7,8",
    "-m strategy=antdt_dd 'strategy.types=[a,a,b,b],[a,b,a,b]' 'strategy.devices={a:{samples_per_s:3}}'",
    "-m ~workload.optimizer.momentum workload.optimizer.name=adam workload.optimizer.lr=0.1,0.2",
    "-m 'workload.optimizer={lr:0.3},{lr:0.4}' workload.optimizer.lr=0.1,0.2",
    "-m max_time_s=60,70 eval_every_s=${max_time_s},null 'names.strategy=\"a b\"'",
    "-m seed=1,2 hydra.job.config.override_dirname.kv_sep=: hydra.job.config.override_dirname.item_sep=__ max_time_s=9",
    "hydra.mode=MULTIRUN seed=1,2",
]


def by_hydra(composer: Composer, master: DictConfig, number: int, lines: list[str]) -> DictConfig:
    """What Hydra's basic launcher composes for a job of a sweep; its own loader reads every file again."""
    config = ConfigLoaderImpl(composer.loader.get_search_path()).load_sweep_config(master, lines)
    with open_dict(config):
        config.hydra.job.id = number
        config.hydra.job.num = number
    return config


def swept_by_hydra(composer: Composer, master: DictConfig) -> list[list[str]]:
    """The settings of all jobs, as Hydra's basic sweeper multiplies them out."""
    params = [f"{key}={value}" for key, value in (master.hydra.sweeper.params or {}).items()]
    task = OmegaConf.to_container(master.hydra.overrides.task, resolve=False)
    assert isinstance(task, list)
    overrides = OverridesParser.create(composer.loader).parse_overrides([*params, *task])
    return BasicSweeper.split_arguments(overrides, None)[0]


def content(config: DictConfig) -> Any:
    return OmegaConf.to_container(config, resolve=False)


PARAMS = """
defaults:
  - config
  - _self_
hydra:
  mode: MULTIRUN
  sweeper:
    params:
      seed: 1,2,3
      strategy: choice(bsp,ssp)
"""


@pytest.mark.few(1)
@pytest.mark.parametrize(
    "line",
    [
        *long_after(SWEEPS, always=1),
        pytest.param("--config-name mine", marks=pytest.mark.long),
        "--config-name mine seed=7 max_time_s=9",
    ],
)
def test_every_job_of_a_sweep_is_what_hydra_composes(line: str, tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(PARAMS)
    with composing(parse_arguments(["--config-dir", str(tmp_path), *shlex.split(line)])) as composer:
        master = composer.master()
        jobs = list(composer.jobs(master))
        assert {OmegaConf.select(job.config, "hydra.sweep.dir") for job in jobs} == {master.hydra.sweep.dir}
        assert [list(job.lines) for job in jobs] == swept_by_hydra(composer, master)
        assert len(jobs) > 1
        for number, job in enumerate(jobs):
            expected = by_hydra(composer, master, number, list(job.lines))
            assert content(job.config) == content(expected)
            for config in (expected, job.config):
                announce(config)
                assert job.raw == to_raw(config)


def test_a_single_job_is_what_hydra_composes() -> None:
    from hydra import compose

    words = ["strategy=ssp", "strategy.bound=5", "hydra.job.chdir=true"]
    with composing(parse_arguments(words)) as composer:
        [job] = composer.jobs(composer.master())
        assert content(job.config) == content(compose("config", [*words, "hydra.mode=RUN"], return_hydra_config=True))


@pytest.mark.few(1)
@pytest.mark.parametrize(("line", "jobs"), [("", 0), ("strategy=ssp seed=3", 0), ("-m strategy=bsp,ssp seed=1,2,3", 6)])
def test_every_job_is_composed_once(line: str, jobs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """One composition for the command line as a whole, which is the job's if there is only one."""
    with composing(parse_arguments(line.split())) as composer:
        counted: list[Any] = []
        load = composer.loader.load_configuration
        monkeypatch.setattr(
            composer.loader, "load_configuration", lambda *about, **more: counted.append(about) or load(*about, **more)
        )
        list(composer.jobs(composer.master()))
    assert len(counted) == 1 + jobs


def test_where_configurations_are_looked_for(tmp_path: Path) -> None:
    (tmp_path / "mine" / "strategy").mkdir(parents=True)
    (tmp_path / "mine" / "strategy" / "other.yaml").write_text("_target_: strategies.basic.ssp.SSP\nbound: 99\n")
    (tmp_path / "mine" / "whole.yaml").write_text("defaults:\n  - config\n  - override strategy: other\n  - _self_\n")
    flags = ["--config-dir", str(tmp_path / "mine")]
    for words in ([*flags, "strategy=other"], [*flags, "--config-name", "whole"]):
        with composing(parse_arguments(words)) as composer:
            [job] = composer.jobs(composer.master())
            assert job.raw["strategy"]["bound"] == 99
            sources = [source.provider for source in job.config.hydra.runtime.config_sources]
            assert sources == ["hydra", "main", "command-line", "schema"]
    (tmp_path / "config.yaml").write_text("seed: 3\n")
    with composing(parse_arguments(["--config-path", str(tmp_path)])) as composer:
        assert composer.raw([]) == {"seed": 3}
    assert not GlobalHydra.instance().is_initialized()


def test_a_file_may_be_chosen_by_what_else_is_chosen(tmp_path: Path) -> None:
    """Interpolations in a list of files, in a composer that makes nothing for lists without any."""
    (tmp_path / "note").mkdir()
    for name in ("bsp", "ssp"):
        (tmp_path / "note" / f"{name}.yaml").write_text(f"text: of {name}\n")
    (tmp_path / "whole.yaml").write_text("defaults:\n  - config\n  - note: ${strategy}\n  - _self_\n")
    for words, text in (([], "of bsp"), (["strategy=ssp"], "of ssp")):
        with composing(parse_arguments(["--config-dir", str(tmp_path), "--config-name", "whole", *words])) as composer:
            assert composer.raw(composer.lines)["note"]["text"] == text


def test_a_file_of_a_sweep_is_kept_and_no_job_changes_it_for_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    load = OmegaConf.load
    monkeypatch.setattr(ReadOnce, "read", Kept())
    monkeypatch.setattr(OmegaConf, "load", lambda file: read.append(file.name) or load(file))
    with composing(parse_arguments([])) as composer:
        first = composer.raw(["strategy=ssp", "workload.optimizer.lr=0.5", "+cluster.device.more=[1,2]"])
        number = len(read)
        assert number == len(set(read)) > 10
        second = composer.raw(["strategy=ssp"])
        assert composer.raw(["strategy=ssp"]) == second
        kept = len(read)
        assert set(read[number:]) <= set(read[:number])  # what is asked for again is read once more, and kept
        third = composer.raw(["strategy=asp"])
        assert [Path(name).name for name in read[kept:]] == ["asp.yaml"]
    with composing(parse_arguments([])) as composer:
        assert composer.raw(["strategy=ssp"]) == second
        assert len(read) == kept + 1
    assert first["workload"]["optimizer"]["lr"] == 0.5
    assert second["workload"]["optimizer"]["lr"] == third["workload"]["optimizer"]["lr"] != 0.5
    assert "more" not in second["cluster"]["device"]


def test_elsewhere_or_changed_the_same_name_is_another_file(tmp_path: Path) -> None:
    for name, bound in (("a", 98), ("b", 99)):
        (tmp_path / name / "strategy").mkdir(parents=True)
        (tmp_path / name / "strategy" / "other.yaml").write_text(
            f"_target_: strategies.basic.ssp.SSP\nbound: {bound}\n"
        )
    with composing(parse_arguments([])) as composer:
        for name, bound in (("a", 98), ("b", 99), ("a", 98)):
            words = [f"hydra.searchpath=[file://{tmp_path / name}]", "strategy=other"]
            assert composer.raw(words)["strategy"]["bound"] == bound
        with pytest.raises(ConfigError, match="strategy=other: no such strategy"):
            composer.raw(["strategy=other"])
        (tmp_path / "b" / "strategy" / "other.yaml").write_text("_target_: strategies.basic.ssp.SSP\nbound: 7\n")
        words = [f"hydra.searchpath=[file://{tmp_path / 'b'}]", "strategy=other"]
        assert composer.raw(words)["strategy"]["bound"] == 7
