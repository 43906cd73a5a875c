"""Archive: where a layout keeps the main files of ended sessions, and the way there and back.

The move and the note of it are two steps. A file that was moved before we could note it is found
again (`follow`) by what it says.
"""

from __future__ import annotations

import os
from hashlib import sha256

from holdfast import files
from holdfast.choice import FINISHED
from holdfast.errors import HoldfastError
from holdfast.layout.customs import custom
from holdfast.mirror.desk import Desk, Suspended, lens_of, parsed, read
from holdfast.store.bound import Binding


class Archive:
    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._bound = desk.bound

    def put_away_if_over(self, binding: Binding, status: str) -> None:
        """A layout with an archive keeps ended sessions there; disputed ones are not ended."""
        if custom(binding.layout).archive and status in FINISHED:
            self.put_away(binding)

    def put_away(self, binding: Binding) -> None:
        """Move the file of a session to where its layout keeps older ones; its place is free."""
        target = _archived(binding)
        if binding.place == target:
            return
        if os.path.lexists(binding.place):
            files.require_no_link(os.path.dirname(target))
            self._require_no_other(binding, target)
            files.make_folder(os.path.dirname(target))
            files.move(binding.place, target)
        self._bound.move(binding, target)

    def is_away(self, binding: Binding) -> bool:
        """Whether the file of a session is where its layout keeps older ones."""
        return binding.place == _archived(binding)

    def bring_back(self, binding: Binding) -> bool:
        """A session that goes on gets its place back, if nobody has it; True if it was moved."""
        if not self.is_away(binding):
            return False
        if self._desk.told(binding.session, binding.mirrored).status in FINISHED:
            return False
        place = _current(binding)
        if self._bound.owner(place) is not None or os.path.lexists(place):
            return False
        if os.path.lexists(binding.place):
            files.move(binding.place, place)
        self._bound.move(binding, place)
        return True

    def follow(self, binding: Binding) -> None:
        """Find a file again that was moved before we could note it."""
        if not custom(binding.layout).archive or os.path.lexists(binding.place):
            return
        for place in (_current(binding), _archived(binding)):
            if self._bound.owner(place) is None and self._is_session(binding, place):
                self._bound.move(binding, place)
                return

    def _is_session(self, binding: Binding, path: str) -> bool:
        """Whether a file says that it is of this session."""
        return says_it_is(self._desk, binding.layout, binding.native, binding.root, path)

    def _require_no_other(self, binding: Binding, target: str) -> None:
        if os.path.lexists(target) and not self._is_rendering(binding, target):
            raise Suspended(f"{target} is in the archive already, and not ours to write over")

    def _is_rendering(self, binding: Binding, path: str) -> bool:
        """Whether the main file as we once wrote it is under this path."""
        main = lens_of(binding.layout).files(binding.native)[0]
        try:
            digest = sha256(read(path)).hexdigest()
        except HoldfastError:
            return False
        known = self._bound.renderings(binding).get(main, [])
        return any(rendering.digest == digest for rendering in known)


def says_it_is(desk: Desk, kind: str, native: str, root: str, path: str) -> bool:
    """Whether a file says that it is the main one of a session with an id."""
    lens = lens_of(kind)
    main = lens.files(native)[0]
    try:
        value = parsed(main, read(path)).value
    except HoldfastError:
        return False
    said = lens.get({main: value}, desk.where(root, names=custom(kind).sees_names))
    return said.native_id == native


def _current(binding: Binding) -> str:
    return os.path.join(binding.root, lens_of(binding.layout).files(binding.native)[0])


def _archived(binding: Binding) -> str:
    name = custom(binding.layout).archive.format(id=binding.native)
    return os.path.join(binding.root, name) if name else ""
