"""Give every test the same clean environment, and configure property tests.

No test can read the developer's home, settings, git configuration, time zone or umask, so that
none can depend on them or damage them.
"""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.memory import memory_folder
from tests.warm import Warm

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tests.pgserver import PgServer

pytest_plugins = ["tests.conformance", "pytester"]
pytest.register_assert_rewrite("forestay.testing")

# A run started in the background ignores interrupts, and every program it starts would, too.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Tests write to memory if it has enough room: a sync costs nothing there. What survives a power cut
# is shown by `tests/crash`, which records what was synced.
if (memory := memory_folder()) is not None:
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", memory)

_GIVEN_POSTGRES = os.environ.get("FORESTAY_TEST_POSTGRES") or ""
NOBODY = 65534
SOAK_SECONDS = float(os.environ.get("FORESTAY_SOAK_SECONDS") or 120)

settings.register_profile(
    "default",
    max_examples=50,
    deadline=None,  # two busy cores make any limit in milliseconds a coin toss
    derandomize="CI" in os.environ,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("more", settings.get_profile("default"), max_examples=500)
settings.register_profile(
    "soak",
    max_examples=5_000,
    deadline=None,
    derandomize="CI" in os.environ,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("default")

_numbers = itertools.count()
_INHERITED_PREFIXES = ("FORESTAY_", "AWS_", "XDG_", "GIT_", "CLICOLOR", "LC_", "PG")
_INHERITED = ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "LINES", "PAGER", "EDITOR", "VISUAL")


@pytest.fixture
def soak_seconds(request: pytest.FixtureRequest) -> float:
    """Return how long this long-running test may run: its share of `make soak SECONDS=`.

    Tests with a fixed amount of work do not count.
    """
    return SOAK_SECONDS / sum(
        "soak_seconds" in getattr(item, "fixturenames", ()) for item in request.session.items
    )


@pytest.fixture
def report_figure(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Return a function that prints a line at the end of the run, such as the seed used."""
    return lambda text: request.node.user_properties.append(("figure", text))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the figures that tests reported."""
    reports = [report for reports in terminalreporter.stats.values() for report in reports]
    figures = [
        text
        for report in reports
        for name, text in getattr(report, "user_properties", ())
        if name == "figure" and getattr(report, "when", "") == "call"
    ]
    if figures:
        terminalreporter.section("figures")
    for text in figures:
        terminalreporter.line(str(text))


@pytest.fixture(autouse=True)
def _clean_environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    # This fixture uses neither `tmp_path` nor `monkeypatch`: they would count as
    # function-scoped fixtures in property tests, about which Hypothesis warns.
    home = tmp_path_factory.mktemp("home")
    umask = os.umask(0o022)
    with pytest.MonkeyPatch.context() as patch:
        for name in list(os.environ):
            if name.startswith(_INHERITED_PREFIXES) or name in _INHERITED:
                patch.delenv(name)
        for name, value in _environment(home).items():
            patch.setenv(name, value)
        # Most tests read a file right after the event; tests/mirror/test_coalesce.py does not.
        patch.setattr("forestay.mirror.session_files.SessionFiles.interval", 0.0)
        time.tzset()
        yield
    time.tzset()
    os.umask(umask)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Set the home that commands and agents use; it does not exist yet."""
    path = tmp_path / "home"
    monkeypatch.setenv("FORESTAY_HOME", str(path))
    return path


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make and enter a project folder; shared essays are searched in a sibling folder."""
    path = tmp_path / "project"
    path.mkdir()
    monkeypatch.chdir(path)
    monkeypatch.setattr("forestay.mirror.discover.SHARED_ROOTS", (str(tmp_path / "tmp"),))
    return path


def _environment(home: Path) -> dict[str, str]:
    return {
        "HOME": str(home),
        "XDG_DATA_HOME": str(home / ".local/share"),
        "XDG_CONFIG_HOME": str(home / ".config"),
        "XDG_STATE_HOME": str(home / ".local/state"),
        "XDG_CACHE_HOME": str(home / ".cache"),
        "XDG_RUNTIME_DIR": str(home / ".run"),
        "TZ": "UTC",
        "PYTHONDONTWRITEBYTECODE": "1",  # programs that tests start write nothing to the tree
        "LC_ALL": "C.UTF-8",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_AUTHOR_NAME": "Test",
        "GIT_AUTHOR_EMAIL": "test@example.invalid",
        "GIT_COMMITTER_NAME": "Test",
        "GIT_COMMITTER_EMAIL": "test@example.invalid",
    }


@pytest.fixture(scope="session")
def pg_server() -> Iterator[PgServer]:
    """Start a PostgreSQL server for this process; skip its tests where it cannot start."""
    pytest.importorskip("psycopg")
    from tests.pgserver import NoServer, PgServer

    try:
        server = PgServer()
    except NoServer as error:
        pytest.skip(f"no PostgreSQL here: {error}")
    yield server
    server.close()


@pytest.fixture(scope="session")
def pg_url(request: pytest.FixtureRequest) -> str:
    given = _GIVEN_POSTGRES
    server: PgServer | None = None if given else request.getfixturevalue("pg_server")
    return given or (server.url if server else "")


@pytest.fixture
def pg_store(pg_url: str) -> str:
    """Return the URL of an unused store on that server."""
    return f"{pg_url}&schema=t{os.getpid()}_{next(_numbers)}"


@pytest.fixture(scope="session")
def warm() -> Iterator[Warm]:
    warm = Warm()
    yield warm
    warm.close()


@pytest.fixture
def quick_probe(warm: Warm, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the child process of a rebuild without starting a new interpreter."""
    monkeypatch.setattr("forestay.health.rebuild._child", warm.run)


@pytest.fixture
def plain_user() -> Iterator[Path]:
    """Make a folder owned by a user without privileges, and run the test as that user."""
    folder = Path(tempfile.mkdtemp())
    if root := os.geteuid() == 0:
        os.chown(folder, NOBODY, NOBODY)
        os.seteuid(NOBODY)
    yield folder
    if root:
        os.seteuid(0)
    subprocess.run(["chmod", "-R", "u+rwx", str(folder)], check=True)
    subprocess.run(["rm", "-rf", str(folder)], check=True)


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """Make a folder that other users can read: pytest restricts its own at the start of a run."""
    folder = Path(tempfile.mkdtemp(dir=memory_folder()))
    folder.chmod(0o755)
    yield folder
    subprocess.run(["chmod", "-R", "u+rwx", str(folder)], check=True)
    subprocess.run(["rm", "-rf", str(folder)], check=True)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    point = tmp_path / "disk"
    point.mkdir()
    size = ["-t", "tmpfs", "-o", "size=256k,mode=0700", "tmpfs", str(point)]
    if os.geteuid() or subprocess.run(["mount", *size], capture_output=True).returncode:
        pytest.skip("cannot mount here")
    yield point
    subprocess.run(["umount", "-l", str(point)], check=True)
