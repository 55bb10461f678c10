"""What every strategy of ``conf/strategy`` owes: a new YAML gets all of this for free."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import fields
from functools import cache, reduce
from operator import getitem
from types import SimpleNamespace
from typing import Any

import pytest

from analysis.about import ABOUT
from runtime.config.instantiate import instantiate
from runtime.core.elastic import RETIRED
from runtime.core.recovery.automaton import RESTARTED
from runtime.errors import ConfigError
from runtime.run.checks.job import check_strategy
from strategies.protocol import DATA_POLICIES, Apply, Compute, Strategy
from tests.contract.catalogue import (
    MODES,
    NAMES,
    NUM_WORKERS,
    Case,
    cases,
    fits,
    is_variant,
    make,
    marked,
    on_replicas,
    scenario,
    short_cases,
    spec,
)
from tests.support.faults import Crash, Outage
from tests.support.harness import HeapRun
from tests.support.laws import (
    Complaints,
    dead,
    different,
    played,
    unaveraged,
    unconserved,
    unlawful,
    unpicklable,
    unrepeatable,
)
from tests.support.long_tests import long_after

every_case = pytest.mark.parametrize("case", marked(cases()), scope="module")
every_eventful_case = pytest.mark.parametrize(
    "case", marked(cases(), lambda case: case.mode == "departures" and case.num_workers <= 4), scope="module"
)
"""For what plays everything once more: for every commit those in which all happens."""
every_name = pytest.mark.parametrize("name", NAMES)
every_second_name = pytest.mark.parametrize("name", long_after([*NAMES[::2], *NAMES[1::2]], always=len(NAMES[::2])))
WITNESSES = ("antdt_nd", "asp", "bsp", "sync_switch_restart")
"""Of what is in the scenarios, which are the same for every strategy; and of restarts of workers and servers."""


@cache
def run_of(case: Case, seed: int) -> tuple[HeapRun, Complaints]:
    """A finished run, and what the runtime refused."""
    run = scenario(case.make(), case.num_workers, case.mode, seed)
    return run, played(run)


def runs(case: Case) -> Iterator[HeapRun]:
    """All runs of a case."""
    for seed in case.seeds:
        yield run_of(case, seed)[0]


@every_case
def test_it_is_lawful(case: Case) -> None:
    for seed in case.seeds:
        run, refused = run_of(case, seed)
        assert refused + unlawful(run) == []


@every_case
def test_it_reaches_the_end(case: Case) -> None:
    for run in runs(case):
        assert dead(run) == []


@every_case
def test_it_uses_every_sample_once(case: Case) -> None:
    for run in runs(case):
        assert unconserved(run) == []


@every_case
def test_its_updates_are_means_over_samples(case: Case) -> None:
    for run in runs(case):
        assert unaveraged(run) == []


@pytest.mark.few(5)
@every_eventful_case
def test_it_does_the_same_again(case: Case) -> None:
    for seed, run in zip(case.seeds, runs(case), strict=True):
        again = scenario(case.make(), case.num_workers, case.mode, seed)
        played(again)
        assert different(run, again) == []


@every_eventful_case
def test_it_can_be_replayed(case: Case) -> None:
    for run in runs(case):
        assert unrepeatable(case.make, run.lines) == []


@pytest.mark.few(5)
@every_eventful_case
def test_a_pickled_copy_goes_on_alike(case: Case) -> None:
    for run in runs(case):
        assert unpicklable(case.make, run.lines, every=max(2, len(run.lines) // 4)) == []


def test_the_scenarios_have_in_them_what_they_are_for() -> None:
    """Crashes, departures, outages, epochs that overlap, and failures do happen in them."""
    for mode in MODES:
        seen = [run for name in WITNESSES for run in runs(Case(name, 4, mode, (1, 2)))]
        struck = [fault for run in seen for fault in run.happened]
        own = (RESTARTED, RETIRED)  # what strategies themselves do to nodes
        notes = {kind for run in seen for _, kind, fields in run.notes if fields.get("reason") not in own}
        assert any(isinstance(fault, Outage) for fault in struck) == (mode != "calm")
        assert any(isinstance(fault, Crash) and fault.back_after_s for fault in struck) == (mode != "calm")
        assert any(isinstance(fault, Crash) and not fault.back_after_s for fault in struck) == (mode == "departures")
        assert ("Nonfinite" in notes, "Requeued" in notes) == (mode != "calm", mode != "calm")
        assert "Starved" in notes
        assert {run.job.epoch_overlap for run in seen} == {True, False}
        assert {node.partition(":")[0] for run in seen for _, node, _ in run.restarts} == {"worker", "server"}


def refusal(name: str, num_workers: int = 4, **changes: Any) -> str:
    """What is said about settings before a run starts; empty when they are accepted."""
    changed = spec(name, **changes)
    config = SimpleNamespace(strategy=changed, names=SimpleNamespace(strategy=name), num_workers=num_workers)
    try:
        check_strategy(instantiate(changed, "strategy"), config)  # type: ignore[arg-type]
    except ConfigError as error:
        return str(error)
    return ""


def nonsense(value: Any) -> list[Any]:
    """Values of the wrong kind or out of any range, for a setting that is ``value`` by default."""
    match value:
        case bool():
            return ["perhaps", 2]
        case int():
            return [-1, 0.5]
        case float():
            return [-1.0, float("nan")]
        case str():
            return ["nonsense", 7]
        case _:
            return [object()]


def settings() -> list[tuple[str, str]]:
    """(strategy, setting) for every field of every class, and of every part that a YAML names: ``gate.bound``."""
    return [(name, path) for name in NAMES if not is_variant(name) for path in paths(spec(name))]


def paths(fields: Mapping[str, Any], slot: str = "") -> Iterator[str]:
    """The settings, by their slots; of those of parts, the ones that have a value."""
    for field, value in fields.items():
        if field != "_target_" and not (slot and (value is None or isinstance(value, Mapping | list))):
            yield slot + field
        if isinstance(value, Mapping):
            yield from paths(value, f"{slot}{field}.")


@pytest.mark.parametrize(("name", "field"), settings())
def test_a_setting_out_of_range_is_refused_by_its_name(name: str, field: str) -> None:
    value = reduce(getitem, field.split("."), spec(name))
    for bad in nonsense(value):
        cure = f"refuse it by a ValueError that begins with {field.rpartition('.')[2]}={bad}: "
        said = refusal(name, **{field: bad})
        assert said.startswith(f"strategy.{field}={bad}"), f"strategy.{field}={bad}: {said or 'accepted'}; {cure}"


def test_grids_of_all_strategies_leave_out_what_works_on_replicas_alone() -> None:
    assert sorted(name for name, one in ABOUT.items() if one.on_replicas) == on_replicas() != []


@every_name
def test_a_setting_that_does_not_exist_is_refused_by_its_name(name: str) -> None:
    assert refusal(name, staleness_limit=3).startswith("strategy.staleness_limit: ")


@every_name
def test_the_settings_of_the_yaml_are_accepted(name: str) -> None:
    assert refusal(name) == ""
    shown, there = set(spec(name)) - {"_target_"}, {one.name for one in fields(make(name))}
    assert shown == there, f"{name}.yaml must show every setting; missing: {', '.join(sorted(there - shown))}"


@pytest.mark.parametrize(("name", "num_workers"), [(n, w) for n in NAMES for w in NUM_WORKERS if not fits(n, w)])
def test_too_few_workers_are_refused_by_the_settings_name(name: str, num_workers: int) -> None:
    named = [field for field in spec(name) if re.match(rf"strategy\.{field}(\.[\w.]+)?=", refusal(name, num_workers))]
    assert len(named) == 1


@every_name
def test_it_is_a_strategy_that_needs_at_least_to_compute_and_to_update(name: str) -> None:
    strategy = make(name)
    assert isinstance(strategy, Strategy)
    assert strategy.needs >= {Compute, Apply}
    assert strategy.data in DATA_POLICIES


@every_name
def test_it_gives_only_commands_that_it_said_it_needs(name: str) -> None:
    given = {
        type(command)
        for case in short_cases()
        if (case.name, case.num_workers) == (name, 4)
        for run in runs(case)
        for command in run.commands
    }
    assert given <= make(name).needs


@pytest.mark.few(3)
@every_second_name
def test_two_objects_share_no_state(name: str) -> None:
    """One run after another in the same process, as a sweep does it."""
    num_workers = max(n for n in (2, 4) if fits(name, n))
    first, second = (scenario(make(name), num_workers, "restarts", 0) for _ in range(2))
    first.start()
    second.start()
    while first.step() | second.step():
        pass
    assert different(first, second) == []


@pytest.mark.few(3)
@every_second_name
def test_an_object_can_be_started_again(name: str) -> None:
    """``Started`` resets a used strategy."""
    num_workers = max(n for n in (2, 4) if fits(name, n))
    once = scenario(make(name), num_workers, "restarts", 0).run()
    again = scenario(once.core.strategy, num_workers, "restarts", 0).run()
    assert different(once, again) == []
