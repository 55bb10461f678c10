"""Log the parts of every step from your own loop, so that ``stragglab advise FOLDER`` tells which rank is slow.

The standard library is all it needs, so this file can be copied into any project. A rank writes ``steps.rankN.csv``
with the columns ``rank, step, part, begin_s, seconds, group``; docs/advise.md describes the form.

    log = StepLogger("steps")                       # rank and host by themselves, as launchers set them
    for batch in log.steps(loader):                 # loading, and the whole step
        with log.part("computing"):                 # on a GPU, end the block with torch.cuda.synchronize()
            loss = train(batch)
        with log.part("communication"):             # if you can tell it apart
            average_gradients()

    Trainer(..., callbacks=[for_trainer(log)])      # Hugging Face
    Trainer(..., callbacks=[for_lightning(log)])    # Lightning
"""

from __future__ import annotations

import contextlib
import csv
import os
import platform
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, TextIO, TypeVar

VERSION = 1
COLUMNS = ("rank", "step", "part", "begin_s", "seconds", "group")
WHOLE, LOADING, COMPUTING, COMMUNICATION = "step", "loading", "computing", "communication"
RANKS = ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK")
"""Variables of the environment in which torchrun, srun, Open MPI and MPICH give a process its rank."""
Batch = TypeVar("Batch")


class StepLogger:
    """Writes a row for every part of a step, in seconds of this process's clock; rows are on disk at once.

    Args:
        folder: of one job's logs, the same for all ranks; each writes a file of its own, in place of an earlier one.
            Files that an earlier job of more ranks left there count as ranks of this one.
        rank: of this process; None: the one that torchrun, srun or mpirun put into the environment, or 0.
        group: what this rank shares with others, such as its host, the default.

    Raises:
        RuntimeError: another log of this rank is open.
    """

    def __init__(self, folder: str | os.PathLike[str], rank: int | None = None, group: str | None = None) -> None:
        said = (os.environ[name] for name in RANKS if name in os.environ)
        self.rank = int(next(said, "0")) if rank is None else rank
        self.group = platform.node() if group is None else group
        self.step = 0
        Path(folder).mkdir(parents=True, exist_ok=True)
        (Path(folder) / "steps.yaml").write_text(f"form: steps\nversion: {VERSION}\n")
        self._file = (Path(folder) / f"steps.rank{self.rank}.csv").open("a", buffering=1, newline="")
        _lock(self._file)
        self._file.truncate(0)
        self._rows = csv.writer(self._file)
        self._rows.writerow(COLUMNS)
        self._begun_s = time.perf_counter()

    def write(self, part: str, begin_s: float, seconds: float) -> None:
        """Write a row of the present step."""
        self._rows.writerow((self.rank, self.step, part, f"{begin_s:.6f}", f"{seconds:.6f}", self.group))

    @contextlib.contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Time a block as a part of the present step."""
        begin_s = time.perf_counter()
        yield
        self.write(name, begin_s, time.perf_counter() - begin_s)

    def begin_step(self) -> None:
        """Begin a step here; without it, a step begins where the last one ended."""
        self._begun_s = time.perf_counter()

    def end_step(self) -> None:
        """End the present step, and begin the next one."""
        now_s = time.perf_counter()
        self.write(WHOLE, self._begun_s, now_s - self._begun_s)
        self.step, self._begun_s = self.step + 1, now_s

    def steps(self, batches: Iterable[Batch]) -> Iterator[Batch]:
        """Pass batches on: getting one is loading, and a step ends when the next one is asked for."""
        source, nothing = iter(batches), object()
        self.begin_step()
        while True:
            begin_s = time.perf_counter()
            if (batch := next(source, nothing)) is nothing:
                return
            self.write(LOADING, begin_s, time.perf_counter() - begin_s)
            yield batch  # type: ignore[misc]  # it is no ``nothing``
            self.end_step()

    def loaded(self) -> None:
        """Say that the batch of the present step is there: all since its beginning was loading."""
        self.write(LOADING, self._begun_s, time.perf_counter() - self._begun_s)

    def close(self) -> None:
        """End the log; rows that follow are an error."""
        if not self._file.closed:
            _unlock(self._file)
        self._file.close()


def _lock(file: TextIO) -> None:
    """Keep others from writing the same log, where the system can.

    A lock of ``lockf`` would end as soon as this process closes the file after reading it.
    """
    with contextlib.suppress(ImportError):
        import fcntl

        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError):
            file.close()
            raise RuntimeError(
                f"{file.name}: another process writes it, or this one has not closed it; give each process its rank="
            ) from None
        except OSError:
            pass  # a file system without locks


def _unlock(file: TextIO) -> None:
    """Let others write the log at once, although forked processes may have the file open still."""
    with contextlib.suppress(ImportError, OSError):
        import fcntl

        fcntl.flock(file, fcntl.LOCK_UN)


def for_trainer(log: StepLogger) -> Any:
    """A callback of Hugging Face's Trainer; evaluations and checkpoints count as no step."""
    from transformers import TrainerCallback  # type: ignore[import-not-found]  # only its users have it

    class Callback(TrainerCallback):  # type: ignore[misc]
        def on_step_begin(self, *_: Any, **__: Any) -> None:
            log.loaded()

        def on_step_end(self, *_: Any, **__: Any) -> None:
            log.end_step()

        def on_train_begin(self, *_: Any, **__: Any) -> None:
            log.begin_step()

        on_evaluate = on_save = on_epoch_begin = on_train_begin

    return Callback()


def for_lightning(log: StepLogger) -> Any:
    """A callback of Lightning; validation counts as no step."""
    from lightning.pytorch.callbacks import Callback as Base  # type: ignore[import-not-found]  # only its users have it

    class Callback(Base):  # type: ignore[misc]
        def on_train_batch_start(self, *_: Any, **__: Any) -> None:
            log.loaded()

        def on_train_batch_end(self, *_: Any, **__: Any) -> None:
            log.end_step()

        def on_train_epoch_start(self, *_: Any, **__: Any) -> None:
            log.begin_step()

        on_validation_end = on_train_epoch_start

    return Callback()
