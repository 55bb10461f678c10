"""How the C sources of ``runtime/`` are compiled: the flags of ``setup.py``, and one module by itself for mutants."""

from __future__ import annotations

import shlex
import subprocess
import sysconfig
from pathlib import Path

FLAGS = ["-O2", "-ffp-contract=off"]
"""Every operation is rounded by itself, as in Python: records are the same to the bit on all processors."""
SUFFIXES = (".c", ".h")


def modules_of(source: Path) -> list[Path]:
    """The modules that a C source belongs to: ``_NAME.c`` of its folder."""
    return sorted(source.parent.glob("_*.c")) if source.suffix in SUFFIXES else []


def compile_module(module: Path) -> str:
    """Compile ``_NAME.c`` into a module in its folder; returns what the compiler says if it fails, else nothing."""
    about = sysconfig.get_config_vars()
    target = module.with_name(module.stem + about["EXT_SUFFIX"])
    house = ['-DHOUSE=""', f"-I{sysconfig.get_path('include')}"]
    command = [*shlex.split(about["CC"]), "-shared", "-fPIC", *FLAGS, *house, str(module), "-o", str(target), "-lm"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stderr if done.returncode else ""
