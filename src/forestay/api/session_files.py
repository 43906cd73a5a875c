"""The files of a session: those bound to it in other programs' formats, and its artifacts."""

from __future__ import annotations

from forestay.errors import InvalidInput
from forestay.journal.topics import Topic
from forestay.mirror.session_files import SessionFiles, absorb_file_edits, mirror_of, write_files

TYPE_CHECKING = False
if TYPE_CHECKING:
    import builtins

    from forestay.mirror.recover import Case
    from forestay.model.event import Body, Event
    from forestay.model.state import State
    from forestay.store.machine.bindings import Binding
    from forestay.sync.arrival import Put

    Bodies = list[Body]


class BoundFiles(Topic):
    """Files of the session in other programs' formats, synchronized with its journal."""

    def list(self) -> builtins.list[Binding]:
        """Return the bindings of the session, with the reason if one is suspended."""
        return SessionFiles.of(self._context).inspect_bindings(self._recorder.id)

    def bind(self, format_id: str, *, root: str = "") -> Binding:
        """Write the session's files into the project in a format: `craft`, or `craft:ID`."""
        from forestay.formats.port import canonical_name
        from forestay.plans.pending_file_ops import give_place

        mirror, format_id = mirror_of(self._context), canonical_name(format_id)
        with mirror.hold_projects(root or mirror.root_of(format_id.partition(":")[0])):
            place = give_place(self._context, self._recorder.id, format_id, root)
            write_files(self._context, self._recorder.id, force=True)
        key = (place.format, place.native, place.root)
        return next((b for b in self.list() if (b.format, b.native, b.root) == key), place)

    def unbind(self, format_id: str) -> builtins.list[Binding]:
        """Stop reading and writing the files of a format; the files stay unchanged."""
        from forestay.formats.port import canonical_name

        kind, _, native = canonical_name(format_id).partition(":")
        found = [b for b in self.list() if b.format == kind and native in ("", b.native)]
        for binding in found:
            mirror_of(self._context).unbind(binding)
        return found

    def restore(self, format_id: str = "") -> builtins.list[Case]:
        """Write damaged or missing files of the session again; damaged bytes are set aside."""
        from forestay.formats.port import canonical_name, require_known
        from forestay.mirror import recover

        if format_id:
            require_known(format_id := canonical_name(format_id))
        cases = recover.cases(self._context, self._recorder.id)
        done = [
            recover.restore(self._context, case) for case in cases if format_id in ("", case.format)
        ]
        write_files(self._context, self._recorder.id, force=True)
        return done

    def update(self, *, task: str = "", model: str = "", status: str = "", key: str = "") -> Event:
        """Set the current task (`none`: no task), the model or the status, together.

        `status` is active, paused or completed. A session with files of the ai-session format
        can only have the models of that format.
        """
        named = [b.native for b in self.list() if b.format == "ai-session"]
        try:
            bodies = self._update_bodies(task, model, status, bound=bool(named))
        except InvalidInput as error:
            error.session = next(iter(named), self._recorder.id)
            raise
        return self._recorder.record(*bodies, key=key)

    def _update_bodies(self, task: str, model: str, status: str, *, bound: bool) -> Bodies:
        from forestay.formats.ai_session.write import refuses
        from forestay.model.event import AttributeSet

        if model and bound and (why := refuses(model)):
            raise InvalidInput(f"unknown model: {model}", why=why)
        absorb_file_edits(self._context, self._recorder.id)
        with self._context.store.view(self._recorder.id) as view:
            state = self._context.journal.state(view)
            bodies = _task_bodies(task, state)
            if model:
                bodies.append(AttributeSet(key="model", value=model))
            bodies += _status_bodies(status, state)
        if not bodies:
            raise InvalidInput(
                "neither a task, a model nor a status is given",
                hint="forestay files update --task ID --model NAME --status WORD",
            )
        return bodies

    def restore_artifacts(self, *, force: bool = False) -> builtins.list[Put]:
        """Write the artifacts that were synced with the session into this project.

        A file that exists and differs is not changed, unless forced. Hidden files that could make
        a tool run something are never written, nor is anything outside the project.
        """
        from forestay.sync.arrival import restore

        return restore(self._recorder, force=force)

    def write_artifact(self, path: str, to: str, *, overwrite: bool = False) -> int:
        """Write the stored content of an artifact to any file; return how many bytes it has.

        Without `overwrite` that file must not exist yet.
        """
        from forestay.sync.arrival import write

        return write(self._recorder, path, to, overwrite=overwrite)


def _task_bodies(task: str, state: State) -> list[Body]:
    from forestay.model.event import AttributeSet, StepStarted

    if not task:
        return []
    row = state.step(task)
    if task == "none" and row is None:
        return [AttributeSet(key="position", value=None)]
    if row is None:
        raise InvalidInput(f"there is no task {task}", hint=f'forestay task add "…" --id {task}')
    begin: list[Body] = [] if row.status == "running" else [StepStarted(step=task)]
    return [*begin, AttributeSet(key="position", value=task)]


def _status_bodies(status: str, state: State) -> list[Body]:
    from forestay.model.event import SessionCompleted, SessionPaused, SessionResumed

    moves: dict[str, Body] = {
        "active": SessionResumed(),
        "paused": SessionPaused(),
        "completed": SessionCompleted(),
    }
    if status and status not in moves:
        raise InvalidInput(f"unknown status: {status}", why=f"it is one of {', '.join(moves)}")
    return [moves[status]] if status and status != state.core.status else []
