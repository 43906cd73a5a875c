"""Proofs: run a command, record its result, and check whether the result still holds.

A *proof* has a name (a field of a gate, or its topic) and can belong to a step; a new proof of the
same name replaces the old one. Its *inputs* are files named by patterns (see `input_digests`). It
is *stale* if they have changed since the command started, which is computed when needed and never
stored. A proof without inputs cannot become stale.

While the command runs this process is a holder of the session: if it dies, the next reader sees
what was running and that the outcome is unknown.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from forestay.base import files
from forestay.base.clock import derived_id, iso
from forestay.base.config import child_environment, user_environment
from forestay.base.hashing import digest_of
from forestay.base.text import ID_LIMIT, clean_id, coerce_input, shorten, terminal
from forestay.base.value import Value
from forestay.errors import Busy, ForestayError, InvalidInput, Refused
from forestay.journal.context import Context
from forestay.journal.presence import Presence
from forestay.journal.recorder import Recorder
from forestay.journal.topics import Topic
from forestay.model.event import Event, EvidenceObserved
from forestay.model.state import UNITS, Proof, State, Step, number_of
from forestay.plans import input_digests, run_command
from forestay.plans.run_command import Sink, Stop
from forestay.workspace import tree as workspace_tree

TYPE_CHECKING = False
if TYPE_CHECKING:
    import builtins
    from datetime import datetime

    from forestay.base.words import ProofState

MAX_COMMAND = 6000
MAX_TIMEOUT = 7 * 24 * 3600
_TAIL = 2000
_DOING = 200
_LOCKS = "proving"
"""A folder of the home with a lock file for each key under which a command is running."""
_PATIENCE = 10.0


class Wanted(Struct, frozen=True):
    """A command to run, the name of its proof, and its inputs."""

    proof: str
    argv: list[str]
    step: str = ""
    globs: list[str] = []
    timeout: float | None = None
    folder: str = ""


class Standing(Struct, frozen=True):
    """A proof and whether it holds now; `stale` is None if that is unknown.

    `why` lists what differs: (path, "changed" | "missing" | "new"), or a reason in words.
    """

    row: Proof
    stale: bool | None = False
    why: list[tuple[str, str]] = []

    @property
    def word(self) -> str:
        """`failed`, `stale`, `fresh`, `not checked`, or `passed` for one without inputs."""
        if not self.row.passed:
            return "failed"
        if self.stale is None:
            return "not checked"
        return "stale" if self.stale else "fresh" if self.row.globs else "passed"


class ChangedInput(Value):
    """A file by which a proof became stale; `what` is "changed", "missing", "new" or a reason."""

    path: str
    what: str


class ProofInfo(Value):
    """A command that was run as a proof, and whether its result still holds.

    `stale` is None if that is unknown, `at` is when it ended.
    """

    proof: str
    phase: str
    passed: bool
    argv: list[str]
    exit: int
    duration_ms: int
    timed_out: bool
    interrupted: bool
    changed: bool
    tail: str
    inputs: list[str]
    files: int
    output: str
    state: ProofState
    stale: bool | None
    because: list[ChangedInput]
    at: datetime

    @property
    def holds(self) -> bool:
        """Whether a gate can rely on it: it passed, and is not known to be stale."""
        return self.passed and self.stale is False


class Rerun(NamedTuple):
    """A proof that was run again: its state before, and the event of its new result."""

    before: ProofInfo
    event: Event


def result_to_json(body: Any) -> dict[str, Any]:
    """Return the result of a command that was run as proof, from its event or its row."""
    names = ("argv", "exit", "duration_ms", "timed_out", "interrupted", "changed", "tail")
    return {
        "proof": body.proof,
        "phase": body.step,
        "passed": not (body.exit or body.timed_out or body.interrupted),
        **{name: getattr(body, name) for name in names},
        "inputs": list(body.globs),
        "files": body.files,
        "output": body.output,
    }


def _describe(one: Standing) -> ProofInfo:
    why = [{"path": path, "what": word} for path, word in one.why]
    known = {"state": one.word, "stale": one.stale, "because": why, "at": iso(one.row.at)}
    return ProofInfo({**result_to_json(one.row), **known})


class Proofs(Topic):
    """Proofs: commands that were run, with how they ended and which files they depend on."""

    def list(self) -> builtins.list[ProofInfo]:
        """Return every proof and whether it still holds; all of its input files are read."""
        return [_describe(one) for one in standings(self._recorder)]

    def run(
        self,
        argv: Sequence[str],
        *,
        phase: str = "",
        name: str = "",
        inputs: Sequence[str] = (),
        timeout: float | None = None,
        sink: Sink | None = None,
        stop: Stop | None = None,
        key: str = "",
    ) -> Event:
        """Run a command without a shell and record how it ended, also if it fails.

        `name` is what it proves; `inputs` are patterns of files: once they change, the proof is
        stale. Its output is passed to `sink` as it arrives. The command is ended when `stop`,
        called from time to time, returns true. One that cannot be started raises `InvalidInput`,
        and nothing is recorded. With a `key` that was used before nothing is run; while another
        process runs it under the same key, the call waits for a while, then raises `Busy`.
        """
        if not argv or not argv[0]:
            raise InvalidInput("there is no command to run", hint="forestay prove -- make lint")
        _require_timeout(timeout)
        if sum(len(word.encode()) + 3 for word in (*argv, *inputs)) > MAX_COMMAND:
            raise InvalidInput(
                "the command is too long to be stored",
                why=f"with its inputs at most {MAX_COMMAND:,} bytes",
                hint="put it into a script, and make that one of the inputs",
            )
        context, session = self._context, self._recorder
        with context.store.view(session.id) as view:
            step = _step(context.journal.state(view), phase)
        folder = workspace_tree.relative(context.folder, context.workspace.tree.root)
        wanted = Wanted(
            proof=clean_id(name, "the name of a proof") if name else _named(_kept(session, argv)),
            argv=[*argv],
            step=step,
            globs=input_digests.checked(inputs),
            timeout=timeout,
            folder=folder.removeprefix("."),
        )
        if not key or _is_used(session, key):
            return _prove(session, wanted, sink, stop, key)
        with _hold_key(session, wanted, key):
            return _prove(session, wanted, sink, stop, key)

    def run_again(
        self, *, all: bool = False, timeout: float | None = None, sink: Sink | None = None
    ) -> Iterator[Rerun]:
        """Run stale and failed proofs again, or `all`; each runs when the iterator reaches it.

        If a proof cannot be run again, `Refused` is raised after all others have run.
        """
        _require_timeout(timeout)
        found = [(one.row, _describe(one)) for one in standings(self._recorder)]
        due = [(row, info) for row, info in found if all or not info.holds]
        for row, info in due:
            if not row.again:
                continue
            what = Wanted(row.proof, row.argv, row.step, row.globs, timeout, row.folder)
            event = _prove(self._recorder, what, sink, None, "")
            yield Rerun(info, event)
            if isinstance(event.body, EvidenceObserved) and event.body.interrupted:
                return
        for row, _ in due:
            if not row.again:
                raise Refused(
                    f"{row.proof} cannot be run again",
                    why="a secret was removed from its command before it was stored",
                    hint=f"run it as before: forestay prove --as {row.proof} -- …",
                )


# -- running -----------------------------------------------------------------------------------


def _require_timeout(timeout: float | None) -> None:
    if timeout is not None and not 0 < timeout <= MAX_TIMEOUT:
        why = f"it must be above 0 and at most {MAX_TIMEOUT:,}"
        raise InvalidInput(f"the timeout cannot be {timeout:g} seconds", why=why)


def _step(state: State, phase: str) -> str:
    """Return the step of a proof: a named phase or task, else the current phase."""
    if not phase:
        rows = state.rows.select("step", open_only=True, newest=True)
        at_work = [r for r in rows if isinstance(r, Step) and number_of(r.id) is not None]
        return next((row.id for row in at_work if row.status == "running"), "")
    named = [f"{unit}-{phase}" for unit in UNITS] if phase.isdigit() else []
    return next((id for id in (*named, phase) if state.step(id) is not None), phase)


def _named(argv: Sequence[str]) -> str:
    """Return a name for a proof, made from its command: `make-lint`."""
    words = [os.path.basename(argv[0]), *(w for w in argv[1:3] if not w.startswith("-"))]
    plain = "-".join(re.sub(r"[^A-Za-z0-9]+", "-", word).strip("-") for word in words)
    return plain[:ID_LIMIT].strip("-") or "proof"


@contextmanager
def _hold_key(session: Recorder, what: Wanted, key: str) -> Iterator[None]:
    """Hold the lock of a key while its command runs; raise `Busy` if another process has it."""
    context = session.context
    path = os.path.join(context.store.home, _LOCKS, derived_id(session.id.lower(), key))
    files.make_private_dir(os.path.dirname(path))
    lock = files.locked(path, timeout=_PATIENCE, clock=context.clock, private=True)
    try:
        lock.__enter__()
    except Busy:
        raise Busy(
            f"another process is running {what.proof} under this key",
            why="nothing was run",
            hint="repeat the call with the same key: it returns when that process has ended",
        ) from None
    try:
        yield
        # Not after a failure: a waiting process would then lock a file that others no longer see.
        files.remove(path)
    finally:
        lock.__exit__()


def _prove(
    session: Recorder, what: Wanted, sink: Sink | None, stop: Stop | None, key: str
) -> Event:
    """Run a command and record how it ended, unless its key was used before."""
    context = session.context
    names = context.journal.find_secrets(shlex.join(what.argv))
    # The redacted event, with what is known before the command runs.
    probe = EvidenceObserved(
        proof=what.proof,
        argv=_kept(session, what.argv),
        exit=0,
        step=what.step,
        globs=what.globs,
        folder=what.folder,
        redacted=sorted(set(names)),
    )
    if key and _is_used(session, key):
        return session.record(probe, key=key)
    with context.store.view(session.id) as view:
        context.journal.require_allowed(view, probe)
    before = _manifest(session, what.globs)
    for glob in what.globs:
        if not any(map(input_digests.matcher([glob]), before.files)):
            raise InvalidInput(
                f"no file matches {glob}",
                why="nothing was run; files ignored by git do not count",
                hint="inputs are relative to the project root: --inputs 'src/**'",
            )
    doing = shorten(f"proving {what.proof}: {shlex.join(probe.argv)}", _DOING)
    held = Presence.of(context).hold_while(session.id, doing)
    try:
        ended = run_command.run(
            what.argv,
            os.path.join(context.workspace.tree.root, what.folder),
            user_environment(),
            clock=context.clock,
            sink=sink,
            timeout=what.timeout,
            stop=stop,
        )
    finally:
        Presence.of(context).release(held)
    after = _manifest(session, what.globs, before.seen)
    data = before.data if what.globs else b""
    body = replace(
        _with_output(context, probe, ended),
        blob=digest_of(data) if data else "",
        size=len(data),
        files=len(before.files),
        changed=before.files != after.files,
    )
    event = session.record(body, key=key, blobs=[(body.blob, data)] if data else [])
    context.best_effort(lambda: _remember(session, after))
    return event


def _kept(session: Recorder, argv: Sequence[str]) -> list[str]:
    """Redact a command as a whole: `--password x` is a secret only in combination."""
    line = shlex.join(argv)
    clean = session.context.journal.redact(line)
    try:
        return list(argv) if clean == line else shlex.split(clean)
    except ValueError:
        return [clean]


def _is_used(session: Recorder, key: str) -> bool:
    with session.context.store.view(session.id) as view:
        return view.find(derived_id(session.id.lower(), key)) is not None


def _with_output(
    context: Context, probe: EvidenceObserved, ended: run_command.Ended
) -> EvidenceObserved:
    """Return the event with the result of the command and the end of its output, redacted."""
    texts = [
        terminal(part.decode("utf-8", "replace"), newlines=True)
        for part in (ended.head, ended.tail)[: 1 + (ended.printed > len(ended.head))]
    ]
    names = [name for text in texts for name in context.journal.find_secrets(text)]
    whole = context.journal.redact(texts[0])
    last = context.journal.redact(texts[-1]).rstrip().encode()[-_TAIL:].decode("utf-8", "ignore")
    return replace(
        probe,
        exit=ended.exit,
        duration_ms=ended.duration_ms,
        output=digest_of(whole.encode()),
        printed=ended.printed,
        tail=coerce_input(last, limit=_TAIL, lines=True),
        timed_out=ended.timed_out,
        interrupted=ended.interrupted,
        redacted=sorted({*probe.redacted, *names}),
    )


# -- checking ---------------------------------------------------------------------------------


def standings(session: Recorder, step: str | None = None) -> list[Standing]:
    """Check every proof, or those of a step and of no step, oldest first."""
    with session.context.store.view(session.id) as view:
        rows = session.context.journal.state(view).rows.select("proof")
        found = [row for row in rows if isinstance(row, Proof)]
    wanted = [row for row in found if step is None or row.step in ("", step)]
    return [_standing(session, row) for row in wanted]


def observed(session: Recorder, step: str) -> tuple[dict[str, bool], frozenset[str]]:
    """Return the observed evidence for a step: how each command ended, and which are stale.

    Proofs of the step take precedence over those of no step.
    """
    found = sorted(standings(session, step), key=lambda one: bool(one.row.step))
    named = {one.row.proof: one for one in found}
    ended = {name: one.row.passed for name, one in named.items()}
    return ended, frozenset(name for name, one in named.items() if one.stale)


def _standing(session: Recorder, row: Proof) -> Standing:
    if not row.globs:
        return Standing(row)
    if row.changed:
        return Standing(row, True, [("inputs", "changed while it ran")])
    try:
        kept = session.context.store.blob(row.blob)
        now = _manifest(session, row.globs)
    except ForestayError as error:
        return Standing(row, True, [("inputs", str(error))])
    if kept is None:
        return Standing(row, True, [("inputs", "their digests are no longer stored")])
    why = input_digests.differences(input_digests.parse(kept), now.files)
    return Standing(row, bool(why), why)


def glance(session: Recorder, state: State) -> dict[str, str]:
    """Return the status of proofs by id, from a check that is limited in time.

    The newest proofs are checked first. New files are not searched for; `standings` does that.
    """
    context = session.context
    most, deadline = context.settings.drift_files, context.settings.drift_ms
    ends = context.clock.monotonic() + deadline / 1000
    found: dict[str, str] = {}
    for row in state.rows.select("proof", newest=True):
        if isinstance(row, Proof):
            left = int((ends - context.clock.monotonic()) * 1000)
            is_stale = _is_stale(session, row, most, left) if row.globs and row.passed else False
            found[row.id] = Standing(row, is_stale).word
            most -= row.files
    return found


def _is_stale(session: Recorder, row: Proof, most: int, ms: int) -> bool | None:
    """Return whether inputs differ, None if that cannot be found out within the limits."""
    if row.changed:
        return True
    if row.files > most or ms <= 0:
        return None
    context, root = session.context, session.context.workspace.tree.root
    try:
        then = input_digests.parse(context.store.blob(row.blob) or b"")
    except ForestayError:
        return None
    drift = workspace_tree.check_drift(
        list(then.items()), _seen(session, list(then)), most, ms, root=root, clock=context.clock
    )
    words = {word for _, word in drift}
    return True if words & {"changed", "missing"} else None if "not checked" in words else False


# -- files -------------------------------------------------------------------------------------


def _manifest(
    session: Recorder, globs: Sequence[str], seen: Mapping[str, workspace_tree.Seen] | None = None
) -> input_digests.Manifest:
    context = session.context

    def known(paths: Sequence[str]) -> Mapping[str, workspace_tree.Seen]:
        return seen if seen is not None else _seen(session, paths)

    return input_digests.manifest(
        globs,
        context.workspace.tree,
        child_environment(),
        now=context.clock.now,
        seen=known,
        ours=_ours(context) if globs else (),
        name=context.journal.redact,
    )


def _seen(session: Recorder, paths: Sequence[str]) -> dict[str, workspace_tree.Seen]:
    root, machine = session.context.workspace.tree.root, session.context.store.machine
    full = {path: os.path.join(root, path) for path in paths}
    found = machine.seen_files.find(session.id, list(full.values()))
    return {path: found[full[path]] for path in paths if full[path] in found}


def _ours(context: Context) -> Iterator[str]:
    """Yield files that Forestay writes at every event: they do not count as inputs."""
    bound = context.store.machine.bindings
    for binding in bound.bindings():
        names = {os.path.join(binding.root, name) for name in bound.renderings(binding)}
        for path in (binding.place, *names):
            yield from (path, f"{path}.bak")


def _remember(session: Recorder, now: input_digests.Manifest) -> None:
    """Store the stamps, so that the next check need not read every file."""
    root, redacted = session.context.workspace.tree.root, session.context.journal.redact
    kept = {os.path.join(root, p): seen for p, seen in now.seen.items() if redacted(p) == p}
    session.context.store.machine.seen_files.record_all(session.id, kept)
