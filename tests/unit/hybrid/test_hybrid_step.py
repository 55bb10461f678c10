"""One step of a hybrid job against an independent event simulation, and against the published bubbles."""

import heapq
import itertools
from collections import defaultdict

import numpy as np
import pytest

from runtime.hybrid.graph import Graph
from runtime.hybrid.nodes import Node
from runtime.hybrid.step import Step


class Simulated:
    """Ranks that run their passes one by one on an event heap: no graph, and no order of operations but time's.

    ``durations`` by (stage, kind, micro-batch, chunk); ``message`` by (sender, kind, micro-batch, chunk).
    """

    def __init__(self, step, durations, message):
        self.step, self.durations, self.message = step, durations, message
        self.now, self.heap, self.count = 0.0, [], itertools.count()
        self.arrived, self.waiting = {}, defaultdict(list)
        self.posted = defaultdict(list)
        self.ended = {}

    def run(self):
        for stage in range(self.step.stages):
            self.at(0.0, self.rank(stage))
        while self.heap:
            self.now, _, process = heapq.heappop(self.heap)
            self.advance(process)
        return self.ended

    def at(self, when, process):
        heapq.heappush(self.heap, (when, next(self.count), process))

    def advance(self, process):
        wants = next(process, None)
        if wants is None:
            return
        kind, value = wants
        if kind == "work":
            self.at(self.now + value, process)
        elif kind == "arrival":
            if value in self.arrived:
                self.at(max(self.now, self.arrived[value]), process)
            else:
                self.waiting[value].append(process)
        else:
            self.exchange(process, value)

    def exchange(self, process, messages):
        """A message is taken when both ranks have posted it; a rank goes on when all its own are taken."""
        open_ = {"left": len(messages)}
        for one in messages:
            self.posted[one].append((process, open_))
            if len(self.posted[one]) == 2:
                for other, state in self.posted[one]:
                    state["left"] -= 1
                    if not state["left"]:
                        self.at(self.now, other)

    def send(self, one):
        self.arrived[one] = self.now + self.message[one]
        for process in self.waiting.pop(one, []):
            self.at(self.arrived[one], process)

    def neighbours(self, stage, kind, micro_batch, chunk):
        """(the message into a pass, the message out of it); None where there is none."""
        last = self.step.stages - 1
        place = chunk * self.step.stages + stage
        top = self.step.chunks * self.step.stages - 1
        if kind == "weight" or not last:
            return None, None
        if kind == "forward":
            source = ((stage - 1) % self.step.stages, "activations", micro_batch, chunk - (stage == 0))
            return (source if place > 0 else None), (
                (stage, "activations", micro_batch, chunk) if place < top else None
            )
        source = ((stage + 1) % self.step.stages, "gradients", micro_batch, chunk + (stage == last))
        return (source if place < top else None), ((stage, "gradients", micro_batch, chunk) if place > 0 else None)

    def partner(self, one, received):
        step = 1 if one[1] == "activations" else -1
        return one[0] if received else (one[0] + step) % self.step.stages

    def rank(self, stage):
        owed = None
        for kind, micro_batch, chunk in self.step.passes[stage]:
            into, out = self.neighbours(stage, kind, micro_batch, chunk)
            if self.step.sends == "blocking":
                both = [(owed, False), (into, True)]
                both = [(one, self.partner(one, received)) for one, received in both if one is not None]
                together = len(both) == 2 and both[0][1] == both[1][1]
                for group in [[one for one, _ in both]] if together else [[one] for one, _ in both]:
                    if owed in group:
                        yield "work", self.message[owed]
                    yield "exchange", group
            elif into is not None:
                yield "arrival", into
            yield "work", self.durations[stage, kind, micro_batch, chunk]
            self.ended[stage, kind, micro_batch, chunk] = self.now
            owed = out
            if out is not None and self.step.sends == "free":
                self.send(out)
        if owed is not None and self.step.sends == "blocking":
            yield "work", self.message[owed]
            yield "exchange", [owed]
        self.ended[stage] = self.now


def drawn(step, seed):
    rng = np.random.default_rng(seed)
    seconds = rng.uniform(0.1, 2.0, len(step.nodes))
    rows = dict(zip(step.nodes, seconds, strict=True))
    for node in step.nodes:
        if node.kind not in ("forward", "backward", "weight", "activations", "gradients"):
            rows[node] = 0.0
    keys = {(node.stage, node.kind, node.micro_batch, node.chunk): row for node, row in rows.items()}
    return np.array([rows[node] for node in step.nodes]), keys


FREE = [(*size, schedule, 1, "free") for size in ((1, 3), (4, 3)) for schedule in ("gpipe", "1f1b", "zb")]
CHUNKS = [(*size, "interleaved", chunks, "free") for *size, chunks in ((1, 2, 2), (3, 6, 3), (2, 2, 3))]
BLOCKING = [(*size, schedule, 1, "blocking") for size in ((3, 5), (5, 3)) for schedule in ("gpipe", "1f1b", "zb")]


@pytest.mark.parametrize(("stages", "batches", "schedule", "chunks", "sends"), FREE + CHUNKS + BLOCKING)
def test_every_pass_ends_when_an_event_simulation_says(stages, batches, schedule, chunks, sends):
    step = Step(stages, batches, schedule, chunks, sends)
    for seed in range(2):
        seconds, keys = drawn(step, seed)
        expected = Simulated(step, keys, keys).run()
        ends = step.graph.ends(seconds)
        ours = {
            (node.stage, node.kind, node.micro_batch, node.chunk): ends[place] for node, place in step.places.items()
        }
        for key, end in expected.items():
            if isinstance(key, tuple):
                assert ours[key] == pytest.approx(end), key
            else:
                assert ends[step.places[Node("optimizer", key)]] == pytest.approx(end), key


def test_a_channel_carries_one_message_at_a_time_in_a_fixed_order():
    step = Step(2, 3, "1f1b", sends="channel")
    seconds = step.seconds(1.0, 0.5, 0.5, message_s=4.0)
    ends = step.graph.ends(seconds)
    messages = sorted(ends[place] for node, place in step.places.items() if node.kind in ("activations", "gradients"))
    # by hand: the order is A0 A1 G0 G1 A2 G2. A0 leaves when F0 ends (1), and each message when the one before has
    # arrived; only G2 (B2 ends at 21 + 2) finds the channel idle. A2 has been ready since 15, and waits for G1 (17)
    assert messages == [5.0, 9.0, 13.0, 17.0, 21.0, 27.0]
    free = Step(2, 3, "1f1b")
    assert free.graph.ends(free.seconds(1.0, 0.5, 0.5, message_s=4.0)).max() < ends.max()


def makespan(step, forward_s=1.0, backward_s=1.0, weight_s=1.0):
    return float(step.graph.ends(step.seconds(forward_s, backward_s, weight_s)).max())


@pytest.mark.parametrize("schedule", ["gpipe", "1f1b"])
@pytest.mark.parametrize(("stages", "batches"), [(2, 5), (8, 24)])
def test_the_bubble_is_that_of_the_papers(schedule, stages, batches):
    """Huang et al. 2019: (p - 1) / (m + p - 1) of the whole time; Narayanan et al. 2021: (p - 1) / m of the ideal."""
    whole, ideal = makespan(Step(stages, batches, schedule)), 3.0 * batches
    assert (whole - ideal) / ideal == pytest.approx((stages - 1) / batches)
    assert (whole - ideal) / whole == pytest.approx((stages - 1) / (batches + stages - 1))


@pytest.mark.parametrize(("stages", "batches", "chunks"), [(2, 4, 2), (4, 8, 3), (8, 16, 2)])
def test_chunks_divide_the_bubble(stages, batches, chunks):
    """Narayanan et al., SC 2021, section 2.2.2: (p - 1) / (v m) of the ideal time."""
    whole, ideal = makespan(Step(stages, batches, "interleaved", chunks)), 3.0 * batches
    assert (whole - ideal) / ideal == pytest.approx((stages - 1) / (chunks * batches))


@pytest.mark.parametrize(("stages", "batches"), [(2, 6), (8, 24)])
def test_zb_has_no_bubble_between_a_ranks_first_pass_and_its_last_if_all_passes_take_as_long(stages, batches):
    """Qi et al., ICLR 2024, section 2.2: with 2 p micro-batches in flight and no synchronous optimizer."""
    step = Step(stages, batches, "zb")
    ends = step.graph.ends(step.seconds(1.0, 1.0, 1.0))[:, 0]
    for stage in range(stages):
        computing = [node for node in step.places if node.kind in ("forward", "backward", "weight")]
        mine = [step.places[node] for node in computing if node.stage == stage]
        assert ends[mine].max() - (ends[mine].min() - 1.0) == pytest.approx(3.0 * batches)


@pytest.mark.parametrize("schedule", ["gpipe", "1f1b", "zb"])
def test_one_stage_of_one_rank_takes_its_plain_computing_time(schedule):
    step = Step(1, 5, schedule)
    assert len([node for node in step.nodes if node.kind in ("activations", "gradients")]) == 0
    assert makespan(step, 1.0, 1.0, 1.0) == 15.0
    assert makespan(step, 0.5, 0.75, 0.25) == 7.5


def test_cases_along_further_axes_are_those_alone():
    step = Step(3, 4, "zb")
    factor = np.random.default_rng(1).uniform(1, 3, (3, 2, 4, 7))  # two tensor ranks, which work in lockstep
    lockstep = factor.max(axis=1, keepdims=True)
    many = step.graph.ends(step.seconds(1.0, 2.0, 0.5, factor=factor, message_s=0.1))
    for replica, history in ((0, 0), (3, 6)):
        one = step.graph.ends(step.seconds(1.0, 2.0, 0.5, factor=factor[:, :, replica, history], message_s=0.1))
        released = step.released_s(many)[:, replica, history]
        np.testing.assert_allclose(released, step.released_s(one)[:, 0])
        same = step.graph.ends(step.seconds(1.0, 2.0, 0.5, factor=lockstep[:, :, replica, history], message_s=0.1))
        np.testing.assert_allclose(released, step.released_s(same)[:, 0])


def test_a_stage_sums_its_gradients_when_its_last_replica_has_them_while_other_stages_compute():
    step = Step(2, 2)
    factor = np.ones((2, 1, 2))
    factor[1, 0, 1] = 3.0  # stage 1 of replica 1
    ends = step.graph.ends(step.seconds(1.0, 1.0, 1.0, factor=factor, sync_s=10.0, optimizer_s=1.0))
    released = step.released_s(ends)
    for stage in range(2):
        assert step.ended_s(ends)[stage].tolist() == [released[stage].max() + 11.0] * 2
    assert released[1].max() < released[0].max()  # the last stage is the first to end, and its sum begins before


def test_chunks_are_summed_one_by_one_as_they_become_complete():
    step = Step(2, 2, "interleaved", 2)
    ends = step.graph.ends(step.seconds(1.0, 1.0, 1.0, sync_s=8.0))[:, 0]
    of_chunk = [ends[step.places[Node("sync", 0, 0, chunk)]] for chunk in range(2)]
    last = [ends[step.places[Node("backward", 0, 1, chunk)]] for chunk in range(2)]
    assert of_chunk[1] == last[1] + 4.0  # the second chunk's gradients are complete first
    assert of_chunk[0] == max(last[0], of_chunk[1]) + 4.0


def test_steps_follow_each_other_on_each_rank():
    """The next step begins on a stage when its own optimizer has ended, not when the whole step has."""
    step = Step(3, 4)
    first = step.ended_s(step.graph.ends(step.seconds(1.0, 1.0, 1.0, optimizer_s=1.0)))
    second = step.graph.ends(step.seconds(1.0, 1.0, 1.0, optimizer_s=1.0, ready_s=first))
    assert second[step.places[Node("forward", 0, 0)]][0] == first[0][0] + 1.0
    assert first[2] < first[0]


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"sends": "slow"}, "sends=slow: must be free, blocking or channel"),
        ({"parts": (1.0, 0.0, 1.0)}, r"parts=\[1.0, 0.0, 1.0\]: must be three numbers above 0"),
        ({"schedule": "interleaved"}, "micro_batches=5: schedule=interleaved needs a multiple of pipeline=3, such as"),
    ],
)
def test_a_step_that_cannot_be_is_refused(fields, said):
    with pytest.raises(ValueError, match=f"^{said}"):
        Step(3, 5, **fields)
    with pytest.raises(ValueError, match=r"^operations wait for each other for ever, such as [01]$"):
        Graph([[1], [0], []])
    with pytest.raises(ValueError, match=r"^sends=blocking: stages of schedule=interleaved wait for each other; set"):
        Step(3, 6, "interleaved", 2, "blocking")
