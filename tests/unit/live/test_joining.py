"""Agents that join: who agrees, who is refused with which line, and what is accepted of them."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from runtime.api import RunContext
from runtime.config.instantiate import instantiate
from runtime.errors import ConfigError
from runtime.house import ROOT
from runtime.live.agent.arguments import parse
from runtime.live.joining import wire
from runtime.live.joining.agreement import difference, of_data, of_gpus
from runtime.live.joining.data import fingerprint, prepare
from runtime.live.joining.facts import Code, Facts, code_below, gpus, look_here
from runtime.live.joining.site import SAVED, Site, room, roomiest
from runtime.live.joining.token import new_token, read_token
from runtime.live.joining.ways import agents_door, closed, coordinators_door, door_of, open_door
from runtime.live.launchers.pieces import Pieces
from runtime.live.transport.messages import MalformedMessage, encode
from runtime.live.transport.task_spec import Place
from tests.support.clusters import cluster_of
from tests.support.examples import examples

OURS = Facts(
    hostname="alpha",
    address="10.0.0.1",
    cores=2,
    memory_bytes=1 << 30,
    versions=dict.fromkeys(("stragglab", "python", "msgspec", "numpy", "torch", "tensorflow"), "1"),
    code=Code(sha256="ab" * 32, commit="c" * 40),
)


def other(**versions: str | None) -> Facts:
    changed = {**OURS.versions, **versions}
    return msgspec.structs.replace(OURS, versions={name: text for name, text in changed.items() if text is not None})


def test_other_code_is_refused_even_of_the_same_commit_and_nothing_else_matters() -> None:
    machine = msgspec.structs.replace(OURS, hostname="beta", cores=64, gpus=("H100",))
    assert difference(machine, OURS, "torch") == ""
    assert difference(other(tensorflow=None), OURS, "torch") == "", "the other framework does not matter"
    code = msgspec.structs.replace(OURS.code, sha256="cd" * 32, dirty=True)
    line = difference(msgspec.structs.replace(OURS, code=code), OURS, "torch")
    assert line.startswith("code: commit cccccccccccc with changes there, commit cccccccccccc here; ")
    code = msgspec.structs.replace(code, dirty=False)  # a new file, which git does not count
    line = difference(msgspec.structs.replace(OURS, code=code), OURS, "torch")
    assert line.startswith(
        f"code: commit {'c' * 12} (files {'cd' * 6}) there, commit {'c' * 12} (files {'ab' * 6}) here; "
    )


@pytest.mark.parametrize("name", ["stragglab", "python", "msgspec", "numpy", "torch"])
def test_another_version_is_named(name: str) -> None:
    assert difference(other(**{name: "0"}), OURS, "torch") == (
        f"version: {name} 0 there, {OURS.versions[name]} here; install the same"
    )
    assert "none there" in difference(other(**{name: None}), OURS, "torch")


@pytest.mark.parametrize(
    ("theirs", "words"),
    [
        (wire.Prepared(num_samples=10, sha256="a"), ""),
        (wire.Prepared(num_samples=9, sha256="a"), "data: 9 samples there, 10 here; "),
        (wire.Prepared(num_samples=10, sha256="b"), "data: sha256 b there, a here; "),
        (wire.Prepared(problem="no file"), "data: no file"),
    ],
)
def test_other_data_are_named(theirs: wire.Prepared, words: str) -> None:
    line = of_data(theirs, wire.Prepared(num_samples=10, sha256="a"))
    assert line.startswith(words)
    assert bool(line) == bool(words)


def test_what_changes_changes_a_fingerprint(tmp_path: Path) -> None:
    (tmp_path / "runtime").mkdir()
    (tmp_path / "runtime" / "one.py").write_text("a = 1\n")
    before = code_below(tmp_path)
    assert before == code_below(tmp_path)
    assert (before.commit, before.dirty) == ("", False)
    (tmp_path / "runtime" / "one.py").write_text("a = 2\n")
    assert code_below(tmp_path).sha256 != before.sha256
    assert fingerprint(OnArrays(1.0)) == fingerprint(OnArrays(1.0)) != fingerprint(OnArrays(1.5))
    assert fingerprint(object()) == "", "no files"
    assert prepare({"_target_": "workloads.ledger.SampleLedger", "num_samples": 7}) == wire.Prepared(num_samples=7)
    assert "num_samples" in prepare({"_target_": "workloads.ledger.SampleLedger", "num_samples": 0}).problem


class Split:
    def __init__(self, value: float) -> None:
        pair = (np.full((6, 2), value), np.arange(6))
        self.train = self.test = pair


class OnArrays:
    def __init__(self, value: float) -> None:
        self.value = value

    def load(self) -> Split:
        return Split(self.value)


def test_facts_of_this_machine_are_complete(tmp_path: Path) -> None:
    facts = look_here("127.0.0.1", capabilities=False)
    assert facts.cores >= 1
    assert facts.memory_bytes > 1 << 20
    assert {"stragglab", "python", "msgspec", "numpy"} <= set(facts.versions)
    assert wire.decode(encode(wire.Enlist(facts=facts))[4:]) == wire.Enlist(facts=facts)
    assert gpus(tmp_path / "nothing") == ()
    for slot, words in (("0", "Model: \t H100\nIRQ: 1\n"), ("1", "IRQ: 2\n")):
        (tmp_path / slot).mkdir()
        (tmp_path / slot / "information").write_text(words)
    assert gpus(tmp_path) == ("H100", "unknown")


def test_a_token_is_read_by_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "token"
    new_token(path)
    assert len(read_token(str(path), "t")) == 32
    path.chmod(0o640)
    with pytest.raises(ConfigError, match=r"t=.*others can read it \(mode 0640\); chmod 600"):
        read_token(str(path), "t")
    with pytest.raises(ConfigError, match="file exists; name a new file"):
        new_token(path)


@pytest.mark.parametrize("text", ["", "ab", "zz" * 32, "ab" * 33])
def test_what_is_no_token_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "token"
    path.write_text(text)
    path.chmod(0o600)
    with pytest.raises(ConfigError, match="is not 64 hex digits"):
        read_token(str(path), "t")


def test_the_secret_of_every_job_is_another_and_not_the_token() -> None:
    token = bytes(32)
    one, two = wire.secret_of(token, b"a" * 32), wire.secret_of(token, b"b" * 32)
    assert len({token, one, two}) == 3
    assert wire.secret_of(b"\1" * 32, b"a" * 32) != one


WRONG = ["../x.log", "worker-0.0.log/../x", "events.jsonl", "/etc/passwd", "", ".log", "worker-0.0.log\n", SAVED]


@pytest.mark.parametrize("name", WRONG)
def test_only_logs_and_what_was_asked_for_are_written(tmp_path: Path, name: str) -> None:
    (tmp_path / "logs").mkdir()
    pieces = Pieces(tmp_path / "logs" / "agent-node0.log", None)
    with pytest.raises(MalformedMessage):
        pieces.write(wire.Piece(name=name, data=b"x"))
    assert [path.name for path in tmp_path.rglob("*")] == ["logs"]


def test_pieces_are_put_together_and_old_files_are_replaced(tmp_path: Path) -> None:
    (tmp_path / "worker-0.0.log").write_text("of another run")
    pieces = Pieces(tmp_path / "agent-node0.log", tmp_path / SAVED)
    for name, data in (("worker-0.0.log", b"a"), ("agent.log", b"z"), ("worker-0.0.log", b"b"), (SAVED, b"p")):
        pieces.write(wire.Piece(name=name, data=data))
    assert not (tmp_path / SAVED).exists(), "not before it has come whole"
    assert not pieces.end(whole=True)
    written = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert written == {"worker-0.0.log": b"ab", "agent-node0.log": b"z", SAVED: b"p"}
    with pytest.raises(MalformedMessage):
        pieces.write(wire.Piece(name="agent.log", data=bytes(wire.PIECE_BYTES + 1)))


def test_bytes_that_are_no_message_end_the_connection() -> None:
    for body in (b"", b"\xc1", b"\x81\xa4type\xa5Other", encode(wire.Alive())):
        with pytest.raises(MalformedMessage):
            wire.decode(body)
    assert wire.decode(encode(wire.Alive())[4:]) == wire.Alive()


def test_tasks_are_placed_in_turn_and_those_of_this_machine_are_left_as_they_are() -> None:
    site = Site(nodes=("node0", "node1"), addresses={"node0": "10.0.0.1", "node1": "10.0.0.2"}, listen="10.0.0.9")
    tasks = ["server:0", "server:1", "worker:0", "worker:1", "worker:2"]
    assert list(site.node_of(tasks).values()) == ["node0", "node1", "node0", "node1", "node0"]
    placed = site.placed(dict.fromkeys(tasks, Place()))
    assert [place.address[-1] for place in placed.values()] == ["1", "2", "1", "2", "1"]
    places = {"worker:0": Place(address="10.77.0.1")}
    assert Site().placed(places) == places
    assert Site().node_of(places) == {}
    assert not Site().elsewhere


@examples(25)
@given(
    cores=st.lists(st.integers(1, 8), min_size=1, max_size=4),
    tasks=st.lists(st.tuples(st.integers(0, 5), st.integers(1, 3)), max_size=8),
    alike=st.lists(st.integers(0, 5), max_size=6),
    number=st.integers(0, 20),
)
def test_a_newcomer_is_where_the_most_cores_are_left_then_the_fewest_like_it_then_in_turn(
    cores: list[int], tasks: list[tuple[int, int]], alike: list[int], number: int
) -> None:
    """Tasks of nodes that are not there any more take nothing."""
    left = room({f"node{n}": have for n, have in enumerate(cores)}, [(f"node{n}", float(taken)) for n, taken in tasks])
    expected = [have - sum(taken for node, taken in tasks if node == n) for n, have in enumerate(cores)]
    assert list(left.values()) == expected
    most = [n for n, have in enumerate(expected) if have == max(expected)]
    best = [n for n in most if alike.count(n) == min(alike.count(one) for one in most)]
    chosen = int(roomiest(left, [f"node{n}" for n in alike], number).removeprefix("node"))
    assert chosen in best
    assert all((chosen - number) % len(cores) <= (n - number) % len(cores) for n in best)


@pytest.mark.parametrize(
    ("models", "shown", "wanted", "fake", "there"),
    [
        (2, None, 2, False, None),
        (2, 1, 2, False, 1),
        (1, 4, 2, False, 1),
        (0, None, 1, False, 0),
        (0, 1, 2, True, 1),
        (0, None, 8, True, None),
    ],
)
def test_who_sees_too_few_gpus_is_refused_with_their_number(
    models: int, shown: int | None, wanted: int, fake: bool, there: int | None
) -> None:
    facts = msgspec.structs.replace(OURS, gpus=("H100",) * models, shown_gpus=shown)
    line = f"gpus: {there} visible there (CUDA_VISIBLE_DEVICES), launcher.gpus_per_node={wanted} here; ask for less"
    assert of_gpus(facts, wanted, fake=fake) == ("" if there is None else line)


SHIPPED = yaml.safe_load((ROOT / "conf" / "launcher" / "join.yaml").read_text())


BAD = "nodes=0 port=0 port=65536 wait_s=0.0 lease_s=0.5 listen=null rejoin_s=-1.0 rejoin_s=5.0 listen=224.0.0.1"


@pytest.mark.parametrize("word", [*BAD.split(), f"listen={'.'.join('0000')}", "listen=example.org"])
def test_a_bad_setting_is_named(word: str) -> None:
    field, _, value = word.partition("=")
    with pytest.raises(ConfigError, match=f"^launcher.{field}="):
        instantiate({**SHIPPED, "listen": "127.0.0.1", field: yaml.safe_load(value)}, "launcher")


def test_bad_command_lines_are_refused_and_a_good_one_is_not() -> None:
    bad = ("", "--token-file t", *(f"--join {where} --token-file t" for where in ("10.0.0.1", ":7077", "h:70000")))
    more = ("--wait-s -1", "--wait-s nan", "--address here", "--dir /nowhere/at/all", "--token abc")
    for words in (*bad, *(f"--join h:1 --token-file t {wrong}" for wrong in more)):
        with pytest.raises(ConfigError):
            parse(words.split())
    asked = parse(["--join", "h:7077", "--token-file", "t", "--address", "10.0.0.1", "--wait-s", "0", "--again"])
    assert (asked.host, asked.port, asked.address, asked.wait_s, asked.again) == ("h", 7077, "10.0.0.1", 0.0, True)


HERE = "127.0.0.1"
NOWHERE = "192.0.2.1"
"""Of no machine (RFC 5737)."""
CLUSTER = cluster_of(num_workers=2)


def test_open_doors_are_reached_and_the_first_closed_one_is_named() -> None:
    with open_door(HERE) as one, open_door(HERE) as two:
        doors = [door_of("alpha", one), door_of("beta", two)]
        assert {closed(doors * 20) for _ in range(10)} == {""}, "nobody accepts, and nobody is kept out"
        two.close()
        assert closed(doors) == f"does not reach beta at {HERE}:{doors[1].port} (connection refused)"
        assert closed(doors[::-1]) == closed(doors)
    with pytest.raises(ConfigError, match=f"^--address {NOWHERE}: cannot assign requested address; give an address of"):
        agents_door(NOWHERE)
    with agents_door(HERE) as door:
        assert closed([door_of("", door)]) == ""


def test_the_port_of_the_coordinator_is_tried_before_anybody_is_awaited(tmp_path: Path) -> None:
    """At the address of the run: another program may have it there and not on loopback."""
    new_token(tmp_path / "token")
    with open_door(HERE) as free:
        agents_port = free.getsockname()[1]
    written = yaml.safe_load((ROOT / "conf" / "launcher" / "join.yaml").read_text())
    given = {"nodes": 2, "listen": HERE, "port": agents_port, "token_file": str(tmp_path / "token")}
    join = instantiate({**written, **given}, "launcher")
    join.check(CLUSTER, RunContext(), 0)
    with pytest.raises(ConfigError, match=f"^runtime.port={agents_port}: is launcher.port, where agents join; "):
        join.check(CLUSTER, RunContext(), agents_port)
    with coordinators_door(HERE, 0) as other:
        taken = other.getsockname()[1]
        with pytest.raises(ConfigError, match=f"^runtime.port={taken}: address already in use; choose another, or 0"):
            join.check(CLUSTER, RunContext(), taken)
    join.check(CLUSTER, RunContext(), taken)
