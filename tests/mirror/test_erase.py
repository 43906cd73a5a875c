"""Forgetting removes our text from files, and nothing that another program writes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from forestay.mirror import erase
from forestay.mirror.session_files import mirror_of
from tests.mirror.conftest import Make
from tests.mirror.support import (
    AI_SESSION,
    ID,
    Ticking,
    around_exchanges,
    everything,
    leftovers,
    swap_in,
)

APPENDER = """
import sys
for number in range(400):
    with open(sys.argv[1], "a") as file:
        file.write('{"theirs": %d}\\n' % number)
"""


def theirs(log: Path) -> list[int]:
    lines = map(json.loads, log.read_text().splitlines())
    return [line["theirs"] for line in lines if "theirs" in line]


def test_lines_added_during_an_exchange_stay(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    log = make(AI_SESSION).ai("history.jsonl")
    log.write_bytes(b'{"a": "keep"}\n{"a": "drop it"}\n')
    number = 0

    def turn() -> None:
        nonlocal number
        for file in (held.fileno(), os.open(log, os.O_WRONLY | os.O_APPEND)):
            os.write(file, b'{"theirs": %d}\n' % number)
            number += 1

    with log.open("ab") as held:
        around_exchanges(monkeypatch, turn)
        assert erase._remove_text(str(log.parent), str(log), set(), ["drop it"])
    assert "drop it" not in log.read_text() and '"keep"' in log.read_text()
    assert sorted(theirs(log)) == list(range(number)) and leftovers(log.parent) == []


def test_two_edits_during_a_removal_both_stay(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    project = make("craft")
    mirror, digest = mirror_of(project.home.context), erase._digest
    place = Path(project.session.files.list()[0].place)

    def edited(path: str, limit: int = 0) -> str:
        if path != str(place):  # it was just given another name
            Path(path).write_text("first")
            place.write_text("second")
        return digest(path, limit)

    monkeypatch.setattr(erase, "_digest", edited)
    assert mirror.remove(mirror.owned(project.session.id)) == ([], [str(place)])
    renamed = [path.read_text() for path in place.parent.iterdir() if path != place]
    assert place.read_text() == "second" and renamed == ["first"]


def test_lines_added_while_we_remove_others_stay(make: Make) -> None:
    log = make(AI_SESSION).ai("history.jsonl")
    log.write_bytes(b"")
    other = subprocess.Popen([sys.executable, "-c", APPENDER, str(log)])
    number = 0
    while other.poll() is None:
        with log.open("ab") as file:
            file.write(b'{"a": "drop it"}\n')
        erase._remove_text(str(log.parent), str(log), set(), ["drop it"])
        number += 1
    assert sorted(theirs(log)) == list(range(400)) and number > 1
    assert "drop it" not in log.read_text() and leftovers(log.parent) == []


def test_index_entry_added_during_a_removal_stays(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = make(AI_SESSION)
    index = project.index
    turns = iter(range(2))

    def turn() -> None:
        if next(turns, None) is not None:
            new = {"feature_id": f"other-{index.stat().st_size}", "status": "active"}
            project.edit(lambda value: value["active_features"].append(new), index)

    around_exchanges(monkeypatch, turn)
    (binding,) = project.home.context.store.machine.bindings.bindings()
    assert erase._remove_entry(binding, str(index)) == []
    assert ID not in index.read_text() and index.read_text().count("other-") == 2


def test_file_replaced_during_its_removal_stays(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = make("craft")
    place, rename = project.place, os.rename
    known = {erase._digest(str(place))}

    def renamed(source: str, target: str) -> None:
        swap_in(place, b'{"theirs": 1}')
        rename(source, target)

    monkeypatch.setattr(os, "rename", renamed)
    assert not erase._unlink(str(place.parent), str(place), known)
    assert place.read_bytes() == b'{"theirs": 1}' and leftovers(place.parent) == []


def test_forgetting_events_removes_no_key_of_others(make: Make) -> None:
    project = make("craft", "orchestrator", "praxis")
    places = [Path(binding.place) for binding in project.session.files.list()]
    for place in places:
        project.edit(lambda value: value.update(team="blue"), place)
    session = project.session
    events = [
        session.decide("Use a queue", because="fast", chosen="redis"),
        session.record.error("Disk is full"),
        session.record.file(str(project.folder / "secret-name.py"), action="deleted"),
        session.tasks.add("Ask Bob"),
    ]
    for event in events:
        done = project.again().lifecycle.forget(event.id)
        assert not done.left
        assert all(path.endswith(".fspack") for path in done.cleaned), "only backups"
    for place in places:
        text = place.read_text()
        assert project.read(place)["team"] == "blue"
        assert not any(w in text for w in ("a queue", "Disk", "secret-name", "Ask Bob"))


def test_file_restored_after_forgetting_has_the_keys_of_others(
    make: Make,
) -> None:
    project = make(AI_SESSION)
    plan = project.ai("implementation-plan.yaml")
    project.edit(lambda value: value.update(team="blue"), plan)
    event = project.session.decide("Use a queue")
    project.session.lifecycle.forget(event.id)
    plan.unlink()
    project.again().note("next")
    assert project.read(plan)["team"] == "blue"


def test_forgetting_does_not_follow_links(make: Make) -> None:
    project = make(AI_SESSION)
    outside, folder = project.base / "outside", project.folder / ".ai-session" / ID
    os.rename(folder, outside)
    folder.symlink_to(outside)
    (outside / ".state.yaml.1.forestay-tmp").write_text("left")
    before, names = everything(outside), sorted(outside.rglob("*"))
    forgotten = project.session.lifecycle.forget()
    assert everything(outside) == before and sorted(outside.rglob("*")) == names
    assert any(path.startswith(str(folder)) for path in forgotten.left)


@pytest.mark.parametrize("goes_on", [False, True], ids=["another process", "the same process"])
def test_forgotten_text_does_not_return_after_a_crash_during_forgetting(
    make: Make, monkeypatch: pytest.MonkeyPatch, goes_on: bool
) -> None:
    project = make("craft")
    text = "the plan that nobody may know"
    project.session.decide(text, because="of reasons")
    project.edit(lambda value: value.update(also=text))
    project.session.note("now the file has to be begun anew")
    remove_text = erase._remove_text

    def die(*reported: Any) -> bool:
        assert remove_text(*reported) and not project.place.exists()
        raise KeyboardInterrupt

    monkeypatch.setattr(erase, "_remove_text", die)
    with pytest.raises(KeyboardInterrupt):
        project.session.lifecycle.forget("#2")
    monkeypatch.undo()
    home = project.home if goes_on else project.opened()
    home.session(project.session.id).note("on it goes")
    home.close()
    assert "nobody may know" not in project.place.read_text()


def test_edits_of_a_file_repaired_after_forgetting_keep_each_others_keys(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = make("praxis")
    now = project.clock.now()
    monkeypatch.setattr(Ticking, "now", lambda clock: now)  # within a second nothing is written
    session = project.session
    event = session.decide("Use a queue", because="fast")
    whole = project.place.read_bytes()
    swap_in(project.place, b"{ half")
    session.lifecycle.forget(event.id)
    swap_in(project.place, whole)
    session.note("repaired")
    stale = project.read()
    for key in ("x_his", "x_hers"):
        swap_in(project.place, json.dumps(stale | {key: 1}).encode())
        project.again().note(key)
    assert project.read().keys() >= {"x_his", "x_hers"}


def test_edits_of_a_file_restored_before_forgetting_keep_each_others_keys(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = make("praxis")
    now = project.clock.now()
    monkeypatch.setattr(Ticking, "now", lambda clock: now)
    project.session.note("now")
    session, old = project.session, project.place.read_bytes()
    project.edit(lambda value: value.update(x_ours=1))
    event = session.decide("Use a queue", because="fast")
    swap_in(project.place, old)
    session.lifecycle.forget(event.id)
    stale = project.read()
    for key in ("x_his", "x_hers"):
        swap_in(project.place, json.dumps(stale | {key: 1}).encode())
        project.again().note(key)
    assert project.read().keys() >= {"x_his", "x_hers"}


def test_old_copy_from_before_forgetting_does_not_restore_the_text(make: Make) -> None:
    project = make("craft", "orchestrator", "praxis")
    places = [Path(binding.place) for binding in project.session.files.list()]
    for place in places:
        project.edit(lambda value: value.update(team="blue"), place)
    event = project.session.record.error("Disk of Bob is full")
    old = {place: place.read_bytes() for place in places}
    project.session.lifecycle.forget(event.id)
    for place, data in old.items():
        swap_in(place, data)
    project.again().note("next")
    for place in places:
        assert "Bob" not in place.read_text() and project.read(place)["team"] == "blue"
    for binding in (mirror := mirror_of(project.home.context)).bindings(project.session.id):
        kept = mirror._bindings.contents(binding, Path(binding.place).name)
        assert kept and b"Bob" not in b"".join(kept)


def test_cache_of_one_process_restores_nothing_that_another_forgot(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = make("craft")
    monkeypatch.setattr(Ticking, "now", lambda clock: 1_800_000_000_000)
    project.session.note("one")
    old = project.place.read_bytes()
    event = project.session.decide("Ask Bob", because="he knows")
    swap_in(project.place, old)
    with project.opened() as other:
        other.session(project.session.id).lifecycle.forget(event.id)
    project.session.note("two")
    assert "Bob" not in project.place.read_text()
