"""A run as TensorBoard shows it: ``tensorboard --logdir DIR``."""

from __future__ import annotations

import json
import sys
from itertools import chain
from pathlib import Path
from types import ModuleType

from analysis.records.load import Run
from analysis.sinks.series import evaluations, iterations, settings, started_s

NEEDS = "tensorboard"
WITHOUT_TENSORFLOW = "tensorboard.compat.notf"
"""Where there is a module of this name, TensorBoard uses the file system of its own, and not TensorFlow's."""


def export(run: Run, where: str) -> str:
    """Write the run's events into a directory of its name below ``where``; returns that directory."""
    # else it imports all of TensorFlow, if that is installed: four seconds, 200 MB and its lines about this machine
    sys.modules.setdefault(WITHOUT_TENSORFLOW, ModuleType("notf"))
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.plugins.text.summary_v2 import text_pb
    from tensorboard.summary.writer.event_file_writer import EventFileWriter

    folder, start_s = Path(where) / run.path.name, started_s(run)
    writer = EventFileWriter(str(folder))
    try:
        text = f"```\n{json.dumps(settings(run), indent=1, default=str)}\n```"
        writer.add_event(Event(wall_time=start_s, step=0, summary=text_pb("settings", text)))
        for name, step, t_s, value in chain(evaluations(run), iterations(run)):
            summary = Summary(value=[Summary.Value(tag=name, simple_value=value)])
            writer.add_event(Event(wall_time=start_s + t_s, step=step, summary=summary))
    finally:
        writer.close()
    return str(folder)
