"""Every test here starts processes, and none may leave anything behind."""

from tests.support.joined import apart, loopback, shared  # noqa: F401
from tests.support.leaks import leak_oracle, start  # noqa: F401
