"""Agents that record in this home: install them, ingest their hook reports, adopt transcripts."""

from __future__ import annotations

from forestay.api.status import count_waiting
from forestay.api.values import TranscriptInfo
from forestay.journal.topics import HomeTopic, collect

TYPE_CHECKING = False
if TYPE_CHECKING:
    from forestay.agents.import_transcripts import OnPart
    from forestay.agents.ingest import Ingested
    from forestay.agents.install import Places, Plan
    from forestay.agents.spool import Discarded
    from forestay.base.words import Scope
    from forestay.journal.topics import OnEach

_QUICK = 0.05
"""Seconds that a recording command spends at most on ingesting hook reports first."""


class AgentSetup(HomeTopic):
    """Agents such as Claude Code or Codex that record their sessions in this home."""

    def waiting(self) -> int:
        """Return how many payloads of hooks are not ingested yet."""
        return count_waiting(self._context)

    def ingest(
        self, *, limit: int | None = None, seconds: float | None = None, wait: float = 0.0
    ) -> Ingested:
        """Record what hooks of agents reported: at most `limit` payloads, for about `seconds`.

        If another process is ingesting, wait for it at most `wait` seconds.
        """
        from forestay.agents.ingest import ingest

        return ingest(self._context, limit=limit, seconds=seconds, wait=wait)

    def discard(self) -> Discarded:
        """Delete payloads that could not be parsed; return how many, and their bytes."""
        from forestay.agents.spool import Spool

        return Spool(self._context.store.home).erase_aside()

    def catch_up(self) -> None:
        """Ingest waiting hook reports, for at most a fraction of a second; ignore failures."""
        if self.waiting():
            self._context.best_effort(lambda: self.ingest(seconds=_QUICK))

    def hook(self, agent: str, payload: str) -> str:
        """Return the briefing for the agent whose session-start hook sent this payload."""
        from forestay.api.session_start import brief_new_run

        return brief_new_run(self._context, agent, payload)

    def write_script(self) -> None:
        """Write the script that hooks run into the home; `install` does it too."""
        from forestay.agents import install

        install.write_script(self._places())

    def install(
        self, agent: str, scope: Scope = "user", *, tools: bool = True, dry_run: bool = False
    ) -> Plan:
        """Make an agent record its sessions in this home; `dry_run` only returns what would change.

        `scope` is "user" (all projects) or "project" (this one); `tools` adds the MCP server.
        """
        from forestay.agents import install

        return install.install(agent, scope, self._places(), tools=tools, dry_run=dry_run)

    def uninstall(self, agent: str, scope: Scope = "user", *, dry_run: bool = False) -> Plan:
        """Remove what `install` added to an agent; recorded sessions stay."""
        from forestay.agents import install

        return install.uninstall(agent, scope, self._places(), dry_run=dry_run)

    def installed(self) -> list[Plan]:
        """Return where Forestay is installed, each as the plan that would remove it."""
        from forestay.agents import install

        return install.installed(self._places())

    def _places(self) -> Places:
        from forestay.agents.install import places_here

        return places_here(self._context.settings.home, self._context.workspace.tree.root)

    def adopt_transcripts(
        self,
        agent: str,
        path: str = "",
        *,
        since: str = "",
        dry_run: bool = False,
        on_part: OnPart | None = None,
        on_adopted: OnEach[TranscriptInfo] = None,
    ) -> list[TranscriptInfo]:
        """Create sessions from the transcripts of an agent; those adopted before are skipped.

        Without a path, all that `claude-code`, `codex` or `gemini` stored are used. `since` is a
        span (`36h`, `30d`, `3w`) or a day (`2026-01-31`). `on_part` is called with the progress of
        a long transcript, `on_adopted` with the result for each.
        """
        from forestay.agents import import_transcripts

        after = import_transcripts.parse_since(since, self._context.clock.now())
        imported = import_transcripts.import_transcripts(
            self._context, agent, path, since=after, dry_run=dry_run, on_part=on_part
        )
        return collect(map(TranscriptInfo, imported), on_adopted)

    def note_desktop(self) -> None:
        """Record that Claude Desktop uses this home, also in the sync state of session files."""
        if not self._context.store.machine.remotes.is_in_desktop():
            self._context.store.machine.remotes.record_desktop()
            from forestay.mirror.session_files import SessionFiles  # start-up

            SessionFiles.of(self._context).write_sync_state()
