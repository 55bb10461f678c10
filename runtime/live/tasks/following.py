"""A server's replica: makes the server's updates in its order, each when it has the gradients, and takes copies.

It obeys in the server's loop (``server.py``); a copy comes over a connection of its own, read by a thread, since
gradients come meanwhile. The server's end of that is :class:`HandingOver`.
"""

from __future__ import annotations

import os
import queue
import threading
from collections import deque
from collections.abc import Iterable
from typing import NamedTuple, final

from runtime.core.vectors import FloatVector, aligned_vector
from runtime.live.tasks.datalink import DataLink
from runtime.live.tasks.store import Store
from runtime.live.transport.address import connect
from runtime.live.transport.auth import Identity, call
from runtime.live.transport.links import receive_copy
from runtime.live.transport.messages import Follow, LinkLost, Message, SendState, Update


class Copy(NamedTuple):
    """Parameters of ``version`` and, one after the other, the vectors of the optimizer's state after ``steps``."""

    version: int
    steps: int
    generation: int
    vectors: FloatVector


@final
class Following:
    """A replica's knowledge besides its parameters."""

    def __init__(self, secret: bytes, identity: Identity) -> None:
        self.secret, self.identity = secret, identity
        self.has_copy = False
        """Whether it has the parameters of a version of this generation."""
        self.wakes, self._wake = os.pipe()
        """Readable when a copy is there."""
        self._wanted: Follow | None = None
        self._done: queue.SimpleQueue[Copy | LinkLost] = queue.SimpleQueue()
        self._known: set[int] = set()
        self._unneeded: set[int] = set()
        """Gradients that may come and that no update will use."""

    def begin(self) -> None:
        """All continue from another version."""
        self.has_copy, self._wanted = False, None
        self._known.clear()
        self._unneeded.clear()

    # ---- updates -----------------------------------------------------------------------------------------------------

    def came(self, store: Store) -> list[int]:
        """Gradients that have come since the last call; those that no update uses are not in the store any more."""
        came = [grad_id for grad_id in store.grads if grad_id not in self._known]
        if unneeded := self._unneeded.intersection(came):
            store.drop(tuple(unneeded))
            self._unneeded -= unneeded
        self._known = set(store.grads)
        return came

    def unneeded(self, grads: Iterable[int], store: Store) -> None:
        """No update uses these; one that is not here may be on its way."""
        self._unneeded.update(grad_id for grad_id in grads if grad_id not in store.grads)

    def must_wait(self, update: Update, store: Store) -> bool:
        """Whether it cannot make this update yet."""
        if (apply := update.apply) is None:
            return False
        return not self.has_copy or any(grad_id not in store.grads for grad_id in apply.grads)

    # ---- copies ------------------------------------------------------------------------------------------------------

    def follow(self, order: Follow) -> None:
        """Begin with the initial parameters, or wait for a copy from the server."""
        if order.source is None:
            self.has_copy = True
            return
        self._wanted = order
        self._unneeded.update(order.overtaken)

    def fetch(self, num_floats: int) -> None:
        """Take the copy that is wanted, of so many numbers in all."""
        assert self._wanted is not None
        threading.Thread(target=self._fetch, args=(self._wanted, num_floats), name="copy", daemon=True).start()

    def _fetch(self, order: Follow, num_floats: int) -> None:
        assert order.source is not None
        me, vectors = self.identity, aligned_vector(num_floats)
        try:
            with connect(order.source) as sock:
                call(sock, self.secret, Identity(me.role, me.id, me.incarnation, order.generation))
                header = receive_copy(sock, vectors)
            self._done.put(Copy(header.version, header.ticket, header.generation, vectors))
        except OSError as error:
            self._done.put(LinkLost(generation=order.generation, reason=str(error)))
        os.write(self._wake, b"\0")

    def copied(self) -> list[Copy | LinkLost]:
        """Return what has come since the last call and is still wanted: copies, or a lost connection."""
        os.read(self.wakes, 1 << 12)
        done = [self._done.get() for _ in range(self._done.qsize())]
        return [one for one in done if isinstance(one, LinkLost) or self._is_wanted(one)]

    def _is_wanted(self, copy: Copy) -> bool:
        wanted = self._wanted
        return wanted is not None and (wanted.generation, wanted.version) == (copy.generation, copy.version)

    def take(self, copy: Copy, store: Store, waiting: deque[Message]) -> None:
        """Continue with a copy: updates that it contains do not wait any more."""
        contained = [one for one in waiting if isinstance(one, Update) and _version(one) <= copy.version]
        for update in contained:
            waiting.remove(update)
            store.drop(update.apply.grads if update.apply else ())
        store.copy(copy.version, copy.steps, copy.vectors)
        self.has_copy, self._wanted = True, None


def _version(update: Update) -> int:
    """Return the version that an update makes; one that makes none is never contained in a copy."""
    return update.apply.version if update.apply is not None else 1 << 62


@final
class HandingOver:
    """The server's copies for replicas: each goes out on the connection that the replica opens for it."""

    def __init__(self) -> None:
        self._copies: dict[int, tuple[int, Copy]] = {}
        self._links: dict[int, DataLink] = {}
        """Of replicas that wait for a copy."""

    def begin(self) -> None:
        """All connections are closed."""
        self._copies.clear()
        self._links.clear()

    def order(self, order: SendState, copy: Copy) -> DataLink | None:
        """Send this copy now, if its replica is connected; returns the link that has more to send."""
        link = self._links.pop(order.server, None)
        if link is None or link.sock.fileno() < 0 or link.identity.incarnation != order.incarnation:
            self._copies[order.server] = (order.incarnation, copy)
            return None
        self._send(link, copy)
        return link

    def greeted(self, link: DataLink) -> None:
        """A replica has connected."""
        incarnation, copy = self._copies.pop(link.identity.id, (-1, None))
        if copy is not None and incarnation == link.identity.incarnation:
            self._send(link, copy)
        else:
            self._links[link.identity.id] = link

    @staticmethod
    def _send(link: DataLink, copy: Copy) -> None:
        link.hand_over(copy.version, copy.steps, copy.generation, copy.vectors)
