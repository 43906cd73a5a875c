"""Read and write the contract file of a folder: which agents acknowledged the session contract.

The contract is the project's own specification if one is given, else the one shipped with Forestay.
The file has a block for every agent; an acknowledgment changes one agent's block and not one byte
of the others.
"""

from __future__ import annotations

import os

from forestay.base import files, swap_file
from forestay.base.clock import Clock
from forestay.base.text import ID_LIMIT, clean_input
from forestay.formats.ai_session import contract as form
from forestay.formats.ai_session.contract import Acknowledgment, Verdict
from forestay.mirror.edit_shared_file import amend

_LONGEST_SPEC = 1024 * 1024
_MAX_BYTES = 256 * 1024
"""The size limit of a contract file (about 300 bytes per agent): longer ones parse for seconds."""


class Contract:
    """The specification and the acknowledgments of one folder, read on demand."""

    def __init__(self, folder: str, spec: str = "", clock: Clock | None = None) -> None:
        self.path = os.path.join(folder, form.FILE)
        self._clock = clock or Clock()
        self.specification = files.read_bounded(spec, _LONGEST_SPEC) if spec else form.shipped()

    @property
    def version(self) -> str:
        return form.version_of(self.specification)

    @property
    def checksum(self) -> str:
        return form.checksum(self.specification)

    def acknowledgments(self) -> list[Acknowledgment]:
        """Return every agent's block, in the order of the file."""
        return form.parse(self._text() or "")

    def verify(self, agent: str) -> Verdict:
        """Return whether an agent has acknowledged the contract in its current form."""
        return form.verify(self._text(), agent, self.specification)

    def verify_all(self) -> dict[str, Verdict]:
        """Return the verdict for every agent in the file; if there is no agent, one under ""."""
        return form.verify_all(self._text(), self.specification)

    def summary(self) -> str:
        return form.summary(self._text(), self.specification)

    def acknowledge(self, agent: str) -> str:
        """Write the agent's block durably; return the path of the file."""
        # Check the name first: a name that is refused must not create a folder or a file.
        form.block(agent, 0, self.specification)
        clean_input(agent, "agent", limit=ID_LIMIT, lines=False)
        folder = os.path.dirname(self.path)
        files.make_folder(folder)
        now = self._clock.now()

        def acknowledged(data: bytes) -> bytes:
            return _encoded(form.put(_decoded(data), agent, now, self.specification))

        with files.locked(folder, clock=self._clock):
            swap_file.remove_leftovers(self.path)
            if self._text() is None:
                files.create(self.path, acknowledged(b""), mode=0o644)
            else:
                # Other programs write their blocks without a lock, so the file can have changed.
                amend(self.path, acknowledged, _joined)
        return self.path

    def _text(self) -> str | None:
        data = files.read_optional(self.path, _MAX_BYTES, follow=False)
        return None if data is None else _decoded(data)


def _joined(_: bytes, edit: bytes, ours: bytes) -> bytes:
    return _encoded(form.join(_decoded(edit), _decoded(ours)))


def _decoded(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
