"""Reads files that others have written: within limits of size, depth and time, and executing nothing.

All other rooms may import this one, and it knows none of them. What is not read raises :class:`Unreadable`, whose
message is one line without the file's name; whoever knows the setting or the word that named the file puts it in front.
How texts of others may be shown is here, too (``harmless``).
"""

from reading.errors import Unreadable

__all__ = ["Unreadable"]
