"""The job script for Slurm and the manifest for Kubernetes in docs/cluster.md: their own words train a job.

What a cluster gives (addresses, names, mounts, ``srun``) is put in place here; there is no Slurm and no Kubernetes.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
import yaml

from analysis.records.load import Run, load_run
from tests.support.joined import Cluster, Namespaces
from tests.support.runs import ROOT, marks

pytestmark = [pytest.mark.live, pytest.mark.timeout(400)]

PATIENCE_S = 180.0
LIKE = "tests/live/test_joined.py::test_two_agents_of_a_user_train_every_sample_as_often"
TOKEN = ".stragglab-token"
SRUN = '#!/bin/sh\n[ "$1" = --cpus-per-task=8 ] || exit 2\nshift\nfor _ in 1 2 3 4; do "$@" & done\nwait\n'
"""Of a job with four nodes, whose number of cores it does not take over from the script."""


def block(language: str, word: str) -> str:
    """The only block of code on the page that has this word."""
    page = (ROOT / "docs" / "cluster.md").read_text()
    blocks = re.findall(rf"^```{language}\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    (found,) = (text for text in blocks if word in text)
    return str(found)


def placed(text: str, places: Mapping[str, object]) -> str:
    """A text with every name replaced by where that is here; each must stand there."""
    for name, place in places.items():
        assert name in text, (name, text)
        text = text.replace(name, str(place))
    return text


class Stage:
    """Programs that find our Python, and first what is in ``bin``; they are killed at the end."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.programs = folder, dict[str, subprocess.Popen[bytes]]()
        self.bin = folder / "bin"
        self.bin.mkdir()
        self.provide("python", f'#!/bin/sh\nexec {sys.executable} "$@"\n')

    def provide(self, name: str, text: str) -> None:
        """A program of the cluster."""
        (self.bin / name).write_text(text)
        (self.bin / name).chmod(0o755)

    def start(self, name: str, words: list[str], **variables: str) -> None:
        with (self.folder / f"{name}.out").open("wb") as output:
            self.programs[name] = subprocess.Popen(
                words,
                cwd=ROOT,
                env={**os.environ, **marks(self.folder), "PATH": f"{self.bin}:{os.environ['PATH']}", **variables},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                process_group=0,
            )

    @property
    def settings(self) -> str:
        """Of a short job."""
        job = "workload=ledger backend=numpy straggler=none workload.epochs=1 draw=false"
        return f" {job} hydra.run.dir={self.folder / 'record'}"

    def finish(self) -> Run:
        """The record, when all have ended well."""
        codes = {name: program.wait(PATIENCE_S) for name, program in self.programs.items()}
        assert set(codes.values()) == {0}, (codes, [path.read_text() for path in self.folder.glob("*.out")])
        return load_run(self.folder / "record")

    def close(self) -> None:
        for program in self.programs.values():
            with suppress(ProcessLookupError):  # the whole group has ended
                os.killpg(program.pid, signal.SIGKILL)
            program.wait(PATIENCE_S)
        (self.folder / TOKEN).unlink(missing_ok=True)


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    folder = tmp_path / "stage"
    folder.mkdir()
    with ExitStack() as stack:
        made = Stage(folder)
        stack.callback(made.close)
        yield made


def addresses(record: Run) -> list[str]:
    return [node["address"] for node in record.meta["machine"]["nodes"]]


@pytest.mark.long(like=LIKE)
def test_the_manifest_trains(apart: Cluster, stage: Stage) -> None:
    """Four agents in two networks, the run in a third; the token is mounted so that others can read it."""
    machines, token = apart.machines, stage.folder / "mounted"
    assert isinstance(machines, Namespaces)
    token.write_text(apart.token.read_text())
    token.chmod(0o644)
    service, pod, job = yaml.safe_load_all(block("yaml", "kind: Job"))
    assert service["spec"]["selector"].items() <= pod["metadata"]["labels"].items()
    endpoint = f"{service['metadata']['name']}:{service['spec']['ports'][0]['port']}"
    (run,), (agent,) = pod["spec"]["containers"], job["spec"]["template"]["spec"]["containers"]
    assert [variable["name"] for variable in run["env"]] == ["ADDRESS"]
    assert run["env"][0]["valueFrom"]["fieldRef"]["fieldPath"] == "status.podIP"
    mounted = {f"{mount['mountPath']}/token": token for one in (run, agent) for mount in one["volumeMounts"]}
    *shell, words = run["command"]
    words = placed(words, {"/tmp/token": stage.folder / "copied", **mounted}) + stage.settings
    with machines.at_driver():
        stage.start("run", [*shell, words], ADDRESS=machines.driver)
    *shell, words = agent["command"]
    words = placed(words, {endpoint: f"{machines.driver}:{machines.port}", **mounted})
    for number in range(job["spec"]["completions"]):
        with machines.at(number % 2):
            stage.start(f"agent{number}", [*shell, words])
    found = machines.network.addresses
    assert addresses(stage.finish()) == sorted(2 * found, key=found.index)


@pytest.mark.long(like=LIKE)
def test_the_script_for_slurm_trains(apart: Cluster, stage: Stage) -> None:
    """All four nodes are one here."""
    machines = apart.machines
    apart.token.rename(stage.folder / TOKEN)
    stage.provide("hostname", f'#!/bin/sh\n[ "$*" = -I ] && echo "{machines.driver} 192.0.2.7 "\n')
    stage.provide("srun", SRUN)
    script = block("bash", "#SBATCH")
    assert "#SBATCH --nodes=4 --ntasks-per-node=1" in script
    token_file = f"launcher.token_file=$HOME/{TOKEN}"
    script = placed(script, {token_file: token_file + stage.settings})
    with machines.at_driver():
        stage.start("job", ["bash", "-e", "-c", script], HOME=str(stage.folder))
    assert addresses(stage.finish()) == 4 * [machines.driver]
