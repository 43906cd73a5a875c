"""Turning: keys that someone who was put out may hold give way to new ones, also where there is
nothing to push.

Whether it is due is known from what is remembered of the keys, so it costs nothing where it is
not. What was not looked at yet is looked at first: what a lost device had pushed is not lost,
and the turn lists what was there.
"""

from __future__ import annotations

from forestay.store.machine.remotes import KEY_CHANGE, UNSHARE
from forestay.sync.crypto import key_ring
from forestay.sync.pull import SessionPull
from forestay.sync.session import Exchange


class KeyRotation:
    """The keys of one exchange, turned if that is due."""

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
        is_owned = bool(keys.epoch) and keys.owner == me.circle.id
        return is_owned and me.circle.is_active(me.key.id)

    def _is_due(self) -> bool:
        """Whether the keys are not known to be sealed to our devices as they are now."""
        sealed_to = self._exchange.noted.get(KEY_CHANGE, {}).values()
        return set(sealed_to) != {self._exchange.transfer.identity.circle.epoch.recipient}

    def _remove_member(self, group_id: str) -> None:
        """Put someone out of whom that was said when the remote could not be reached."""
        keys, transfer = self._exchange.keys, self._exchange.transfer
        now = transfer.clock.now()
        if keys.ready().member(group_id) is not None:
            keys.turn(transfer.put, now, lambda ring: key_ring.unshare(ring, group_id, made=now))
        else:
            keys.report_removal(transfer.put, group_id)  # nobody knows how far it came
