"""Profiles of TensorFlow and JAX: made ones with known parts, one that TensorFlow wrote, and damaged ones."""

from __future__ import annotations

import gzip
import subprocess
import sys
from pathlib import Path

import pytest

from analysis.logs import xplane
from analysis.logs.reading import read_log
from analysis.logs.step_log import LogError, Untimed
from tests.support.log_samples import MADE, refusal
from tests.support.tensorflow_facts import needs_tensorflow
from tests.support.xplanes import Event, Lines, profile

STEPS = range(3, 9)
STEP_MS = 100.0


def host(loading_ms: float = 10.0) -> Lines:
    """A thread that trains, a thread that loads at the beginning of each step, and something else."""
    begins = [STEP_MS * place for place in range(len(STEPS))]
    return {
        "python": [Event("train", begin, STEP_MS, step) for begin, step in zip(begins, STEPS, strict=True)],
        "tf_data": [Event("IteratorGetNextOp::DoCompute", begin, loading_ms) for begin in begins],
        "other": [Event("TransferToDevice", begin, 50.0) for begin in begins],
    }


def device(work_ms: float, line: str = "Stream #14(Compute)", sending: str = "ncclDevKernel_AllReduce") -> Lines:
    """Idle for 10 ms, then computing, then sending until the step ends; 5 ms of computing hide 5 ms of sending."""
    events = list[Event]()
    for place in range(len(STEPS)):
        begin, middle = STEP_MS * place + 10.0, STEP_MS * place + 10.0 + work_ms
        end = STEP_MS * (place + 1)
        events += [Event("fusion", begin, work_ms), Event(sending, middle - 5.0, end - middle + 5.0)]
    return {line: events, "XLA Modules": [Event("jit_step", 0.0, 1000.0)]}


@pytest.mark.parametrize(
    "sending", ["ncclDevKernel_AllReduce", "all-reduce.3", "collective-permute-done", "recv-done.1"]
)
@pytest.mark.parametrize("line", ["Stream #14(Compute)", "XLA Ops"])
def test_each_device_is_a_rank_with_loading_and_exposed_communication(line: str, sending: str, tmp_path: Path) -> None:
    devices = {f"/device:GPU:{number}": device(40.0 + 20.0 * number, line, sending) for number in range(2)}
    (tmp_path / "node7.xplane.pb").write_bytes(profile({"/host:CPU": host(), **devices}))
    log = read_log(tmp_path / "node7.xplane.pb")
    assert log.ranks == ("node7:GPU:0", "node7:GPU:1")
    assert set(log.hosts) == {"node7"}
    assert log.steps == tuple(STEPS)
    assert log.comm_s is not None
    assert log.data_s is not None
    assert log.comm_s[2].tolist() == pytest.approx([0.050, 0.030])
    assert log.own_s[2].tolist() == pytest.approx([0.050, 0.070])
    assert log.data_s[2].tolist() == pytest.approx([0.010, 0.010])


def test_steps_that_a_device_marks_itself_count_before_those_of_its_host(tmp_path: Path) -> None:
    marked = {**device(40.0, "XLA Ops"), "Steps": [Event(str(step), 200.0 * step, 200.0) for step in range(3)]}
    (tmp_path / "a.xplane.pb").write_bytes(profile({"/host:CPU": host(), "/device:TPU:0": marked}))
    log = read_log(tmp_path / "a.xplane.pb")
    assert log.steps == (0, 1, 2)
    assert log.round_s is not None
    assert log.round_s.tolist() == pytest.approx([0.2] * 3)


@pytest.mark.parametrize("place", [".", "plugins/profile/2026_12_01_09_00_00"])
def test_a_file_per_host_in_the_folder_of_the_profiler(place: str, tmp_path: Path) -> None:
    """The newest session counts; traces of the same steps lie beside, and are not read twice."""
    folder = tmp_path / place
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(3):
        planes = {"/host:CPU": host(), "/device:GPU:0": device(40.0 + 10.0 * number)}
        (folder / f"node{number}.xplane.pb").write_bytes(profile(planes, begin_ns=10**18 * number))
        (folder / f"node{number}.trace.json.gz").write_bytes(gzip.compress(b'{"traceEvents": []}'))
    if place != ".":
        older = folder.parent / "2026_11_30_09_00_00"
        older.mkdir()
        (older / "node0.xplane.pb").write_bytes(profile({"/host:CPU": host()}))
    log = read_log(tmp_path)
    assert log.ranks == ("node0", "node1", "node2")
    assert log.own_s[0].tolist() == pytest.approx([0.050, 0.060, 0.070])


def test_without_devices_steps_are_whole_and_loading_is_known(tmp_path: Path) -> None:
    (tmp_path / "a.xplane.pb").write_bytes(profile({"/host:CPU": host(loading_ms=70.0)}))
    log = read_log(tmp_path / "a.xplane.pb")
    assert log.own_s[:, 0].tolist() == pytest.approx([0.1] * len(STEPS))
    assert log.data_s is not None
    assert log.data_s[:, 0].tolist() == pytest.approx([0.07] * len(STEPS))


def test_a_profile_without_steps_says_how_to_mark_them(tmp_path: Path) -> None:
    (tmp_path / "a.xplane.pb").write_bytes(profile({"/host:CPU": {"other": [Event("a", 0.0, 1.0)]}}))
    with pytest.raises(Untimed, match=r"StepTraceAnnotation\('train', step_num=n\)"):
        read_log(tmp_path / "a.xplane.pb")


def test_what_is_no_profile_is_refused_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = profile({"/host:CPU": host(), "/device:GPU:0": device(40.0)})
    path = tmp_path / "a.xplane.pb"
    path.write_bytes(whole[: len(whole) // 2])
    assert "is no profile of TensorFlow or JAX, or damaged" in refusal(path)
    path.write_bytes(whole)
    monkeypatch.setattr(xplane, "MOST_OBJECTS", 10)
    assert "more than 10 events" in refusal(path)
    path.write_bytes(b"")
    with pytest.raises(LogError, match="has no steps"):
        read_log(path)


WROTE = """
import sys, time
import tensorflow as tf
from tensorflow.tsl.profiler.protobuf.xplane_pb2 import XSpace
inputs = tf.data.Dataset.range(64).map(lambda one: (tf.py_function(lambda: time.sleep(0.02), [], []), one)[1]).batch(2)
tf.profiler.experimental.start(sys.argv[1])
batches = iter(inputs)
for step in range(8):
    with tf.profiler.experimental.Trace("train", step_num=step, _r=1):
        next(batches)
        time.sleep(0.2 if step == 5 else 0.02)
tf.profiler.experimental.stop()
(path,) = tf.io.gfile.glob(sys.argv[1] + "/plugins/profile/*/*.xplane.pb")
for plane in XSpace.FromString(open(path, "rb").read()).planes:
    for event in (event for line in plane.lines for event in line.events):
        for stat in event.stats:
            if plane.stat_metadata[stat.metadata_id].name == "step_num":
                print(stat.int64_value, event.duration_ps)
"""


def test_what_tensorflow_wrote(tmp_path: Path) -> None:
    """Step 5 sleeps for 0.2 s, the others for 0.02 s; the batches of the last two are there already."""
    path = tmp_path / "vm.xplane.pb"
    path.write_bytes(gzip.decompress((MADE / "tensorflow.xplane.pb.gz").read_bytes()))
    log = read_log(path)
    assert [one > 0.2 for one in log.own_s[:, 0]] == [step == 5 for step in range(8)]
    assert log.data_s is not None
    assert [one > 0.02 for one in log.data_s[:, 0]] == [step < 6 for step in range(8)]


@needs_tensorflow
@pytest.mark.long(like="test_what_tensorflow_wrote")
def test_what_tensorflow_writes_is_read_as_it_reads_it_itself(tmp_path: Path) -> None:
    command = [sys.executable, "-c", WROTE, str(tmp_path)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=300)
    own_ps = dict(map(int, line.split()) for line in done.stdout.splitlines())
    log = read_log(tmp_path)
    assert log.own_s[:, 0].tolist() == pytest.approx([own_ps[step] * 1e-12 for step in range(8)], rel=1e-9)
