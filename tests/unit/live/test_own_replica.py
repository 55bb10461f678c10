"""A replica's own parameters: what replicas do together is what the virtual clock does, and states can be copied."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from runtime.core.job import ApplyOrder, FragmentOrder, PushOrder, StepOrder
from runtime.live.tasks.own_replica import OwnReplicaState, replica_state
from runtime.live.tasks.replica_state import ReplicaState
from runtime.live.transport.auth import Identity
from runtime.training.optimizers import make_optimizer
from runtime.training.own_steps import Fragments, Outer, OwnSteps

Vector = NDArray[np.float32]
SIZE = 40
RULES: list[dict[str, Any]] = [{"name": "sgd", "lr": 0.5, "momentum": 0.5}, {"name": "adamw", "lr": 0.125}]
OUTER = {"lr": 0.5, "momentum": 0.5, "nesterov": True}
MOVES = ((0, 0.75), (1, 0.25))


def initial() -> Vector:
    return np.linspace(-1, 1, SIZE, dtype=np.float32)


def gradient(seed: int) -> Vector:
    return np.random.default_rng(seed).integers(-8, 8, SIZE).astype(np.float32)


def copies(rule: dict[str, Any], count: int = 2) -> list[OwnReplicaState]:
    found = [replica_state(initial(), rule, Identity("worker", worker), OUTER) for worker in range(count)]
    return [copy for copy in found if isinstance(copy, OwnReplicaState)]


def step(copy: OwnReplicaState, grad_id: int) -> None:
    """As a worker and its replica do."""
    copy.links.receive_params(grad_id)
    copy.links.grad[:] = gradient(grad_id)
    copy.links.push(grad_id)
    copy.step_alone(StepOrder(grad_id=grad_id, worker=copy.identity.id, lr=0.125, samples=4))


def update(replicas: list[OwnReplicaState], version: int) -> None:
    """As the ring does it, in rank order."""
    order = ApplyOrder(version=version, grads=(), weights=(), lr=0.5, samples=8, moves=MOVES)
    shares = [copy.share(order) for copy in replicas]
    total = np.sum(shares, axis=0, dtype=np.float32)
    for copy, share in zip(replicas, shares, strict=True):
        share[:] = total
        copy.step(order, share)
        copy.release(share)


def train(replicas: list[OwnReplicaState], first: int, updates: int) -> None:
    for version in range(first, first + updates):
        for copy in replicas:
            for number in range(3):
                step(copy, 100 * version + 10 * copy.identity.id + number)
        update(replicas, version)


def test_without_an_outer_optimizer_a_replica_has_no_parameters_of_its_own() -> None:
    copy = replica_state(initial(), RULES[0], Identity("worker", 0), {})
    assert type(copy) is ReplicaState
    assert copy.links is copy
    with pytest.raises(RuntimeError, match="no parameters of its own"):
        copy.step_alone(StepOrder(grad_id=0, worker=0, lr=1.0, samples=1))
    with pytest.raises(RuntimeError, match="no parameters of its own"):
        copy.average(lambda vector: None, 2)
    with pytest.raises(RuntimeError, match="no parameters of its own"):
        copy.push_half(PushOrder(worker=0, to=1, adds=()), lambda vector, source, target: None)
    with pytest.raises(RuntimeError, match="no parameters of its own"):
        copy.sum_fragment(fragment_order(fragment=0), lambda vector: None)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["name"])
def test_replicas_do_what_one_process_does(rule: dict[str, Any]) -> None:
    """To the bit: two terms have one order."""
    replicas = copies(rule)
    train(replicas, 1, 3)
    fields = {name: value for name, value in rule.items() if name != "lr"}

    def fresh() -> Any:
        return make_optimizer(num_elements=SIZE, **fields)

    common, outer = initial(), Outer(OUTER, fresh())
    own = [OwnSteps(common, fresh(), fresh) for _ in replicas]
    for version in (1, 2, 3):
        moves = []
        for worker, factor in MOVES:
            for number in range(3):
                own[worker].step(gradient(100 * version + 10 * worker + number), 4, 0.125)
            moves.append(np.empty(SIZE, np.float32))
            own[worker].move(common, factor, moves[-1])
        outer.step(common, moves, 0.5, 8)
        for one in own:
            one.settle(common)
    for copy in replicas:
        assert copy.version == 3
        np.testing.assert_array_equal(copy.params, common)
        np.testing.assert_array_equal(copy.links.params, common)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["name"])
def test_an_average_is_of_own_parameters_and_a_failed_one_changes_nothing(rule: dict[str, Any]) -> None:
    first, second = copies(rule)
    step(first, 1)
    step(second, 2)
    own = [copy.links.params.copy() for copy in (first, second)]

    def fail(vector: Vector) -> None:
        vector[:] = 7
        raise ConnectionResetError

    with pytest.raises(ConnectionResetError):
        first.average(fail, 2)
    np.testing.assert_array_equal(first.links.params, own[0])
    for copy, other in ((first, own[1]), (second, own[0])):
        copy.average(lambda vector, other=other: np.add(vector, other, out=vector), 2)
        np.testing.assert_array_equal(copy.links.params, (own[0] + own[1]) / np.float32(2))
        np.testing.assert_array_equal(copy.params, initial())


def pass_half(source: OwnReplicaState, target: OwnReplicaState) -> None:
    """As the ring does it."""
    order, sent = PushOrder(worker=source.identity.id, to=target.identity.id, adds=()), list[Vector]()
    source.push_half(order, lambda vector, *ends: sent.append(vector.copy()))
    target.push_half(order, lambda vector, *ends: np.copyto(vector, sent[0]))


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["name"])
def test_a_half_waits_until_it_is_added_and_the_worker_reads_debiased_parameters(rule: dict[str, Any]) -> None:
    """Worker 0 sends: it reads what it has read before. Worker 1 has 3/2 of the weight when the half is added."""
    first, second = copies(rule)
    step(first, 1)
    step(second, 2)
    own = [copy.links.params.copy() for copy in (first, second)]
    pass_half(first, second)
    for copy, read in zip((first, second), own, strict=True):
        np.testing.assert_array_equal(copy.links.params, read)
    second.push_half(PushOrder(worker=1, to=None, adds=(0,)), lambda *_: None)
    np.testing.assert_allclose(second.links.params, (own[1] + own[0] / 2) / 1.5, rtol=1e-6)
    np.testing.assert_array_equal(second.params, initial())
    share = second.share(ApplyOrder(version=1, grads=(), weights=(), lr=1.0, samples=8, moves=((0, 0.5), (1, 0.5))))
    np.testing.assert_allclose(share, (initial() - own[1] - own[0] / 2) / 2, atol=1e-6)
    second.void()
    np.testing.assert_array_equal(second.links.params, initial())


def test_counts_are_not_halved() -> None:
    """As for averages: nothing is sent, and each worker keeps what it has counted."""
    first, second = copies({"name": "tally", "lr": 1.0})
    step(first, 1)
    step(second, 2)
    own = [copy.links.params.copy() for copy in (first, second)]
    pass_half(first, second)
    second.push_half(PushOrder(worker=1, to=None, adds=(0,)), lambda *_: None)
    for copy, read in zip((first, second), own, strict=True):
        np.testing.assert_array_equal(copy.links.params, read)
        assert copy.own.weight == 1.0


def test_counts_are_not_averaged() -> None:
    """Sums of counts stay exact, so that a workload that counts uses can verify them."""
    (copy,) = copies({"name": "tally", "lr": 1.0}, 1)
    step(copy, 1)
    own = copy.links.params.copy()
    copy.average(lambda vector: np.add(vector, 5, out=vector), 2)
    np.testing.assert_array_equal(copy.links.params, own)


def test_others_read_the_common_parameters_while_the_worker_has_its_own() -> None:
    (copy,) = copies(RULES[0], 1)
    step(copy, 1)
    np.testing.assert_array_equal(copy.params, initial())
    assert np.abs(copy.links.params - initial()).max() > 0
    assert copy.grads == {}


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["name"])
def test_after_a_halt_the_round_is_the_same_again(rule: dict[str, Any]) -> None:
    calm, hit = copies(rule), copies(rule)
    train(calm, 1, 3)
    train(hit, 1, 2)
    step(hit[0], 300)
    step(hit[0], 301)
    for copy in hit:
        copy.void()
    train(hit, 3, 1)
    np.testing.assert_array_equal(hit[0].params, calm[0].params)


@pytest.mark.parametrize("way", ["copy", "file"])
@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["name"])
def test_a_replica_goes_on_from_anothers_state(rule: dict[str, Any], way: str) -> None:
    """Parameters, and both optimizers: copied as a newcomer does, or from a checkpoint, between two updates."""
    source = copies(rule)[0]
    alike = copies(rule)[0]
    for one in (source, alike):
        train_alone(one, 1)
    step(source, 250)
    taker = copies(rule)[1]
    step(taker, 7)
    if way == "copy":
        for vector, other in zip(taker.vectors(), source.vectors(), strict=True):
            vector[:] = other
        taker.taken_over(source.version, source.optimizer.steps)
    else:
        taker.load(source.version, {name: np.copy(value) for name, value in source.dump().items()})
    for one in (taker, alike):
        one.identity = Identity("worker", 0)
        train_alone(one, 2)
    np.testing.assert_array_equal(taker.params, alike.params)


def train_alone(copy: OwnReplicaState, version: int) -> None:
    for number in range(3):
        step(copy, 100 * version + number)
    order = ApplyOrder(version=version, grads=(), weights=(), lr=0.5, samples=4, moves=((0, 1.0),))
    share = copy.share(order)
    copy.step(order, share)


# ---- fragments -------------------------------------------------------------------------------------------------------

IN_TWO = {**OUTER, "fragments": 2}
SHARES = ((0, 0.75), (1, 0.25))


def in_two(rule: dict[str, Any]) -> list[OwnReplicaState]:
    found = [replica_state(initial(), rule, Identity("worker", worker), IN_TWO) for worker in range(2)]
    return [copy for copy in found if isinstance(copy, OwnReplicaState)]


def fragment_order(**fields: Any) -> FragmentOrder:
    about = {"of": 2, "offer": (), "moves": (), "samples": 8, "lr": 0.5, "mix": (), "kept_frac": 0.5}
    return FragmentOrder(**{**about, **fields})


def share_fragment(replicas: list[OwnReplicaState], order: FragmentOrder) -> None:
    """As the ring does it: all terms are written before any sum is used."""
    terms = list[Vector]()

    def keep(term: Vector) -> None:
        terms.append(term.copy())
        raise InterruptedError

    if order.moves:
        for copy in replicas:
            with pytest.raises(InterruptedError):
                copy.sum_fragment(order, keep)
    total = np.sum(terms, axis=0, dtype=np.float32) if terms else None
    for copy in replicas:
        copy.sum_fragment(order, lambda term: np.copyto(term, total))


def stream(replicas: list[OwnReplicaState], steps: int = 4) -> None:
    """Worker 1 offers after each step, worker 0 a step later; so worker 0 mixes what it has offered a step ago."""
    for number in range(steps):
        for copy in replicas:
            step(copy, 10 * number + copy.identity.id)
        share_fragment(replicas, fragment_order(fragment=number % 2, offer=(0, 1), moves=SHARES, mix=(1,)))
        step(replicas[0], 10 * number + 5)
        share_fragment(replicas, fragment_order(fragment=number % 2, mix=(0,)))


def update_fragments(replicas: list[OwnReplicaState], version: int = 1) -> None:
    fragments = (SHARES, ((0, 1.0),))
    order = ApplyOrder(version=version, grads=(), weights=(), lr=0.5, samples=8, moves=SHARES, fragments=fragments)
    shares = [copy.share(order) for copy in replicas]
    total = np.sum(shares, axis=0, dtype=np.float32)
    for copy, share in zip(replicas, shares, strict=True):
        share[:] = total
        copy.step(order, share)
        copy.release(share)


@pytest.mark.parametrize("rule", [*RULES, {"name": "tally", "lr": 1.0}], ids=lambda rule: rule["name"])
def test_replicas_share_fragments_as_one_process_does(rule: dict[str, Any]) -> None:
    """To the bit: two terms have one order."""
    replicas = in_two(rule)
    stream(replicas)
    assert np.array_equal(replicas[0].params, initial()), "readers get what is common as of the last update"
    fields = {name: value for name, value in rule.items() if name != "lr"}

    def fresh() -> Any:
        return make_optimizer(num_elements=SIZE, **fields)

    common, outer = initial(), Outer(IN_TWO, fresh())
    fragments, own = Fragments(common, IN_TWO, fresh()), [OwnSteps(common, fresh(), fresh) for _ in replicas]
    assert [(part.start, part.stop) for part in fragments.parts] == [(0, 16), (16, 40)]
    for number in range(4):
        part = fragments.parts[number % 2]
        moves = [np.empty(part.stop - part.start, np.float32) for _ in own]
        for worker, one in enumerate(own):
            one.step(gradient(10 * number + worker), 4, 0.125)
            one.offer(part)
            one.offered(fragments.common, SHARES[worker][1], moves[worker], part)
        fragments.step(number % 2, moves, 0.5, 8)
        own[1].mix(part, fragments.common, 0.5)
        own[0].step(gradient(10 * number + 5), 4, 0.125)
        own[0].mix(part, fragments.common, 0.5)
    for copy, one in zip(replicas, own, strict=True):
        np.testing.assert_array_equal(copy.links.params, one.params)
    update_fragments(replicas)
    for fragment, factors in enumerate((SHARES, ((0, 1.0),))):
        part = fragments.parts[fragment]
        moves = [np.empty(part.stop - part.start, np.float32) for _ in factors]
        for (worker, factor), move in zip(factors, moves, strict=True):
            own[worker].move(fragments.common, factor, move, part)
        fragments.step(fragment, moves, 0.5, 8)
    fragments.end(common, outer)
    for copy in replicas:
        np.testing.assert_array_equal(copy.params, common)
        np.testing.assert_array_equal(copy.links.params, common)


def test_counts_are_whole_whatever_is_kept_or_late() -> None:
    """20 gradients of counts: each is in both fragments once after the update, though half is kept of what is mixed."""
    replicas = in_two({"name": "tally", "lr": 1.0})
    stream(replicas)
    update_fragments(replicas)
    numbers = [10 * number + more for number in range(4) for more in (0, 1, 5)]
    counts = np.sum([gradient(one) for one in numbers], axis=0)
    np.testing.assert_allclose(replicas[0].params, initial() + counts, atol=1e-4)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["name"])
def test_after_a_halt_no_fragment_is_summed(rule: dict[str, Any]) -> None:
    calm, hit = in_two(rule), in_two(rule)
    stream(hit, 3)
    for copy in hit:
        copy.void()
    for replicas in (calm, hit):
        stream(replicas)
        update_fragments(replicas)
    np.testing.assert_array_equal(hit[0].params, calm[0].params)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["name"])
def test_a_newcomer_takes_part_in_the_sums_that_follow(rule: dict[str, Any]) -> None:
    """It copies what is summed so far, and has moved nothing itself."""
    replicas, newcomer = in_two(rule), replica_state(initial(), rule, Identity("worker", 2), IN_TWO)
    assert isinstance(newcomer, OwnReplicaState)
    stream(replicas, 3)
    for vector, other in zip(newcomer.vectors(), replicas[0].vectors(), strict=True):
        vector[:] = other
    newcomer.taken_over(replicas[0].version, replicas[0].optimizer.steps)
    everyone = [*replicas, newcomer]
    share_fragment(everyone, fragment_order(fragment=1, offer=(0, 1), moves=SHARES, mix=(0, 1)))
    update_fragments(everyone)
    np.testing.assert_array_equal(newcomer.params, replicas[0].params)
    np.testing.assert_array_equal(newcomer.vectors()[-1], replicas[0].vectors()[-1])


def test_mixing_keeps_the_part_that_is_asked_for() -> None:
    """By hand: 0.25 of the own 3 and 0.75 of the common 1; nothing else moves."""
    (copy,) = in_two(RULES[0])[:1]
    assert copy.fragments is not None
    copy.fragments.common.fill(1.0)
    copy.own.params.fill(3.0)
    copy.sum_fragment(fragment_order(fragment=1, mix=(0,), kept_frac=0.25), lambda term: None)
    np.testing.assert_array_equal(copy.links.params, np.repeat([3.0, 1.5], [16, 24]))


# ---- updates of some replicas ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", [*RULES, {"name": "tally", "lr": 1.0}], ids=lambda rule: rule["name"])
def test_who_stays_moves_from_what_was_common_when_it_began(rule: dict[str, Any]) -> None:
    """Worker 0 makes two updates while worker 1 steps; then worker 1 makes one, from the first parameters."""
    replicas = copies(rule)
    step(replicas[1], 1)
    for version in (1, 2):
        step(replicas[0], 10 + version)
        some(replicas, version, 0)
        np.testing.assert_array_equal(replicas[0].links.params, replicas[0].params)
        np.testing.assert_array_equal(replicas[1].params, replicas[0].params)
    step(replicas[1], 2)
    counts = rule["name"] == "tally"
    move = initial() - replicas[1].links.params
    before, velocity = replicas[0].params.copy(), np.copy(replicas[0].outer.optimizer.state().get("momentum", 0.0))
    some(replicas, 3, 1)
    velocity = 0.5 * velocity + move
    wanted = before - move if counts else before - 0.5 * (move + 0.5 * velocity)
    for copy in replicas:
        np.testing.assert_allclose(copy.params, wanted, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(replicas[1].links.params, replicas[1].params)
    if counts:
        gradients = [gradient(one) for one in (1, 2, 11, 12)]
        np.testing.assert_allclose(replicas[0].params, initial() + np.sum(gradients, axis=0), atol=1e-4)


def some(replicas: list[OwnReplicaState], version: int, mover: int) -> None:
    order = ApplyOrder(
        version=version, grads=(), weights=(), lr=0.5, samples=4, moves=((mover, 1.0),), stays=(1 - mover,)
    )
    shares = [copy.share(order) for copy in replicas]
    total = np.sum(shares, axis=0, dtype=np.float32)
    for copy, share in zip(replicas, shares, strict=True):
        share[:] = total
        copy.step(order, share)
        copy.release(share)
