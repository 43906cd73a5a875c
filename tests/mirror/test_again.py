"""Every process writes the same files, and stored renderings can be read again."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from forestay.api.session import Session
from forestay.mirror.session_files import mirror_of
from forestay.store.machine.bindings import KEPT, Binding, Bindings
from tests.mirror.conftest import Make
from tests.mirror.support import AI_SESSION, ID, Project, everything

UUID = "0b0a7a7e-94c1-4b13-a5ee-6ad2b0a7c001"
FORMATS = (AI_SESSION, f"craft:{UUID}", "orchestrator", f"praxis:{UUID}")

ACTS: dict[str, Callable[[Session, int], object]] = {
    "task": lambda s, n: s.tasks.add(f"Task {n}", id=f"t{n}"),
    "note": lambda s, n: s.note(f"remark {n}"),
    "command": lambda s, n: s.record.command("pytest", arguments=f"-k {n}"),
    "done": lambda s, n: s.tasks.done(f"t{n - 3}"),
    "agent": lambda s, n: s.agents.start(f"code-{n}", type="code", task="Part"),
    "ended": lambda s, n: s.agents.done(f"code-{n - 1}", result="fine"),
    "decision": lambda s, n: s.decide(f"Take {n}", because="small"),
    "file": lambda s, n: s.record.file(
        f"{s.context.workspace.tree.root}/gone.py", action="deleted"
    ),
    "error": lambda s, n: s.record.error(f"broken {n}"),
    "resumed": lambda s, n: s.resume(),
    "paused": lambda s, n: (s.pause(), s.resume()),
    "measured": lambda s, n: s.record.attribute("weather", str(n)),
}


def bytes_of(project: Project) -> dict[str, bytes]:
    inside = {name: data for name, (data, *_) in everything(project.folder).items()}
    return {name: data for name, data in inside.items() if ".state.lock" not in name}


def test_forced_write_by_a_new_process_changes_no_file(make: Make) -> None:
    project = make(*FORMATS)
    for number, act in enumerate(list(ACTS.values()) * 3):
        act(project.session, number)
        before = bytes_of(project)
        # The new process has no cache.
        project.again()
        mirror_of(project.home.context).write(project.session.id, force=True)
        assert bytes_of(project) == before
    assert project.edits() == [] and project.notices == []


def test_one_process_and_several_write_the_same_files(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    projects = [Project(tmp_path_factory.mktemp(name), *FORMATS) for name in ("one", "many")]
    for project in projects:
        for number, act in enumerate(list(ACTS.values()) * 2):
            act(project.session, number)
            if project is projects[1]:
                project.again()
    one, many = (comparable(project) for project in projects)
    assert one == many
    for project in projects:
        project.home.close()


def comparable(project: Project) -> dict[str, str]:
    found = {}
    for name, data in bytes_of(project).items():
        text = data.decode().replace(str(project.base), "")
        found[name] = "\n".join(line for line in text.splitlines() if not is_dated(line))
    return found


def is_dated(line: str) -> bool:
    """Return whether a line has a time, an id or a digest, which differ between runs."""
    signs = ("202", "duration", "2027-", "session_id", "# forestay: ", '"id": "')
    return any(sign in line for sign in signs)


def test_two_bindings_in_one_folder_are_both_updated(make: Make) -> None:
    project = make(AI_SESSION, "ai-session:other-2026-02-01")
    project.session.tasks.add("First", id="t1")
    project.session.note("on")
    for id in (ID, "other-2026-02-01"):
        plan = project.folder / ".ai-session" / id / "implementation-plan.yaml"
        assert "First" in plan.read_text()
    ids = [entry["feature_id"] for entry in project.read(project.index)["active_features"]]
    assert ids == [ID, "other-2026-02-01"]
    assert project.edits() == [] and project.notices == []


# -- stored renderings -------------------------------------------------------------------------


def store_renderings(bound: Bindings, binding: Binding, *versions: bytes) -> None:
    for data in versions:
        bound.rendered([(binding, [("f", data.hex()[:64], len(data), data)], 1)])


@pytest.fixture
def bound(make: Make) -> tuple[Bindings, Binding]:
    project = make("craft")
    return (
        project.home.context.store.machine.bindings,
        project.home.context.store.machine.bindings.bindings()[0],
    )


def test_every_stored_rendering_can_be_read(bound: tuple[Bindings, Binding]) -> None:
    store, binding = bound
    text = b"start " * 100 + b"%d" + b" end" * 100
    versions = [text % (number**5) for number in range(3 * KEPT)]
    versions += [b"", b"x", b"start", text % 1, b"start" * 7]
    for at, data in enumerate(versions):
        store_renderings(store, binding, data)
        wanted = [each for each in versions[: at + 1] if each][: -KEPT - 1 : -1]
        stated = store.contents(binding, "f")
        assert stated[: len(wanted)][:8] == wanted[:8] and set(stated) <= set(versions)
    assert len(store.renderings(binding)["f"]) <= 3 * KEPT


def test_rendering_whose_base_is_gone_is_not_returned(bound: tuple[Bindings, Binding]) -> None:
    store, binding = bound
    store_renderings(store, binding, b"one " * 50, b"one " * 49 + b"two")
    store._tables.write(lambda connection: connection.execute("DELETE FROM rendering"))
    other = Bindings(store._tables)
    store_renderings(other, binding, b"another " * 50)
    store_renderings(store, binding, b"one " * 50)
    assert store.contents(binding, "f") == [b"one " * 50, b"another " * 50]


def test_newest_rendering_can_be_read_alone(bound: tuple[Bindings, Binding]) -> None:
    store, binding = bound
    assert store.last_content(binding, "f") == b""
    for data in (b"one " * 50, b"one " * 49 + b"two", b"", b"three"):
        store_renderings(store, binding, data)
        assert store.last_content(binding, "f") == data
        assert Bindings(store._tables).last_content(binding, "f") == data


def test_secrets_in_a_long_file_are_never_stored(make: Make) -> None:
    project = make("craft")
    secret = "AKIA" + "ABCDEFGH" * 2
    value = json.loads(project.place.read_text())
    value["notes"] = ["plain words" * 10_000, secret] + ["more words " * 10_000] * 3
    project.place.write_text(json.dumps(value))
    for number in range(3):
        project.again().note(f"note {number}")
        binding = project.home.context.store.machine.bindings.bindings()[0]
        kept = project.home.context.store.machine.bindings.contents(binding, project.place.name)
        assert kept and not any(secret.encode() in data for data in kept)
        assert secret in project.place.read_text()
