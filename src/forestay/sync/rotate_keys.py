"""Turning: keys that someone who was put out may hold give way to new ones, also where there is
nothing to push.

Whether it is due is known from what is remembered of the keys, so it costs nothing where it is
not. What was not looked at yet is looked at first: what a lost device had pushed is not lost,
and the turn lists what was there.
"""

from __future__ import annotations

from forestay.store.machine.remotes import TURN, UNSHARE
from forestay.sync.crypto import key_ring as rings
from forestay.sync.pull import SessionPull
from forestay.sync.session import Exchange


class Turning:
    """The keys of one exchange, turned if that is due."""

    def __init__(self, exchange: Exchange, taking: SessionPull) -> None:
        self._exchange, self._taking = exchange, taking

    def turn(self) -> None:
        exchange, owed = self._exchange, self._exchange.noted.get(UNSHARE, {})
        if not self._is_ours() or not (owed or self._is_due()):
            return
        if exchange.plan().fetch:
            self._taking.pull()
        exchange.keys.prepare(exchange.trip.put, exchange.trip.clock.now())
        for circle in owed:
            self._put_out(circle)
        there = exchange.there
        exchange.remember(exchange.mark(there.pushed, there.hash, there.beyond))
        if owed:
            exchange.trip.store.machine.remotes.note(
                exchange.trip.known, exchange.session, UNSHARE, {}
            )

    def _is_ours(self) -> bool:
        me, keys = self._exchange.trip.identity, self._exchange.keys
        is_owned = bool(keys.epoch) and keys.owner == me.circle.id
        return is_owned and me.circle.is_active(me.key.id)

    def _is_due(self) -> bool:
        """Whether the keys are not known to be sealed to our devices as they are now."""
        sealed_to = self._exchange.noted.get(TURN, {}).values()
        return set(sealed_to) != {self._exchange.trip.identity.circle.epoch.recipient}

    def _put_out(self, circle: str) -> None:
        """Put someone out of whom that was said when the remote could not be reached."""
        keys, trip = self._exchange.keys, self._exchange.trip
        now = trip.clock.now()
        if keys.ready().member(circle) is not None:
            keys.turn(trip.put, now, lambda ring: rings.unshare(ring, circle, made=now))
        else:
            keys.tell_end(trip.put, circle)  # nobody knows how far it came
