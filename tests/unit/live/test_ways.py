"""Doors of machines that join: who reaches which, what is said of the first closed one, and ports that are taken."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from runtime.api import RunContext
from runtime.config.instantiate import instantiate
from runtime.errors import ConfigError
from runtime.house import ROOT
from runtime.live.joining.token import new_token
from runtime.live.joining.ways import agents_door, closed, coordinators_door, door_of, open_door
from tests.support.clusters import cluster_of

HERE = "127.0.0.1"
NOWHERE = "192.0.2.1"
"""Of no machine (RFC 5737)."""
CLUSTER = cluster_of(num_workers=2)


def test_open_doors_are_reached_by_as_many_as_call_and_the_first_closed_one_is_named() -> None:
    with open_door(HERE) as one, open_door(HERE) as two:
        doors = [door_of("alpha", one), door_of("beta", two)]
        assert {closed(doors * 20) for _ in range(10)} == {""}, "nobody accepts, and nobody is kept out"
        two.close()
        assert closed(doors) == f"does not reach beta at {HERE}:{doors[1].port} (connection refused)"
        assert closed(doors[::-1]) == closed(doors)


def test_an_address_that_an_agent_s_machine_does_not_have_is_refused() -> None:
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
