"""The command line with its sessions on a PostgreSQL server: a sample of the other tests.

The tests are imported; only the fixture of the home differs.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.support import Cli, command
from tests.cli.test_cli_brief import (
    test_brief_records_nothing_and_resume_records_an_event,
    test_resume_exits_7_after_an_agent_died,
)
from tests.cli.test_cli_care import (
    test_config_shows_no_password,
    test_export_and_import_carry_a_session_with_its_artifacts,
    test_verify_reports_what_it_checked,
)
from tests.cli.test_cli_choice import (
    test_ambiguous_id_is_refused_with_choices,
    test_resume_selects_the_only_open_session,
)
from tests.cli.test_cli_files import (
    test_recorded_file_edits_are_counted_in_the_message,
    test_start_shows_the_paths_of_bound_files,
)
from tests.cli.test_cli_look import (
    test_another_folder_has_its_own_list_and_all_shows_both,
    test_list_filters_and_respects_the_limit,
    test_log_shows_every_event_in_order,
    test_read_only_commands_create_nothing_in_a_fresh_home,
    test_search_shows_where_words_occur,
    test_show_displays_any_earlier_point,
)
from tests.cli.test_cli_prove import (
    linted,
    test_proof_becomes_stale_after_an_edit_and_holds_when_run_again,
)
from tests.cli.test_cli_record import (
    test_start_repeated_with_the_same_key_creates_one_session,
    test_undo_withdraws_everything_that_a_command_recorded,
)
from tests.cli.test_cli_session import (
    test_archive_hides_a_session_and_unarchive_shows_it_again,
    test_forget_names_what_it_cannot_reach_and_that_the_id_is_used_up,
    test_start_makes_the_session_current,
    test_use_accepts_a_shortened_id_and_shows_the_session,
)
from tests.pgserver import PgServer

SAMPLE = [
    linted,
    test_start_repeated_with_the_same_key_creates_one_session,
    test_start_shows_the_paths_of_bound_files,
    test_resume_exits_7_after_an_agent_died,
    test_ambiguous_id_is_refused_with_choices,
    test_another_folder_has_its_own_list_and_all_shows_both,
    test_archive_hides_a_session_and_unarchive_shows_it_again,
    test_brief_records_nothing_and_resume_records_an_event,
    test_config_shows_no_password,
    test_export_and_import_carry_a_session_with_its_artifacts,
    test_forget_names_what_it_cannot_reach_and_that_the_id_is_used_up,
    test_list_filters_and_respects_the_limit,
    test_log_shows_every_event_in_order,
    test_read_only_commands_create_nothing_in_a_fresh_home,
    test_proof_becomes_stale_after_an_edit_and_holds_when_run_again,
    test_resume_selects_the_only_open_session,
    test_search_shows_where_words_occur,
    test_show_displays_any_earlier_point,
    test_start_makes_the_session_current,
    test_undo_withdraws_everything_that_a_command_recorded,
    test_use_accepts_a_shortened_id_and_shows_the_session,
    test_verify_reports_what_it_checked,
    test_recorded_file_edits_are_counted_in_the_message,
]
"""The imported tests, listed so that the linter does not remove the imports."""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pg_store: str) -> Path:
    path = tmp_path / "home"
    monkeypatch.setenv("FORESTAY_HOME", str(path))
    monkeypatch.setenv("FORESTAY_STORE", pg_store)
    return path


def test_doctor_reports_that_it_cannot_check_the_files_of_a_server(cli: Cli) -> None:
    cli.start()
    reported = cli("doctor")
    assert "sessions are stored in postgresql://" in reported.out
    assert "checks and backups of its files are done on the server" in reported.out
    # The tests' own server runs without fsync, which the doctor reports; a given one may not.
    assert ("fsync = off" in reported.out) == (reported.code != 0)
    assert not (Path(os.environ["FORESTAY_HOME"]) / "backups").exists()


def test_unreachable_server_is_named_with_a_remedy(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORESTAY_STORE", "postgresql://me:s3cret@127.0.0.1:1/db")
    for argv in (["status"], ["start", "x"], ["list"], ["doctor"]):
        reported = cli(*argv)
        assert (
            reported.code == 1
            and "postgresql://me@127.0.0.1:1/db cannot be reached" in reported.err
        )
        assert "s3cret" not in reported.err + reported.out and "→" in reported.err
    given = cli("--store", "postgresql://me:s3cret@127.0.0.1:1/db?password=s3cret", "status")
    assert given.code == 1 and "s3cret" not in given.err


def test_missing_driver_is_reported_with_the_package_to_install(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys

    for name in [name for name in sys.modules if name.startswith("forestay.store.postgres.store")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "psycopg", None)
    reported = cli("status")
    assert reported.code == 2 and "pip install 'forestay[postgres]'" in reported.err


# -- a server that goes away while its log is followed ------------------------------------------


@pytest.fixture
def follower(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, pg_server: PgServer
) -> Iterator[subprocess.Popen[bytes]]:
    """Start a process that follows a session and has printed its first event."""
    monkeypatch.setenv("FORESTAY_STORE", f"{pg_server.url}&schema=followed")
    monkeypatch.setenv("FORESTAY_BUSY_TIMEOUT", "0.3")
    cli.start("Add login")
    argv = [*command(), "log", "--follow", "--json"]
    pipe = subprocess.PIPE
    with subprocess.Popen(argv, stdout=pipe, stderr=pipe) as child:
        assert _reported(child)["kind"] == "session.started"
        try:
            yield child
        finally:
            child.kill()


def _reported(child: subprocess.Popen[bytes]) -> dict[str, object]:
    assert child.stdout is not None
    assert select.select([child.stdout], [], [], 60)[0]
    found = json.loads(child.stdout.readline())
    assert isinstance(found, dict)
    return found


def test_log_follow_waits_for_an_unreachable_server_and_continues(
    cli: Cli, follower: subprocess.Popen[bytes], pg_server: PgServer
) -> None:
    assert follower.stderr is not None and follower.stdout is not None
    for text in ("first", "second"):
        pg_server.stop()
        try:
            reported = follower.stderr.readline()
            assert b"waiting for it; Ctrl-C stops this" in reported and b"postgresql://" in reported
            assert not select.select([follower.stderr, follower.stdout], [], [], 3)[0]  # once
        finally:
            pg_server.start()
        cli.ok("note", text)
        event = _reported(follower)
        assert (event["kind"], event["data"]) == ("note.added", {"text": text})
    follower.send_signal(signal.SIGINT)
    out, err = follower.communicate(timeout=30)
    assert (follower.returncode, out, err) == (130, b"", b"")


def test_log_follow_reports_that_the_server_refuses_access(
    follower: subprocess.Popen[bytes], pg_server: PgServer
) -> None:
    pg_server.stop()
    hba = pg_server.folder / "data" / "pg_hba.conf"
    before = hba.read_text()
    hba.write_text("local all nobody trust\n")
    try:
        pg_server.start_without_waiting()
        out, _ = follower.communicate(timeout=60)
    finally:
        hba.write_text(before)
        pg_server.stop()
        pg_server.start()
    reported = json.loads(out)["error"]
    assert follower.returncode == 1 and not reported["retryable"]
    assert "pg_hba.conf" in reported["hint"], reported
