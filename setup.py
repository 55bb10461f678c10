"""Compiles what is optional: each ``_NAME.c`` below ``runtime/`` becomes a module beside it.

Without a compiler or Python's headers nothing fails: the Python twin of each does the same, slower
(``runtime/native.py``). Everything else about the package is in ``pyproject.toml``.
"""

from pathlib import Path

from setuptools import Extension, setup

FLAGS = ["-O2", "-ffp-contract=off"]
"""Every operation is rounded by itself, as in Python: records are the same to the bit with and without."""

HEADERS = [str(header) for header in sorted(Path("runtime").rglob("*.h"))]
"""All of them: a module may include headers of other folders, and who changes one compiles again anyway."""

setup(
    ext_modules=[
        Extension(
            ".".join(source.with_suffix("").parts),
            [str(source)],
            depends=HEADERS,
            extra_compile_args=FLAGS,
            optional=True,
        )
        for source in sorted(Path("runtime").rglob("_*.c"))
    ]
)
