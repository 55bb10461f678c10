"""Complete what ``pyproject.toml`` cannot say of the package: its folders, and the optional compiled parts.

An editable installation takes the folders as they are; a wheel has all of them below one name, ``stragglab``
(``scripts/packaging/packing.py``). Each ``_NAME.c`` below ``runtime/`` becomes a module beside it. Without a compiler
or Python's headers nothing fails here: jobs that need the kernel of shared machines are refused when they start, and
the Python twins of the other modules do the same as these, slower (``runtime/native.py``).
"""

import shutil
import subprocess
import sys
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_py import build_py

sys.path.insert(0, str(Path(__file__).parent))  # pip does not

from scripts.compiling import FLAGS
from scripts.packaging.packing import (
    NAME,
    as_package,
    for_hydra,
    for_package,
    in_place,
    is_shipped,
    suite,
    with_program_name,
)

ROOT = Path(__file__).parent
EDITABLE = bool({"editable_wheel", "develop", "--inplace", "-i"} & {*sys.argv})
HEADERS = [str(header) for header in sorted(Path("runtime").rglob("*.h"))]
"""All of them: a module may include headers of other folders, and who changes one compiles again anyway."""
BELOW = "" if EDITABLE else f"{NAME}."


class Packing(build_py):
    """Copies our modules, rewritten; editable, it does what setuptools does."""

    def run(self) -> None:
        """Begin with an empty folder: what an earlier build has left in it would become part of the wheel."""
        if not EDITABLE:
            shutil.rmtree(self.build_lib, ignore_errors=True)
        super().run()
        if not EDITABLE:
            self._add_program(Path(self.build_lib) / NAME)

    def find_package_modules(self, package: str, package_dir: str) -> list[tuple[str, str, str]]:
        """Leave out what is of the repository alone."""
        found = super().find_package_modules(package, package_dir)
        if EDITABLE:
            return found
        needed = suite(ROOT)
        return [one for one in found if is_shipped(f"{package}.{one[1]}".removeprefix(BELOW), needed)]

    def build_module(self, module: str, module_file: str, package: str) -> tuple[str, bool]:
        """Copy a file, and rewrite the copy."""
        place, copied = super().build_module(module, module_file, package)
        if not EDITABLE:
            _rewrite(Path(place), for_package)
        return place, copied

    def _add_program(self, folder: Path) -> None:
        shutil.copy(ROOT / "run.py", folder)
        _rewrite(folder / "run.py", for_package)
        _rewrite(folder / "conf" / "config.yaml", with_program_name)
        for path in (folder / "conf" / "hydra").rglob("*.yaml"):
            _rewrite(path, for_hydra)
        (folder / "COMMIT").write_text(_commit())


def _rewrite(place: Path, change) -> None:
    place.write_text(change(place.read_text(encoding="utf-8")), encoding="utf-8")


def _commit() -> str:
    """Return the commit of the working tree that is packed, for the records of runs; empty where there is none."""
    command = ["git", "-C", str(ROOT), "describe", "--always", "--dirty"]
    if not (ROOT / ".git").exists():
        return ""
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return ""


layout = in_place(Path()) if EDITABLE else as_package(Path())
setup(
    cmdclass={"build_py": Packing},
    packages=layout.packages,
    package_dir=layout.package_dir,
    package_data=layout.package_data,
    ext_modules=[
        Extension(
            BELOW + ".".join(source.with_suffix("").parts),
            [str(source)],
            depends=HEADERS,
            define_macros=[("HOUSE", f'"{BELOW}"')],
            extra_compile_args=FLAGS,
            optional=True,
        )
        for source in sorted(Path("runtime").rglob("_*.c"))
    ],
)
