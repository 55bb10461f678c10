"""Reads files that others have written: within limits of size, depth and time, and executing nothing.

All other rooms may import this one; it imports none of them. A file that cannot be read raises :class:`Unreadable`,
whose message is one line without the file's name; the caller puts the name, or the setting that named the file, in
front. This room also makes texts from outside safe to print (``harmless``).
"""

from reading.errors import Unreadable

__all__ = ["Unreadable"]
