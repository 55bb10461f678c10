"""Cost models: worked numbers, files that load, and invalid files, refused in one line with the cure."""

from __future__ import annotations

import hashlib
import math
from pathlib import Path

import msgspec
import pytest

from runtime.errors import ConfigError
from runtime.virtual.costs import DIRECTORY, CostModel, Costs, load_costs, parse_costs, values_sha256

GOOD = """schema: 1
values: {control_s: 0.0002, link_bytes_per_s: 125000000, disk_bytes_per_s: null}
errors: {control_s: 0.00001}
runs: [bsp_0, asp_0]
machine: {cpu: Test CPU, num_cores: 2}
covered: {batch_samples: [8, 64], num_workers: [2, 8]}
"""
MB = 1_000_000


COMPUTING = Costs(compute_base_s=0.002, compute_per_sample_s=0.0001)
DATA = Costs(data_base_s=0.001, data_per_sample_s=0.00002)
MESSAGES = Costs(latency_s=0.0002, transfer_per_byte_s=1e-9, link_bytes_per_s=125e6)
"""The links' rate is the network's business."""
UPDATES = Costs(update_base_s=0.0005, update_per_byte_s=2e-10)
STAGED = Costs(compute_base_s=0.002, stage_base_s=0.0001, stage_per_byte_s=5e-10)


@pytest.mark.parametrize(
    ("found_s", "expected_s"),
    [
        (DATA.data_s(32), 0.001 + 0.00064),
        (COMPUTING.compute_s(64), 0.0084),
        (COMPUTING.compute_s(64, accum=4), 0.0144),  # each micro-batch costs its base
        (STAGED.of_model(4 * MB).compute_s(64, accum=4), 0.0101),  # copies once: 2 ms and 0.1 ms
        (Costs(ring_step_s=0.0001, ring_per_byte_s=8e-9).ring_s(4 * MB, 4), 0.0486),  # six steps of 1 MB: 8 ms, 0.1 ms
        (Costs(ring_step_s=0.0001, link_bytes_per_s=125e6).ring_s(4 * MB, 4), 0.0486),  # links of 1 Gbit/s
        (Costs(ring_step_s=0.0001, ring_per_byte_s=8e-9).ring_s(4 * MB, 1), 0.0),  # nobody to sum with
        (MESSAGES.transfer_s(0), 0.0002),
        (UPDATES.update_s(4 * MB, 1), 0.0013),
        (Costs(checkpoint_base_s=0.01).checkpoint_s(4 * MB), 0.01),
        (Costs(pending_s=10.0, launch_s=2.5).restart_s, 12.5),
        (Costs().data_s(64) + Costs().transfer_s(MB) + Costs().update_s(MB, 8) + Costs().checkpoint_s(MB), 0.0),
    ],
)
def test_what_costs_what(found_s: float, expected_s: float) -> None:
    assert found_s == pytest.approx(expected_s)


@pytest.mark.parametrize("path", sorted(DIRECTORY.glob("*.yaml")), ids=lambda path: path.stem)
def test_every_file_in_conf_is_a_model(path: Path) -> None:
    model = load_costs(path.stem)
    assert model.name == path.stem
    assert set(model.file.errors) <= set(Costs.__struct_fields__)


def test_a_cluster_changes_costs_of_any_model() -> None:
    model = load_costs("star_lstm", changes={"wait_cores": 1.0, "latency_s": 0.0})
    assert model.values == msgspec.structs.replace(load_costs("star_lstm").values, wait_cores=1.0, latency_s=0.0)
    assert (model.name, model.sha256) == ("star_lstm", values_sha256(model.values))


@pytest.mark.parametrize(
    ("changes", "says"),
    [({"wait_core": 1.0}, "wait_core"), ({"latency_s": -1.0}, "latency_s"), ({"latency_s": math.inf}, "finite")],
)
def test_a_wrong_change_of_costs_is_refused(changes: dict[str, float], says: str) -> None:
    with pytest.raises(ConfigError, match=rf"^cluster\.cost_changes: .*{says}"):
        load_costs("star_lstm", changes=changes)


def written(path: Path, text: str) -> CostModel:
    path.write_text(text)
    return load_costs(str(path))


def test_the_fingerprint_is_that_of_the_values_whatever_else_is_written(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    first = written(file, "schema: 1\nvalues: {control_s: 0.5, latency_s: 1}\n")
    for text in (
        "# A comment.\nschema: 1\nvalues: {control_s: 0.5, latency_s: 1}\n",
        "schema: 1\nvalues: {latency_s: 1.0, control_s: 5.0e-1, update_base_s: 0.0}\nruns: [a]\n",
    ):
        assert written(file, text).sha256 == first.sha256
    others = ("{control_s: 0.5}", "{control_s: 0.5, latency_s: 2}", "{latency_s: 0.5, control_s: 1}")
    found = {written(file, f"schema: 1\nvalues: {values}\n").sha256 for values in others}
    assert len({first.sha256, *found}) == 4


def test_records_that_name_a_file_by_its_bytes_are_of_it_too(tmp_path: Path) -> None:
    file, values = tmp_path / "mine.yaml", "schema: 1\nvalues: {control_s: 0.5}\n"
    model = written(file, values)
    old = f"mine {hashlib.sha256(values.encode()).hexdigest()[:8]}"
    assert model.is_of(model.known_as)
    assert model.is_of(f"{model.known_as}, extrapolated")
    assert model.is_of(old)
    assert not model.is_of(None)
    assert not written(file, "schema: 1\nvalues: {control_s: 0.25}\n").is_of(old)


def test_a_name_from_before_holds_as_long_as_the_values_do(tmp_path: Path) -> None:
    file, values = tmp_path / "mine.yaml", "schema: 1\nvalues: {control_s: 0.5}\n"
    own = written(file, values).sha256
    before = f"formerly: {{values_sha256: {own}, file_sha256: {'a' * 64}}}\n"
    assert written(file, values + before).known_as == "mine aaaaaaaa"
    assert written(file, f"# Another comment.\n{values}{before}").known_as == "mine aaaaaaaa"
    changed = written(file, values.replace("0.5", "0.25") + before)
    assert changed.sha256 not in (own, "a" * 64)


def refusal(data: bytes) -> str:
    """What is said about a file's content."""
    with pytest.raises(ConfigError) as caught:
        parse_costs(data, "mine")
    message = str(caught.value)
    assert message.startswith("cluster.costs=mine: ")
    assert "\n" not in message
    return message


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is not a cost model; python run.py calibrate writes them"),
        ("schema: 1\nmetric: accuracy\npoints: []", "is not a cost model; python run.py calibrate writes them"),
        ("a: [", "content); python run.py calibrate writes cost models"),
        ("a: b: c", "is not a YAML file"),
        ("[" * 1000, "line 1: is nested more than 64 deep"),
        (GOOD.replace("schema: 1", "schema: 2"), "schema=2: must be one of 1"),
        (GOOD.replace("schema: 1\n", ""), "schema: missing"),
        (GOOD.replace("values: {", "values: [").replace("null}", "null]"), "values="),
        (GOOD + "extra: 1\n", "extra: no such setting"),
        (GOOD.replace("0.0002", "86401"), "values.control_s=86401: must be at most 86400"),
        (GOOD.replace("0.0002", ".nan"), "values.control_s=nan: must be a finite number"),
        (GOOD.replace("0.0002", ".inf"), "values.control_s=inf: must be a finite number"),
        (GOOD.replace("0.0002", "0.0002, jitter_rho: 1"), "values.jitter_rho=1: must be less than 1"),
        (GOOD.replace("0.0002", "0.0002, jitter_sigma: 4"), "values.jitter_sigma=4: must be at most 3"),
        (GOOD.replace("[8, 64]", "[8]"), "covered.batch_samples"),
    ],
)
def test_a_file_of_no_use_is_refused_in_one_line(text: str, said: str) -> None:
    assert said in refusal(text.encode())


def test_a_missing_file_names_those_that_exist(tmp_path: Path) -> None:
    for name in ("mine", str(tmp_path / "mine.yaml"), str(tmp_path)):
        with pytest.raises(ConfigError, match=r"^cluster\.costs=.*: cannot be read \(.*\); there are .*ideal, .*path$"):
            load_costs(name)
    (tmp_path / "lab.yaml").write_text(GOOD)
    with pytest.raises(ConfigError, match="there are lab, or give a path"):
        load_costs("mine", tmp_path)


@pytest.mark.parametrize(
    ("batch_samples", "num_workers", "beyond"),
    [(8, 2, False), (64, 8, False), (32, 4, False), (7, 4, True), (65, 4, True), (32, 1, True), (32, 9, True)],
)
def test_beyond_the_calibrated_runs_it_extrapolates(
    batch_samples: int, num_workers: int, beyond: bool, tmp_path: Path
) -> None:
    (tmp_path / "mine.yaml").write_text(GOOD)
    assert load_costs("mine", tmp_path).extrapolates(batch_samples, num_workers) is beyond
