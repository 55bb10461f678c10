"""What ``verify`` and ``replay`` ask of a record."""
