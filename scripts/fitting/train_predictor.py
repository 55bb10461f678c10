r"""Fit the LSTM of a straggler predictor to recorded runs: the workers' resources, or how much slower they were.

python -m scripts.fitting.train_predictor runs/received --series resources --out predictors/fitted/resources.npz
python -m scripts.fitting.train_predictor runs/received --series deviation --out predictors/fitted/deviation.npz

``resources`` (predictor ``star``) are the processor share and the bandwidth that every iteration received; the runs
must be of machines that are modelled or real, since a sleep takes neither. ``deviation`` (``lstm_ratio``) is by how
much an iteration exceeded the fastest worker's. STAR's network: two layers of 50, a linear head, z-scores of the
training data, Adam with rate 0.001, batches of 20. It predicts the next value from all before it, in windows of
``--history``.

Every fifth worker is left out: the errors on its windows are printed, next to the errors of repeating the last value.
The file has weights, z-scores and this command; inference needs numpy only. Exit code 0, or 2 for invalid input.
"""

from __future__ import annotations

import argparse
import io
import shlex
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from analysis.files import write_file
from analysis.measures.prediction_labels import losses, timed_iterations
from analysis.records.load import RecordError, Run, find_runs, load_run
from predictors.lstm import FORMAT, LAYERS, SERIES, whole
from predictors.lstm_ratio import Deviations
from predictors.stragglers import Observation
from runtime.errors import ConfigError, print_error, refuse
from runtime.house import module_name
from runtime.run.streams import run_program

Floats = NDArray[np.float64]
HIDDEN, BATCH, RATE = 50, 20, 1e-3
WARM = 10
"""First predictions of a window, from next to nothing, that are not learnt."""
HELD_OUT = 5


def main(argv: Sequence[str] | None = None) -> int:
    """Fit and write; returns the exit code (see the module)."""
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        arguments = _parser().parse_args(words)
        _check(arguments)
        runs = [load_run(path) for folder in arguments.folders for path in find_runs(folder)]
        series = [each for run in runs for each in series_of(run, arguments.series)]
        learnt, held_out = split(series, arguments.history)
        arrays, rmse = fit(learnt, held_out, arguments.epochs, arguments.seed)
        command = shlex.join(["python", "-m", module_name("scripts.fitting.train_predictor"), *words])
        told = {"format": FORMAT, "series": arguments.series, "command": command}
        content = io.BytesIO()
        np.savez_compressed(content, **{**told, **arrays})
        write_file(arguments.out, content.getvalue())
    except (RecordError, ConfigError, OSError) as error:
        return print_error("train_predictor.py", error)
    print(f"{len(runs)} runs, {len(learnt)} windows learnt, {len(held_out)} held out")
    for name, value in rmse.items():
        print(f"  error of the next value (RMSE, z-scores), {name}: {' '.join(f'{one:.3f}' for one in value)}")
    print(arguments.out)
    return 0


def series_of(run: Run, kind: str) -> Iterator[Floats]:
    """The series of every process of a worker, float [iterations, values]; raises :class:`ConfigError`."""
    rows, lost = timed_iterations(run), losses(run)
    if kind == "resources" and rows["cpu_frac"].isna().all():
        raise ConfigError(
            f"{run.path}: does not say how much processor time an iteration took; record runs of modelled machines "
            "(runtime=virtual cluster=hosts) or live ones"
        )
    rows = rows.assign(deviation=_deviations(rows)) if kind == "deviation" else rows.dropna(subset="cpu_frac")
    rows = rows.fillna({"bytes_per_s": 1.0})
    columns = ["deviation"] if kind == "deviation" else ["cpu_frac", "bytes_per_s"]
    for worker, own in rows.groupby("worker"):
        incarnation = np.searchsorted([t for t, gone in lost if gone == worker], own["t"], side="right")
        for _, process in own.groupby(incarnation):
            yield process[columns].to_numpy(dtype="float64")


def _deviations(rows: Any) -> list[float]:
    latest = Deviations()
    return [latest.add(Observation(*one)) for one in rows[list(Observation._fields)].itertuples(index=False)]


def split(series: Sequence[Floats], history: int) -> tuple[Floats, Floats]:
    """Windows of ``history`` + 1 values, half of each shared with the next: (learnt, held out)."""
    sets: tuple[list[Floats], list[Floats]] = ([], [])
    for number, values in enumerate(series):
        for start in range(0, len(values) - history, max(1, history // 2)):
            window = values[start : start + history + 1]
            if values.shape[1] == SERIES["resources"]:
                window = window / whole(window[None, :-1])[0]
            sets[number % HELD_OUT == HELD_OUT - 1].append(window)
    if not sets[0] or not sets[1]:
        raise ConfigError(
            f"--history={history}: needs {HELD_OUT} workers or more with longer series than that; give more runs, or "
            "longer ones"
        )
    return np.stack(sets[0]), np.stack(sets[1])


def fit(learnt: Floats, held_out: Floats, epochs: int, seed: int) -> tuple[dict[str, Floats], dict[str, Floats]]:
    """The arrays of the file, and errors by name."""
    import torch

    torch.manual_seed(seed)
    torch.set_num_threads(1)
    mean, scale = learnt.mean(axis=(0, 1)), learnt.std(axis=(0, 1))
    scale = np.where(scale <= 1e-9 * np.abs(mean) + 1e-12, 1.0, scale)
    scaled, tested = (torch.tensor((values - mean) / scale, dtype=torch.float32) for values in (learnt, held_out))
    values = scaled.shape[2]
    lstm, head = torch.nn.LSTM(values, HIDDEN, LAYERS, batch_first=True), torch.nn.Linear(HIDDEN, values)
    optimizer = torch.optim.Adam([*lstm.parameters(), *head.parameters()], lr=RATE)

    def errors(windows: Any) -> Any:
        return (head(lstm(windows[:, :-1])[0]) - windows[:, 1:])[:, WARM:]

    for _ in range(epochs):
        for chosen in torch.split(torch.randperm(len(scaled)), BATCH):
            optimizer.zero_grad()
            (errors(scaled[chosen]) ** 2).mean().backward()
            optimizer.step()
    with torch.no_grad():
        last = tested[:, :-1] - tested[:, 1:]
        rmse = {
            "fitted": (errors(tested) ** 2).mean(dim=(0, 1)).sqrt().numpy(),
            "last value": (last[:, WARM:] ** 2).mean(dim=(0, 1)).sqrt().numpy(),
        }
        arrays = {"mean": mean, "scale": scale, "head": head.weight.numpy(), "head_bias": head.bias.numpy()}
        for layer in range(LAYERS):
            into, again, bias, more = (
                getattr(lstm, f"{name}_l{layer}").numpy() for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
            )
            arrays |= {f"into{layer}": into, f"again{layer}": again, f"bias{layer}": bias + more}
    return arrays, rmse


def _check(arguments: argparse.Namespace) -> None:
    for name, least in (("history", WARM + 1), ("epochs", 1)):
        if getattr(arguments, name) < least:
            raise ConfigError(f"--{name}={getattr(arguments, name)}: must be {least} or more")
    if arguments.out.suffix != ".npz":
        raise ConfigError(f"--out={arguments.out}: must end in .npz")
    for folder in arguments.folders:
        if not find_runs(folder):
            raise ConfigError(f"{folder}: no run here (a directory with meta.json and events.jsonl)")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", metavar="RUN_DIR", nargs="+", type=Path, help="a run, or a directory of runs")
    parser.add_argument("--series", choices=sorted(SERIES), required=True, help="what to predict")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE.npz")
    parser.add_argument(
        "--history", type=int, default=100, help="values to predict from (default: %(default)s, STAR's)"
    )
    parser.add_argument("--epochs", type=int, default=60, help="passes over the windows (default: %(default)s)")
    parser.add_argument(
        "--seed", type=int, default=0, help="of the initial weights and the order (default: %(default)s)"
    )
    parser.error = refuse  # type: ignore[method-assign]
    return parser


if __name__ == "__main__":
    run_program("train_predictor.py", main)
