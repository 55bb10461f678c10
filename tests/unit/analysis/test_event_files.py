"""Event files of TensorBoard, written by its own library, and damaged ones."""

from __future__ import annotations

import shutil
import struct
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from analysis.logs.reading import Reading, read_log
from analysis.logs.step_log import LogError
from analysis.logs.tensorboard import masked_crc, read_events
from analysis.sinks.tensorboard import WITHOUT_TENSORFLOW
from reading import Unreadable
from reading.protobuf import as_float, as_signed, fields

STEPS = 24
sys.modules.setdefault(WITHOUT_TENSORFLOW, ModuleType("notf"))  # as our export does: TensorBoard is imported once


def written(folder: Path, slow: float = 1.0) -> Path:
    """As torch writes them: the seconds of a step, and other scalars."""
    from torch.utils.tensorboard import SummaryWriter

    writer = SummaryWriter(str(folder))
    for step in range(STEPS):
        moment = 1.7e9 + step
        writer.add_scalar("loss", 1.0 / (1 + step), step, walltime=moment)
        writer.add_scalar("train/step_time", slow + step / 64, step, walltime=moment)
        writer.add_text("note", "hello", step)
        writer.add_histogram("weights", np.arange(3.0), step)
    writer.close()
    return next(folder.glob("*tfevents*"))


def test_scalars_are_those_that_tensorboard_s_own_reader_finds(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    path = written(tmp_path)
    found, remarks = read_events(path, "0")
    theirs = EventAccumulator(str(path)).Reload()
    assert set(theirs.Tags()["scalars"]) <= set(found["name"])
    for tag in theirs.Tags()["scalars"]:
        ours = found[found["name"] == tag]
        expected = [(event.step, event.value, event.wall_time) for event in theirs.Scalars(tag)]
        assert list(zip(ours["step"], ours["value"], ours["clock_s"], strict=True)) == expected
    assert remarks == []


def test_scalars_as_tensors_are_the_same(tmp_path: Path) -> None:
    """TensorFlow 2 and JAX write scalars as tensors."""
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.summary.writer.event_file_writer import EventFileWriter
    from tensorboard.util import tensor_util

    writer = EventFileWriter(str(tmp_path))
    for step in range(STEPS):
        for value in (np.float32(step / 4), np.float64(step / 4)):
            tensor = tensor_util.make_tensor_proto(value)
            one = Summary.Value(tag=f"step_time_{value.dtype}", tensor=tensor)
            writer.add_event(Event(step=step, wall_time=1.7e9 + step, summary=Summary(value=[one])))
    writer.close()
    found, _ = read_events(next(tmp_path.glob("*tfevents*")), "0")
    for kind in ("float32", "float64"):
        assert found.loc[found["name"] == f"step_time_{kind}", "value"].tolist() == [step / 4 for step in range(STEPS)]


def test_a_folder_per_rank_tells_ranks_apart(tmp_path: Path) -> None:
    for rank in range(3):
        path = written(tmp_path / f"rank_{rank}", slow=1.5 if rank == 1 else 1.0)
        shutil.copytree(path.parent, tmp_path / "without" / "abc"[rank])
    with pytest.raises(LogError, match="their names have no rank"):
        read_log(tmp_path / "without")
    shutil.rmtree(tmp_path / "without")
    log = read_log(tmp_path)
    assert log.ranks == ("0", "1", "2")
    assert log.own_s[0].tolist() == pytest.approx([1.0, 1.5, 1.0])
    in_ms = read_log(tmp_path, Reading(unit_s=0.001))
    assert in_ms.own_s[0].tolist() == pytest.approx([0.001, 0.0015, 0.001])


def test_a_wrong_length_and_a_length_without_end_are_refused(tmp_path: Path) -> None:
    path = written(tmp_path)
    data = bytearray(path.read_bytes())
    path.write_bytes(data[:-7])
    found, remarks = read_events(path, "0")
    assert len(found) > 2 * STEPS - 4, "a file that is cut off is read until there"
    assert any("ends within a record" in remark for remark in remarks)
    data[2] ^= 1
    path.write_bytes(bytes(data))
    with pytest.raises(LogError, match="a checksum is wrong"):
        read_log(path)
    head = struct.pack("<Q", 1 << 60)
    path.write_bytes(head + struct.pack("<I", masked_crc(head)))
    with pytest.raises(LogError, match="more than the 134,217,728 that are read"):
        read_log(path)


def test_fields_are_those_that_google_s_library_encodes() -> None:
    from tensorboard.compat.proto.event_pb2 import Event

    message = Event(wall_time=1.25, step=-3, file_version="brain.Event:2").SerializeToString()
    found = dict(fields(message))
    assert as_float(found[1], 8) == 1.25
    assert as_signed(found[2]) == -3
    assert found[3] == b"brain.Event:2"
    with pytest.raises(Unreadable, match="a message ends within a field"):
        list(fields(message[:-1]))
    with pytest.raises(Unreadable, match="a field of kind 3"):
        list(fields(b"\x0b"))
    with pytest.raises(Unreadable, match="ends within"):
        list(fields(b"\xff" * 11))
