"""Random scenarios of shared links and processors, and when SimGrid says that their activities end.

    apt install python3-simgrid        # 3.32 was used
    /usr/bin/python3 tests/support/simgrid_scenarios.py

writes the ends into ``simgrid_ends.json.gz``. A test draws the scenarios again and replays them through our model, so
tests do not need SimGrid.

SimGrid shares max-min fairly, too (``CM02`` without its corrections for TCP, and ``Cas01``). Three of its ways had to
be avoided: ``Comm.sendto`` ignores ``set_rate``, so flows use mailboxes; a flow stays bounded by what its links have
when it starts, so they are wide open for that instant; a computation can be paused only with its actor. It knows no
token buckets, no links without any rate, and a process that is lost is an error there: these are not in here.

A scenario: ``hosts`` [speed of a core, cores], ``links`` [up, down] by host, ``core`` (of all routes, or null);
``starts`` [t, "flow", bytes, from, to, limit or 0] or [t, "work", amount, host, weight]; ``events`` [t, "link", number,
rate] (uplink of host k: 2 k, downlink: 2 k + 1, the core: -1), [t, "speed", host, speed of a core], [t, "pause" or
"continue", start]. Ends are stored by start.
"""

from __future__ import annotations

import gzip
import json
import os
import sys
from itertools import permutations
from pathlib import Path
from random import Random
from typing import Any

SCENARIOS = 400
STORED = Path(__file__).with_name("simgrid_ends.json.gz")
DIGITS = 12
"""Of a stored end."""
SETTINGS = {
    "network/model": "CM02",
    "network/crosstraffic": 0,
    "network/TCP-gamma": 0,
    "network/bandwidth-factor": 1,
    "network/latency-factor": 1,
    "network/weight-S": 0,
    "maxmin/precision": 1e-14,
    "surf/precision": 1e-12,
}
WIDE_OPEN = 1e12
Scenario = dict[str, Any]


def draw(seed: int) -> Scenario:
    """Times have four digits and differ, so that nothing depends on an order that only one model has."""
    random = Random(f"simgrid/{seed}")
    times = iter(random.sample(range(1, 300_000), 400))
    equal = random.random() < 0.5

    def rate() -> float:
        return 100.0 if equal and random.random() < 0.8 else round(random.uniform(10, 200), 2)

    hosts = [[rate(), random.choice((1, 1, 2, 4))] for _ in range(random.randint(2, 10))]
    numbers = range(len(hosts))
    starts: list[list[Any]] = []
    for _ in range(random.randint(5, 35)):
        t = next(times) / 10_000
        if random.random() < 0.6:
            ends = random.sample(numbers, 2)
            starts.append([t, "flow", random.randint(10, 2000), *ends, random.choice((0, 0, 0, rate() / 5))])
        else:
            weight = random.choice((1.0, 1.0, round(random.uniform(0.2, 5), 2)))
            starts.append([t, "work", round(random.uniform(10, 2000), 1), random.choice(numbers), weight])
    core = random.choice((None, rate() * 2))
    links = [-1] * (core is not None) + list(range(2 * len(hosts)))
    events: list[list[Any]] = []
    for _ in range(random.randint(0, 20)):
        t, until = sorted((next(times) / 10_000, next(times) / 10_000))
        what = random.choice(("link", "window", "speed", "pause"))
        if what == "pause":
            one = random.randrange(len(starts))
            if not any(event[1:] == ["pause", one] for event in events):
                events += [[t, "pause", one], [until, "continue", one]]
        elif what == "speed":
            events.append([t, "speed", random.choice(numbers), rate()])
        else:
            link = random.choice(links)
            events.append([t, "link", link, rate()])
            if what == "window":
                events.append([until, "link", link, rate()])
    events.sort()
    return {
        "hosts": hosts,
        "links": [[rate(), rate()] for _ in hosts],
        "core": core,
        "starts": starts,
        "events": events,
    }


class Simulation:
    """One scenario in SimGrid, which simulates at most once in a process (and may end it)."""

    def __init__(self, scenario: Scenario) -> None:
        import simgrid  # type: ignore[import-not-found]

        self.simgrid, self.scenario = simgrid, scenario
        settings = [f"--cfg={name}:{value}" for name, value in SETTINGS.items()]
        self.engine = simgrid.Engine(["scenario", "--log=root.thres:error", *settings])
        zone = simgrid.NetZone.create_full_zone("all")
        speeds = [[speed] for speed, _ in scenario["hosts"]]
        for _, what, number, *value in scenario["events"]:
            if what == "speed":
                speeds[number] += value
        self.hosts = [zone.create_host(f"host {k}", speeds[k]) for k in range(len(speeds))]
        self.speeds_used = [0] * len(speeds)
        for host, (_, cores) in zip(self.hosts, scenario["hosts"], strict=True):
            host.core_count = cores
        self.rates = [rate for pair in scenario["links"] for rate in pair] + [scenario["core"] or WIDE_OPEN]
        self.links = [zone.create_link(f"link {k}", [rate]) for k, rate in enumerate(self.rates)]
        for link in self.links:
            link.seal()
        for a, b in permutations(range(len(self.hosts)), 2):
            route = [simgrid.LinkInRoute(self.links[k]) for k in self.way(a, b)]
            zone.add_route(self.hosts[a].netpoint, self.hosts[b].netpoint, None, None, route, False)
        zone.seal()
        self.ends: dict[int, float] = {}
        self.running: dict[int, Any] = {}

    def way(self, source: int, target: int) -> list[int]:
        return [2 * source, 2 * target + 1, len(self.links) - 1]

    def run(self) -> list[float]:
        create, hosts = self.simgrid.Actor.create, self.hosts
        for number, (t, what, amount, place, *more) in enumerate(self.scenario["starts"]):
            if what == "flow":
                create(f"to {number}", hosts[more[0]], self.receive, number)
                create(f"from {number}", hosts[place], self.flow, number, t, amount, place, *more)
            else:
                create(f"work {number}", hosts[place], self.work, number, t, amount, *more)
        create("disturb", hosts[0], self.disturb)
        self.engine.run()
        return [self.ends[number] for number in range(len(self.scenario["starts"]))]

    def receive(self, number: int) -> None:
        self.simgrid.Mailbox.by_name(str(number)).get()

    def flow(self, number: int, t: float, amount: int, source: int, target: int, limit: float) -> None:
        self.simgrid.this_actor.sleep_until(t)
        comm = self.simgrid.Mailbox.by_name(str(number)).put_init("bytes", amount)
        if limit:
            comm.set_rate(limit)
        for k in self.way(source, target):
            self.links[k].set_bandwidth(WIDE_OPEN)
        comm.start()
        for k in self.way(source, target):
            self.links[k].set_bandwidth(self.rates[k])
        self.running[number] = comm
        comm.wait()
        self.end(number)

    def work(self, number: int, t: float, amount: float, weight: float) -> None:
        self.simgrid.this_actor.sleep_until(t)
        self.running[number] = self.simgrid.Actor.self()
        self.simgrid.this_actor.execute(amount, weight)
        self.end(number)

    def end(self, number: int) -> None:
        self.ends[number] = self.simgrid.Engine.clock
        del self.running[number]

    def disturb(self) -> None:
        for t, what, number, *value in self.scenario["events"]:
            self.simgrid.this_actor.sleep_until(t)
            if what == "link":
                self.rates[number] = value[0]
                self.links[number].set_bandwidth(value[0])
            elif what == "speed":
                self.speeds_used[number] += 1
                self.hosts[number].pstate = self.speeds_used[number]
            elif number in self.running:
                one = self.running[number]
                (one.suspend if what == "pause" else one.resume)()


def in_a_child(seed: int) -> list[float]:
    """The ends of a scenario: SimGrid simulates once in a process."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            os.write(writing, json.dumps(Simulation(draw(seed)).run()).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        said = pipe.read()
    os.waitpid(child, 0)
    return [float(f"{end_s:.{DIGITS}g}") for end_s in json.loads(said)]


def stored_ends() -> list[list[float]]:
    """Of every scenario, by its seed."""
    found: list[list[float]] = json.loads(gzip.decompress(STORED.read_bytes()))
    return found


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else SCENARIOS
    text = json.dumps([in_a_child(seed) for seed in range(count)], separators=(",", ":"))
    STORED.write_bytes(gzip.compress(text.encode(), mtime=0))
    print(f"{STORED}: {count} scenarios, {STORED.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
