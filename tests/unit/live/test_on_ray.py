"""What of ``launcher=ray`` needs no Ray: settings, what a cluster can give, and visits to a Ray that is played here."""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
import yaml

from runtime.api import RunContext
from runtime.config.instantiate import instantiate
from runtime.errors import ConfigError
from runtime.live.launchers.ray import starter
from runtime.live.launchers.ray.capacity import Capacity, shortage
from runtime.live.launchers.ray.node import Node
from runtime.live.launchers.ray.requests import Again, Left, Request, line_of, requests
from runtime.live.launchers.ray.starter import OnRay
from runtime.live.launchers.ray.visit import Orders, Over, Visit, why_not
from tests.support.runs import ROOT

REQUEST = Request(
    address="10.0.0.1:6379",
    nodes=2,
    placement="STRICT_SPREAD",
    cpus_per_node=2.0,
    gpus_per_node=0.0,
    directory="/srv/stragglab",
    words=("runtime.live.agent", "--join", "10.0.0.1:7077"),
    token="ab" * 32,
    wait_s=5.0,
)
AGAIN = msgspec.structs.replace(REQUEST, again=True)
NODES = [
    Capacity(address="10.0.0.1", cpus=4.0, labels={"rack": "a"}),
    Capacity(address="10.0.0.2", cpus=2.0, gpus=1.0, labels={"rack": "b"}),
]


@pytest.mark.parametrize(
    ("wanted", "culprit"),
    [
        ({}, ""),
        ({"nodes": 3}, "launcher.nodes=3"),
        ({"nodes": 3, "placement": "SPREAD"}, ""),
        ({"nodes": 4, "placement": "PACK"}, "launcher.cpus_per_node=2"),
        ({"cpus_per_node": 3.0}, "launcher.cpus_per_node=3"),
        ({"gpus_per_node": 1.0}, "launcher.gpus_per_node=1"),
        ({"nodes": 10, "gpus_per_node": 0.1, "cpus_per_node": 0.2, "placement": "PACK"}, ""),
        ({"nodes": 2, "gpus_per_node": 0.6, "cpus_per_node": 0.5, "placement": "PACK"}, "launcher.gpus_per_node=0.6"),
        ({"labels": {"rack": "a"}}, "launcher.labels={rack: a}"),
    ],
)
def test_who_asks_for_more_than_there_is_reads_which_setting(wanted: dict[str, Any], culprit: str) -> None:
    words = shortage(msgspec.structs.replace(REQUEST, **wanted), NODES)
    assert words.partition(": ")[0] == culprit if "labels" not in culprit else words.startswith(culprit)
    assert not words or "10.0.0.2 (2 CPUs, 1 GPUs)" in words


def test_a_part_of_a_gpu_is_of_one_gpu() -> None:
    node = Capacity(address="10.0.0.2", cpus=4.0, gpus=2.0)
    wanted: dict[str, Any] = {"nodes": 3, "cpus_per_node": 1.0, "gpus_per_node": 0.6, "placement": "PACK"}
    assert shortage(msgspec.structs.replace(REQUEST, **wanted), [node]).startswith("launcher.gpus_per_node=0.6: ")
    assert not shortage(msgspec.structs.replace(REQUEST, **wanted | {"nodes": 2}), [node])


class Played:
    """A Ray whose actors' methods end when the test says so."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.ended: dict[int, Any] = {}
        self.started = 0
        self.free = True
        self.util = SimpleNamespace(
            placement_group=self._group,
            remove_placement_group=lambda group: self.calls.append(("removed", group)),
            scheduling_strategies=SimpleNamespace(
                PlacementGroupSchedulingStrategy=lambda group, placement_group_bundle_index: (
                    placement_group_bundle_index
                )
            ),
        )
        self.cloudpickle = SimpleNamespace(register_pickle_by_value=lambda module: None)

    def init(self, address: str, **more: Any) -> None:
        self.calls.append(("init", address))

    def nodes(self) -> list[dict[str, Any]]:
        resources = {"CPU": 2.0}
        return [{"Alive": one != 9, "NodeManagerAddress": f"10.0.0.{one}", "Resources": resources} for one in (1, 2, 9)]

    def _group(self, bundles: list[dict[str, float]], strategy: str, **more: Any) -> Any:
        self.calls.append(("group", bundles, strategy, more))
        return SimpleNamespace(wait=lambda seconds: self.free)

    def remote(self, cls: type) -> Any:
        def create() -> Any:
            return SimpleNamespace(run=SimpleNamespace(remote=self._run))

        return SimpleNamespace(options=lambda **how: SimpleNamespace(remote=create))

    def _run(self, *arguments: Any) -> int:
        self.calls.append(("run", *arguments))
        self.started += 1
        return self.started

    def wait(self, references: list[int], timeout: float) -> tuple[list[int], list[int]]:
        return [one for one in references if one in self.ended], []

    def get(self, reference: int) -> Any:
        if isinstance(self.ended[reference], Exception):
            raise self.ended[reference]
        return self.ended[reference]

    def kill(self, actor: Any, no_restart: bool) -> None:
        self.calls.append(("kill",))

    def shutdown(self) -> None:
        self.calls.append(("shutdown",))


class Heard(Orders):
    """What has come on our input, by turn; it ends when the list does."""

    def __init__(self, *turns: list[Again]) -> None:
        super().__init__(-1)
        self.turns = list(turns)

    def wait(self, wait_s: float) -> list[Again]:
        if not self.turns:
            raise Over
        return self.turns.pop(0)


def test_a_visit_reserves_starts_and_takes_away_and_awaits_nodes_that_others_use() -> None:
    ray = Played()
    with pytest.raises(Over):
        Visit(ray, REQUEST, lambda answer: None, Heard()).run()
    starts = [("run", "/srv/stragglab", (*REQUEST.words, "--start", number), "ab" * 32) for number in "12"]
    group: Any = ("group", [{"CPU": 2.0}] * 2, "STRICT_SPREAD", {})
    assert ray.calls[:4] == [("init", "10.0.0.1:6379"), group, *starts]
    assert [call[0] for call in ray.calls[4:]] == ["kill", "kill", "removed", "shutdown"]
    ray = Played()
    ray.free = False
    with pytest.raises(ConfigError, match=r"^launcher.wait_s=0: the nodes of the Ray cluster did not become free"):
        Visit(ray, msgspec.structs.replace(REQUEST, wait_s=0.0), lambda answer: None, Heard(*[[]] * 100)).run()
    assert ("shutdown",) in ray.calls
    ray = Played()
    with pytest.raises(ConfigError, match=r"^launcher.nodes=3: "):
        Visit(ray, msgspec.structs.replace(REQUEST, nodes=3), lambda answer: None, Heard()).run()
    assert [call[0] for call in ray.calls] == ["init", "shutdown"]


@pytest.mark.parametrize(("again", "starts"), [(False, 2), (True, 3)])
@pytest.mark.parametrize(
    ("ended", "line"),
    [
        ((2, "agent: refused"), "agent: refused"),
        (RuntimeError("The actor died.\n\tclass_name: Node"), "its actor has died (The actor died.)"),
    ],
)
def test_who_leaves_is_reported_and_replaced_where_that_is_asked(
    again: bool, starts: int, ended: Any, line: str
) -> None:
    ray, told = Played(), list[Any]()
    ray.ended = {1: ended, 2: (0, "in good order")}
    with pytest.raises(Over):
        Visit(ray, msgspec.structs.replace(REQUEST, again=again), told.append, Heard([], [])).run()
    assert told == [Left(where="node 0", line=line)]
    assert ray.started == starts
    assert [call[0] for call in ray.calls].count("kill") == starts  # an old actor holds what its successor needs


@pytest.mark.parametrize(
    ("ended", "turns"),
    [
        ({}, ([Again(start=2)], [Again(start=2)], [Again(start=0)])),  # Ray says nothing of its end
        ({2: RuntimeError("gone")}, ([], [Again(start=2)])),  # Ray reports its end first
        ({2: (0, "the job is over")}, ([], [Again(start=2)], [Again(start=2)])),  # it left in good order
    ],
)
def test_an_agent_that_the_job_has_lost_is_replaced_only_once(
    ended: dict[int, Any], turns: tuple[list[Again], ...]
) -> None:
    ray = Played()
    ray.ended = ended
    with pytest.raises(Over):
        Visit(ray, AGAIN, lambda answer: None, Heard(*turns)).run()
    assert [call[2][-1] for call in ray.calls if call[0] == "run"] == ["1", "2", "3"]
    assert [call[0] for call in ray.calls].count("kill") == 3


def test_orders_are_lines_however_they_come_in_pieces() -> None:
    reader, writer = os.pipe()
    orders = Orders(reader)
    os.write(writer, line_of(REQUEST) + line_of(Again(start=7))[:5])
    assert requests.decode(orders.first()) == REQUEST
    assert orders.wait(0.0) == []
    os.write(writer, line_of(Again(start=7))[5:] + line_of(Again(start=8)))
    assert orders.wait(5.0) == [Again(start=7), Again(start=8)]
    os.close(writer)
    with pytest.raises(Over):
        orders.wait(5.0)
    os.close(reader)


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ConnectionError("Failed to connect to Ray cluster at x"), "does not answer as a Ray cluster does"),
        (RuntimeError("InvalidAuthToken: no"), "launcher.auth_token_file=null: "),
        (RuntimeError("No node info found matching"), "this machine is not a node of that cluster"),
        (RuntimeError("first\nsecond"), "launcher.address=10.0.0.1:6379: first"),
    ],
)
def test_why_ray_does_not_let_us_in_is_one_line(error: Exception, words: str) -> None:
    line = why_not(error, REQUEST)
    assert words in line
    assert "\n" not in line


def test_the_actor_says_where_stragglab_is_missing_and_what_the_agent_says_last(tmp_path: Path) -> None:
    """An agent whose token is none: the whole way through a process, without a network."""
    assert Node().run(str(tmp_path), (), "")[1].startswith(f"launcher.directory={tmp_path}: no Stragglab is there; ")
    code, line = Node().run(str(ROOT), ("runtime.live.agent", "--join", "127.0.0.1:1", "--token-file", "-"), "short")
    assert code == 2
    assert line.startswith("agent: --token-file: standard input is not 64 hex digits")


def test_an_agent_whose_parent_is_gone_already_does_not_start() -> None:
    command = ["-m", "runtime.live.agent", "--dies-with", "1", "--join", "127.0.0.1:1", "--token-file", "-"]
    pid = os.posix_spawn(sys.executable, [sys.executable, *command], {**os.environ, "PYTHONPATH": str(ROOT)})
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 1


def made(**changes: object) -> OnRay:
    written = yaml.safe_load((ROOT / "conf" / "launcher" / "ray.yaml").read_text())
    launcher = instantiate({**written, "listen": "127.0.0.1", **changes}, "launcher")
    assert isinstance(launcher, OnRay)
    return launcher


def test_agents_that_ray_starts_speak_tls_if_the_run_does(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Request] = []
    monkeypatch.setattr(starter, "the_broker", lambda: SimpleNamespace(start=asked.append, look=None))
    there: Any = SimpleNamespace(hub=SimpleNamespace(address=SimpleNamespace(port=7077)))
    for tls in (False, True):
        made(tls=tls).summon(there, bytes(32))
    assert ["--tls" in one.words for one in asked] == [False, True]


BAD = "address=somewhere address=10.0.0.1:99999 address=ray://10.0.0.1:10001 placement=STRICT_PACK cpus_per_node=0"


@pytest.mark.parametrize("word", [*BAD.split(), "gpus_per_node=-1", "gpus_per_node=1.5", "port=-1", "listen=lo0"])
def test_a_bad_setting_is_named(word: str) -> None:
    field, _, value = word.partition("=")
    with pytest.raises(ConfigError, match=f"^launcher.{field}[=:]"):
        made(**{field: yaml.safe_load(value)})


def test_a_cluster_of_one_s_own_is_one_node_and_an_interface_is_as_good_as_its_address() -> None:
    with pytest.raises(ConfigError, match=r"^launcher.nodes=2: launcher.address=local is one node; set launcher.pl"):
        made(address="local")
    made(address="local", placement="PACK")
    assert made(listen="lo").here == "127.0.0.1"


def test_without_ray_or_nobody_at_its_address_the_line_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runtime.live.launchers.ray.starter.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"^launcher=ray: Ray is not installed; pip install 'stragglab\[ray\]'"):
        made().check_own(RunContext())
    monkeypatch.setattr("runtime.live.launchers.ray.starter.find_spec", lambda name: find_spec("json"))
    with pytest.raises(ConfigError, match=r"^launcher.address=127.0.0.1:1: connection refused; start Ray there"):
        made(address="127.0.0.1:1").check_own(RunContext())
    with pytest.raises(ConfigError, match=r"^launcher.auth_token_file=/nowhere/at/all: is not there"):
        made(auth_token_file="/nowhere/at/all").check_own(RunContext())
