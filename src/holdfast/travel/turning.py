"""Turning: keys that someone who was put out may hold give way to new ones, also where there is
nothing to push.

Whether it is due is known from what is remembered of the keys, so it costs nothing where it is
not. What was not looked at yet is looked at first: what a lost device had pushed is not lost,
and the turn lists what was there.
"""

from __future__ import annotations

from holdfast.store.remotes import TURN
from holdfast.travel.exchange import Exchange
from holdfast.travel.taking import Taking


class Turning:
    """The keys of one exchange, turned if that is due."""

    def __init__(self, exchange: Exchange, taking: Taking) -> None:
        self._exchange, self._taking = exchange, taking

    def turn(self) -> None:
        exchange = self._exchange
        if not self._is_due():
            return
        if exchange.plan().fetch:
            self._taking.pull()
        exchange.keys.prepare(exchange.trip.put, exchange.trip.clock.now())
        there = exchange.there
        exchange.remember(exchange.mark(there.pushed, there.hash, there.beyond))

    def _is_due(self) -> bool:
        """Whether the keys are ours, and not known to be sealed to our devices as they are now."""
        me, keys = self._exchange.trip.identity, self._exchange.keys
        if not keys.epoch or keys.owner != me.circle.id or not me.circle.is_active(me.key.id):
            return False
        sealed_to = self._exchange.noted.get(TURN, {}).values()
        return set(sealed_to) != {me.circle.epoch.recipient}
