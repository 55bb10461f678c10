"""What TensorFlow computes, by one process for all tests of this folder that compare models."""

from __future__ import annotations

import pytest

from tests.unit.backends.tensorflow_process import BACKEND, MODELS, Computed, collect, with_dropout


@pytest.fixture(scope="session")
def computed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Computed:
    """Of the cases that will be asked for."""
    asked: dict[str, None] = {}
    for item in request.session.items:
        if item.path.name == "test_tensorflow.py" and "computed" in getattr(item, "fixturenames", ()):
            asked[BACKEND] = None
        elif item.path.name == "test_tensorflow_models.py":
            asked[MODELS] = None
            for parameter, name in item.callspec.params.items() if hasattr(item, "callspec") else ():
                asked |= dict.fromkeys([name, with_dropout(name)] if parameter == "dropping" else [name])
        elif item.path.name == "test_tensorflow_images.py" and isinstance(item, pytest.Function):
            asked |= dict.fromkeys(item.callspec.params.values() if hasattr(item, "callspec") else ())
    return collect(tmp_path_factory.mktemp("tensorflow"), asked)
