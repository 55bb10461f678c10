"""Random labs of jobs on shared hosts, in full detail and with jumps: errors of completion times, and processor time.

    python -m tests.bench.compare_detail --labs 5 --jobs 8 [--warm-up 2 --rounds 5 --apart 4 --reach 10]

Exit code 1 if the mean error is above 3 %.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import defaultdict
from statistics import mean

from runtime.core.jumping.jumps import Measured
from tests.support.shared_labs import draw_lab, run_lab

MOST_FRAC = 0.03


def main() -> int:
    """Print one line per lab, then one per strategy."""
    options = parse()
    measured = Measured(
        warm_up=options.warm_up, rounds=options.rounds, apart=options.apart, margin=options.margin, reach=options.reach
    )
    errors: defaultdict[str, list[float]] = defaultdict(list)
    for seed in range(options.seed, options.seed + options.labs):
        length = (options.shortest, options.longest)
        drawn = draw_lab(seed, jobs=options.jobs, hosts=4 + seed % 5, rounds=length, gap_s=options.gap_s)
        begun_s = time.process_time()
        full = run_lab(drawn, None)
        full_s, begun_s = time.process_time() - begun_s, time.process_time()
        jumped = run_lab(drawn, measured)
        jumped_s, found = time.process_time() - begun_s, []
        for one in drawn:
            found.append(jumped[one.name].t / full[one.name].t - 1)
            errors[one.strategy].append(found[-1])
        print(
            f"lab {seed}: {described(found)}; {full_s:.1f} s of processor time, {jumped_s:.1f} s with jumps", flush=True
        )
    for strategy, found in sorted(errors.items()):
        print(f"{strategy}: {described(found)}")
    everything = [error for found in errors.values() for error in found]
    print(f"all: {described(everything)}")
    return int(mean(map(abs, everything)) > MOST_FRAC)


def described(errors: list[float]) -> str:
    """Mean and worst of the absolute errors, and the mean of the signed ones."""
    sizes = [abs(error) for error in errors]
    return f"{len(errors)} jobs, mean {mean(sizes):.1%}, worst {max(sizes):.1%}, signed {mean(errors):+.1%}"


def parse() -> argparse.Namespace:
    """The options of the command line, with the defaults of ``Measured``."""
    parser = argparse.ArgumentParser(description="Completion times with replay.detail=measured against full detail.")
    usual = Measured()
    parser.add_argument("--seed", type=int, default=0, help="of the first lab")
    parser.add_argument("--labs", type=int, default=5)
    parser.add_argument("--jobs", type=int, default=8, help="of every lab")
    parser.add_argument("--shortest", type=int, default=200, help="rounds of the shortest job")
    parser.add_argument("--longest", type=int, default=500)
    parser.add_argument("--gap-s", type=float, default=40.0, help="mean seconds between two arrivals")
    for name in ("warm_up", "rounds", "apart", "margin", "reach"):
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, default=getattr(usual, name))
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
