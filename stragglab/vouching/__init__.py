"""The questions of ``verify`` and ``replay`` to a record."""
