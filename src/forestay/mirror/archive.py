"""Move the main files of ended sessions into a format's archive, and back.

Moving a file and recording its new place are two steps. If a process dies between them, `follow`
finds the file again by the session id in it. It does the same for a file that another program
archived to begin its own session in that place; until then the place belongs to that session.
"""

from __future__ import annotations

import os
from hashlib import sha256

from forestay.base import files
from forestay.base.vocabulary import FINISHED
from forestay.errors import ForestayError, Refused
from forestay.formats.port import conventions_of, load_format
from forestay.mirror.context import MirrorContext, Suspended, parse_file, read
from forestay.store.machine.bindings import Binding


class Archive:
    def __init__(self, context: MirrorContext) -> None:
        self._context = context
        self._bindings = context.bindings

    def archive_if_ended(self, binding: Binding, status: str) -> None:
        """Archive the file of a session that has ended, if its format has an archive."""
        if conventions_of(binding.format).archive and status in FINISHED:
            try:
                self.archive(binding)
            except Refused as error:
                # An ended session has no later event that would try again, so the problem is
                # stored and reported until it is solved.
                raise Suspended(str(error), file=error.file) from error

    def archive(self, binding: Binding) -> None:
        """Move the file of a session into the archive, so that its place is free."""
        target = _archived(binding)
        if binding.place == target:
            return
        if os.path.lexists(binding.place) and not is_taken(self._context, binding):
            self.require_room(binding)
            files.make_folder(os.path.dirname(target))
            files.move(binding.place, target)
        self._bindings.move(binding, target)

    def has_ended(self, binding: Binding) -> bool:
        """Return whether the store's catalogue lists the session as ended."""
        with self._context.store.view(binding.session) as view:
            return view.listing().get("status") in FINISHED

    def is_due(self, binding: Binding) -> bool:
        """Return whether the file of an ended session still has to be archived."""
        has_archive = bool(conventions_of(binding.format).archive) and not self.is_archived(binding)
        return has_archive and self.has_ended(binding)

    def require_room(self, binding: Binding) -> None:
        """Refuse if a file cannot be moved into the archive."""
        target = _archived(binding)
        folder = os.path.dirname(target)
        files.require_no_link(folder)
        if os.path.lexists(folder) and not os.path.isdir(folder):
            raise Suspended(f"{folder} is not a folder", file=folder)
        if why := files.why_not_writable(folder) or files.why_not_writable(binding.root):
            raise Suspended(why, file=folder)
        if os.path.lexists(target) and not self._is_rendering(binding, target):
            raise Suspended(f"{target} already exists in the archive, and is not ours to replace")

    def is_archived(self, binding: Binding) -> bool:
        """Return whether the file of a session is archived."""
        return binding.place == _archived(binding)

    def may_return(self, binding: Binding) -> bool:
        """Return whether a session is archived and has not ended."""
        if not self.is_archived(binding):
            return False
        return self._context.read_facts(binding.session, binding.mirrored).status not in FINISHED

    def bring_back(self, binding: Binding) -> bool:
        """Move the file of a resumed session back if its place is free; return whether it moved."""
        if not self.may_return(binding):
            return False
        place = _current(binding)
        if self._bindings.owner(place) is not None or os.path.lexists(place):
            return False
        if os.path.lexists(binding.place):
            files.move(binding.place, place)
        self._bindings.move(binding, place)
        return True

    def is_place_of(self, binding: Binding, path: str) -> bool:
        """Return whether an archived session that has not ended would return to this path."""
        return path == _current(binding) and self.may_return(binding)

    def use_current_place(self, binding: Binding) -> None:
        """Bind an archived session to its usual place, where another program moved its file."""
        files.remove(binding.place)
        self._bindings.move(binding, _current(binding))

    def follow(self, binding: Binding) -> None:
        """Record the new place of a file that another program or a killed process moved."""
        place = self.locate(binding)
        if place != binding.place:
            self._bindings.move(binding, place)

    def locate(self, binding: Binding) -> str:
        """Return where the file of a session is now."""
        if not conventions_of(binding.format).archive:
            return binding.place
        # Comparing digests is quicker than parsing a file that we wrote.
        is_ours = self._is_rendering(binding, binding.place)
        if is_ours or (os.path.lexists(binding.place) and not is_taken(self._context, binding)):
            return binding.place
        kind, native, root = binding.format, binding.native, binding.root
        for place in (_current(binding), _archived(binding)):
            is_free = self._bindings.owner(place) is None
            if is_free and has_session_id(self._context, kind, native, root, place):
                return place
        return binding.place

    def _is_rendering(self, binding: Binding, path: str) -> bool:
        """Return whether the file at a path is one of our renderings of the main file."""
        main = load_format(binding.format).files(binding.native)[0]
        try:
            digest = sha256(read(path)).hexdigest()
        except ForestayError:
            return False
        known = self._bindings.renderings(binding).get(main, [])
        return any(rendering.digest == digest for rendering in known)


def is_taken(context: MirrorContext, binding: Binding) -> bool:
    """Return whether the file in a session's place belongs to another session."""
    named = _read_session_id(context, binding.format, binding.native, binding.root, binding.place)
    return named not in ("", binding.native)


def has_session_id(context: MirrorContext, kind: str, native: str, root: str, path: str) -> bool:
    """Return whether a file is the main file of the session with this id."""
    return _read_session_id(context, kind, native, root, path) == native


def _read_session_id(context: MirrorContext, kind: str, native: str, root: str, path: str) -> str:
    """Return the session id in a file; empty if the file does not have the format."""
    format = load_format(kind)
    main = format.files(native)[0]
    try:
        value = parse_file(main, read(path)).value
    except ForestayError:
        return ""
    return format.get(
        {main: value}, context.where(root, names=conventions_of(kind).sees_names)
    ).native_id


def _current(binding: Binding) -> str:
    return os.path.join(binding.root, load_format(binding.format).files(binding.native)[0])


def _archived(binding: Binding) -> str:
    return archived_place(binding.format, binding.native, binding.root)


def archived_place(kind: str, native: str, root: str) -> str:
    """Return a main file's path in its format's archive; empty if the format has no archive."""
    name = conventions_of(kind).archive.format(id=native)
    return os.path.join(root, name) if name else ""
