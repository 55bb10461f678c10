"""What Hydra would do in silence, or endlessly, is refused before anything starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from runtime.errors import ConfigError
from runtime.run.preflight import preflight
from tests.support.cli import ROOT
from tests.support.long_tests import rows_long_after

VIRTUAL = ("runtime=virtual", "straggler=none")


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


@pytest.mark.few(1)
@pytest.mark.parametrize("by", ["--config-dir", "hydra.searchpath"])
@pytest.mark.parametrize("chosen", ["ssp", "bsp"])
def test_a_file_of_the_user_with_a_built_in_s_name(by: str, chosen: str, tmp_path: Path) -> None:
    """Hydra reads conf/strategy/ssp.yaml instead: a bound of 99 became 3, and nobody said so."""
    mine = write(tmp_path / "strategy" / "ssp.yaml", "_target_: strategies.basic.ssp.SSP\nbound: 99\n")
    words = [by, str(tmp_path)] if by.startswith("--") else [f"{by}=[file://{tmp_path}]"]
    with pytest.raises(ConfigError) as refused:
        preflight([*words, f"strategy={chosen}"])
    shipped = ROOT / "conf" / "strategy" / "ssp.yaml"
    assert str(refused.value) == (
        f"{mine}: would never be read, since Hydra takes {shipped} for that name; give yours another name"
    )


def test_a_file_of_the_user_with_the_name_of_hydra_s(tmp_path: Path) -> None:
    mine = write(tmp_path / "hydra" / "job_logging" / "none.yaml", "version: 1\n")
    with pytest.raises(ConfigError, match=r"job_logging/none.yaml: would never be read"):
        preflight(["--config-dir", str(tmp_path)])
    mine.unlink()
    write(tmp_path / "hydra" / "launcher" / "basic.yaml", "_target_: hydra_plugins.mine.Launcher\n")
    with pytest.raises(ConfigError, match=r"^'hydra/launcher/basic' is validated against ConfigStore schema"):
        preflight(["--config-dir", str(tmp_path)])  # of this Hydra makes a warning with an empty first line


def test_files_of_the_user_with_names_of_their_own(tmp_path: Path) -> None:
    write(tmp_path / "strategy" / "mine.yaml", "_target_: strategies.basic.ssp.SSP\nbound: 99\n")
    write(tmp_path / "notes" / "ssp.yaml", "- anything\n")
    preflight(["--config-dir", str(tmp_path), "strategy=mine"])
    preflight(["--config-dir", str(ROOT / "conf")])  # the same files, not others
    write(tmp_path / "strategy" / "mine.yaml", "defaults:\n  - ssp\n  - override /nope: x\nbound: 3\n")
    with pytest.raises(ConfigError):
        preflight(["--config-dir", str(tmp_path), "strategy=mine"])


@pytest.fixture
def launcher(tmp_path: Path) -> list[str]:
    """Words that choose another launcher, as joblib's; it is not built before the jobs are checked."""
    write(tmp_path / "hydra" / "launcher" / "crowd.yaml", "_target_: hydra_plugins.crowd.CrowdLauncher\n")
    return ["--config-dir", str(tmp_path), "hydra/launcher=crowd"]


def test_another_launcher_is_refused_for_live_jobs(launcher: list[str]) -> None:
    preflight([*launcher, "-m", *VIRTUAL, "seed=0,1"])
    with pytest.raises(ConfigError, match=r"^hydra/launcher=crowd: .* runtime=live .*, or choose runtime=virtual"):
        preflight([*launcher, "-m", "seed=0,1"])
    with pytest.raises(ConfigError, match=r"^hydra/launcher=crowd: .* runtime=live "):
        preflight([*launcher, "-m", "runtime=virtual,live", "straggler=none"])


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    ("line", "message"),
    rows_long_after(
        [
            ("strategy@foo=bsp", "strategy@foo=bsp: no such setting; did you mean strategy?"),
            ("strategy@names.x=bsp seed=3", "strategy@names.x=bsp: no such setting; "),
            ("-m strategy@foo=bsp,ssp", "strategy@foo=bsp: no such setting"),
        ],
        always=2,
    ),
)
def test_a_group_at_another_place(line: str, message: str) -> None:
    """It was asked for again and again which settings there are, with the one that is not there among them."""
    with pytest.raises(ConfigError) as refused:
        preflight(line.split())
    assert message in str(refused.value)
