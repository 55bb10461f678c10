"""CUDA's device without CUDA: what it asks of torch, on stand-ins for its streams and events; and exact arithmetic."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from runtime.backends.devices import cuda, loads
from runtime.backends.devices.choice import make_device
from runtime.backends.devices.staging import Staging
from runtime.backends.devices.time_slices import TimeSlice, TimeSlices
from runtime.core.vectors import aligned_vector
from tests.support.cli import run_text

SIZE = 16


class Event:
    """``done`` counts what its stream had to do before it."""

    def __init__(self, *, enable_timing: bool) -> None:
        assert enable_timing
        self.at: tuple[str, int] | None = None

    def record(self) -> None:
        stream = Driver.here
        self.at = (stream.name, len(stream.work))

    def synchronize(self) -> None:
        Driver.log.append(("host waits", self.at))

    def elapsed_time(self, other: Event) -> float:
        return 250.0 * (other.at[1] - self.at[1])


class Stream:
    def __init__(self, name: str = "copies") -> None:
        self.name = name
        self.work: list[Any] = []

    def wait_event(self, event: Event) -> None:
        Driver.log.append((self.name, "waits", event.at))

    def wait_stream(self, other: Stream) -> None:
        Driver.log.append((self.name, "waits", other.name))


class Driver:
    here: Stream
    log: list[Any]
    code = 0

    @staticmethod
    def cudaHostRegister(place: int, num_bytes: int, flags: int) -> int:
        Driver.log.append(("pin", place, num_bytes, flags))
        return Driver.code


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> cuda.CudaDevice:
    """On the CPU's memory: copies are carried out at once, and noted in their stream."""
    kernels = Stream("kernels")
    Driver.here, Driver.log, Driver.code = kernels, [], 0

    @contextlib.contextmanager
    def entered(stream: Stream) -> Iterator[None]:
        before, Driver.here = Driver.here, stream
        yield
        Driver.here = before

    real = torch.Tensor.copy_

    def copy(self: Any, source: Any, non_blocking: bool = False) -> Any:
        assert non_blocking
        Driver.here.work.append("copy")
        return real(self, source)

    stand_in = type("cuda", (), {"Stream": Stream, "Event": Event, "stream": staticmethod(entered)})
    stand_in.current_stream = staticmethod(lambda: kernels)  # type: ignore[attr-defined]
    stand_in.cudart = staticmethod(lambda: Driver)  # type: ignore[attr-defined]
    monkeypatch.setattr(cuda, "_CUDA", stand_in)
    monkeypatch.setattr(cuda, "make_exact", lambda: None)
    monkeypatch.setattr(torch.Tensor, "copy_", copy)
    made = make_device("cuda")
    assert isinstance(made, cuda.CudaDevice)
    assert made.torch_name == "cuda:0"
    made.torch_name = "cpu"
    return made


def test_every_copy_is_ordered_timed_and_waited_for(device: cuda.CudaDevice) -> None:
    staging, params, grad = Staging(device, SIZE), aligned_vector(SIZE), aligned_vector(SIZE)
    params[:] = 3
    staging.bring(params, grad)
    pins = [("pin", one.ctypes.data, 4 * SIZE, 0) for one in (params, grad)]
    assert Driver.log == [*pins, ("copies", "waits", "kernels"), ("kernels", "waits", ("copies", 1))]
    Driver.log.clear()
    staging.grad[:] = staging.params * 2
    assert staging.take() == (0.5, []), "a quarter of a second each, by the events"
    assert Driver.log == [("copies", "waits", "kernels"), ("host waits", ("copies", 1)), ("host waits", ("copies", 2))]
    assert (grad == 6).all()
    Driver.log.clear()
    staging.bring(params, grad)
    assert not [line for line in Driver.log if line[0] == "pin"], "once per vector"
    Driver.log.clear()
    losses = [torch.tensor(0.1), torch.tensor(3.0)]
    assert staging.take(losses) == (0.5, [pytest.approx(0.1), 3.0]), "they travel behind the gradient"
    log = [line for line in Driver.log if line[0] != "pin"]
    assert log[:2] == [("copies", "waits", "kernels")] * 2
    assert [line[0] for line in log[2:]] == ["host waits"] * 3


def test_a_vector_is_pinned_to_its_end_or_it_is_an_error(device: cuda.CudaDevice) -> None:
    whole = aligned_vector(SIZE)
    for part in (whole[:8], whole[:4], whole):
        device.pin(part)
    assert [line[2] for line in Driver.log] == [32, 64], "a part of what is locked is locked"
    for code in (2, 712):
        Driver.code = code
        with pytest.raises(RuntimeError, match=f"CUDA error {code}: cannot lock 64 bytes of a host vector"):
            device.pin(aligned_vector(SIZE))


def test_kernels_are_recorded_when_libraries_have_warmed_up(
    device: cuda.CudaDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Apart from all other work, before and after; what is recorded is not run."""

    class Graph:
        def replay(self) -> None:
            Driver.log.append("replayed")

    @contextlib.contextmanager
    def capturing(graph: Graph) -> Iterator[None]:
        assert isinstance(graph, Graph)
        Driver.log.append("records")
        yield

    monkeypatch.setattr(cuda._CUDA, "CUDAGraph", Graph, raising=False)
    monkeypatch.setattr(cuda._CUDA, "graph", capturing, raising=False)
    replay = device.record(lambda: Driver.log.append(Driver.here.name))
    warm_ups = ["copies"] * cuda.WARM_UPS  # as the stand-in calls every other stream
    waits = ("copies", "waits", "kernels"), ("kernels", "waits", "copies")
    assert Driver.log == [waits[0], *warm_ups, waits[1], "records", "kernels"]
    replay()
    assert Driver.log[-1] == "replayed"


def test_a_hog_counts_what_its_kernel_takes_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Multiplications of 0.25 ms: four make a kernel. With others' turns it lasts ten times as long."""
    now_s, each_s, launched = [0.0], [0.25e-3], []

    class Timed:
        def __init__(self, *, enable_timing: bool, blocking: bool) -> None:
            assert enable_timing
            assert blocking, "or the host would spin"
            self.at_s = 0.0

        def record(self) -> None:
            self.at_s = now_s[0]

        def synchronize(self) -> None:
            launched.append(self.at_s)

        def elapsed_time(self, other: Timed) -> float:
            return 1e3 * (other.at_s - self.at_s)

    real = torch.mm

    def mm(*operands: Any, out: Any) -> Any:
        now_s[0] += each_s[0]
        return real(*operands, out=out)

    monkeypatch.setattr(loads, "WHERE", "cpu")
    monkeypatch.setattr(loads, "SIDE", 2)
    monkeypatch.setattr(torch, "mm", mm)
    monkeypatch.setattr(torch.cuda, "Event", Timed)
    load = loads.make_load("cuda", TimeSlice(TimeSlices(1), 0))
    begun_s = now_s[0]
    assert load.run() == pytest.approx(1e-3)
    assert now_s[0] - begun_s == pytest.approx(2e-3), "the next one is in the queue"
    waited = len(launched)
    each_s[0] *= 10
    for _ in range(2):
        assert load.run() == pytest.approx(1e-3), "it has used no more of the device"
    assert len(launched) == waited + 2, "each is waited for once"
    each_s[0] *= 0.09
    assert load.run() == pytest.approx(1e-3), "it was launched before"
    assert load.run() == pytest.approx(0.9e-3), "the clock of the device has become faster"


def test_kernels_are_exact_unless_asked_otherwise_and_inputs_placed_there(
    device: cuda.CudaDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []
    monkeypatch.setattr(cuda, "make_exact", lambda: made.append("exact"))
    for exact, count in ((False, 0), (True, 1)):
        make_device("cuda", exact=exact)
        assert len(made) == count
    locked: list[Any] = []
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda values: locked.append(values) or values)
    device.torch_name, values = "meta", torch.ones(2)
    assert device.place(values).device.type == "meta"
    assert locked[0] is values, "or the copy would wait for the device"


EXACT = """
import os
from runtime.backends.devices.exact import make_exact
make_exact()
import torch
assert os.environ["CUBLAS_WORKSPACE_CONFIG"] == ":4096:8"
assert torch.are_deterministic_algorithms_enabled()
assert not torch.backends.cuda.matmul.allow_tf32 and not torch.backends.cudnn.allow_tf32
assert not torch.backends.cudnn.benchmark
assert not torch.cuda.is_initialized()
print("exact")
"""


def test_arithmetic_is_exact() -> None:
    done = run_text(EXACT)
    assert (done.exit_code, done.out) == (0, "exact\n"), done.err
