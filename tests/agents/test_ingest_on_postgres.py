"""Payloads of hooks become events on PostgreSQL: a sample of the ingest tests.

The tests are imported; only the store of the home differs.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.agents.spooling import Hooks
from tests.agents.test_ingest import (  # noqa: F401 - collected here, too
    pytestmark,
    test_end_in_order_pauses_and_the_next_start_resumes,
    test_hook_answers_in_the_form_of_the_agent,
    test_payloads_that_were_recorded_and_not_deleted_are_recorded_once,
    test_process_that_died_in_a_tool_leaves_an_unknown_outcome,
    test_session_is_saved_in_its_files_before_a_compaction_and_paused_at_the_end,
    test_turn_is_recorded_with_actors_and_times,
)


@pytest.fixture
def hooks(tmp_path: Path, pg_store: str) -> Hooks:
    made = Hooks(tmp_path)
    (made.home / "config.toml").write_text(f'store = "{pg_store}"\n')
    return made
