"""Arrays from a file of NumPy's (``.npz``): numbers and texts, never objects."""

from __future__ import annotations

import io
import zipfile
from typing import Any

import numpy as np

from reading.errors import Unreadable
from reading.files import MIB

MAX_ARRAYS_BYTES = 256 * MIB
"""Size of all arrays of a file together, unpacked."""
MAX_ARRAYS = 1000


def parse_arrays(data: bytes) -> dict[str, np.ndarray[Any, Any]]:
    """The arrays in the content of a file, by name; raises :class:`Unreadable`.

    A compressed file states its length before it is unpacked, and an array its size before memory is allocated.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as packed:
            members = packed.infolist()
            if len(members) > MAX_ARRAYS or sum(one.file_size for one in members) > MAX_ARRAYS_BYTES:
                raise Unreadable(f"holds more than {MAX_ARRAYS_BYTES // MIB} MiB or {MAX_ARRAYS} arrays")
            return {one.filename.removesuffix(".npy"): _array(packed.read(one)) for one in members}
    except Unreadable:
        raise
    except Exception:  # noqa: BLE001 (zipfile and NumPy raise a dozen kinds for broken files, struct.error among them)
        raise Unreadable("is not a file of arrays, .npz") from None


def _array(content: bytes) -> np.ndarray[Any, Any]:
    file = io.BytesIO(content)
    version = np.lib.format.read_magic(file)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, _, dtype = read(file)
    size = dtype.itemsize
    for length in shape:
        size *= length
    if dtype.hasobject or size > len(content):
        raise Unreadable("is not a file of arrays, .npz")
    file.seek(0)
    found: np.ndarray[Any, Any] = np.lib.format.read_array(file, allow_pickle=False)
    return found
