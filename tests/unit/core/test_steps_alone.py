"""``StepAlone``, ``Average``, ``SumFragment``: what moves own parameters, what an update takes, what is refused."""

from __future__ import annotations

import pytest

from strategies.protocol import Apply, Average, Drop, ProtocolError, PushHalf, StepAlone, SumFragment
from tests.support.harness import Puppet, Rig, apply, compute, make_job


def alone(*grads: int, lr_scale: float = 1.0) -> StepAlone:
    return StepAlone(grads=grads, lr_scale=lr_scale)


def rig(num_servers: int = 0, *, meanwhile: bool = False, **changes: object) -> Rig:
    """Workers 0 and 1 have computed gradients 0 and 1, of 2 samples each."""
    size = {"num_workers": 2, "global_batch_samples": 4, "batches_per_shard": 8, "num_samples": 64}
    puppet = Puppet()
    puppet.sums_meanwhile = meanwhile
    at = Rig(puppet, make_job(num_servers=num_servers, **size, **changes)).start()
    at.say(*compute(0, 1, num_samples=2))
    return arrived(at, 0, 1)


def arrived(at: Rig, *workers: int) -> Rig:
    for worker in workers:
        at.arrive(worker)
    return at


def refusal(at: Rig, *commands: object) -> str:
    with pytest.raises(ProtocolError) as refused:
        at.say(*commands)
    return str(refused.value)


def test_an_update_takes_every_workers_move_by_its_samples() -> None:
    """Worker 0 steps twice by 2 samples, worker 1 once by 2: two thirds and one third. All samples count then."""
    at = rig()
    at.say(alone(0, 1), *compute(0, num_samples=2))
    arrived(at, 0)
    at.say(alone(2), Apply(grads=(0, 1, 2), weights=(1 / 6,) * 3))
    assert [(step.grad_id, step.worker, step.samples) for step in at.steps] == [(0, 0, 2), (1, 1, 2), (2, 0, 2)]
    ((_, order, _),) = at.applied
    assert order.moves == ((0, pytest.approx(2 / 3)), (1, pytest.approx(1 / 3)))
    assert (order.lr, order.samples, at.core.shards.samples_applied) == (1.0, 6, 6)


def test_a_schedule_counts_a_workers_samples_for_all_workers() -> None:
    """Rates fall by 1/64 a sample. Whoever is faster, the second step of 2 samples is 4 samples later."""
    at = rig(lr=2.0, lr_at=lambda samples: 1 - samples / 64)
    at.say(alone(0), *compute(0, num_samples=2))
    arrived(at, 0)
    at.say(alone(2, 1, lr_scale=0.5))
    assert [step.lr for step in at.steps] == [2.0, 1 - 4 / 64, 1.0]
    at.say(Apply(grads=(0, 1, 2), weights=(1 / 6,) * 3, lr_scale=0.25))
    assert at.applied[0][1].lr == 0.25, "the outer rate has no schedule"


def test_with_servers_nobody_steps_alone() -> None:
    assert "servers hold the parameters" in refusal(rig(num_servers=1), alone(0))


@pytest.mark.parametrize("grads", [(), (0, 0), (7,)])
def test_only_unused_gradients_are_stepped_by(grads: tuple[int, ...]) -> None:
    assert "StepAlone" in refusal(rig(), alone(*grads))


def test_a_gradient_is_stepped_by_once() -> None:
    at = rig()
    at.say(alone(0))
    assert "gradient 0 has not arrived, or is used" in refusal(at, alone(0))


def test_a_worker_that_computes_does_not_step() -> None:
    at = rig()
    assert "only an idle worker of the ring steps alone" in refusal(at, *compute(0, num_samples=2), alone(0))


def test_a_gradient_that_has_moved_parameters_is_not_dropped() -> None:
    at = rig()
    at.say(alone(0))
    assert "Drop of [0]: their workers have stepped by them" in refusal(at, Drop(grads=(0,)))


@pytest.mark.parametrize("grads", [(0,), (0, 1)])
def test_an_update_is_of_all_moves_or_of_gradients(grads: tuple[int, ...]) -> None:
    """Gradient 0 has moved its worker, 1 has not: neither a part of a worker's move nor both kinds make an update."""
    at = rig()
    at.say(alone(0), *compute(0, num_samples=2))
    arrived(at, 0)
    at.say(alone(2))
    assert "an update is of all gradients of such steps" in refusal(at, apply(*grads))


def test_after_an_update_of_moves_none_is_of_gradients() -> None:
    at = rig()
    at.say(alone(0, 1), Apply(grads=(0, 1), weights=(0.25, 0.25)), *compute(0, 1, num_samples=2))
    arrived(at, 0, 1)
    assert "an update is of all gradients of such steps" in refusal(at, apply(2, 3))


def test_after_a_loss_before_any_such_update_gradients_are_applied_as_before() -> None:
    """All have the parameters and optimizers of one version again, as if nobody had stepped."""
    at = rig()
    at.say(alone(0, 1))
    at.core.strategy.reply = lambda event: ()  # type: ignore[attr-defined]
    at.lose(1, restarting=False)
    at.restore()
    at.say(*compute(0, num_samples=2))
    arrived(at, 0)
    at.say(apply(max(at.orders)))
    assert at.applied[-1][1].moves == ()
    assert at.core.shards.samples_applied == 2


def test_moves_have_no_norm_and_no_children() -> None:
    at = rig()
    at.say(alone(0, 1))
    assert "moves have no norm" in refusal(at, Apply(grads=(0, 1), weights=(0.25, 0.25), measure=True))


def test_an_average_leaves_gradients_and_weights_as_they_are() -> None:
    at = rig()
    at.say(alone(0, 1), Average(workers=(0, 1)), *compute(0, num_samples=2))
    assert [workers for _, workers in at.averages] == [(0, 1)]
    arrived(at, 0)
    at.say(alone(2), Apply(grads=(0, 1, 2), weights=(1 / 6,) * 3))
    assert at.applied[0][1].moves == ((0, pytest.approx(2 / 3)), (1, pytest.approx(1 / 3)))


def test_workers_that_compute_average_if_replicas_sum_meanwhile() -> None:
    """The gradient moves the parameters that the average has left."""
    at = rig(meanwhile=True)
    at.say(alone(0, 1), *compute(1, num_samples=2), Average(workers=(0, 1)))
    arrived(at, 1)
    at.say(alone(2), Apply(grads=(0, 1, 2), weights=(1 / 6,) * 3))
    assert [workers for _, workers in at.averages] == [(0, 1)]
    assert [step.grad_id for step in at.steps] == [0, 1, 2]
    assert "it has not stepped alone since the last update" in refusal(at, Average(workers=(0, 1)))


def test_after_halves_an_update_is_of_all_workers_and_each_counts_the_same() -> None:
    """Worker 0 has more samples; worker 1 has not stepped, and what it was sent is in its move."""
    at = rig()
    at.say(alone(0), PushHalf(worker=0, to=1), *compute(0, num_samples=2))
    arrived(at, 0)
    at.say(alone(2), PushHalf(worker=1, adds=(0,)), Apply(grads=(0, 2), weights=(0.25, 0.25)))
    assert [(order.worker, order.to, order.adds) for _, order in at.pushes] == [(0, 1, ()), (1, None, (0,))]
    assert (at.applied[0][1].moves, at.applied[0][1].stays) == (((0, 0.5), (1, 0.5)), ())
    at.say(*compute(0, num_samples=2))
    arrived(at, 0)
    at.say(alone(3), Apply(grads=(3,), weights=(0.5,)))
    assert at.applied[1][1].moves == ((0, 1.0),), "no half was sent since then"


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (PushHalf(worker=0), "sends nothing and adds nothing"),
        (PushHalf(worker=1, to=0), "it has not stepped alone since the last update"),
        (PushHalf(worker=0, to=0), "a half goes to another worker of the ring"),
        (PushHalf(worker=0, to=2), "a half goes to another worker of the ring"),
        (PushHalf(worker=0, to=1, adds=(1,)), "worker 1 has sent it no half that is not added"),
    ],
)
def test_what_is_no_half_is_refused(command: PushHalf, message: str) -> None:
    at = rig()
    at.say(alone(0))
    assert message in refusal(at, command)


def test_a_half_is_added_once_and_before_the_update() -> None:
    at = rig()
    at.say(alone(0, 1), PushHalf(worker=0, to=1), PushHalf(worker=1, adds=(0,)))
    assert "has sent it no half" in refusal(at, PushHalf(worker=1, adds=(0,)))
    at = rig()
    at.say(alone(0, 1), PushHalf(worker=0, to=1))
    assert "are not: [(0, 1)]" in refusal(at, apply(0, 1))


def test_a_worker_that_computes_sends_no_half_and_is_sent_one_only_if_replicas_sum_meanwhile() -> None:
    at = rig()
    at.say(alone(0, 1), *compute(1, num_samples=2))
    assert "only an idle worker is sent a half" in refusal(at, PushHalf(worker=0, to=1))
    at = rig(meanwhile=True)
    at.say(alone(0, 1), *compute(1, num_samples=2), PushHalf(worker=0, to=1))
    assert "only an idle worker sends or adds" in refusal(at, PushHalf(worker=1, adds=(0,)))
    at = rig(meanwhile=True)
    at.say(alone(0, 1), PushHalf(worker=0, to=1), PushHalf(worker=1, adds=(0,)), *compute(1, num_samples=2))
    assert "no worker computes ([1] do)" in refusal(at, Apply(grads=(0, 1), weights=(0.25, 0.25)))


@pytest.mark.parametrize("workers", [(), (0,), (0, 0)])
def test_an_average_is_of_two_workers_or_more(workers: tuple[int, ...]) -> None:
    at = rig()
    at.say(alone(0, 1))
    assert "needs at least two workers, and none twice" in refusal(at, Average(workers=workers))


def test_only_idle_workers_average_that_have_moved_since_the_last_update() -> None:
    at = rig()
    assert "worker 1: " in refusal(at, alone(0), Average(workers=(0, 1)))
    at = rig()
    at.say(alone(0, 1), *compute(1, num_samples=2))
    assert "only idle workers average" in refusal(at, Average(workers=(0, 1)))
    at = rig()
    at.say(alone(0, 1), Apply(grads=(0, 1), weights=(0.25, 0.25)))
    assert "it has not stepped alone since the last update" in refusal(at, Average(workers=(0, 1)))


# ---- fragments -------------------------------------------------------------------------------------------------------


def in_fragments(count: int = 2) -> Rig:
    """As :func:`rig`, of a strategy that sums so many fragments; both workers have stepped."""
    puppet = Puppet()
    puppet.outer = {"lr": 0.5, "fragments": count}
    at = Rig(puppet, make_job(num_servers=0, num_workers=2, global_batch_samples=4, num_samples=64)).start()
    at.say(*compute(0, 1, num_samples=2))
    arrived(at, 0, 1).say(alone(0, 1))
    return at


def test_a_fragments_sum_takes_what_was_offered_since_its_last_sum() -> None:
    """Worker 0 has stepped by 2 and 1 samples, worker 1 by 2: three fifths. The update takes the rest of each."""
    at = in_fragments()
    at.say(*compute(0, num_samples=1))
    arrived(at, 0).say(alone(2), SumFragment(fragment=1, offer=(0,)))
    at.say(SumFragment(fragment=1, offer=(1,), sums=True, mix=(0, 1), kept_frac=0.25), *compute(1, num_samples=2))
    first, second = at.fragments
    assert (first.offer, first.moves, second.offer, second.mix) == ((0,), (), (1,), (0, 1))
    assert (second.moves, second.samples, second.lr) == (((0, 3 / 5), (1, 2 / 5)), 5, 0.5)
    assert (second.fragment, second.of, second.kept_frac) == (1, 2, 0.25)
    arrived(at, 1).say(alone(3), Apply(grads=(0, 1, 2, 3), weights=(1 / 7,) * 4))
    assert at.applied[0][1].fragments == (((0, 3 / 7), (1, 4 / 7)), ((1, 1.0),))
    assert at.core.shards.samples_applied == 7


def test_after_a_loss_nothing_has_been_summed() -> None:
    at = in_fragments(1)
    at.say(SumFragment(fragment=0, offer=(0, 1), sums=True))
    at.core.strategy.reply = lambda event: ()  # type: ignore[attr-defined]
    at.lose(1, restarting=False)
    at.restore()
    at.say(*compute(0, num_samples=2))
    arrived(at, 0)
    grad = max(at.orders)
    at.say(alone(grad), Apply(grads=(grad,), weights=(0.5,)))
    assert at.applied[-1][1].fragments == (((0, 1.0),),)


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (SumFragment(fragment=2, offer=(0,)), "the strategy has declared 2 fragments"),
        (SumFragment(fragment=0, offer=(0, 0)), "it has offered that, or not stepped alone since"),
        (SumFragment(fragment=0, sums=True), "no worker has offered this fragment"),
        (SumFragment(fragment=0, offer=(0,), mix=(0,)), "what it has offered is not summed yet"),
    ],
)
def test_what_makes_no_sum_is_refused(command: SumFragment, message: str) -> None:
    assert message in refusal(in_fragments(), command)


def test_only_idle_workers_offer_and_mix() -> None:
    at = in_fragments()
    assert "only idle workers offer" in refusal(at, *compute(0, num_samples=2), SumFragment(fragment=0, offer=(0,)))
    at = in_fragments()
    at.say(SumFragment(fragment=0, offer=(0, 1), sums=True), *compute(0, num_samples=2))
    assert "only idle workers mix" in refusal(at, SumFragment(fragment=0, mix=(0,)))
    assert "it has offered that, or not stepped alone since" in refusal(
        in_summed(), SumFragment(fragment=0, offer=(1,))
    )


def in_summed() -> Rig:
    at = in_fragments()
    at.say(SumFragment(fragment=0, offer=(0, 1), sums=True, mix=(0, 1)))
    return at


# ---- updates of some workers -----------------------------------------------------------------------------------------


def test_an_update_of_some_workers_leaves_the_others_as_they_are() -> None:
    """Worker 1 has stepped, too, and computes; its gradients are in the next update."""
    at = rig()
    at.say(alone(0, 1), *compute(1, num_samples=2))
    at.say(Apply(grads=(0,), weights=(0.5,)), *compute(0, num_samples=2))
    assert (at.applied[0][1].moves, at.applied[0][1].stays) == (((0, 1.0),), (1,))
    arrived(at, 1).say(alone(2), Apply(grads=(1, 2), weights=(0.25, 0.25)))
    assert (at.applied[1][1].moves, at.applied[1][1].stays) == (((1, 1.0),), (0,))
    assert at.core.shards.samples_applied == 6


def test_who_is_idle_and_has_not_stepped_continues_from_the_common_parameters() -> None:
    at = rig()
    at.say(alone(0), Apply(grads=(0,), weights=(0.5,)))
    assert at.applied[0][1].stays == ()


def test_with_fragments_an_update_is_of_all_workers() -> None:
    assert "with fragments or halves of all" in refusal(in_fragments(), Apply(grads=(0,), weights=(0.5,)))
