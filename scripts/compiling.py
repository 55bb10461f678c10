"""How the C sources of ``runtime/`` are compiled: the flags of ``setup.py``, and one module by itself for mutants."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sysconfig
import tempfile
from pathlib import Path

FLAGS = ["-O2", "-ffp-contract=off"]
"""Every operation is rounded by itself, as in Python: records are the same to the bit on all processors."""
SUFFIXES = (".c", ".h")


def modules_of(source: Path) -> list[Path]:
    """The modules that a C source belongs to: ``_NAME.c`` of its folder."""
    return sorted(source.parent.glob("_*.c")) if source.suffix in SUFFIXES else []


def built_of(module: Path) -> Path:
    """Where the compiled ``_NAME.c`` is."""
    return module.with_name(module.stem + str(sysconfig.get_config_var("EXT_SUFFIX")))


def compile_module(module: Path, *flags: str) -> str:
    """Compile ``_NAME.c`` into a module in its folder; returns what the compiler says if it fails, else nothing."""
    built_of(module).unlink(missing_ok=True)
    return _find_error("-shared", "-fPIC", *FLAGS, *flags, str(module), "-o", str(built_of(module)), "-lm")


def is_c(source: Path, text: str) -> bool:
    """Whether the modules that this source belongs to are still C with this text in its place."""
    with tempfile.TemporaryDirectory() as directory:
        folder = Path(directory, "runtime", *source.parent.parts[-2:])
        shutil.copytree(source.parents[1], folder.parent, ignore=shutil.ignore_patterns("*.so", "*.py", "__pycache__"))
        (folder / source.name).write_text(text)
        return not any(_find_error("-fsyntax-only", str(module)) for module in modules_of(folder / source.name))


def _find_error(*arguments: str) -> str:
    """Return the compiler's error if it fails, else nothing."""
    house = ['-DHOUSE=""', f"-I{sysconfig.get_path('include')}"]
    command = [*shlex.split(str(sysconfig.get_config_var("CC"))), *house, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stderr if done.returncode else ""
