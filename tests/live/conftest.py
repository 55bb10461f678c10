"""Every test here starts processes, and none may leave anything behind."""

from tests.leaks import leak_oracle, start  # noqa: F401
