"""Server-side optimizers on flat float32 vectors.

An update combines gradient sums, ``combined = sum_k weights[k] * grads[k]``, and moves the parameters by it. All
operations are element-wise and in the given order, so each element's result is the same however the vector is
partitioned among servers. No matrix routine and no fused multiply-add is used, as those round differently by position.

The vectors are processed in blocks, so that everything a block needs stays in the processor's cache.
Semantics are as in ``torch.optim`` (the tests compare with it), with the learning rate given at each step.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields, is_dataclass
from math import inf, sqrt
from typing import Any, ClassVar, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from runtime import native
from runtime.config.instantiate import locate
from runtime.core.vectors import FloatVector

State = dict[str, NDArray[np.float32] | int | float]

BLOCK = 32_768
"""Elements: 128 KiB each for parameters, gradients, state and scratch; the fastest measured of 2 Ki to 256 Ki."""

SHARED_FLOATS = 1 << 17
"""Elements from which on an update is worth a second thread: waking it up takes as long as some 50,000."""

MIN_EPS = 1e-30
"""Smallest eps: smaller ones may underflow to zero in float32, and parameters without gradient become NaN."""

ALIGN_BYTES = 64
"""Bytes: a cache line, and the widest vector register."""


class Block(NamedTuple):
    """Views of one length into the vectors: the block being updated."""

    params: FloatVector
    grad: FloatVector
    """``step_scale`` times the combined gradient; may be overwritten."""
    state: list[FloatVector]
    """State vectors, in the order of the rule's ``slots``."""
    spare: FloatVector
    """Scratch space, overwritten by the rule."""


class Rule(ABC):
    """An optimization rule: hyper-parameters as dataclass fields, one block's update in :meth:`update`.

    ``slots`` names the state vectors, which are zero at first.
    """

    slots: ClassVar[tuple[str, ...]] = ()
    adds: ClassVar[bool] = False
    """Whether :meth:`update` adds ``grad`` to ``params`` and does nothing else; such updates are compiled."""
    along_gradients: ClassVar[bool] = False
    """Whether steps are linear combinations of gradients, so that norms of gradients can stand for norms of steps."""
    sums: ClassVar[bool] = False
    """Whether a step is a sum over samples, so that parameters are counts, and not a mean."""

    def __init_subclass__(cls, **more: Any) -> None:
        """``gain`` is what rules of 0.1.0 call ``step_scale``."""
        super().__init_subclass__(**more)
        if "gain" in vars(cls) and "step_scale" not in vars(cls):
            cls.step_scale = vars(cls)["gain"]  # type: ignore[method-assign]

    @abstractmethod
    def step_scale(self, lr: float, samples: int) -> float:
        """A factor that is folded into the gradients' weights, and so costs no extra pass."""

    @abstractmethod
    def update(self, block: Block, lr: float, step: int) -> None:
        """Update parameters and state of a block in place; ``step`` counts from 1."""


@final
@dataclass(frozen=True, kw_only=True)
class Tally(Rule):
    """Plain sums without a learning rate: w += samples * combined, as ``combined`` is the mean.

    For the ``ledger`` workload, whose parameters count how often each sample was used.
    """

    adds: ClassVar[bool] = True
    along_gradients: ClassVar[bool] = True
    sums: ClassVar[bool] = True

    def step_scale(self, lr: float, samples: int) -> float:
        """Undo the mean that the weights contain."""
        return float(samples)

    def update(self, block: Block, lr: float, step: int) -> None:
        np.add(block.params, block.grad, out=block.params)


@final
@dataclass(frozen=True, kw_only=True)
class PlainSGD(Rule):
    """w -= lr * combined, with the learning rate folded into the gradients' weights."""

    adds: ClassVar[bool] = True
    along_gradients: ClassVar[bool] = True

    def step_scale(self, lr: float, samples: int) -> float:
        """The negative learning rate, so that the weighted sum is the step."""
        return -lr

    def update(self, block: Block, lr: float, step: int) -> None:
        np.add(block.params, block.grad, out=block.params)


@final
@dataclass(frozen=True, kw_only=True)
class SGD(Rule):
    """SGD with momentum: v = momentum * v + g, w -= lr * v (nesterov: lr * (g + momentum * v)).

    g is the combined gradient plus ``weight_decay`` * w.
    """

    momentum: float = 0.0
    nesterov: bool = False
    weight_decay: float = 0.0
    slots: ClassVar[tuple[str, ...]] = ("momentum",)
    along_gradients: ClassVar[bool] = True

    def __post_init__(self) -> None:
        _check("momentum", self.momentum, below=1.0)
        _check("weight_decay", self.weight_decay)
        if not isinstance(self.nesterov, bool):
            raise ValueError(f"nesterov={self.nesterov}: must be true or false")
        if self.nesterov and self.momentum == 0:
            raise ValueError("nesterov=true: needs a momentum above 0")

    def step_scale(self, lr: float, samples: int) -> float:
        """1, since momentum accumulates gradients and not steps, and so survives a change of the learning rate."""
        return 1.0

    def update(self, block: Block, lr: float, step: int) -> None:
        params, grad, (velocity,), spare = block
        _decay(params, grad, spare, self.weight_decay)
        np.multiply(velocity, np.float32(self.momentum), out=velocity)
        np.add(velocity, grad, out=velocity)
        if self.nesterov:
            np.multiply(velocity, np.float32(self.momentum), out=spare)
            np.add(grad, spare, out=grad)
            np.multiply(grad, np.float32(lr), out=spare)
        else:
            np.multiply(velocity, np.float32(lr), out=spare)
        np.subtract(params, spare, out=params)


@final
@dataclass(frozen=True, kw_only=True)
class Adagrad(Rule):
    """Adagrad: a rate of its own for every parameter (Duchi et al., JMLR 2011).

    s += g^2, w -= lr * g / (sqrt(s) + eps).
    """

    eps: float = 1e-10
    weight_decay: float = 0.0
    slots: ClassVar[tuple[str, ...]] = ("sum",)

    def __post_init__(self) -> None:
        _check("eps", self.eps, least=MIN_EPS)
        _check("weight_decay", self.weight_decay)

    def step_scale(self, lr: float, samples: int) -> float:
        return 1.0

    def update(self, block: Block, lr: float, step: int) -> None:
        params, grad, (squares,), spare = block
        _decay(params, grad, spare, self.weight_decay)
        np.multiply(grad, grad, out=spare)
        np.add(squares, spare, out=squares)
        np.sqrt(squares, out=spare)
        _step(params, grad, spare, lr, self.eps)


@final
@dataclass(frozen=True, kw_only=True)
class Adam(Rule):
    """Adam: momentum, and a rate of its own for every parameter (Kingma and Ba, ICLR 2015).

    m = b1 m + (1 - b1) g, v = b2 v + (1 - b2) g^2, w -= lr * m^ / (sqrt(v^) + eps).
    m^ and v^ are corrected for starting at zero: divided by 1 - b1^step and 1 - b2^step.
    """

    beta1: float = 0.9
    beta2: float = 0.999
    eps: float = 1e-8
    weight_decay: float = 0.0
    slots: ClassVar[tuple[str, ...]] = ("mean", "square")

    def __post_init__(self) -> None:
        _check("beta1", self.beta1, below=1.0)
        _check("beta2", self.beta2, below=1.0)
        _check("eps", self.eps, least=MIN_EPS)
        _check("weight_decay", self.weight_decay)

    def step_scale(self, lr: float, samples: int) -> float:
        return 1.0

    def update(self, block: Block, lr: float, step: int) -> None:
        _decay(block.params, block.grad, block.spare, self.weight_decay)
        self.move(block, lr, step)

    def move(self, block: Block, lr: float, step: int) -> None:
        """The update without the decay of weights."""
        params, grad, (mean, square), spare = block
        np.multiply(grad, grad, out=spare)
        np.multiply(spare, np.float32(1 - self.beta2), out=spare)
        np.multiply(square, np.float32(self.beta2), out=square)
        np.add(square, spare, out=square)
        np.multiply(grad, np.float32(1 - self.beta1), out=grad)
        np.multiply(mean, np.float32(self.beta1), out=mean)
        np.add(mean, grad, out=mean)
        # lr m^ / (sqrt(v^) + eps) = (lr c / (1 - b1^step)) m / (sqrt(v) + c eps) with c = sqrt(1 - b2^step)
        correction = sqrt(1 - self.beta2**step)
        np.sqrt(square, out=spare)
        _step(params, mean, spare, lr * correction / (1 - self.beta1**step), correction * self.eps)


@final
@dataclass(frozen=True, kw_only=True)
class AdamW(Rule):
    """Adam whose weights decay by themselves: w -= lr * weight_decay * w first (Loshchilov and Hutter, ICLR 2019)."""

    beta1: float = 0.9
    beta2: float = 0.999
    eps: float = 1e-8
    weight_decay: float = 0.01
    slots: ClassVar[tuple[str, ...]] = Adam.slots

    def __post_init__(self) -> None:
        self._adam()
        _check("weight_decay", self.weight_decay)

    def step_scale(self, lr: float, samples: int) -> float:
        return 1.0

    def update(self, block: Block, lr: float, step: int) -> None:
        np.multiply(block.params, np.float32(1 - lr * self.weight_decay), out=block.params)
        self._adam().move(block, lr, step)

    def _adam(self) -> Adam:
        """Raises ``ValueError`` for values that it cannot have."""
        return Adam(beta1=self.beta1, beta2=self.beta2, eps=self.eps)


RULES: dict[str, type[Rule]] = {"sgd": SGD, "adagrad": Adagrad, "adam": Adam, "adamw": AdamW, "tally": Tally}


@final
class Optimizer:
    """A rule with its state, for ``num_elements`` parameters.

    With a compiled rule, up to ``threads`` threads share an update: whichever has a processor takes the next part.
    """

    def __init__(self, rule: Rule, num_elements: int, threads: int = 1) -> None:
        self.rule, self.num_elements = rule, num_elements
        self.steps = 0
        self._compiled = native.native(native.UPDATES) if rule.adds else None
        self._helpers = threads - 1 if num_elements >= SHARED_FLOATS else 0
        self._pool: ThreadPoolExecutor | None = None
        self._state = [_align(num_elements) for _ in rule.slots]
        size = min(BLOCK, num_elements)
        self._grad, self._spare = _align(size), _align(size)

    def step(
        self,
        params: FloatVector,
        grads: Sequence[FloatVector],
        weights: Sequence[float],
        lr: float,
        samples: int,
        *,
        out: FloatVector | None = None,
    ) -> None:
        """One update of ``params``, in place or into ``out``.

        Args:
            params: float32 [num_elements].
            grads: one or more of the same shape; not modified.
            weights: one per gradient.
            lr: learning rate of this step.
            samples: number of samples in the update.
            out: where to write the result, float32 [num_elements]; ``params`` is then not modified.

        Raises:
            ValueError: for lengths that do not match; nothing is changed then.
        """
        target = params if out is None else out
        self._check([params, target, *grads], weights)
        self.steps += 1
        step_scale = self.rule.step_scale(lr, samples)
        # computed in double precision, so that a mean (1 / n) and its inverse (n) cancel exactly in Tally
        factors = [np.float32(step_scale * weight) for weight in weights]
        uniform = all(weight == weights[0] for weight in weights)
        if self._compiled is not None and all(vector.flags.c_contiguous for vector in (params, target, *grads)):
            self._add((target, params, list(grads), np.array(factors, np.float32), uniform, np.zeros(2, np.int64)))
            return
        for lo in range(0, self.num_elements, BLOCK):
            hi = min(lo + BLOCK, self.num_elements)
            state = [values[lo:hi] for values in self._state]
            block = Block(target[lo:hi], self._grad[: hi - lo], state, self._spare[: hi - lo])
            parts = [grad[lo:hi] for grad in grads]
            if uniform:
                _sum_scaled(parts, factors[0], block.grad)
            else:
                _sum_weighted(parts, factors, block.grad, block.spare)
            if target is not params:
                np.copyto(block.params, params[lo:hi])  # loads the block into the cache
            self.rule.update(block, lr, self.steps)

    def _add(self, update: tuple[object, ...]) -> None:
        """Add the gradients by the compiled twin of the loop above; the last of ``update`` counts the parts taken."""
        assert self._compiled is not None
        add: Callable[..., None] = self._compiled.add
        if self._helpers:
            self._pool = self._pool or ThreadPoolExecutor(self._helpers)
            for _ in range(self._helpers):
                self._pool.submit(add, *update, False)
        add(*update, True)

    def part(self, part: slice) -> Optimizer:
        """The optimizer of some of the elements, which shares the state vectors."""
        made = Optimizer(self.rule, len(range(self.num_elements)[part]))
        made._state = [values[part] for values in self._state]
        return made

    def state(self) -> State:
        """Number of steps and the rule's state vectors by name (the vectors themselves, not copies)."""
        return {"step": self.steps, **dict(zip(self.rule.slots, self._state, strict=True))}

    def load_state(self, state: State) -> None:
        """Restore a :meth:`state`; raises ``ValueError`` for the state of another rule or size."""
        names = ["step", *self.rule.slots]
        if sorted(state) != sorted(names):
            raise ValueError(f"optimizer state: has {', '.join(sorted(state))} instead of {', '.join(sorted(names))}")
        for name in self.rule.slots:
            if np.shape(state[name]) != (self.num_elements,):
                raise ValueError(f"optimizer state: {name} is {np.shape(state[name])}, not ({self.num_elements},)")
        for name, values in zip(self.rule.slots, self._state, strict=True):
            values[:] = state[name]
        self.steps = int(state["step"])

    def _check(self, vectors: Sequence[FloatVector], weights: Sequence[float]) -> None:
        num_grads = len(vectors) - 2
        if num_grads == 0 or num_grads != len(weights):
            raise ValueError(f"grads: {num_grads} gradients and {len(weights)} weights; need one or more, and as many")
        for values in vectors:
            if values.shape != (self.num_elements,) or values.dtype != np.float32:
                raise ValueError(
                    f"grads: {values.dtype} {values.shape} among parameters and gradients, "
                    f"all must be float32 ({self.num_elements},)"
                )


def rule_named(name: str) -> type[Rule]:
    """The rule ``name``: a key of ``RULES``, or the path of a user's dataclass, ``my_lab.optimizer.Mine``.

    Raises ``ValueError`` for another name, or for a class that is no rule.
    """
    if name in RULES:
        return RULES[name]
    if "." not in name:
        raise ValueError(f"name={name}: must be one of {', '.join(RULES)}, or the path of a class of yours")
    found = locate(name, "name")
    if not is_dataclass(found) or not issubclass(found, Rule):
        raise ValueError(f"name={name}: must be a dataclass derived from {Rule.__name__}")
    return found


def make_optimizer(name: str, num_elements: int, threads: int = 1, **fields_of_rule: object) -> Optimizer:
    """The optimizer ``name`` (see :func:`rule_named`); raises ``ValueError`` naming the wrong hyper-parameter.

    A field that is None counts as not given, so that a configuration can remove another optimizer's fields.
    """
    kind = rule_named(name)
    given = {field: value for field, value in fields_of_rule.items() if value is not None}
    known = [field.name for field in fields(kind)]  # type: ignore[arg-type]
    for field in given:
        if field not in known:
            raise ValueError(
                f"{field}: is no field of {name} (it has {', '.join(known) or 'none'}); null leaves it out"
            )
    rule = kind(**given)
    if isinstance(rule, SGD) and rule.momentum == 0 and rule.weight_decay == 0:
        rule = PlainSGD()
    return Optimizer(rule, num_elements, threads)


def _sum_scaled(grads: list[FloatVector], factor: np.float32, out: FloatVector) -> None:
    """``out`` = factor * sum of ``grads``, in their order."""
    if len(grads) == 1:
        np.multiply(grads[0], factor, out=out)
        return
    np.add(grads[0], grads[1], out=out)
    for grad in grads[2:]:
        np.add(out, grad, out=out)
    np.multiply(out, factor, out=out)


def _sum_weighted(grads: list[FloatVector], factors: list[np.float32], out: FloatVector, spare: FloatVector) -> None:
    """``out`` = sum of factors[k] * grads[k], in their order."""
    np.multiply(grads[0], factors[0], out=out)
    for grad, factor in zip(grads[1:], factors[1:], strict=True):
        np.multiply(grad, factor, out=spare)
        np.add(out, spare, out=out)


def _decay(params: FloatVector, grad: FloatVector, spare: FloatVector, weight_decay: float) -> None:
    """``grad`` += weight_decay * params."""
    if weight_decay:
        np.multiply(params, np.float32(weight_decay), out=spare)
        np.add(grad, spare, out=grad)


def _step(params: FloatVector, direction: FloatVector, scale: FloatVector, lr: float, eps: float) -> None:
    """``params`` -= lr * direction / (scale + eps); overwrites ``scale``."""
    np.add(scale, np.float32(eps), out=scale)
    np.divide(direction, scale, out=scale)
    np.multiply(scale, np.float32(lr), out=scale)
    np.subtract(params, scale, out=params)


def _align(num_elements: int) -> FloatVector:
    """Zeros, aligned to a cache line."""
    size = num_elements * 4
    raw = np.zeros(size + ALIGN_BYTES, dtype=np.uint8)
    start = -raw.ctypes.data % ALIGN_BYTES
    return raw[start : start + size].view(np.float32)


def _check(name: str, value: object, *, least: float = 0.0, below: float = inf) -> None:
    """Raise ``ValueError`` unless it is a finite number of at least ``least`` and less than ``below``."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not least <= value < below:  # type: ignore[operator]
        upper = "" if below == inf else f" and less than {below:g}"
        raise ValueError(f"{name}={value}: must be a number, at least {least:g}{upper}")
