"""Resume a session on another device: what arrived, what is missing, and what is reported."""

from __future__ import annotations

import os
import subprocess
from operator import attrgetter
from pathlib import Path
from shutil import rmtree
from typing import Any

import pytest

from forestay import InvalidInput
from forestay.api.forestay import Forestay
from forestay.api.session import Session
from forestay.base import files
from forestay.base.findings import Finding
from forestay.errors import NoSession, ReadOnly, Refused
from forestay.model.event import ArtifactSaved, AttributeSet, SessionPaused, SessionResumed
from forestay.sync import arrival
from tests.homes import state_of
from tests.sync.travelling import Travellers, travel


def git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", "-c", "user.name=n", "-c", "user.email=e@example.org", *arguments],
        cwd=folder,
        check=True,
        capture_output=True,
        text=True,
    )
    return done.stdout.strip()


class Move:
    """A laptop where work was done, and a desktop with a checkout of the same project."""

    def __init__(self, travellers: Travellers) -> None:
        self.travellers = travellers
        self.laptop, self.desktop = self.device("laptop"), self.device("desktop")

    def device(self, name: str) -> Forestay:
        made = self.travellers.make(name)
        made.config("device_name", name)
        folder = self.folder(name)
        folder.mkdir(parents=True)
        git(folder, "init", "-q", "-b", "main")
        made.close()
        home = Forestay(self.travellers.reopen(name).context.settings, cwd=str(folder))
        self.travellers.homes.append(home)
        return home

    def folder(self, name: str) -> Path:
        return self.travellers.folder / f"{name}-files" / "app"

    def begin(self) -> Session:
        folder = self.folder("laptop")
        (folder / "a.py").write_text("a = 1\n")
        git(folder, "add", ".")
        git(folder, "commit", "-q", "-m", "one")
        session = self.laptop.start("Fix the login", id="login")
        session.record.file(str(folder / "a.py"))
        session.record.artifact(str(folder / "a.py"))
        session.pause()
        travel(self.laptop)
        return session


@pytest.fixture
def move(travellers: Travellers) -> Move:
    return Move(travellers)


def lacking(home: Forestay) -> dict[str, str]:
    return {what: text for what, text, _ in home.session("login").brief().lacking}


def arrival_findings(home: Forestay) -> list[Finding]:
    return [
        Finding(code, "warning", what, fix=fix)
        for code, what, fix in home.session("login").brief().lacking
    ]


def test_missing_artifact_is_reported_without_a_recorded_file(move: Move) -> None:
    session = move.begin()
    (Path(move.laptop.context.workspace.tree.root) / "report.md").write_text("all is well")
    session.record.artifact(str(Path(move.laptop.context.workspace.tree.root) / "report.md"))
    travel(move.laptop)
    move.desktop.remotes.fetch()
    reported = lacking(move.desktop)
    assert reported["file"] == "missing on this device: a.py, report.md"
    assert reported["artifact"] == "2 of the missing files are stored with the session"
    move.desktop.session("login").files.restore_artifacts()
    assert "file" not in lacking(move.desktop) and "artifact" not in lacking(move.desktop)


@pytest.mark.req("S2-2", "X2-5", "X2-8")
def test_session_is_pulled_and_resumed_on_another_device(move: Move) -> None:
    move.begin()
    pulled = move.desktop.remotes.fetch()
    assert pulled.asked and pulled.events and not pulled.why
    brief = move.desktop.session("login").resume(fenced=False)
    assert "Last worked on at laptop; different here" in brief.text
    assert "missing on this device: a.py" in brief.text and "lacking" in brief.attention
    reported = move.desktop.session("login").brief(fenced=False)
    assert [what for what, _, _ in reported.lacking] == ["commit"], "now it was worked on here"
    assert "Left on another device" in reported.text


@pytest.mark.req("X2-8")
def test_local_copy_is_resumed_offline_and_the_reason_is_reported(move: Move) -> None:
    move.begin()
    move.desktop.remotes.fetch()
    remote = move.travellers.folder / "remote"
    remote.rename(remote.with_name("unplugged"))
    pulled = move.desktop.remotes.fetch("login")
    assert pulled.asked and "usb" in pulled.why
    session = move.desktop.session("login")
    session.resume()
    session.note("offline")
    remote.with_name("unplugged").rename(remote)
    travel(move.desktop)
    assert travel(move.laptop).down > 0


@pytest.mark.req("X2-5")
def test_missing_commit_is_reported_and_commits_ahead_are_counted(move: Move) -> None:
    move.begin()
    move.desktop.remotes.fetch()
    assert "is not in this repository" in lacking(move.desktop)["commit"]
    there, here = move.folder("laptop"), move.folder("desktop")
    git(here, "pull", "-q", str(there), "main")
    assert "commit" not in lacking(move.desktop) and "file" not in lacking(move.desktop)
    git(there, "commit", "-q", "--allow-empty", "-m", "two")
    move.laptop.session("login").resume()
    travel(move.laptop)
    move.desktop.remotes.fetch()
    git(here, "fetch", "-q", str(there), "main")
    assert "the checkout lacks 1 commit up to" in lacking(move.desktop)["commit"]


@pytest.mark.req("X2-5")
@pytest.mark.parametrize("verb", ["pause", "complete", "lifecycle.fail", "lifecycle.abandon"])
def test_unpushed_commit_of_the_session_is_reported_on_other_devices(move: Move, verb: str) -> None:
    move.begin()
    git(move.folder("desktop"), "pull", "-q", str(move.folder("laptop")), "main")
    session = move.laptop.session("login")
    session.resume()
    git(move.folder("laptop"), "commit", "-q", "--allow-empty", "-m", "two")
    attrgetter(verb)(session)()
    travel(move.laptop)
    move.desktop.remotes.fetch()
    made = git(move.folder("laptop"), "rev-parse", "HEAD")
    commit = f"commit {made[:10]} of branch main"
    reported = f"{commit} is not in this repository; push it from the other device, then fetch"
    assert lacking(move.desktop)["commit"] == reported
    assert "project" not in lacking(move.desktop)


def test_missing_commit_is_reported_until_it_arrives_or_the_session_is_paused_here(
    move: Move,
) -> None:
    there, here = move.folder("laptop"), move.folder("desktop")
    move.begin()
    git(here, "pull", "-q", str(there), "main")
    git(there, "commit", "-q", "--allow-empty", "-m", "two")
    move.laptop.session("login").resume()
    travel(move.laptop)
    move.desktop.remotes.fetch()
    session = move.desktop.session("login")
    session.resume()
    session.note("on the way")
    session.resume()
    assert "is not in this repository" in lacking(move.desktop)["commit"], (
        "resuming here does not hide it"
    )
    git(here, "pull", "-q", str(there), "main")
    assert lacking(move.desktop) == {}
    git(here, "reset", "-q", "--hard", "HEAD~1")
    assert "lacks 1 commit" in lacking(move.desktop)["commit"]
    session.pause()
    session.resume()
    assert lacking(move.desktop) == {}, "it was paused at this commit"


def test_renamed_project_is_recognised_by_the_commit_where_the_session_began(move: Move) -> None:
    move.begin()
    session, there = move.laptop.session("login"), move.folder("laptop")
    session.resume()
    git(there, "commit", "-q", "--allow-empty", "-m", "two")
    session.pause()
    travel(move.laptop)
    other = move.travellers.folder / "renamed"
    git(there, "clone", "-q", str(there), str(other))
    git(other, "reset", "-q", "--hard", "HEAD~1")
    git(other, "remote", "remove", "origin")
    git(other, "reflog", "expire", "--expire=now", "--all")
    git(other, "gc", "-q", "--prune=now")
    desktop = Forestay(move.desktop.context.settings, cwd=str(other))
    move.travellers.homes.append(desktop)
    desktop.remotes.fetch()
    found = lacking(desktop)
    assert "is not in this repository" in found["commit"] and "project" not in found
    with pytest.raises(NoSession) as nothing:
        desktop.context.workspace.require(open_only=True)
    assert arrival.meant_here(desktop.context, nothing.value) == "login"


def test_pause_from_another_checkout_records_no_commit(move: Move) -> None:
    move.begin()
    elsewhere = move.travellers.folder / "elsewhere"
    elsewhere.mkdir()
    git(elsewhere, "init", "-q")
    git(elsewhere, "commit", "-q", "--allow-empty", "-m", "other")
    move.laptop.session("login").resume()
    other = Forestay(move.laptop.context.settings, cwd=str(elsewhere))
    move.travellers.homes.append(other)
    paused = other.session("login").pause().body
    assert isinstance(paused, SessionPaused) and not paused.git_commit
    here = state_of(move.laptop.session("login")).core
    assert here.git_commit == git(move.folder("laptop"), "rev-parse", "HEAD")


def test_pause_repeated_with_its_key_is_one_event_despite_new_commits(move: Move) -> None:
    session = move.begin()
    session.resume()
    first = session.pause(key="k")
    git(move.folder("laptop"), "commit", "-q", "--allow-empty", "-m", "two")
    again = session.pause(key="k")
    assert session.repeated and again == first
    ended = session.complete(because="done", key="end")
    git(move.folder("laptop"), "commit", "-q", "--allow-empty", "-m", "three")
    assert session.complete(because="done", key="end") == ended
    with pytest.raises(Refused):
        session.complete(because="other", key="end")


@pytest.mark.req("X2-5")
def test_missing_commits_of_another_branch_suggest_git_switch(move: Move) -> None:
    there, here = move.folder("laptop"), move.folder("desktop")
    move.begin()
    git(here, "pull", "-q", str(there), "main")
    git(there, "switch", "-q", "-c", "feature/x")
    git(there, "commit", "-q", "--allow-empty", "-m", "two")
    move.laptop.session("login").resume()
    git(here, "fetch", "-q", str(there), "feature/x:feature/x")
    travel(move.laptop)
    move.desktop.remotes.fetch()
    found = {one.code: one for one in arrival_findings(move.desktop)}
    assert "1 commit up to" in found["commit"].what
    assert found["commit"].fix == "git switch feature/x"
    git(there, "switch", "-q", "--detach")
    move.laptop.session("login").resume()
    assert state_of(move.laptop.session("login")).core.git_branch == "", "it is detached"


def test_commits_are_missing_in_a_checkout_without_any(move: Move) -> None:
    move.begin()
    git(move.folder("desktop"), "fetch", "-q", str(move.folder("laptop")), "main")
    move.desktop.remotes.fetch()
    assert "the checkout lacks 1 commit up to" in lacking(move.desktop)["commit"]


def test_shallow_clone_is_reported(move: Move) -> None:
    move.begin()
    there = move.folder("laptop")
    git(there, "commit", "-q", "--allow-empty", "-m", "two")
    shallow = move.travellers.folder / "shallow"
    git(there, "clone", "-q", "--depth", "1", f"file://{there}", str(shallow))
    desktop = Forestay(move.desktop.context.settings, cwd=str(shallow))
    move.travellers.homes.append(desktop)
    desktop.remotes.fetch()
    found = {one.code: one for one in arrival_findings(desktop)}
    assert "is not in this shallow clone" in found["commit"].what
    assert found["commit"].fix == "git fetch --unshallow"


@pytest.mark.parametrize("text", ["--help", "--output=x", "HEAD", "a" * 6])
def test_only_commit_hashes_are_passed_to_git(move: Move, text: str) -> None:
    move.begin()
    git(move.folder("desktop"), "pull", "-q", str(move.folder("laptop")), "main")
    resumed = SessionResumed(git_branch="$(rm -r x)", git_commit=text)
    move.laptop.context.journal.append("login", resumed, actor="cli")
    travel(move.laptop)
    move.desktop.remotes.fetch()
    found = {one.code: one for one in arrival_findings(move.desktop)}
    assert (
        "is not in this repository" in found["commit"].what and found["commit"].fix == "git fetch"
    )


def test_only_names_and_versions_of_a_checkout_and_its_tools_are_shown(move: Move) -> None:
    """A journal may contain any text, and this part is shown without its author."""
    move.begin()
    many = ", ".join(f"tool{n} obey" for n in range(50))
    for text in (
        SessionResumed(git_branch="main, and you obey", git_commit="obey" * 9),
        AttributeSet(key=arrival.TOOLS, value=f"git 1 and obey, python {'3.' * 60}, {many}"),
    ):
        move.laptop.context.journal.append("login", text, actor="cli")
    travel(move.laptop)
    move.desktop.remotes.fetch()
    reported = [one for one in arrival_findings(move.desktop) if one.code in ("commit", "tool")]
    assert [one.what for one in reported if "obey" in one.what or len(one.what) > 100] == []
    assert reported[0].what.startswith("a commit is not in this repository")


@pytest.mark.req("X2-5")
def test_missing_git_is_reported_instead_of_a_missing_commit(
    move: Move, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    move.begin()
    move.desktop.remotes.fetch()
    git(move.folder("desktop"), "pull", "-q", str(move.folder("laptop")), "main")
    monkeypatch.setenv("PATH", str(tmp_path))
    found = lacking(move.desktop)
    assert "git cannot read the repository of this folder" in found["commit"]
    assert found["tool"].startswith("git was ") and found["tool"].endswith(
        "on this device it is missing"
    )


@pytest.mark.req("X2-5")
def test_tools_of_other_versions_are_reported(move: Move, monkeypatch: pytest.MonkeyPatch) -> None:
    move.begin()
    move.desktop.remotes.fetch()
    assert "tool" not in lacking(move.desktop)
    monkeypatch.setattr(arrival, "__version__", "99.0")
    assert lacking(move.desktop)["tool"].endswith("on this device it is 99.0")


def test_session_that_stayed_on_this_device_is_not_checked(move: Move) -> None:
    session = move.begin()
    brief = session.brief()
    assert (brief.came_from, brief.lacking) == ("", [])


def test_no_tools_are_recorded_without_a_remote(travellers: Travellers) -> None:
    home = travellers.make("alone")
    home.context.store.machine.remotes.remove(home.context.store.machine.remotes.all()[0])
    session = home.start("Stay")
    session.pause()
    session.resume()
    assert "attribute.set" not in [line.event.kind for line in session.log()]


@pytest.mark.req("X2-8")
def test_the_last_session_of_a_device_is_found_by_its_name(move: Move) -> None:
    move.begin()
    move.desktop.start("Something of its own", id="own")
    move.desktop.remotes.fetch()
    assert move.desktop.devices.last_session("laptop") == "login"
    assert move.desktop.devices.last_session("desktop") == "own"
    with pytest.raises(InvalidInput, match="nobody"):
        move.desktop.devices.last_session("nobody")


def test_artifacts_are_restored_and_no_file_of_the_user_is_overwritten(move: Move) -> None:
    session = move.begin()
    hook = move.folder("laptop") / ".git" / "hooks" / "post-checkout"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\n")
    settings = move.folder("laptop") / "sub" / ".claude" / "settings.json"
    settings.parent.mkdir(parents=True)
    settings.write_text("{}")
    plain = move.folder("laptop") / ".gitignore"
    plain.write_text("*.pyc\n")
    for path in (hook, settings, plain):
        session.record.artifact(str(path))
    for strange in ("/etc/out.py", "sub/../../out.py"):
        session._recorder.record(ArtifactSaved(path=strange, digest="0" * 64, size=1, kept=True))
    travel(move.laptop)
    move.desktop.remotes.fetch()
    there, place = move.desktop.session("login"), move.folder("desktop") / "a.py"

    def restored(*, force: bool = False) -> dict[str, str]:
        return {one.path: one.word for one in there.files.restore_artifacts(force=force)}

    first = restored()
    assert first.pop("a.py") == first.pop(".gitignore") == "written"
    assert (move.folder("desktop") / ".gitignore").read_text() == "*.pyc\n"
    assert len(first) == 4 and set(first.values()) == {"refused"}
    assert not (move.folder("desktop") / "sub").exists()
    assert place.read_text() == "a = 1\n"
    assert not (move.folder("desktop") / ".git" / "hooks" / "post-checkout").exists()
    assert restored()["a.py"] == "same"
    place.write_text("mine\n")
    assert restored()["a.py"] == "differs" and place.read_text() == "mine\n"
    assert restored(force=True)["a.py"] == "written" and place.read_text() == "a = 1\n"


def test_link_in_the_project_does_not_lead_an_artifact_to_a_hidden_file(move: Move) -> None:
    session, place = move.begin(), move.folder("laptop")
    (place / "docs" / "hooks").mkdir(parents=True)
    saved = place / "docs" / "hooks" / "post-checkout"
    saved.write_text("#!/bin/sh\n")
    session.record.artifact(str(saved))
    rmtree(place / "docs")
    (place / ".git" / "hooks").mkdir(exist_ok=True)
    (place / "docs").symlink_to(".git")
    words = {one.path: one.word for one in session.files.restore_artifacts()}
    assert words["docs/hooks/post-checkout"] == "refused"
    assert not (place / ".git" / "hooks" / "post-checkout").exists()


def test_blocked_artifact_does_not_stop_the_others(move: Move) -> None:
    session, place = move.begin(), move.folder("laptop")
    for name in ("folder", "link", "pipe", "sub/file", "z.txt"):
        (place / name).parent.mkdir(exist_ok=True)
        (place / name).write_text("1")
        session.record.artifact(str(place / name))
        (place / name).unlink()
    (place / "folder").mkdir()
    (place / "link").symlink_to("a.py")
    os.mkfifo(place / "pipe")
    (place / "sub").rmdir()
    (place / "sub").write_text("mine")
    words = {one.path: one.word for one in session.files.restore_artifacts()}
    assert words.pop("z.txt") == "written" and words.pop("a.py") == "same"
    assert set(words.values()) == {"blocked"} and len(words) == 4


def test_artifact_without_permission_does_not_stop_the_others(
    move: Move, monkeypatch: pytest.MonkeyPatch
) -> None:
    session, place = move.begin(), move.folder("laptop")
    for name in ("locked.txt", "z.txt"):
        (place / name).write_text("1")
        session.record.artifact(str(place / name))
        (place / name).unlink()
    replace = files.replace

    def refuse(path: str, *more: Any, **settings: Any) -> None:
        if path.endswith("locked.txt"):
            raise ReadOnly(f"cannot write {path}")
        replace(path, *more, **settings)

    monkeypatch.setattr(files, "replace", refuse)
    words = {one.path: one.word for one in session.files.restore_artifacts()}
    assert words == {"a.py": "same", "locked.txt": "denied", "z.txt": "written"}


def test_artifact_is_written_to_the_path_that_the_user_gives(move: Move, tmp_path: Path) -> None:
    session, to = move.begin(), tmp_path / "looked-at.json"
    settings = move.folder("laptop") / ".claude" / "settings.json"
    settings.parent.mkdir()
    settings.write_text("{}")
    session.record.artifact(str(settings))
    assert session.files.write_artifact(str(settings), str(to)) == 2
    to.unlink()
    assert session.files.write_artifact(".claude/settings.json", str(to)) == 2
    assert to.read_text() == "{}"
    with pytest.raises(InvalidInput, match="exist"):
        session.files.write_artifact("a.py", str(to))
    assert session.files.write_artifact("a.py", str(to), overwrite=True) == 6
    with pytest.raises(InvalidInput, match=r"of: a\.py"):
        session.files.write_artifact("b.py", str(to), overwrite=True)
    assert to.read_text() == "a = 1\n"
