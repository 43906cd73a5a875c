"""Back up a home, restore or import packs, and move everything to another store."""

from __future__ import annotations

import os

from forestay.base import files
from forestay.journal import backup, move, pack, restore
from forestay.journal.topics import HomeTopic
from forestay.mirror.session_files import write_files

TYPE_CHECKING = False
if TYPE_CHECKING:
    import builtins

    from forestay.journal.backup import BackupResult
    from forestay.journal.move import MoveResult, OnPart
    from forestay.journal.restore import ImportResult


class Backups(HomeTopic):
    """Copies of everything in this home, each in one file."""

    def list(self) -> builtins.list[str]:
        """Return the files of this home's own backups."""
        return backup.own_backups(self._context.store.home)

    @property
    def folder(self) -> str:
        """The folder of this home's own backups."""
        return os.path.join(self._context.store.home, files.BACKUPS)

    def create(self, folder: str = "") -> BackupResult:
        """Write everything into one pack, in the home's own backups or in `folder`."""
        target = os.path.abspath(folder) if folder else self.folder
        most = None if folder else self._context.settings.backup_keep
        return backup.save(self._context.store, target, clock=self._context.clock, keep=most)

    def restore(self, path: str) -> ImportResult:
        """Merge a backup into this home; nothing is replaced.

        In a folder of backups, the newest one is used. What cannot be merged is left out and
        reported. A new session in this home belongs to no project until it is resumed or chosen
        in one.
        """
        outcome = restore.combine_results(
            restore.absorb(self._context.journal, part, limits=pack.OWN, partial=True)
            for part in backup.newest_packs(path)
        )
        self._write_merged(outcome)
        return outcome

    def import_(self, path: str) -> ImportResult:
        """Merge a pack from another person into this home: all of it, or nothing.

        New sessions in this home belong to the project of this folder. A sealed pack is opened
        by the keys of this device and its device group, or by its passphrase.
        """
        from forestay.sync import sealed_export

        outcome = restore.absorb(
            self._context.journal, sealed_export.opened(self._context, path), foreign=True
        )
        new = [one.session for one in outcome.sessions if one.new]
        if new:
            self._context.best_effort(lambda: self._context.workspace.claim(new))
        self._write_merged(outcome)
        return outcome

    def _write_merged(self, outcome: ImportResult) -> None:
        """Update the bound files of sessions that gained events."""
        for merged in outcome.sessions:
            if merged.new:
                write_files(self._context, merged.session)

    def move(
        self,
        to: str = "",
        *,
        dry_run: bool = False,
        unseal: bool = False,
        on_part: OnPart | None = None,
    ) -> MoveResult:
        """Copy this store into another, compare them, and seal this one with a pointer to it.

        `to` is a URL: `postgresql://…`, `sqlite:PATH`, or `sqlite:` for the database of the home.
        A move that was interrupted is finished by the same call; `unseal` undoes it.
        `on_part` is called with what is being done, how much of it is done, and the total.
        """
        self._context.close()
        source = self._context.open_store(self._context.settings.store, sealed=True)
        target = self._context.open_store(to, sealed=True) if to else source
        try:
            if unseal:
                return move.break_seal(source)
            return move.move(source, target, dry_run=dry_run, on_part=on_part)
        finally:
            source.close()
            target.close()
