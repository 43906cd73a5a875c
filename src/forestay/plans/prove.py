"""Proofs: run a command, record its result, and check whether the result still holds.

A *proof* has a name (a field of a gate, or its topic) and may belong to a step; a new proof of the
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
from typing import Any

from msgspec import Struct

from forestay.base import files
from forestay.base.clock import derived_id
from forestay.base.config import child_environment, user_environment
from forestay.base.hashing import digest_of
from forestay.base.text import ID_LIMIT, clean_id, coerce_input, shorten, terminal
from forestay.errors import Busy, ForestayError, InvalidInput, Refused
from forestay.journal.context import Context
from forestay.journal.presence import Presence
from forestay.journal.recorder import Recorder
from forestay.model.event import Event, EvidenceObserved
from forestay.model.state import UNITS, Proof, State, Step, number_of
from forestay.plans import input_digests, run_command
from forestay.workspace import tree as workspace_tree

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

    @property
    def holds(self) -> bool:
        """Whether a gate may rely on it."""
        return self.row.passed and self.stale is False


# -- running -----------------------------------------------------------------------------------


def wanted(
    session: Recorder,
    argv: Sequence[str],
    *,
    phase: str = "",
    name: str = "",
    globs: Sequence[str] = (),
    timeout: float | None = None,
) -> Wanted:
    """Check the arguments before anything is run."""
    if not argv or not argv[0]:
        raise InvalidInput("no command is named", hint="forestay prove -- make lint")
    _require_timeout(timeout)
    if sum(len(word.encode()) + 3 for word in (*argv, *globs)) > MAX_COMMAND:
        raise InvalidInput(
            "the command is too long to be stored",
            why=f"with its inputs at most {MAX_COMMAND:,} bytes",
            hint="put it into a script, and make that one of the inputs",
        )
    tree, cwd = session.context.workspace.tree, session.context.folder
    with session.context.store.view(session.id) as view:
        step = _step(session.context.journal.state(view), phase)
    return Wanted(
        proof=clean_id(name, "the name of a proof") if name else _named(_kept(session, argv)),
        argv=list(argv),
        step=step,
        globs=input_digests.checked(globs),
        timeout=timeout,
        folder=workspace_tree.relative(cwd, tree.root).removeprefix("."),
    )


def _require_timeout(timeout: float | None) -> None:
    if timeout is not None and not 0 < timeout <= MAX_TIMEOUT:
        why = f"it is seconds, above 0 and at most {MAX_TIMEOUT:,}"
        raise InvalidInput(f"the timeout cannot be {timeout:g}", why=why)


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


def prove(
    session: Recorder,
    what: Wanted,
    *,
    sink: run_command.Sink | None = None,
    stop: run_command.Stop | None = None,
    key: str = "",
) -> Event:
    """Run a command and record how it ended.

    With a `key` that was used before nothing is run. While another process runs it under the same
    key, wait for it for a while, then raise `Busy`.
    """
    if not key or _is_used(session, key):
        return _proved(session, what, sink, stop, key)
    with _alone(session, what, key):
        return _proved(session, what, sink, stop, key)


@contextmanager
def _alone(session: Recorder, what: Wanted, key: str) -> Iterator[None]:
    """Hold the lock of a key while its command runs."""
    context = session.context
    path = os.path.join(context.store.home, _LOCKS, derived_id(session.id.lower(), key))
    files.make_private_dir(os.path.dirname(path))
    lock = files.locked(path, timeout=_PATIENCE, clock=context.clock, private=True)
    try:
        lock.__enter__()
    except Busy:
        raise _under_way(what) from None
    try:
        yield
        # Not after a failure: a waiting process would hold a lock that no other process sees.
        files.remove(path)
    finally:
        lock.__exit__()


def _under_way(what: Wanted) -> Busy:
    return Busy(
        f"another process is running {what.proof} under this key",
        why="nothing was run",
        hint="repeat the call with the same key: it returns when that process has ended",
    )


def _proved(
    session: Recorder,
    what: Wanted,
    sink: run_command.Sink | None,
    stop: run_command.Stop | None,
    key: str,
) -> Event:
    context = session.context
    probe = _asked(session, what)
    if key and _is_used(session, key):
        return session.record(probe, key=key)
    with context.store.view(session.id) as view:
        context.journal.require_allowed(view, probe)
    before = _manifest(session, what.globs)
    _require_some(what.globs, before.files)
    ended = _run(session, what, probe, sink, stop)
    after = _manifest(session, what.globs, before.seen)
    data = before.data if what.globs else b""
    body = _observed(session, probe, ended, before.files, changed=before.files != after.files)
    event = session.record(body, key=key, blobs=[(body.blob, data)] if data else [])
    context.best_effort(lambda: _remember(session, after))
    return event


def _asked(session: Recorder, what: Wanted) -> EvidenceObserved:
    """Return the event as far as it is known before the command runs, redacted."""
    names = session.context.journal.find_secrets(shlex.join(what.argv))
    return EvidenceObserved(
        proof=what.proof,
        argv=_kept(session, what.argv),
        exit=0,
        step=what.step,
        globs=what.globs,
        folder=what.folder,
        redacted=sorted(set(names)),
    )


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


def _require_some(globs: Sequence[str], files: Mapping[str, str]) -> None:
    match = [glob for glob in globs if not any(map(input_digests.matcher([glob]), files))]
    if match:
        raise InvalidInput(
            f"no file matches {match[0]}",
            why="nothing was run; files ignored by git do not count",
            hint="inputs are relative to the project root: --inputs 'src/**'",
        )


def _run(
    session: Recorder,
    what: Wanted,
    probe: EvidenceObserved,
    sink: run_command.Sink | None,
    stop: run_command.Stop | None,
) -> run_command.Ended:
    context = session.context
    doing = f"proving {what.proof}: {shlex.join(probe.argv)}"
    held = Presence.of(context).hold_while(session.id, shorten(doing, _DOING))
    try:
        return run_command.run(
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


def _observed(
    session: Recorder,
    probe: EvidenceObserved,
    ended: run_command.Ended,
    files: Mapping[str, str],
    *,
    changed: bool,
) -> EvidenceObserved:
    clean, names = _clean(session.context, ended.head)
    tail = clean
    if ended.printed > len(ended.head):
        tail, more = _clean(session.context, ended.tail)
        names = [*names, *more]
    data = input_digests.Manifest(dict(files), {}).data if probe.globs else b""
    found: dict[str, Any] = {
        "exit": ended.exit,
        "duration_ms": ended.duration_ms,
        "output": digest_of(clean.encode()),
        "printed": ended.printed,
        "tail": _end_of(tail),
        "blob": digest_of(data) if data else "",
        "size": len(data),
        "files": len(files),
        "changed": changed,
        "timed_out": ended.timed_out,
        "interrupted": ended.interrupted,
        "redacted": sorted({*probe.redacted, *names}),
    }
    import msgspec

    return msgspec.structs.replace(probe, **found)


def _clean(context: Context, data: bytes) -> tuple[str, list[str]]:
    """Return the output as text without control characters, and redacted."""
    text = terminal(data.decode("utf-8", "replace"), newlines=True)
    return context.journal.redact(text), context.journal.find_secrets(text)


def _end_of(text: str) -> str:
    last = text.rstrip().encode()[-_TAIL:].decode("utf-8", "ignore")
    return coerce_input(last, limit=_TAIL, lines=True)


def again(
    session: Recorder,
    *,
    everything: bool = False,
    timeout: float | None = None,
    sink: run_command.Sink | None = None,
) -> Iterator[tuple[Standing, Event]]:
    """Run stale proofs (or all) again, oldest first; yield each as it ends.

    Proofs that cannot be run again are refused after all others have run.
    """
    _require_timeout(timeout)
    due = [one for one in standings(session) if everything or not one.holds]
    for one in (one for one in due if one.row.again):
        row = one.row
        what = Wanted(row.proof, row.argv, row.step, row.globs, timeout, row.folder)
        event = prove(session, what, sink=sink)
        yield one, event
        if isinstance(event.body, EvidenceObserved) and event.body.interrupted:
            return
    for one in (one for one in due if not one.row.again):
        raise Refused(
            f"{one.row.proof} cannot be run again",
            why="a secret was removed from its command before it was stored",
            hint=f"run it as before: forestay prove --as {one.row.proof} -- …",
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
    """Return the status of proofs by id, from a check that is bounded in time.

    The newest are checked first, and only files that existed; `standings` finds new ones.
    """
    context = session.context
    files, deadline = context.settings.drift_files, context.settings.drift_ms
    ends = context.clock.monotonic() + deadline / 1000
    found: dict[str, str] = {}
    for row in state.rows.select("proof", newest=True):
        if isinstance(row, Proof):
            left = int((ends - context.clock.monotonic()) * 1000)
            found[row.id] = _glanced(session, row, files, left)
            files -= row.files
    return found


def _glanced(session: Recorder, row: Proof, files: int, ms: int) -> str:
    if not row.globs or not row.passed:
        return Standing(row).word
    if row.changed:
        return Standing(row, True).word
    if row.files > files or ms <= 0:
        return Standing(row, None).word
    context, root = session.context, session.context.workspace.tree.root
    try:
        then = input_digests.parse(context.store.blob(row.blob) or b"")
    except ForestayError:
        return Standing(row, None).word
    seen = _seen(session, list(then))
    words = {
        w
        for _, w in workspace_tree.check_drift(
            list(then.items()), seen, files, ms, root=root, clock=context.clock
        )
    }
    stale = True if words & {"changed", "missing"} else None if "not checked" in words else False
    return Standing(row, stale).word


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
