"""What a strategy with modes lost by its choices, against an oracle of the plan.

python -m scripts.fitting.mode_regret runs/2026-11-23_08-00-00_star_h_on_off_seed0   # writes regret.csv into it
python -m scripts.fitting.mode_regret runs/a_sweep                                   # all its runs with such a strategy

The run's events are replayed to a fresh strategy, so its modes and decisions are known exactly. Between two of its
decisions, changes of mode and edges of the plan's windows, the mode in force is compared with the one that the same
strategy would have chosen, had it known the true times: those of the run's own iterations within the same windows.
Costs are the strategy's own predicted seconds per unit of progress, so this is the price of not knowing the times and
of changing late; whether the costs are right, only jobs in fixed modes can say. The exit code is 0, or 2 for a record
that cannot be used.
"""

from __future__ import annotations

import argparse
from bisect import bisect_right
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeGuard

import pandas as pd

from analysis.files import write_file
from analysis.measures.metrics import jct_s
from analysis.measures.modes import TrueTimes, regret, stretches, true_times
from analysis.records.load import RecordError, find_runs, load_run
from analysis.records.sums import summed
from predictors.stragglers import deviations, exceeding
from runtime.errors import ConfigError, print_error, refuse
from runtime.record.replay import replay
from runtime.run.streams import run_program
from stragglab.vouching.replaying import build_strategy, read_record
from strategies.parts.monitoring.base import cluster_by_ratio
from strategies.protocol import Started, Strategy
from strategies.star import Star
from strategies.star.choice import Groups
from strategies.star.chooser import ModeChooser
from strategies.star.modal import SSGD, Mode

NAME = "regret.csv"


def main(argv: Sequence[str] | None = None) -> int:
    """Write a table into every run's directory, and print one line for each; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", metavar="RUN", nargs="+", type=Path, help="a run, or a directory that contains runs")
    parser.error = refuse  # type: ignore[method-assign]
    try:
        paths = list(dict.fromkeys(path for root in parser.parse_args(argv).paths for path in find_runs(root)))
        strategies = {path: build_strategy(path) for path in paths}
        chosen = {path: strategy for path, strategy in strategies.items() if chooses(strategy)}
        if not chosen:
            raise ConfigError(
                f"{len(paths)} runs, none of them of STAR with servers, which chooses modes by their costs"
            )
        for path, strategy in chosen.items():
            table = regret_of(path, strategy)
            with summed(path):
                write_file(path / NAME, table.to_csv(index=False))
            print(line(path, table))
    except (ConfigError, RecordError, OSError) as error:
        return print_error("mode_regret.py", error)
    return 0


def chooses(strategy: Strategy) -> TypeGuard[Star]:
    """Whether it chooses among modes of a job with servers; rings have others."""
    return isinstance(strategy, Star) and isinstance(strategy.parts.schedule, ModeChooser)


def line(path: Path, table: pd.DataFrame) -> str:
    """The sums for people, and how many decisions were right."""
    decided = table[table["chosen"] != ""]
    right = int((decided["chosen"] == decided["best"]).sum())
    total_s = float((table["end_s"] - table["start_s"]).sum())
    return (
        f"{path}: {table['lost_s'].sum():.3g} of {total_s:.4g} s lost by choice; "
        f"{right} of {len(decided)} decisions as with the true times"
    )


def regret_of(path: Path, strategy: Star) -> pd.DataFrame:
    """The table of :func:`analysis.measures.modes.regret` for one record; raises :class:`ConfigError`."""
    run = load_run(path)
    made = followed(path, strategy)
    oracle = Oracle(strategy, true_times(run), made)
    return regret(stretches(made.modes, made.decisions, oracle.truth.edges_s, jct_s(run)), oracle.costs)


@dataclass
class Followed:
    """What a replayed strategy did."""

    workers: tuple[int, ...] = ()
    batch_samples: float = 1.0
    modes: list[tuple[float, Hashable]] = field(default_factory=lambda: [(0.0, SSGD)])
    """Every mode with the time since which it was in force: after a decision from the next update on."""
    decisions: list[tuple[float, Hashable]] = field(default_factory=list)
    """Every decision: its time, and the mode that it chose."""
    phis: list[float] = field(default_factory=list)
    """The noise scale of every decision, in samples."""


def followed(path: Path, strategy: Star) -> Followed:
    """Replay a record; raises :class:`ConfigError` if the strategy does not answer as it did then."""
    made, schedule = Followed(), strategy.parts.schedule
    assert isinstance(schedule, ModeChooser)
    gate, last = strategy.parts.gate, None
    for step in replay(read_record(path), strategy):
        if not step.identical:
            raise ConfigError(f"{path}: seq {step.recorded.seq} is answered differently now; repeat the run")
        event = step.recorded.event
        if isinstance(event, Started):
            made.workers = tuple(event.workers)
            made.batch_samples = sum(event.batch_samples) / len(event.batch_samples)
        if gate.mode != made.modes[-1][1]:  # type: ignore[attr-defined]
            made.modes.append((event.t, gate.mode))  # type: ignore[attr-defined]
        if schedule.decision is not last and schedule.decision is not None:
            last = schedule.decision
            made.decisions.append((event.t, last.chosen))
            made.phis.append(last.phi_samples)
    return made


@dataclass
class Oracle:
    """The same strategy's costs and choice, with true times."""

    strategy: Star
    truth: TrueTimes
    made: Followed

    def costs(self, t: float, modes: Sequence[Hashable]) -> tuple[Mapping[Hashable, float], Hashable]:
        """Seconds per unit of progress by mode, and the mode to choose: SSGD without a straggler."""
        schedule, workers = self.strategy.parts.schedule, self.made.workers
        assert isinstance(schedule, ModeChooser)
        times_s = self.truth.at(workers, t)
        clusters = cluster_by_ratio(times_s, 1 + schedule.cluster_frac)
        groups: Groups = tuple(tuple(workers[index] for index in group) for group in clusters)
        found = dict[Hashable, float]()
        for mode in (SSGD, *modes):
            assert isinstance(mode, Mode)
            priced = schedule.choice.priced(workers, times_s, groups, self.made.batch_samples, self.phi(t), mode)
            for key, price in priced.items():
                found[key] = price
        slow = exceeding(deviations(dict(zip(workers, times_s, strict=True))), self.strategy.straggler_frac)
        known = schedule.choice.priced(workers, times_s, groups, self.made.batch_samples, self.phi(t))
        return found, next(iter(known)) if slow else SSGD

    def phi(self, t: float) -> float:
        """The noise scale of the last decision, or of the first one before there is any."""
        known = self.made.phis or [self.strategy.phi or 0.0]
        return known[max(0, bisect_right(self.made.decisions, t, key=lambda made: made[0]) - 1)]


if __name__ == "__main__":
    run_program("mode_regret.py", main)
