"""Join an imported session with the copy that its owner now shares on a remote.

Two copies are the same session if they have the same first event, in a pack that the owner signed.
Anyone who can write to a remote can offer a place under any session id. Therefore a session is
joined automatically only if it has no events of this user. Otherwise the user has to ask for it
(`forestay sync --join`).
"""

from __future__ import annotations

from collections.abc import Sequence

from forestay.errors import ForestayError, NoSession, Unreachable
from forestay.journal.projections import as_sealed
from forestay.model import event as ev
from forestay.store.machine.remotes import LEFT
from forestay.sync.pack_codec import load
from forestay.sync.remotes import object_names
from forestay.sync.remotes.port import Object
from forestay.sync.session_keys import SessionKeys
from forestay.sync.transfer import Transfer


class SessionJoin:
    """One session of this home, and a place on the remote that may hold the same session."""

    def __init__(
        self, transfer: Transfer, session: str, place: str, listed: Sequence[Object]
    ) -> None:
        self._transfer, self._session, self._place = transfer, session, place
        self._listed = {one.name: one.size for one in listed}
        self.owner = ""
        """The fingerprint of the person who shares the session."""

    def is_same(self) -> bool:
        """Return whether the place holds the session that was imported here without an owner."""
        mine = self._transfer.identity.group.id
        if self._transfer.remotes.owner(self._session) not in ("", mine):
            return False
        try:
            with self._transfer.store.view(self._session) as view:
                (first,) = map(as_sealed, view.events(limit=1))
            device = ev.parse_header(first.header).device
            if device in self._transfer.own:
                return False  # started here: no other person owns it
            me, get = self._transfer.identity, self._transfer.get
            keys = SessionKeys(me, self._session, self._listed, get=get, place=self._place)
            ring, chain = keys.ready(), keys.chain(device)
            owner, self.owner = ring.owner.id, ring.owner.fingerprint
            packs = filter(None, map(object_names.as_pack, self._listed))
            for name in (one for one in packs if one.chain == chain and one.first == 1):
                claim, body = keys.open(name, data := get(name.name))
                row, _ = load(body)
                if object_names.is_of(name.name, data) and row.hashes[0] == first.hash:
                    return (claim.circle, claim.device) == (owner, device)
            return False
        except Unreachable:
            raise
        except ForestayError:
            return False

    def has_own(self) -> bool:
        """Return whether this user recorded events in the session."""
        try:
            with self._transfer.store.view(self._session) as view:
                chains = set(self._transfer.journal.state(view).core.chains)
        except NoSession:
            return False
        known, mine = self._transfer.remotes.owners(self._session), self._transfer.identity.group.id
        return any(one in self._transfer.own or known.get(one) == mine for one in chains)

    def join(self) -> None:
        """Use the owner's place from now on; drop what is stored about the former place."""
        remotes, known = self._transfer.remotes, self._transfer.known
        before = remotes.session(known, self._session)
        left = [one.name for one in remotes.objects(known, self._session)]
        remotes.leave_place(known, self._session)
        if before is not None:
            remotes.note(known, self._session, LEFT, dict.fromkeys([before.place, *left], ""))
