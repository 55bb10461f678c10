"""What a runtime cannot carry out in a job is refused before it starts, with the reason."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import get_args

import pytest

from runtime.api import Runtime
from runtime.config.abilities import ABILITIES, CHILDREN, COMMANDS, MEANWHILE
from runtime.config.command_line import parse_arguments
from runtime.config.compose import composing
from runtime.config.instantiate import ALLOW_VARIABLE, instantiate
from runtime.config.parse import Config, parse
from strategies import protocol
from strategies.protocol import AnyCommand, Command
from tests.support.cli import refusal, run_cli
from tests.support.measuring import noisy

VIRTUAL = "runtime=virtual workload.target=null"
NEEDY = """
from dataclasses import dataclass
from typing import ClassVar
from strategies.basic.bsp import BSP
from strategies import protocol

@dataclass(kw_only=True)
class Needy(BSP):
    command: str = "Compute"

    def __post_init__(self):
        super().__post_init__()
        self.attaches = self.command == "Apply.children"
        self.needs = frozenset({getattr(protocol, self.command.partition(".")[0])})
"""
DDP = "topology=allreduce topology.collective=ddp"

SERVED = tuple(name for name in COMMANDS if name not in ("StepAlone", "Average", "PushHalf", "SumFragment"))
"""What servers can have done."""
CAN = [
    ("", SERVED),
    ("topology=allreduce", ("Compute", "Apply", "Drop", "Restart", "Evaluate", "Checkpoint", "Wake", "Stop")),
    ("topology=allreduce", (CHILDREN, MEANWHILE, "StepAlone", "Average", "PushHalf", "SumFragment")),
    ("topology=allreduce topology.collective=gloo", ("Restart", "Drop", "StepAlone")),
    (DDP, ("Compute", "Apply", "Evaluate", "Checkpoint", "Wake", "Stop")),
    (VIRTUAL, SERVED),
    ("cluster=hosts", SERVED),
    (f"{VIRTUAL} backend=none backend.progress=digits_mlp", ("Evaluate", "Partition", "Restart")),
    (f"{VIRTUAL} record=iterations", ("Restart", "Score", "Drop")),
]


@cache
def asked(line: str) -> tuple[Runtime, Config]:
    """Composed once for all who ask it something."""
    with composing(parse_arguments([])) as composer:
        config = parse(composer.raw(line.split()))
    return instantiate(config.runtime, "runtime", cluster=config.cluster), config


def test_the_vocabulary_is_whole() -> None:
    """A command missing in ``AnyCommand`` could be requested and would be refused as unknown."""
    classes = {one for one in vars(protocol).values() if isinstance(one, type) and issubclass(one, Command)}
    assert set(get_args(AnyCommand)) == classes - {Command}
    assert set(COMMANDS) == {one.__name__ for one in classes - {Command}}


@pytest.mark.few(3)
@pytest.mark.parametrize(("line", "commands"), CAN)
def test_what_it_can(line: str, commands: tuple[str, ...]) -> None:
    runtime, config = asked(line)
    can = runtime.can(config)
    assert set(can) == set(ABILITIES)
    assert {command: can[command] for command in commands} == dict.fromkeys(commands)


@pytest.fixture
def needy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Words that choose a strategy which needs whatever ``strategy.command`` names, on every topology."""
    (tmp_path / "needy.py").write_text(NEEDY)
    (tmp_path / "strategy").mkdir()
    (tmp_path / "strategy" / "needy.yaml").write_text("_target_: needy.Needy\ndata: dynamic\ncommand: Compute\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv(ALLOW_VARIABLE, "needy")
    return ["--config-dir", str(tmp_path), "strategy=needy", "straggler=none"]


def test_a_strategy_that_needs_it_is_refused_in_one_line(needy: list[str], tmp_path: Path) -> None:
    place = tmp_path / "place"
    place.mkdir()
    for sweep in ([], ["-m", "seed=0,1"]):
        said = refusal(*needy, "topology=allreduce", "strategy.command=Send", *sweep, cwd=place)
        assert said.startswith("topology=allreduce: replicas sum their gradients together; ")
        assert "(strategy=needy needs Send)" in said
        assert list(place.iterdir()) == []


@pytest.mark.long(like="test_a_strategy_that_needs_it_is_refused_in_one_line")
def test_a_strategy_that_needs_what_there_is_runs(needy: list[str], tmp_path: Path) -> None:
    """The negative control: it is the command that was refused, not the strategy."""
    words = ("runtime=virtual", "workload=ledger", "backend=numpy", "workload.epochs=1", "view=none", "draw=false")
    done = run_cli(*needy, *words, "strategy.command=Restart", f"hydra.run.dir={tmp_path}/run")
    assert done.exit_code == 0, done.err


@pytest.fixture
def chosen(tmp_path: Path) -> list[str]:
    """Words that choose a strategy which measures every other update."""
    return [*noisy(tmp_path), "straggler=none", "view=none", "draw=false"]


@pytest.mark.few(1)
@pytest.mark.parametrize("topology", ["ps", "allreduce"])
def test_elsewhere_it_hears_of_every_update_that_it_asked_about(
    topology: str, chosen: list[str], tmp_path: Path
) -> None:
    words = (f"topology={topology}", "runtime=virtual", "workload=ledger", "backend=numpy", "workload.epochs=2")
    done = run_cli(*chosen, *words, f"hydra.run.dir={tmp_path}/run")
    assert done.exit_code == 0, done.err
    lines = (tmp_path / "run" / "events.jsonl").read_text().splitlines()
    assert sum('"type":"Measured"' in line for line in lines) >= sum('"measure":true' in line for line in lines) - 1 > 2
