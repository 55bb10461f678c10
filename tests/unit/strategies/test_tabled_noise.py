"""The noise scale from a profiled table, as a part of STAR and from the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from strategies.parts.monitoring.base import MeasuresNoise
from strategies.protocol import Restored, Started
from strategies.star import Star
from strategies.star.noise import TabledNoise
from tests.support.grads import make_grad
from tests.support.harness import HeapRun, make_job

HEAD = "model,batch_samples,step,sqr,var"
TABLE = f"{HEAD}\ndigits,32,0,1.0,100.0\ndigits,32,2,1.0,300.0\ndigits,32,4,1.0,800.0\nother,32,0,1.0,7.0\n"


@pytest.fixture
def path(tmp_path: Path) -> str:
    (tmp_path / "noise.csv").write_text(TABLE)
    return str(tmp_path / "noise.csv")


def applied(noise: TabledNoise, samples: int) -> None:
    noise.applied((make_grad(samples=samples),))


def test_the_row_of_the_step_that_has_been_reached(path: str) -> None:
    """A step is an update of the global batch of 12: two updates of half of it are one. Means of up to three rows."""
    noise = TabledNoise(phi_table=path, phi_model="digits")
    assert isinstance(noise, MeasuresNoise)
    noise.start(Started(t=0.0, workers=(0, 1), batch_samples=(6, 6), num_servers=1))
    found = [noise.phi_of(12)]
    for _ in range(9):
        applied(noise, 6)
        found.append(noise.phi_of(12))
    expected = [(100.0, 0), (100.0, 0), (100.0, 1), (100.0, 1), (200.0, 0), (200.0, 0), (200.0, 1), (200.0, 1)]
    assert found == [*expected, (400.0, 0), (400.0, 0)]
    noise.observe_event(Restored(t=1.0, version=4, workers=(0, 1)))
    assert noise.phi_of(12) == (200.0, 0), "a rollback"
    applied(noise, 24)
    assert noise.phi_of(12) == (400.0, 0)
    noise.start(Started(t=0.0, workers=(0, 1), batch_samples=(6, 6), num_servers=1))
    assert noise.phi_of(12) == (100.0, 0)


def test_star_decides_by_the_table(path: str) -> None:
    """With three times the noise from the second round on."""
    star = Star(predictor="last_value", warmup_iters=0, decision_s=0.0, phi_table=path, phi_model="digits")
    assert not star.measures
    run = HeapRun(star, make_job(global_batch_samples=512, max_time_s=20.0), [1.0, 1.0, 1.0, 4.0]).run()
    assert "phi 400 samples" in str(run.core.strategy.log_state()["decision"])


@pytest.mark.parametrize(
    ("text", "settings", "words"),
    [
        (TABLE, {"phi_model": "vgg"}, "phi_model=vgg: is not in the table of the noise scale, which has digits, other"),
        (TABLE, {"phi": 300.0, "phi_model": "digits"}, "phi=300 is given, too; set phi=null for the table"),
        (None, {"phi_model": "digits"}, r"cannot be read \(no such file or directory\); make one with scripts/"),
        ("", {"phi_model": "digits"}, "has no rows; make one with scripts/fitting/profile_noise.py"),
        (f"{HEAD}\ndigits,32,0,nan,1\n", {"phi_model": "digits"}, "line 2 is not model"),
    ],
)
def test_what_is_no_table_is_refused(text: Any, settings: dict[str, Any], words: str, tmp_path: Path) -> None:
    path = tmp_path / "noise.csv"
    if text is not None:
        path.write_text(text)
    with pytest.raises(ValueError, match=words) as caught:
        Star(phi_table=str(path), **settings)
    assert str(caught.value).startswith(("phi_table=", "phi_model="))
    assert "\n" not in str(caught.value)
