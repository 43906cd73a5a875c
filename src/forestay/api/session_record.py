"""Facts about the work of a session: commands, changed files, artifacts, tokens, errors."""

from __future__ import annotations

import os

from forestay.journal.topics import Topic
from forestay.model.event import (
    AttributeSet,
    CommandRan,
    ContextCompressed,
    ContextMeasured,
    ErrorRaised,
    FileChanged,
    SessionRenamed,
)
from forestay.workspace.file_changes import build_artifact, complete_change

TYPE_CHECKING = False
if TYPE_CHECKING:
    from forestay.base.words import Category, CommandStatus, FileAction
    from forestay.journal.recorder import Recorder
    from forestay.model.event import Event

_NO_MESSAGE = "no error message was given"


class Record(Topic):
    """Record facts about the work. Every method takes a `key`; see `Session`.

    `agent` is the one that did it; in an `AgentRun` it is that agent by default.
    """

    def __init__(self, recorder: Recorder, agent: str = "") -> None:
        super().__init__(recorder)
        self._agent = agent

    def command(
        self,
        name: str,
        *,
        arguments: str = "",
        status: CommandStatus = "success",
        duration_ms: int | None = None,
        error: str = "",
        agent: str = "",
        task: str = "",
        model: str = "",
        key: str = "",
    ) -> Event:
        """Record that a command ran and how it ended; a failure always has an error message."""
        if status == "failure" and not error:
            error = _NO_MESSAGE
        body = CommandRan(
            name=name,
            arguments=arguments,
            status=status,
            duration_ms=duration_ms,
            error=error,
            agent=agent or self._agent,
            task=task,
            model=model,
        )
        event = self._record(body, key)
        self._report_unknown_model(model)
        return event

    def file(
        self,
        path: str,
        *,
        action: FileAction | None = None,
        agent: str = "",
        added: int | None = None,
        removed: int | None = None,
        before: str = "",
        after: str = "",
        key: str = "",
    ) -> Event:
        """Record that a file changed; values that are not given are read from the file and git."""
        context, session, inside = self._context, self._recorder.id, self._inside(path)
        given = FileChanged(
            path=inside,
            action=action or "",
            agent=agent or self._agent,
            added=added,
            removed=removed,
            before=before,
            after=after,
        )
        with context.store.view(session) as view:
            known = context.journal.state(view).rows.get("file", inside)
        tree = context.workspace.tree
        body, (stamp, digest) = complete_change(given, tree, known, context.clock.now())
        event = self._record(body, key)
        # A secret was removed from the path, so the path must not be stored elsewhere either.
        if stamp and getattr(event.body, "path", "") == inside:
            full, seen = os.path.join(tree.root, inside), context.store.machine.seen_files
            context.best_effort(lambda: seen.record(session, full, stamp, digest))
        return event

    def artifact(self, path: str, *, key: str = "") -> Event:
        """Store a file's content with the session; of a file with secrets only its digest."""
        tree, find_secrets = self._context.workspace.tree, self._context.journal.find_secrets
        body, blobs = build_artifact(path, tree, find_secrets)
        return self._recorder.record(body, key=key, blobs=blobs)

    def tokens(self, count: int, *, agent: str = "", key: str = "") -> Event:
        """Record how many tokens the context (of an agent) holds now."""
        return self._record(ContextMeasured(tokens=count, agent=agent or self._agent), key)

    def compaction(self, summary: str = "", *, key: str = "") -> Event:
        """Record that the agent's context was compressed."""
        return self._record(ContextCompressed(summary=summary), key)

    def error(
        self, message: str, *, category: Category = "logical", agent: str = "", key: str = ""
    ) -> Event:
        """Record an error."""
        return self._record(
            ErrorRaised(message=message, category=category, agent=agent or self._agent), key
        )

    def model(self, name: str, *, key: str = "") -> Event:
        """Record which model works on the session."""
        event = self.attribute("model", name, key=key)
        self._report_unknown_model(name)
        return event

    def _report_unknown_model(self, name: str) -> None:
        """Report a model that the session's files cannot contain: their format allows only some."""
        machine = self._context.store.machine
        if not name or not machine.is_bound(self._recorder.id):
            return
        from forestay.formats.port import load_format  # start-up

        bindings = machine.bindings.bindings(self._recorder.id)
        for format_id in dict.fromkeys(binding.format for binding in bindings):
            if why := load_format(format_id).why_unknown_model(name):
                what = f"its {format_id} files still contain the last valid model"
                self._context.notify(f"{what}: {why}")

    def attribute(
        self, name: str, value: str | int | float | bool | None, *, key: str = ""
    ) -> Event:
        """Set an attribute of your choice."""
        return self._record(AttributeSet(key=name, value=value), key)

    def rename(self, goal: str, *, key: str = "") -> Event:
        """Change the goal of the session."""
        return self._record(SessionRenamed(goal=goal), key)
