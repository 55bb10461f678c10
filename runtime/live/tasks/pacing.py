"""Device pacing: a worker behaves like a device of a given speed, plus injected delays."""

from __future__ import annotations

import time

from runtime.cluster.device import DeviceProfile


class Pacer:
    """Sleeps the rest of F(batch) after the real computation; computing for longer is an overrun."""

    def __init__(self, profile: DeviceProfile | None) -> None:
        self.profile = profile

    def hold(
        self, begun: float, num_samples: int, delay_s: float, slowdown_frac: float, *, accum: int = 1
    ) -> tuple[float, float]:
        """Return (overrun_s, injected_s): seconds beyond the device's time, seconds injected in addition (measured).

        ``begun`` is the ``time.perf_counter()`` at which the computation of ``accum`` micro-batches started.
        """
        overrun_s = 0.0
        elapsed = time.perf_counter() - begun
        if self.profile is not None:
            rest = self.profile.seconds(num_samples, accum) - elapsed
            if rest > 0:
                time.sleep(rest)
            else:
                overrun_s = -rest
        computed = time.perf_counter()
        asked_s = delay_s + slowdown_frac * (computed - begun)
        if asked_s <= 0:
            return overrun_s, 0.0
        time.sleep(asked_s)
        return overrun_s, time.perf_counter() - computed
