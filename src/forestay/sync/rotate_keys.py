"""Replace the keys of a session if a removed member or device may hold them.

This happens without a push, too. Whether it is due is decided from remembered facts, without any
request. New packs are pulled first, so that the packs of a lost device are not lost: the key
change lists the packs that were there.
"""

from __future__ import annotations

from forestay.store.machine.remotes import KEY_CHANGE, UNSHARE
from forestay.sync.crypto import key_ring
from forestay.sync.pull import SessionPull
from forestay.sync.session import Exchange


class KeyRotation:
    """Replaces the keys of one session on one remote, if that is due."""

    def __init__(self, exchange: Exchange, pull: SessionPull) -> None:
        self._exchange, self._pull = exchange, pull

    def rotate_if_due(self) -> None:
        exchange, owed = self._exchange, self._exchange.noted.get(UNSHARE, {})
        if not self._is_ours() or not (owed or self._is_due()):
            return
        if exchange.plan().fetch:
            self._pull.pull()
        exchange.keys.prepare(exchange.transfer.put, exchange.transfer.clock.now())
        for group in owed:
            self._remove_member(group)
        there = exchange.there
        exchange.remember(exchange.mark(there.pushed, there.hash, there.beyond))
        if owed:
            exchange.transfer.store.machine.remotes.note(
                exchange.transfer.known, exchange.session, UNSHARE, {}
            )

    def _is_ours(self) -> bool:
        me, keys = self._exchange.transfer.identity, self._exchange.keys
        is_owned = bool(keys.epoch) and keys.owner == me.group.id
        return is_owned and me.group.is_active(me.key.id)

    def _is_due(self) -> bool:
        """Return whether the keys may be sealed to an older epoch of the user's devices."""
        sealed_to = self._exchange.noted.get(KEY_CHANGE, {}).values()
        return set(sealed_to) != {self._exchange.transfer.identity.group.epoch.recipient}

    def _remove_member(self, group_id: str) -> None:
        """Remove a member; this remote was unreachable when the user asked for it."""
        keys, transfer = self._exchange.keys, self._exchange.transfer
        now = transfer.clock.now()
        if keys.ready().member(group_id) is not None:
            keys.turn(transfer.put, now, lambda ring: key_ring.unshare(ring, group_id, made=now))
        else:
            keys.report_removal(
                transfer.put, group_id
            )  # an earlier attempt may have stopped halfway
