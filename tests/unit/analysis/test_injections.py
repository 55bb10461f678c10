"""Asked, achieved and felt, from records whose effects are known exactly; and what is said of the injectors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import nan
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from analysis.figures.injectors import draw_injectors
from analysis.measures.injections import COLUMNS, PAYLOAD_FRAC, collect, injections
from analysis.measures.injector_errors import errors
from analysis.records.load import Run, load_run
from analysis.reports.injectors import verdict
from stragglab.commands import figures as script
from tests.support.records import Disturbance, Story, apply, compute, disturbance

CORES = 0.4
LINK = 12.5e6
FLOATS = 250_000
WHOLE = [("worker:0",), ("server:0",)]


class Telling:
    """The record of one worker and one server, each on a host; lines may come in any order."""

    def __init__(self, *plan: Disturbance, hosts: Sequence[Sequence[str]] = WHOLE, **job: Any) -> None:
        job = {"num_workers": 1, "num_servers": 1, "num_parameters": FLOATS, "global_batch_samples": 8, **job}
        self.story = Story(plan=sorted(plan, key=lambda one: one["start_s"]), straggler="trace", **job)
        self.story.meta["machine"]["hosts"] = [
            {"number": number, "tasks": list(tasks), "cores": CORES} for number, tasks in enumerate(hosts)
        ]
        self.received: list[tuple[float, Callable[[float], None]]] = []
        self.t = 0.0
        self.grads = 0

    def work(self, until_s: float, compute_s: float, worker: int = 0, samples: int = 8, **given: float) -> Telling:
        """Iterations one behind the other, from where the last ended, until the next would end after ``until_s``."""
        parts = {"compute_s": compute_s, "pull_s": 0.0, "send_s": 0.0, **given}
        whole_s = parts["compute_s"] + parts["pull_s"] + parts["send_s"]
        while self.t + whole_s <= until_s + 1e-9:
            self.t = round(self.t + whole_s, 9)
            self.received.append((self.t, self._arrival(worker, self.grads, samples, parts)))
            self.grads += 1
        return self

    def rest(self, until_s: float) -> Telling:
        self.t = until_s
        return self

    def _arrival(self, worker: int, grad: int, samples: int, parts: dict[str, float]) -> Callable[[float], None]:
        def tell(t: float) -> None:
            self.story.arrived(t, worker, grad, [apply(grad), compute(worker)], samples=samples, **parts)

        return tell

    def noted(self, start_s: float, target: str, kind: str, level: float, **given: Any) -> Telling:
        """Half a millisecond late, and done a millisecond later."""
        full = {"cpu": CORES, "bandwidth": LINK}.get(kind, 1.0)
        fields = {"by": "cgroup", "asked": full * level, "achieved": full * level, "late_s": 5e-4, "took_s": 1e-3}
        fields |= {"target": target, "kind": kind, "level": level, **given}
        self.received.append((start_s + 1.5e-3, lambda t: self.story.note(t, "Injected", **fields)))
        return self

    def observed(self, begin_s: float, end_s: float, **cores: float) -> Telling:
        nodes = [{"node": name.replace("_", ":"), "cpu_cores": each} for name, each in cores.items()]
        fields = {"period_s": end_s - begin_s, "nodes": nodes}
        self.received.append((end_s, lambda t: self.story.event(t, "Observed", **fields)))
        return self

    def run(self, folder: Path) -> Run:
        return load_run(self.write(folder / "run"))

    def write(self, path: Path) -> Path:
        self.story.started()
        self.story.lines[-1]["commands"] = [compute(worker) for worker in range(self.story.meta["job"]["num_workers"])]
        for t, tell in sorted(self.received, key=lambda one: one[0]):
            tell(t)
        self.story.finished(max([self.t, *(t for t, _ in self.received)]), num_parameters=FLOATS)
        return self.story.write(path)


def only(received: Telling, folder: Path) -> dict[str, Any]:
    frame = injections(received.run(folder))
    assert len(frame) == 1
    return dict(frame.iloc[0])


def throttled(level: float = 0.5, felt_s: float = 0.1, target: str = "worker:0", seed: int = 0) -> Telling:
    """50 ms per iteration, and ``felt_s`` from second 1 to second 3."""
    received = noted(level=level, target=target, seed=seed)
    return received.work(1.0, 0.05).rest(1.02).work(3.0, felt_s).rest(3.0).work(4.0, 0.05)


def noted(
    start_s: float = 1.0, end_s: float = 3.0, target: str = "worker:0", level: float = 0.5, **given: Any
) -> Telling:
    """A throttle that was carried out; nobody has worked yet."""
    received = Telling(disturbance(start_s, end_s, target, level, "cpu"), **given)
    return received.noted(start_s, target, "cpu", level)


def test_a_throttled_worker(tmp_path: Path) -> None:
    row = only(throttled(), tmp_path)
    about = {name: row[name] for name in ("window", "target", "kind", "by", "start_s", "end_s", "magnitude")}
    assert list(about.values()) == [0, "worker:0", "cpu", "cgroup", 1.0, 3.0, 0.5]
    assert (row["asked"], row["achieved"], row["full"]) == (0.2, 0.2, 0.4)
    assert row["readback_s"] == pytest.approx(1.5e-3)
    assert (row["base_s"], row["felt_s"]) == (pytest.approx(0.05), pytest.approx(0.1))
    assert (row["slowdown_asked"], row["slowdown"]) == (2.0, pytest.approx(2.0))
    assert (row["slowdown_p10"], row["slowdown_p90"]) == (pytest.approx(2.0), pytest.approx(2.0))
    assert row["iterations"] == 18, "all but the first, which begins within a tenth of a second"
    assert row["onset_s"] == pytest.approx(0.02)


def test_a_note_belongs_to_the_window_of_its_target(tmp_path: Path) -> None:
    plan = [disturbance(1.0, 3.0, f"worker:{worker}", 0.5, "cpu") for worker in (0, 1)]
    received = Telling(*plan, num_workers=2).noted(1.0, "worker:1", "cpu", 0.5, by="duty", achieved=0.19)
    row = only(received.work(3.0, 0.05), tmp_path)
    assert (row["target"], row["by"], row["asked"], row["achieved"]) == ("worker:1", "duty", 0.2, 0.19)


def test_quantiles_tell_how_even_it_is(tmp_path: Path) -> None:
    received = noted(end_s=4.0).work(1.0, 0.05).rest(1.12)
    for tenth in range(11):
        received.work(received.t + 0.05 + 0.01 * tenth, 0.05 + 0.01 * tenth)
    row = only(received.rest(5.0).work(6.0, 0.05), tmp_path)
    found = [row[name] for name in ("iterations", "slowdown_p10", "slowdown", "slowdown_p90")]
    assert found == [11, pytest.approx(1.2), pytest.approx(2.0), pytest.approx(2.8)]


def test_iterations_across_an_edge_belong_to_neither_side(tmp_path: Path) -> None:
    """Those from 0.96 to 1.5 and from 2.9 to 3.2 are partly disturbed; their lengths would show in the medians."""
    row = only(noted().work(0.96, 0.24).work(1.5, 0.54).work(2.9, 0.2).work(3.2, 0.3).work(3.6, 0.1), tmp_path)
    assert row["iterations"] == 7
    assert (row["felt_s"], row["base_s"]) == (pytest.approx(0.2), pytest.approx(0.17))


def test_a_window_is_compared_with_whole_batches_near_it(tmp_path: Path) -> None:
    received = noted(11.0, 13.0).work(10.0, 0.2).work(11.0, 0.05).rest(11.02).work(13.0, 0.1)
    assert only(received, tmp_path / "near")["base_s"] == pytest.approx(0.05)
    received = noted().work(1.0, 0.05).rest(1.2).work(1.3, 0.02, samples=3).work(3.0, 0.1)
    assert only(received, tmp_path / "whole")["slowdown_p10"] == pytest.approx(2.0)


def test_iterations_under_two_windows_count_for_none(tmp_path: Path) -> None:
    plan = (disturbance(1.0, 4.0, "worker:0", 0.5, "cpu"), disturbance(2.0, 3.0, "worker:0", 1.0, "slowdown"))
    received = Telling(*plan).noted(1.0, "worker:0", "cpu", 0.5)
    received.work(1.0, 0.05).rest(1.02).work(2.0, 0.1).rest(2.0).work(3.0, 0.2, injected_s=0.1)
    received.rest(3.12).work(4.0, 0.1).rest(4.0).work(5.0, 0.05)
    rows = injections(received.run(tmp_path)).set_index("kind")
    assert rows["iterations"].to_dict() == {"cpu": 16, "slowdown": 0}
    assert rows.loc["cpu", "slowdown"] == pytest.approx(2.0)
    assert pd.isna(rows.loc["slowdown", "slowdown"])


def test_the_share_is_what_was_used_of_what_it_may_use(tmp_path: Path) -> None:
    received = throttled().observed(0.5, 1.0, worker_0=0.4)
    assert pd.isna(only(received.observed(0.8, 1.3, worker_0=0.3), tmp_path / "edge")["cpu_share"])
    received = throttled().observed(1.5, 2.0, worker_0=0.19).observed(2.0, 3.0, worker_0=0.22)
    received.observed(2.8, 3.3, worker_0=0.3)
    found = only(received, tmp_path / "within")["cpu_share"]
    assert found == pytest.approx((0.5 * 0.19 + 1.0 * 0.22) / 1.5 / CORES)


def test_the_cost_of_an_iteration_tells_a_slow_machine_from_a_slow_worker(tmp_path: Path) -> None:
    """It computes 30 % longer at half of the processor than it should."""
    received = throttled(felt_s=0.13).observed(0.4, 0.9, worker_0=0.4).observed(3.2, 3.9, worker_0=0.4)
    row = only(received.observed(1.5, 2.5, worker_0=0.2), tmp_path)
    assert (row["slowdown"], row["cpu_share"]) == (pytest.approx(2.6), pytest.approx(0.5))
    assert row["cpu_cost"] == pytest.approx(1.3)


def test_a_host_is_its_workers_and_a_server_is_busy_itself(tmp_path: Path) -> None:
    row = only(throttled(target="host:0").observed(1.5, 2.0, worker_0=0.1, host_0=0.2), tmp_path / "host")
    assert (row["slowdown"], row["cpu_share"]) == (pytest.approx(2.0), pytest.approx(0.5))
    received = throttled(target="server:0")
    for begin_s, busy_frac, cores in ((1.2, 1.0, 0.2), (1.7, 0.3, 0.05)):
        nodes = [{"node": "server:0", "cpu_cores": cores, "busy_frac": busy_frac}]
        received.received.append(
            (begin_s + 0.5, lambda t, nodes=nodes: received.story.event(t, "Observed", period_s=0.5, nodes=nodes))
        )
    row = only(received, tmp_path / "server")
    assert row["cpu_share"] == pytest.approx(0.5)
    assert pd.isna(row["slowdown"]), "iterations of workers do not show how long a server computes"


def test_a_delay_is_measured_in_seconds_per_iteration(tmp_path: Path) -> None:
    received = Telling(disturbance(1.0, 2.8, "worker:0", 0.15, "delay"))
    received.work(1.0, 0.05).work(2.9, 0.21, injected_s=0.16).rest(3.2).work(4.0, 0.05)
    row = only(received, tmp_path)
    assert (row["by"], row["asked"], row["achieved"]) == ("sleep", pytest.approx(0.15), pytest.approx(0.16))
    assert (row["slowdown_asked"], row["slowdown"]) == (pytest.approx(4.0), pytest.approx(4.2))
    assert row["onset_s"] == pytest.approx(0.0, abs=1e-9)
    assert pd.isna(row["readback_s"])


def test_a_slow_down_is_relative(tmp_path: Path) -> None:
    received = Telling(disturbance(1.02, 2.9, "worker:0", 1.0, "slowdown"))
    row = only(received.work(1.05, 0.05).work(2.95, 0.1, injected_s=0.05).work(4.0, 0.05), tmp_path)
    assert (row["slowdown_asked"], row["slowdown"]) == (2.0, pytest.approx(2.0))
    assert (row["asked"], row["achieved"]) == (pytest.approx(0.05), pytest.approx(0.05))
    assert row["onset_s"] == pytest.approx(0.03), "the next Compute after its start"


def test_a_delayed_server_is_measured_by_its_updates(tmp_path: Path) -> None:
    received = Telling(disturbance(1.02, 2.02, "server:0", 0.01, "delay")).work(3.0, 0.1)
    received.received.append(
        (
            3.0,
            lambda t: received.story.note(t, "Updated", server=0, version=30, updates=30, busy_s=0.2, injected_s=0.12),
        )
    )
    row = only(received, tmp_path)
    assert (row["by"], row["asked"], row["achieved"]) == ("sleep", pytest.approx(0.01), pytest.approx(0.012))
    assert pd.isna(row["slowdown_asked"])


def linked(target: str, level: float = 0.25, **job: Any) -> Telling:
    """A megabyte each way: 80 ms at the full rate, four times that from second 1 to second 9, pulls a little more."""
    received = Telling(disturbance(1.0, 9.0, target, level, "bandwidth"), **job)
    received.noted(1.0, target, "bandwidth", level, by="tc").work(1.0, 0.01, pull_s=0.08, send_s=0.08)
    return received.work(9.0, 0.01, pull_s=0.4, send_s=0.32).rest(9.2).work(10.0, 0.01, pull_s=0.08, send_s=0.08)


@pytest.mark.parametrize("target", ["link:0", "link:1"])
def test_a_slow_link(target: str, tmp_path: Path) -> None:
    row = only(linked(target), tmp_path)
    assert (row["by"], row["asked"], row["full"]) == ("tc", LINK / 4, LINK)
    assert row["payload_asked_bytes_per_s"] == pytest.approx(LINK / 4 * PAYLOAD_FRAC)
    assert row["push_bytes_per_s"] == pytest.approx(4 * FLOATS / 0.32)
    assert row["pull_bytes_per_s"] == pytest.approx(4 * FLOATS / 0.4)
    assert (row["slowdown_asked"], row["slowdown"]) == (4.0, pytest.approx(0.72 / 0.16))
    assert row["onset_s"] == pytest.approx(0.0, abs=0.05)


def test_a_route_shows_in_what_goes_there(tmp_path: Path) -> None:
    push, pull = only(linked("link:0>1"), tmp_path / "push"), only(linked("link:1>0"), tmp_path / "pull")
    assert (push["push_bytes_per_s"], push["slowdown"]) == (pytest.approx(4 * FLOATS / 0.32), pytest.approx(4.0))
    assert pd.isna(push["pull_bytes_per_s"])
    assert pd.isna(pull["push_bytes_per_s"])
    assert pull["slowdown"] == pytest.approx(5.0)
    several = only(linked("link:0", num_servers=2), tmp_path / "several")
    assert pd.isna(several["push_bytes_per_s"]), "with several servers a rate cannot be told"


@pytest.mark.parametrize(
    ("target", "pushes", "pulls"), [("link:1", True, True), ("link:1>0", True, False), ("link:0>1", False, True)]
)
def test_links_of_machines_that_have_joined(target: str, pushes: bool, pulls: bool, tmp_path: Path) -> None:
    """Worker 0 is with the server on machine 0, and passes no link; worker 1 on machine 1 does."""
    slow = {"send_s": 0.32 if pushes else 0.08, "pull_s": 0.4 if pulls else 0.08}
    received = Telling(disturbance(1.0, 9.0, target, 0.25, "bandwidth"), num_workers=2)
    del received.story.meta["machine"]["hosts"]
    received.story.meta["machine"]["nodes"] = [{"node": "node0"}, {"node": "node1"}]
    received.noted(1.0, target, "bandwidth", 0.25, by="pacing")
    for worker in (0, 1):
        received.t = 0.0
        received.work(1.0, 0.01, worker, pull_s=0.08, send_s=0.08)
        received.work(9.0, 0.01, worker, **(slow if worker else {"pull_s": 0.08, "send_s": 0.08}))
        received.rest(9.2).work(10.0, 0.01, worker, pull_s=0.08, send_s=0.08)
    row = only(received, tmp_path)
    assert (row["by"], row["asked"], row["full"]) == ("pacing", LINK / 4, LINK)
    rates = {"push_bytes_per_s": 0.32 if pushes else None, "pull_bytes_per_s": 0.4 if pulls else None}
    for name, seconds in rates.items():
        assert pd.isna(row[name]) if seconds is None else row[name] == pytest.approx(4 * FLOATS / seconds)


@pytest.mark.parametrize(("kind", "target"), [("pause", "worker:0"), ("kill", "server:0"), ("cut", "link:1")])
def test_an_outage_lasts_until_work_goes_on(kind: str, target: str, tmp_path: Path) -> None:
    received = Telling(disturbance(1.02, 2.02, target, 1.0, kind)).noted(1.02, target, kind, 1.0, by="signal")
    row = only(received.work(1.0, 0.05).work(2.1, 1.1).work(3.0, 0.05), tmp_path)
    assert (row["asked"], row["achieved"]) == (1.0, 1.0)
    assert row["outage_s"] == pytest.approx(1.05)
    assert pd.isna(row["slowdown"])
    received = Telling(disturbance(1.02, 2.02, target, 1.0, kind)).noted(1.02, target, kind, 1.0)
    assert pd.isna(only(received.work(1.0, 0.05).rest(3.0), tmp_path / "never")["outage_s"])


def test_what_was_not_carried_out_is_not_there(tmp_path: Path) -> None:
    plan = [disturbance(1.0, 2.0, "worker:0", 0.5, "cpu"), disturbance(50.0, 60.0, "worker:0", 0.1, "delay")]
    plan += [disturbance(1.5, 1.8, "worker:0", 0.75, "cpu")]
    received = (
        Telling(*plan).noted(1.0, "worker:0", "cpu", 0.5).noted(2.0, "worker:0", "cpu", 1.0, asked=None, achieved=None)
    )
    assert list(injections(received.work(3.0, 0.05).run(tmp_path))["window"]) == [0]


@pytest.mark.parametrize("received", [Telling(), Telling(disturbance(1.0, 3.0, "worker:0", 0.5, "cpu"))])
def test_a_run_without_iterations(received: Telling, tmp_path: Path) -> None:
    frame = injections(received.run(tmp_path))
    assert dict(frame.dtypes.astype(str).replace({"object": "str", "string": "str"})) == COLUMNS
    assert len(frame) == 0
    assert verdict(errors(collect([]))) == []


def test_a_throttle_that_nobody_worked_under_or_that_had_no_effect(tmp_path: Path) -> None:
    row = only(noted(), tmp_path)
    assert (row["asked"], row["iterations"]) == (0.2, 0)
    assert verdict(errors(collect([load_run(tmp_path / "run")])))[0].endswith("not 0.5 left (not measured)")
    row = only(throttled(level=0.25, felt_s=0.05), tmp_path / "none")
    assert (row["slowdown_asked"], row["slowdown"]) == (4.0, pytest.approx(1.0))


PNG = b"\x89PNG"


def window(**given: Any) -> dict[str, Any]:
    row = dict.fromkeys(COLUMNS, nan) | {"run": "a", "seed": 0, "work": "w", "window": 0, "target": "worker:0"}
    row |= {"kind": "cpu", "by": "cgroup", "full": CORES, "iterations": 9, "base_s": 0.055}
    return row | {"slowdown_asked": 1 / given["magnitude"], "work": str(given.get("base_s"))} | given


def judged(*windows: dict[str, Any]) -> pd.DataFrame:
    return errors(pd.DataFrame(windows))


def test_lengths_and_levels_are_told_apart_the_weakest_first() -> None:
    rows = [window(magnitude=level, slowdown=1 / level, base_s=base) for base in (0.21, 0.055) for level in (0.1, 0.75)]
    rows += [window(by="sleep", kind="delay", magnitude=0.05, slowdown=2.0, slowdown_asked=2.0, full=nan)]
    table = judged(*rows)
    found = list(zip(table["by"], table["length_ms"], table["magnitude"], strict=True))
    cgroup = [("cgroup", length, level) for length in (55, 210) for level in (0.75, 0.1)]
    assert found == [("sleep", 55, 0.05), *cgroup]
    row = judged(*(window(magnitude=0.5, slowdown=slow, cpu_share=0.5) for slow in (1.9, 2.0, 2.3))).iloc[0]
    assert (row["windows"], row["iterations"], row["length_ms"]) == (3, 27, 55)
    assert (row["slowdown"], row["error"], row["within"]) == (2.0, pytest.approx(0.0), True), "their median"
    table = judged(*(window(magnitude=0.5, slowdown=2.0, base_s=base) for base in (0.04, 0.02))).set_index("length_ms")
    assert table["promised"].to_dict() == {40.0: True, 20.0: False}, "nearly as long as promised is long enough"


def test_misses_are_named() -> None:
    table = judged(
        window(magnitude=0.5, slowdown=2.2, cpu_share=0.505),
        window(magnitude=0.25, slowdown=4.41, cpu_share=0.235),
        window(magnitude=0.1, slowdown=nan, slowdown_asked=10.0, base_s=0.055),
    )
    lines = verdict(table)
    assert lines[0] == (
        "cgroup: slow-down of iterations of 50 ms and more within 10 %: 1 of 3 levels; "
        "not 0.25 left at 55 ms (+10.3 %), 0.1 left at 55 ms (not measured)"
    )
    assert lines[1] == "cgroup: share of processor time within 1 %: 1 of 2 levels; not 0.25 left at 55 ms (-1.5 %)"


def test_of_cpulimit_nothing_is_promised_for_short_iterations() -> None:
    rows = [
        window(by="cpulimit", magnitude=0.5, slowdown=slow, base_s=base) for slow, base in ((1.1, 0.06), (2.1, 0.5))
    ]
    table = judged(*rows)
    assert list(table["promised"]) == [False, True]
    assert verdict(table) == [
        "cpulimit: slow-down of iterations of 1000 ms under the limit and more within 10 %: 1 of 1 levels",
        "cpulimit: of shorter ones, for which nothing is promised: 0 of 1 levels; not 0.5 left at 60 ms (-45.0 %)",
    ]


def test_circumstances() -> None:
    rows = [window(magnitude=0.5, slowdown=2.0, cpu_cost=cost, readback_s=cost / 1e3) for cost in (0.8, 1.0)]
    rows += [window(by="duty", magnitude=0.5, slowdown=2.0, cpu_cost=1.2, readback_s=2e-3)]
    rows += [window(by="cpulimit", magnitude=0.5, slowdown=2.0, cpu_cost=5.0)]
    table = judged(*rows)
    assert verdict(table)[-3:-1] == [
        "cgroup: read back at most 0.9 ms after the planned moment",
        "duty: read back at most 2.0 ms after the planned moment",
    ]
    assert ": 0.90 to 1.20 times" in verdict(table)[-1], "cpulimit is too uneven to tell"
    assert not any("undisturbed" in line for line in verdict(judged(rows[-1])))


def test_links_are_judged_by_their_payload(tmp_path: Path) -> None:
    lines = verdict(errors(collect([linked("link:0").run(tmp_path)])))[:2]
    rate = LINK / 4 * PAYLOAD_FRAC
    assert lines == [
        "links: payload rate of pushes within 10 %: 1 of 1 levels",
        "links: payload rate of pulls within 10 %: 0 of 1 levels; "
        f"not 0.25 of 100 Mbit/s ({100 * (2.5e6 / rate - 1):+.1f} %)",
    ]


def test_several_runs_say_which_is_which(tmp_path: Path) -> None:
    received = [throttled(), Telling(), throttled(level=0.25, felt_s=0.2, seed=3)]
    runs = [each.run(tmp_path / str(number)) for number, each in enumerate(received)]
    frame = collect(iter(runs))
    assert list(frame.columns) == ["run", "seed", "work", *COLUMNS]
    assert frame["work"].nunique() == 1
    assert list(zip(frame["run"], frame["seed"], frame["magnitude"], strict=True)) == [
        (runs[0].meta["run_id"], 0, 0.5),
        (runs[2].meta["run_id"], 3, 0.25),
    ]


def test_the_figure_has_its_numbers_and_there_is_none_of_nothing(tmp_path: Path) -> None:
    assert draw_injectors(tmp_path / "injectors.png", [], errors(collect([]))) is None
    assert list(tmp_path.iterdir()) == []
    runs = [throttled().run(tmp_path / "a"), linked("link:0").run(tmp_path / "b")]
    path = draw_injectors(tmp_path / "out" / "injectors.png", [run.meta for run in runs], errors(collect(runs)))
    assert path is not None
    shown = pd.read_csv(path.with_suffix(".csv"))
    assert list(shown["panel"]) == ["iterations of 50 ms", "links", "links"]
    assert list(shown["achieved"]) == pytest.approx([2.0, 25.0, 20.0])


@pytest.mark.long(like="test_the_figure_has_its_numbers_and_there_is_none_of_nothing")
@pytest.mark.parametrize("several", [False, True])
def test_figures_are_drawn_again_where_something_was_throttled(several: bool, tmp_path: Path) -> None:
    throttled().run(tmp_path / "runs" / "a")
    place = tmp_path / "runs" / "a" / "run"
    if several:
        throttled(level=0.25, felt_s=0.2).run(tmp_path / "runs" / "b")
        place = tmp_path / "runs" / "comparison"
    assert script.main([str(tmp_path / "runs")]) == 0
    assert (place / "figures" / "injectors.png").read_bytes().startswith(PNG)
