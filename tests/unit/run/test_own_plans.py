"""What a pattern of one's own plans is checked like all else: the answer names the setting, the pattern, the window."""

from __future__ import annotations

import pytest

from injectors.patterns import NoStragglers
from injectors.plan import ClusterShape, Disturbance, Plan, build_plan
from runtime.errors import ConfigError
from runtime.run.preflight import preflight


def planned(pattern: NoStragglers, cluster: ClusterShape, horizon_s: float, seed: int) -> Plan:
    windows = [
        Disturbance(start_s=start_s, end_s=9.0, target=target, kind="delay", magnitude=1.0)
        for start_s, target in ((1.0, "worker:0"), (2.5, "worker:9"))
    ]
    return build_plan(pattern.name, seed, horizon_s, windows)


def test_a_window_that_cannot_be_is_named_by_its_setting_and_pattern(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(NoStragglers, "plan", planned)
    with pytest.raises(ConfigError) as caught:
        preflight(["runtime=virtual", "straggler=none"])
    assert str(caught.value).startswith(
        "straggler=none: plans what cannot be (delay of worker:9 from 2.5 s, disturbance 1 of pattern none): there is "
    )
