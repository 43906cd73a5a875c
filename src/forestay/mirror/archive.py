"""Move the main files of ended sessions into a format's archive, and back.

Moving a file and recording its new place are two steps. A file that was moved without the second
step is found again (`follow`) by the id in it; so is one that another program archived to begin
its own session in that place. Until then the place is *taken* by the other session.
"""

from __future__ import annotations

import os
from hashlib import sha256

from forestay.base import files
from forestay.base.vocabulary import FINISHED
from forestay.errors import ForestayError, Refused
from forestay.formats.port import conventions_of, load_format
from forestay.mirror.context import Desk, Suspended, parsed, read
from forestay.store.machine.bindings import Binding


class Archive:
    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._bound = desk.bound

    def put_away_if_over(self, binding: Binding, status: str) -> None:
        """Archive the file of a session that has ended, if its format has an archive."""
        if conventions_of(binding.layout).archive and status in FINISHED:
            try:
                self.put_away(binding)
            except Refused as error:
                # No later event would try again: it is reported until it is solved.
                raise Suspended(str(error), file=error.file) from error

    def put_away(self, binding: Binding) -> None:
        """Move the file of a session into the archive, so that its place is free."""
        target = _archived(binding)
        if binding.place == target:
            return
        if os.path.lexists(binding.place) and not is_taken(self._desk, binding):
            self.require_room(binding)
            files.make_folder(os.path.dirname(target))
            files.move(binding.place, target)
        self._bound.move(binding, target)

    def is_over(self, binding: Binding) -> bool:
        """Return whether a session has ended, by its entry in the catalogue."""
        with self._desk.store.view(binding.session) as view:
            return view.listing().get("status") in FINISHED

    def is_owed(self, binding: Binding) -> bool:
        """Return whether a session has ended and its file is not archived yet."""
        has_archive = bool(conventions_of(binding.layout).archive) and not self.is_away(binding)
        return has_archive and self.is_over(binding)

    def require_room(self, binding: Binding) -> None:
        """Refuse if a file cannot be moved into the archive."""
        target = _archived(binding)
        _require_folder(os.path.dirname(target), binding.root)
        if os.path.lexists(target) and not self._is_rendering(binding, target):
            raise Suspended(f"{target} is in the archive already, and not ours to overwrite")

    def is_away(self, binding: Binding) -> bool:
        """Return whether the file of a session is archived."""
        return binding.place == _archived(binding)

    def may_come_back(self, binding: Binding) -> bool:
        """Return whether a session is archived and has not ended."""
        if not self.is_away(binding):
            return False
        return self._desk.told(binding.session, binding.mirrored).status not in FINISHED

    def bring_back(self, binding: Binding) -> bool:
        """Move the file of a resumed session back if its place is free; return whether it moved."""
        if not self.may_come_back(binding):
            return False
        place = _current(binding)
        if self._bound.owner(place) is not None or os.path.lexists(place):
            return False
        if os.path.lexists(binding.place):
            files.move(binding.place, place)
        self._bound.move(binding, place)
        return True

    def is_back(self, binding: Binding, path: str) -> bool:
        """Return whether a path is the place of an archived session that has not ended."""
        return path == _current(binding) and self.may_come_back(binding)

    def take_out(self, binding: Binding) -> None:
        """Use the place to which another program moved the file of an archived session."""
        files.remove(binding.place)
        self._bound.move(binding, _current(binding))

    def follow(self, binding: Binding) -> None:
        """Record where a file is that was moved without a record, or by another program."""
        place = self.whereabouts(binding)
        if place != binding.place:
            self._bound.move(binding, place)

    def whereabouts(self, binding: Binding) -> str:
        """Return where the file of a session is now."""
        if not conventions_of(binding.layout).archive:
            return binding.place
        if os.path.lexists(binding.place) and not self._is_anothers(binding):
            return binding.place
        for place in (_current(binding), _archived(binding)):
            if self._bound.owner(place) is None and self._is_session(binding, place):
                return place
        return binding.place

    def _is_anothers(self, binding: Binding) -> bool:
        # Comparing digests is quicker than parsing a file that we wrote.
        is_ours = self._is_rendering(binding, binding.place)
        return not is_ours and is_taken(self._desk, binding)

    def _is_session(self, binding: Binding, path: str) -> bool:
        """Return whether a file names this session."""
        return says_it_is(self._desk, binding.layout, binding.native, binding.root, path)

    def _is_rendering(self, binding: Binding, path: str) -> bool:
        """Return whether the file at a path is one of our renderings of the main file."""
        main = load_format(binding.layout).files(binding.native)[0]
        try:
            digest = sha256(read(path)).hexdigest()
        except ForestayError:
            return False
        known = self._bound.renderings(binding).get(main, [])
        return any(rendering.digest == digest for rendering in known)


def _require_folder(folder: str, root: str) -> None:
    """Refuse a path that is no writable folder, before anything is moved."""
    files.require_no_link(folder)
    if os.path.lexists(folder) and not os.path.isdir(folder):
        raise Suspended(f"{folder} is not a folder", file=folder)
    if why := files.why_not_writable(folder) or files.why_not_writable(root):
        raise Suspended(why, file=folder)


def is_taken(desk: Desk, binding: Binding) -> bool:
    """Return whether the file in a session's place belongs to another session."""
    named = _named(desk, binding.layout, binding.native, binding.root, binding.place)
    return named not in ("", binding.native)


def says_it_is(desk: Desk, kind: str, native: str, root: str, path: str) -> bool:
    """Return whether a file is the main file of the session with this id."""
    return _named(desk, kind, native, root, path) == native


def _named(desk: Desk, kind: str, native: str, root: str, path: str) -> str:
    """Return the session id in a file, or nothing if it is not of the format."""
    format = load_format(kind)
    main = format.files(native)[0]
    try:
        value = parsed(main, read(path)).value
    except ForestayError:
        return ""
    return format.get(
        {main: value}, desk.where(root, names=conventions_of(kind).sees_names)
    ).native_id


def _current(binding: Binding) -> str:
    return os.path.join(binding.root, load_format(binding.layout).files(binding.native)[0])


def _archived(binding: Binding) -> str:
    return archived_place(binding.layout, binding.native, binding.root)


def archived_place(kind: str, native: str, root: str) -> str:
    """Return the place in the archive for the main file of a session; empty without an archive."""
    name = conventions_of(kind).archive.format(id=native)
    return os.path.join(root, name) if name else ""
