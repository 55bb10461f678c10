"""The devices of this machine for ``backend.device=cuda``, found without torch and without the driver.

A call of torch may initialise the driver, and processes that are forked afterwards could not use it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from itertools import takewhile
from pathlib import Path

NODES = Path("/dev")
NODE = "nvidia[0-9]*"
VISIBLE = "CUDA_VISIBLE_DEVICES"
ORDER, BY_BUS = "CUDA_DEVICE_ORDER", "PCI_BUS_ID"
"""The order in which devices are counted: by the bus, as NVML and the device files do; CUDA's own default is by speed.
"""


def torch_cuda() -> str | None:
    """The version of CUDA that the installed torch was built for; None: for none, or there is no torch."""
    package = find_spec("torch")
    if package is None or package.origin is None:
        return None
    spec = spec_from_file_location("torch_version", Path(package.origin).with_name("version.py"))
    assert spec is not None
    assert spec.loader is not None
    found = module_from_spec(spec)
    spec.loader.exec_module(found)
    version: str | None = getattr(found, "cuda", None)
    return version


def tensorflow_cuda() -> str | None:
    """Likewise of TensorFlow, without its import."""
    package = find_spec("tensorflow")
    if package is None or package.origin is None:
        return None
    spec = spec_from_file_location("tf_build", Path(package.origin).parent / "python" / "platform" / "build_info.py")
    assert spec is not None
    assert spec.loader is not None
    found = module_from_spec(spec)
    spec.loader.exec_module(found)
    about: Mapping[str, object] = found.build_info
    return str(about.get("cuda_version", "unknown")) if about.get("is_cuda_build") else None


def num_devices(environ: Mapping[str, str] = os.environ) -> int:
    """How many devices processes of this environment may see."""
    nodes, shown = len(list(NODES.glob(NODE))), num_shown(environ)
    return nodes if shown is None else min(nodes, shown)


def num_shown(environ: Mapping[str, str] = os.environ) -> int | None:
    """How many devices ``CUDA_VISIBLE_DEVICES`` names, whether they are there or not; None: it does not say."""
    return len(_visible_devices(environ[VISIBLE])) if VISIBLE in environ else None


def name_of(device: int, environ: Mapping[str, str] = os.environ) -> str:
    """The name in ``CUDA_VISIBLE_DEVICES`` of the device that is the ``device``-th of this environment.

    Where it shows none, that is passed on: a fake device needs none. Raises ``IndexError`` if it shows fewer.
    """
    if VISIBLE not in environ:
        return str(device)
    shown = _visible_devices(environ[VISIBLE])
    return shown[device] if shown else environ[VISIBLE]


def order_of(environ: Mapping[str, str] = os.environ) -> str:
    """In which order processes of a run count devices."""
    return environ.get(ORDER, BY_BUS)


def _visible_devices(names: str) -> list[str]:
    """CUDA shows devices up to the first invalid one (CUDA's programming guide, environment variables)."""
    return list(takewhile(lambda name: name not in ("", "-1"), map(str.strip, names.split(","))))
