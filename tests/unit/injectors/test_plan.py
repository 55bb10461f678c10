"""The plan: canonical text, what is refused, and in which words."""

from __future__ import annotations

import json
import math
from itertools import permutations
from typing import Any

import msgspec
import pytest

from injectors.plan import (
    ClusterShape,
    Disturbance,
    Plan,
    build_plan,
    parse_plan,
    parse_target,
    plan_json,
    plan_sha256,
    target_problem,
    validate_plan,
)

CLUSTER = ClusterShape(num_workers=4, num_servers=2)
HOSTS = ClusterShape(num_workers=4, num_servers=2, num_hosts=3, num_devices=2)
CURE = "this cluster has no hosts; choose cluster=hosts, or set cluster.hosts"


def window(start_s: float, end_s: float, target: str = "worker:1", **fields: Any) -> Disturbance:
    return Disturbance(**{"kind": "delay", "magnitude": 0.12, **fields}, start_s=start_s, end_s=end_s, target=target)


def plan_of(*windows: Disturbance) -> Plan:
    """As given, without the care of build_plan."""
    return Plan(pattern="transient", seed=0, horizon_s=120.0, disturbances=windows)


def test_the_text_is_that_of_the_record_format_whatever_the_order_or_kind_of_number() -> None:
    plan = build_plan("transient", 0, 120.0, [window(3.0, 6.0)])
    assert plan_json(plan) == (
        b'{"schema":1,"pattern":"transient","seed":0,"horizon_s":120.0,"disturbances":'
        b'[{"start_s":3.0,"end_s":6.0,"target":"worker:1","kind":"delay","magnitude":0.12}]}\n'
    )
    windows = [window(3, 6), window(3, 5, "worker:0"), window(1, 9, kind="slowdown", magnitude=2), window(3, 4)]
    hashes = {plan_sha256(build_plan("p", 0, 120, order)) for order in permutations(windows)}
    floats = [
        msgspec.structs.replace(one, start_s=float(one.start_s), magnitude=float(one.magnitude)) for one in windows
    ]
    hashes.add(plan_sha256(build_plan("p", 0, 120.0, floats)))
    assert len(hashes) == 1
    assert plan_sha256(build_plan("p", 1, 120.0, windows)) not in hashes
    assert plan_sha256(build_plan("p", 0, 120.0, windows[1:])) not in hashes


def test_a_plan_is_clipped_rounded_and_sorted() -> None:
    windows = [window(5.0, 20.0), window(12.0, 13.0), window(2.0, 2.0), window(1.0, 3.0, magnitude=0.0)]
    plan = build_plan("p", 0, 10.0, [*windows, window(0.1 + 0.2, 1.0, magnitude=0.06 * 5 * 0.8)])
    assert plan.disturbances == (window(0.3, 1.0, magnitude=0.24), window(5.0, 10.0))
    plan = build_plan("p", 0, 10.0, [window(1, 3, "worker:1"), window(1, 2, "worker:1"), window(1, 9, "worker:0")])
    assert [(one.target, one.end_s) for one in plan.disturbances] == [("worker:0", 9), ("worker:1", 2), ("worker:1", 3)]


@pytest.mark.parametrize("horizon_s", [0.0, -1.0, math.nan, math.inf])
def test_a_horizon_must_be_positive(horizon_s: float) -> None:
    with pytest.raises(ValueError, match="horizon_s="):
        build_plan("p", 0, horizon_s, [])


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (window(0, 1, "worker:4"), "no such target; valid are worker:0 to worker:3, server:0 to server:1"),
        (window(0, 1, kind="stop"), "kind=stop must be one of delay, slowdown, cpu, gpu, bandwidth, cut, pause, kill"),
        (window(-0.1, 1), "start_s=-0.1 must be 0 or more"),
        (window(2, 2), "end_s=2 must be later than start_s=2"),
        (window(0, math.inf), "end_s=inf"),
        (window(0, 1, magnitude=-0.01), "magnitude=-0.01 must be between 0 and 3600"),
        (window(0, 1, kind="slowdown", magnitude=2000), "between 0 and 1000"),
        (window(0, 1, "host:0", kind="cpu", magnitude=0.5), CURE),
        (window(0, 1, "device:0", kind="gpu", magnitude=0.5), "set backend.device=cuda"),
        (window(0, 1, "server:0", kind="gpu", magnitude=0.5), "gpu acts on worker:<id>, host:<id>, device:<id> only"),
        (window(0, 1, "link:0>1", kind="bandwidth", magnitude=0.5), CURE),
        (window(0, 1, "node:0", kind="join", magnitude=1), "join acts on worker:<id> only"),
    ],
)
def test_what_cannot_be_carried_out_is_refused(broken: Disturbance, message: str) -> None:
    refuse(broken, message, CLUSTER)


def refuse(broken: Disturbance, message: str, cluster: ClusterShape) -> None:
    good = window(0, 1)
    validate_plan(plan_of(good, good), cluster)
    with pytest.raises(ValueError, match=r"from [-0-9.a-z]+ s, disturbance 1 of pattern ") as caught:
        validate_plan(plan_of(good, broken), cluster)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


GOOD_TARGETS = {
    "delay": ["worker:3", "server:1"],
    "slowdown": ["worker:0", "server:0"],
    "cpu": ["worker:3", "server:1", "host:2"],
    "gpu": ["worker:3", "host:2", "device:1"],
    "bandwidth": ["link:2", "link:0>2", "link:2>0"],
    "cut": ["link:0"],
    "pause": ["worker:0", "server:0", "host:0"],
    "kill": ["worker:0", "server:0", "host:0"],
}
ALL_TARGETS = sorted({target for targets in GOOD_TARGETS.values() for target in targets})
GOOD_MAGNITUDES = {"delay": [0, 3600], "slowdown": [0, 1000], "cpu": [0.05, 0.99], "bandwidth": [0.000001, 0.999999]}
GOOD_MAGNITUDES["gpu"] = [0.05, 0.99]
BAD_MAGNITUDES = {
    "cpu": [0, -0.1, 1, 1.5, math.nan, math.inf, 1e-9],
    "gpu": [0, 1],
    "bandwidth": [0, -0.1, 1, 1 - 1e-9],
    "cut": [0, 0.5, 2, math.nan],
    "pause": [0, 0.999],
    "kill": [0, -1],
}


def form_of(target: str) -> str:
    return ("route" if ">" in target else target).partition(":")[0]


@pytest.mark.parametrize("kind", GOOD_TARGETS)
def test_each_kind_acts_on_its_own_targets_with_its_own_magnitudes(kind: str) -> None:
    magnitude = GOOD_MAGNITUDES.get(kind, [1])[0]
    forms = {form_of(target) for target in GOOD_TARGETS[kind]}
    for target in ALL_TARGETS:
        plan = plan_of(window(0, 1, target, kind=kind, magnitude=magnitude))
        if form_of(target) in forms:
            validate_plan(plan, HOSTS)
        else:
            with pytest.raises(ValueError, match=rf"{kind} acts on .*:<.* only$"):
                validate_plan(plan, HOSTS)
    target = GOOD_TARGETS[kind][0]
    for magnitude in GOOD_MAGNITUDES.get(kind, [1, 1.0]):
        validate_plan(plan_of(window(0, 1, target, kind=kind, magnitude=magnitude)), HOSTS)
    for magnitude in BAD_MAGNITUDES.get(kind, [-1, math.nan]):
        with pytest.raises(ValueError, match=f"magnitude={magnitude} must be "):
            validate_plan(plan_of(window(0, 1, target, kind=kind, magnitude=magnitude)), HOSTS)


NO_HERE = ("host:3", "link:3", "link:0>3", "link:1>1", "server:2", "worker:4")
NO_TARGETS = ("", "worker", "worker:", "worker:*", "worker:01", "worker:-1", "worker: 1", "worker:1\n", "worker:\u0661")
NO_TARGETS += ("worker:1e3", "Worker:1", "node:1", "worker:0>1", "host:0>1", "link:>1", "link:0>1>2", "link:0 > 1")
NO_TARGETS += ("link:0>*", "worker:1;reboot", "host:$(id)", "link:`id`", "worker:" + "9" * 5000)


def test_what_names_no_target() -> None:
    for text in (*NO_TARGETS, *NO_HERE):
        assert (parse_target(text) is None) == (text in NO_TARGETS)
        kind = "cpu" if text.startswith("host") else "bandwidth" if text.startswith("link") else "delay"
        with pytest.raises(ValueError, match=r"there is no such target|from a host to itself"):
            validate_plan(plan_of(window(0, 1, text, kind=kind, magnitude=0.5)), HOSTS)


def test_plans_that_make_no_sense_are_refused() -> None:
    """Only a delay or slow-down of 0 does nothing; a quota of 0 is an error that must be reported."""
    windows = [window(0, 1, kind=kind, magnitude=0.0) for kind in ("delay", "slowdown", "cpu")]
    plan = build_plan("p", 0, 10.0, windows)
    assert [one.kind for one in plan.disturbances] == ["cpu"]
    with pytest.raises(ValueError, match=r"magnitude=0\.0 must be more than 0"):
        validate_plan(plan, CLUSTER)
    with pytest.raises(ValueError, match="not sorted"):
        validate_plan(plan_of(window(2, 3), window(1, 3)), CLUSTER)
    with pytest.raises(ValueError, match="not finite"):
        plan_json(plan_of(window(0, 1, magnitude=math.inf)))


def test_a_plan_of_all_kinds_reads_back() -> None:
    windows = [
        window(0, 1, target, kind=kind, magnitude=GOOD_MAGNITUDES.get(kind, [1])[-1])
        for kind, targets in GOOD_TARGETS.items()
        for target in targets
    ]
    plan = build_plan("all", 0, 10.0, windows)
    validate_plan(plan, HOSTS)
    assert len(plan.disturbances) == len(windows)
    assert parse_plan(plan_json(plan)) == plan
    assert b'"target":"link:0>2","kind":"bandwidth"' in plan_json(plan)


GOOD = json.loads(plan_json(plan_of(window(3.0, 6.0))))


def test_other_text_is_not_a_plan() -> None:
    one = GOOD["disturbances"][0]
    broken = [{**GOOD, "schema": 2}, {**GOOD, "extra": 1}, {"schema": 1}, []]
    broken += [
        {**GOOD, "disturbances": [row]} for row in ({"start_s": 1}, {**one, "kind": "stop"}, {**one, "end_s": None})
    ]
    for text in ("", *map(json.dumps, broken)):
        with pytest.raises(ValueError, match="not a straggler plan of schema 1"):
            parse_plan(text.encode())
    assert parse_plan(json.dumps(GOOD).encode()) == plan_of(window(3.0, 6.0))


def test_machines_elsewhere_have_links_and_are_no_hosts() -> None:
    shape = ClusterShape(num_workers=2, num_servers=1, num_machines=2, no_hosts="no hosts there")
    assert shape.targets("link") == ["link:0", "link:1"]
    assert shape.targets("host") == []
    found = [target_problem(target, shape) for target in ("link:1", "link:0>1", "host:0")]
    assert found == [None, None, "no hosts there"]
    for target in ("link:2", "link:0>2"):
        assert "no such target; valid are worker:0 to worker:1, server:0, link:0 to" in (
            target_problem(target, shape) or ""
        )


def test_a_disturbance_of_a_machine_says_so_in_the_file_and_others_say_nothing() -> None:
    about = {"start_s": 0.0, "end_s": 1.0, "target": "worker:0", "kind": "delay", "magnitude": 1.0}
    plan = build_plan("test", 0, 10.0, [Disturbance(**about, of_machine=True), Disturbance(**about)])
    assert plan_json(plan).count(b"of_machine") == 1
    assert parse_plan(plan_json(plan)) == plan
    for kind, target, magnitude in (("kill", "worker:0", 1.0), ("cpu", "host:0", 0.5), ("bandwidth", "link:0", 0.5)):
        one = window(0.0, 1.0, target, kind=kind, magnitude=magnitude, of_machine=True)
        with pytest.raises(ValueError, match=r"of_machine=True is for .* of a worker, server or rank"):
            validate_plan(build_plan("test", 0, 10.0, [one]), HOSTS)


def test_only_a_worker_waits_for_its_loader_and_only_so_long() -> None:
    about = {"start_s": 0.0, "end_s": 1.0, "magnitude": 1.0}
    one = Disturbance(target="worker:0", kind="delay", of_loader=True, **about)
    plan = build_plan("test", 0, 10.0, [one])
    validate_plan(plan, HOSTS)
    assert parse_plan(plan_json(plan)) == plan
    for kind, target in (("delay", "server:0"), ("slowdown", "worker:0")):
        other = msgspec.structs.replace(one, kind=kind, target=target)
        with pytest.raises(ValueError, match="of_loader=True is for delay of a worker"):
            validate_plan(build_plan("test", 0, 10.0, [other]), HOSTS)
