"""Settings: which layer wins, what is refused, and a file that is edited without harm."""

from __future__ import annotations

import os
import pickle
import stat
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forestay.base import config, files
from forestay.base.config import OPTIONS, Settings, example_toml, load, set_value, unset
from forestay.errors import Busy, InvalidInput, Refused

IN_FILE = [name for name, option in OPTIONS.items() if option.in_file]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir(mode=0o700)
    return folder


def write(home: Path, text: str) -> Path:
    path = home / "config.toml"
    path.write_text(text)
    return path


def read(home: Path, **overrides: object) -> Settings:
    return load(str(home), environ={}, overrides=overrides)


# --- layers ------------------------------------------------------------------------------------


def test_defaults_apply_if_nothing_is_set(home: Path) -> None:
    settings = read(home)
    assert (settings.busy_timeout, settings.brief_budget, settings.store) == (10, 1500, "")
    assert (settings.drift_files, settings.drift_ms, settings.backup_keep) == (200, 50, 3)
    assert settings.origin("brief_budget") == "default"
    assert settings.home == str(home)
    assert not settings.unknown


@pytest.mark.parametrize("name", OPTIONS)
def test_every_default_obeys_its_own_rule(name: str) -> None:
    option = OPTIONS[name]
    if name != "home":
        assert option.check(option.default) == option.default


def test_arguments_override_the_environment_which_overrides_the_settings_file(home: Path) -> None:
    path = write(home, "brief_budget = 200\ndrift_ms = 1\nbackup_keep = 5\n")
    environ = {"FORESTAY_DRIFT_MS": "2", "FORESTAY_BACKUP_KEEP": "6"}
    settings = load(str(home), environ=environ, overrides={"backup_keep": 7, "color": None})
    assert (settings.brief_budget, settings.drift_ms, settings.backup_keep) == (200, 2, 7)
    assert settings.origin("brief_budget") == str(path)
    assert settings.origin("drift_ms") == "environment FORESTAY_DRIFT_MS"
    assert settings.origin("backup_keep") == "argument"
    assert settings.origin("color") == "default"


@pytest.mark.parametrize("name", [name for name in OPTIONS if name != "home"])
def test_every_option_can_come_from_the_environment(name: str, home: Path) -> None:
    words = {"store": "sqlite:x", "color": "never", "naive_time": "utc", "context_window": "9999"}
    words["auto_sync"] = "off"
    settings = load(str(home), environ={OPTIONS[name].variable: words.get(name, "160")})
    assert settings.origin(name) == f"environment FORESTAY_{name.upper()}"
    assert getattr(settings, name) != OPTIONS[name].default


def test_empty_variable_counts_as_not_set(home: Path) -> None:
    settings = load(str(home), environ={"FORESTAY_BRIEF_BUDGET": "", "FORESTAY_HOME": ""})
    assert settings.brief_budget == 1500


def test_process_environment_is_read_unless_replaced_or_distrusted(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORESTAY_HOME", str(home))
    monkeypatch.setenv("FORESTAY_SESSION", "abc")
    assert (load().home, load().session) == (str(home), "abc")
    assert load(environ={"HOME": "/h"}).session == ""
    untrusting = load(trust_env=False)
    assert untrusting.session == "" and untrusting.home != str(home)


def test_settings_cannot_be_changed(home: Path) -> None:
    settings = read(home)
    with pytest.raises(AttributeError, match="frozen"):
        settings.brief_budget = 1
    assert settings.brief_budget == 1500


def test_items_list_every_option_with_value_and_origin(home: Path) -> None:
    items = list(read(home, drift_ms=9).items())
    assert [name for name, _, _ in items] == list(OPTIONS)
    assert ("drift_ms", 9, "argument") in items


def test_unknown_option_argument_is_a_type_error(home: Path) -> None:
    with pytest.raises(TypeError, match="dirft_ms"):
        read(home, dirft_ms=1)


# --- the home ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("environ", "home"),
    [
        ({"FORESTAY_HOME": "/x/y", "XDG_DATA_HOME": "/d", "HOME": "/h"}, "/x/y"),
        ({"XDG_DATA_HOME": "/d", "HOME": "/h"}, "/d/forestay"),
        ({"XDG_DATA_HOME": "relative", "HOME": "/h"}, "/h/.local/share/forestay"),
        ({"XDG_DATA_HOME": "", "HOME": "/h"}, "/h/.local/share/forestay"),
        ({"FORESTAY_HOME": "~/x", "HOME": "/h"}, "/h/x"),
        ({"FORESTAY_HOME": "~", "HOME": "/h"}, "/h"),
        ({"FORESTAY_HOME": "/x/../y/"}, "/y"),
    ],
)
def test_home_follows_the_environment(
    environ: dict[str, str], home: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    assert load(environ=environ).home == home


def test_home_on_macos_is_in_the_library_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    settings = load(environ={"HOME": "/Users/me"})
    assert settings.home == "/Users/me/Library/Application Support/forestay"


def test_home_comes_from_the_user_database_without_an_environment() -> None:
    import pwd

    assert load(trust_env=False).home.startswith(pwd.getpwuid(os.geteuid()).pw_dir)


def test_argument_overrides_the_environment(tmp_path: Path) -> None:
    settings = load(str(tmp_path), environ={"FORESTAY_HOME": "/x"})
    assert (settings.home, settings.origin("home")) == (str(tmp_path), "argument")


def test_relative_home_is_relative_to_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert load("h", environ={}).home == str(tmp_path / "h")


def test_relative_home_from_a_deleted_folder_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    with pytest.raises(InvalidInput, match="home"):
        load("h", environ={})


@pytest.mark.parametrize("value", ["a\0b", "a\nb", "/" + "x" * 5000])
def test_home_that_is_not_a_path_is_refused(value: str) -> None:
    with pytest.raises(InvalidInput, match="home cannot be"):
        load(value, environ={})


# --- rules -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("brief_budget", 149),
        ("brief_budget", 20_001),
        ("drift_ms", True),
        ("brief_budget", "1e3"),
        ("brief_budget", "１５００"),
        ("brief_budget", "9" * 5000),
        ("brief_budget", 200.0),
        ("brief_budget", [200]),
        ("busy_timeout", -1),
        ("busy_timeout", "nan"),
        ("busy_timeout", "inf"),
        ("busy_timeout", 10**400),
        ("busy_timeout", False),
        ("busy_timeout", "soon"),
        ("color", "pink"),
        ("color", 1),
        ("naive_time", "mars"),
        ("store", "just a name"),
        ("store", "x" * 2001),
        ("pager", "less\n-R"),
        ("device_name", "\x1b[31m"),
        ("device_name", "\ud800"),
        ("session", 5),
        ("redact_patterns", "("),
        ("redact_patterns", [""]),
        ("redact_patterns", [1]),
        ("redact_patterns", ["x"] * 101),
        ("redact_patterns", {"a": "b"}),
        ("redact_patterns", "(" * 500 + ")" * 500 + "["),
    ],
)
def test_bad_value_names_option_rule_value_and_origin(name: str, value: object, home: Path) -> None:
    with pytest.raises(InvalidInput) as caught:
        read(home, **{name: value})
    text = str(caught.value)
    assert f"{name} cannot be" in text and repr(value)[:50] in text
    assert OPTIONS[name].rule in text and "given with the command" in text
    assert len(text) < 400


def test_bad_value_in_the_file_names_the_file_and_the_command(home: Path) -> None:
    path = write(home, 'color = "pink"\n')
    with pytest.raises(InvalidInput) as caught:
        read(home)
    assert str(path) in str(caught.value) and "'pink'" in str(caught.value)
    assert caught.value.hint == "forestay config color VALUE"


def test_bad_line_in_the_file_can_be_overridden(home: Path) -> None:
    write(home, 'color = "pink"\n')
    assert load(str(home), environ={"FORESTAY_COLOR": "never"}).color == "never"


def test_numbers_may_be_written_as_text(home: Path) -> None:
    assert read(home, busy_timeout="0.5", drift_ms="007").busy_timeout == 0.5
    assert read(home, drift_ms="007").drift_ms == 7


@pytest.mark.parametrize(
    ("typed", "patterns"),
    [
        ('["ACME-[0-9]+"]', ("ACME-[0-9]+",)),
        (""" [ 'a\\d', "b" ] """, ("a\\d", "b")),
        ("[]", ()),
        ("[bc]", ("[bc]",)),
        ("x[\"']", ("x[\"']",)),
    ],
)
def test_patterns_given_as_a_toml_list_are_parsed(
    home: Path, typed: str, patterns: tuple[str, ...]
) -> None:
    assert set_value(str(home), "redact_patterns", typed) == patterns


@pytest.mark.parametrize("typed", ['["a" "b"]', "[\"']", '["a", 1]'])
def test_malformed_list_of_patterns_is_refused(home: Path, typed: str) -> None:
    with pytest.raises(InvalidInput, match="redact_patterns"):
        set_value(str(home), "redact_patterns", typed)


def test_patterns_from_the_environment_are_one_per_line(home: Path) -> None:
    settings = load(str(home), environ={"FORESTAY_REDACT_PATTERNS": "a+\n[bc]"})
    assert settings.redact_patterns == ("a+", "[bc]")


def test_password_in_a_url_is_never_shown(home: Path) -> None:
    secret = "postgres://me:hunter2@db/x"
    settings = read(home, store=secret)
    assert settings.store == secret
    assert "hunter2" not in repr(settings) and "postgres://me@db/x" in repr(settings)
    with pytest.raises(InvalidInput) as caught:
        read(home, store="POSTGRES://me:hunter2@db/x")
    assert "hunter2" not in str(caught.value)
    assert "hunter2" not in repr(pickle.loads(pickle.dumps(caught.value)).__dict__)


@pytest.mark.parametrize(
    ("environ", "color"),
    [
        ({}, "auto"),
        ({"NO_COLOR": "1"}, "never"),
        ({"NO_COLOR": ""}, "auto"),
        ({"TERM": "dumb"}, "never"),
        ({"TERM": "xterm"}, "auto"),
        ({"NO_COLOR": "1", "FORESTAY_COLOR": "always"}, "always"),
    ],
)
def test_colour_follows_no_color_and_term(environ: dict[str, str], color: str, home: Path) -> None:
    assert load(str(home), environ=environ).color == color


def test_pager_variable_is_used_unless_ours_is_set(home: Path) -> None:
    environ = {"PAGER": "less"}
    assert load(str(home), environ=environ).pager == "less"
    assert load(str(home), environ=environ).origin("pager") == "environment PAGER"
    assert load(str(home), environ={**environ, "FORESTAY_PAGER": "most"}).pager == "most"


def test_child_programs_get_our_environment_in_english(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LC_ALL", "de_DE.UTF-8")
    monkeypatch.setenv("SOME_THING", "x")
    child = config.child_environment()
    assert (child["LC_ALL"], child["SOME_THING"]) == ("C", "x")
    assert os.environ["LC_ALL"] == "de_DE.UTF-8"


# --- the file ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["home", "session"])
def test_option_that_may_not_be_in_the_settings_file_is_refused_in_it(
    name: str, home: Path
) -> None:
    write(home, f'{name} = "x"\n')
    with pytest.raises(InvalidInput, match="cannot be set in the file") as caught:
        read(home)
    assert f"FORESTAY_{name.upper()}" in caught.value.hint


def test_unknown_option_in_the_file_is_preserved_and_reported(home: Path) -> None:
    write(home, "teleport = true\n[future]\nx = 1\n")
    assert read(home).unknown == ("teleport", "future")


@pytest.mark.parametrize(
    "data",
    [
        b"brief_budget = ",
        b"= 5",
        b"a = 1\na = 2",
        b"\xff\xfe",
        b"a = '\xe9'",
        b"a = '\xed\xa0\x80'",
        b"x" * 65_537,
        b"a = " + b"[" * 30_000,
        b"a = " + b"9" * 60_000,
        b"a = 1\r",
        b"\0",
    ],
    ids=lambda data: repr(data[:20]),
)
def test_file_that_is_not_toml_is_refused_by_name(data: bytes, home: Path) -> None:
    (home / "config.toml").write_bytes(data)
    with pytest.raises(InvalidInput, match=r"config\.toml"):
        read(home)


def test_settings_file_of_exactly_the_size_limit_is_read(home: Path) -> None:
    write(home, "drift_ms = 7\n#".ljust(65_536, "x"))
    assert read(home).drift_ms == 7


def test_fifo_in_place_of_the_settings_file_does_not_hang(home: Path) -> None:
    os.mkfifo(home / "config.toml")
    with pytest.raises(InvalidInput, match="not a regular file"):
        read(home)


def test_settings_file_that_other_users_may_write_is_refused(home: Path) -> None:
    write(home, 'pager = "evil"\n').chmod(0o666)
    home.chmod(0o755)
    with pytest.raises(Refused, match="other users of this computer can write"):
        read(home)


def test_missing_home_gives_the_default_settings(tmp_path: Path) -> None:
    assert read(tmp_path / "nowhere").brief_budget == 1500
    assert read(tmp_path / "nowhere").unknown == ()


def test_without_a_settings_file_no_toml_parser_is_loaded(home: Path) -> None:
    program = (
        "import sys; from forestay.base import config; config.load(sys.argv[1])\n"
        "heavy = {'tomllib', 'json', 're', 'hashlib', 'datetime', 'typing'}\n"
        "print(*(heavy & sys.modules.keys()))"
    )
    command = [sys.executable, "-S", "-E", "-c", program, str(home)]
    source = str(Path(config.__file__).parent.parent.parent)
    done = subprocess.run(command, cwd=source, capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


# --- setting and unsetting ---------------------------------------------------------------------


def test_value_that_was_set_is_read_back(tmp_path: Path) -> None:
    os.umask(0)
    home = tmp_path / "new" / "home"
    assert set_value(str(home), "drift_ms", "70") == 70
    assert read(home).drift_ms == 70
    assert stat.S_IMODE((home / "config.toml").stat().st_mode) == 0o600
    assert stat.S_IMODE(home.stat().st_mode) == 0o700


@pytest.mark.parametrize("name", IN_FILE)
def test_every_default_survives_being_set(name: str, home: Path) -> None:
    set_value(str(home), name, OPTIONS[name].default)
    assert getattr(read(home), name) == OPTIONS[name].default


BEFORE = """\
# my settings
brief_budget = 200   # small model

redact_patterns = [
    "a=1",  # mine
    'drift_ms = 3',
]
text = '''
drift_ms = 4
'''
"drift_ms" = 5 # here

[other]
drift_ms = 6
"""


def test_setting_changes_its_own_line_and_no_other(home: Path) -> None:
    path = write(home, BEFORE)
    set_value(str(home), "drift_ms", 9)
    assert path.read_text() == BEFORE.replace('"drift_ms" = 5 # here', "drift_ms = 9  # here")


def test_setting_replaces_all_lines_of_a_long_value(home: Path) -> None:
    path = write(home, BEFORE)
    set_value(str(home), "redact_patterns", ["x#y", 'q"\\d'])
    first, rest = BEFORE.split("redact_patterns")
    tail = rest[rest.index("text") :]
    assert path.read_text() == first + 'redact_patterns = ["x#y", "q\\"\\\\d"]\n' + tail
    assert read(home).redact_patterns == ("x#y", 'q"\\d')


def test_new_value_is_added_before_the_first_table(home: Path) -> None:
    path = write(home, "# top\n[other]\nx = 1")
    set_value(str(home), "drift_ms", 9)
    assert path.read_text() == "# top\ndrift_ms = 9\n[other]\nx = 1\n"


def test_unset_removes_the_line(home: Path) -> None:
    path = write(home, BEFORE)
    assert unset(str(home), "drift_ms") is True
    assert path.read_text() == BEFORE.replace('"drift_ms" = 5 # here\n', "")
    assert unset(str(home), "drift_ms") is False
    assert unset(str(home), "color") is False
    assert unset(str(home / "nowhere"), "color") is False


def test_unset_removes_an_unknown_option(home: Path) -> None:
    path = write(home, "teleport = 1\ncolor = 'auto'\n")
    assert unset(str(home), "teleport")
    assert path.read_text() == "color = 'auto'\n"


def test_edit_handles_windows_line_endings(home: Path) -> None:
    path = home / "config.toml"
    path.write_bytes(b"drift_ms = 1 # one\r\ncolor = 'auto'\r\n")
    set_value(str(home), "drift_ms", 2)
    assert tomllib.loads(path.read_bytes().decode())["drift_ms"] == 2
    assert b"color = 'auto'\r\n" in path.read_bytes()


def test_edit_that_cannot_be_made_safely_changes_nothing(home: Path) -> None:
    path = write(home, "[pager]\nx = 1\n")
    with pytest.raises(InvalidInput):
        set_value(str(home), "pager", "less")
    assert path.read_text() == "[pager]\nx = 1\n"


def test_broken_file_is_not_edited(home: Path) -> None:
    path = write(home, "drift_ms = \n")
    with pytest.raises(InvalidInput, match="not TOML"):
        set_value(str(home), "drift_ms", 5)
    assert path.read_text() == "drift_ms = \n"


def test_settings_file_never_grows_past_the_size_that_can_be_read(home: Path) -> None:
    path = write(home, "#".ljust(65_530, "x") + "\n")
    with pytest.raises(InvalidInput, match="too large"):
        set_value(str(home), "drift_ms", 5)
    assert path.stat().st_size == 65_531


def test_bad_value_is_refused_before_anything_is_created(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="drift_ms cannot be"):
        set_value(str(tmp_path / "home"), "drift_ms", "many")
    with pytest.raises(InvalidInput, match="cannot be set in the file"):
        set_value(str(tmp_path / "home"), "session", "x")
    assert not (tmp_path / "home").exists()


def test_unknown_option_is_refused_with_similar_names(home: Path) -> None:
    with pytest.raises(InvalidInput) as caught:
        set_value(str(home), "busy_time", 5)
    assert "busy_timeout" in caught.value.hint
    with pytest.raises(InvalidInput) as caught:
        set_value(str(home), "\x00qqq", 5)
    assert "forestay config" in caught.value.hint


def test_two_processes_can_set_options_at_once(home: Path) -> None:
    program = (
        "import sys; from forestay.base.config import set_value\n"
        "for i in range(20): set_value(*sys.argv[1:3], i)"
    )
    writers = [
        subprocess.Popen([sys.executable, "-c", program, str(home), name])
        for name in ("drift_ms", "drift_files", "backup_every_minutes")
    ]
    assert [writer.wait() for writer in writers] == [0, 0, 0]
    settings = read(home)
    assert (settings.drift_ms, settings.drift_files, settings.backup_every_minutes) == (19, 19, 19)
    assert os.listdir(home) == ["config.toml"]


def test_setting_an_option_waits_for_another_edit(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class impatient(files.locked):
        def __init__(self, folder: str) -> None:
            super().__init__(folder, timeout=0)

    with files.locked(str(home)):
        monkeypatch.setattr(files, "locked", impatient)
        with pytest.raises(Busy):
            set_value(str(home), "drift_ms", 1)


values = st.one_of(
    st.integers(), st.floats(), st.text(), st.lists(st.text(), max_size=3), st.none()
)


@given(st.sampled_from(IN_FILE), values)
def test_value_is_either_refused_or_read_back_equal(
    tmp_path_factory: pytest.TempPathFactory, name: str, value: object
) -> None:
    home = tmp_path_factory.mktemp("home")
    path = write(home, BEFORE)
    try:
        clean = set_value(str(home), name, value)
    except InvalidInput:
        assert path.read_text() == BEFORE
    else:
        assert getattr(read(home), name) == clean
        assert read(home).unknown == ("text", "other")


# --- the example -------------------------------------------------------------------------------


def test_example_file_sets_no_option_and_names_every_option(home: Path) -> None:
    assert tomllib.loads(example_toml()) == {}
    for name in IN_FILE:
        option = OPTIONS[name]
        assert f"# {name} = " in example_toml()
        assert option.meaning in example_toml() and option.rule in example_toml()
    assert "session" not in [line.split()[1] for line in example_toml().splitlines() if line]


def test_uncommented_example_file_equals_the_defaults(home: Path) -> None:
    lines = [line.removeprefix("# ") for line in example_toml().splitlines()]
    write(home, "\n".join(line for line in lines if line.partition(" = ")[0] in OPTIONS))
    settings = read(home)
    for name in IN_FILE:
        assert getattr(settings, name) == OPTIONS[name].default
        assert settings.origin(name).endswith("config.toml")
