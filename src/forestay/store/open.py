"""Open a store: choose the adapter by the URL. No other module does this."""

from __future__ import annotations

from forestay.errors import InvalidInput
from forestay.store.port import moved

TYPE_CHECKING = False
if TYPE_CHECKING:
    from forestay.base.clock import Clock
    from forestay.store.machine.device import MachineName
    from forestay.store.port import Store


def open_store(
    url: str,
    home: str,
    *,
    clock: Clock,
    busy_timeout: float = 10.0,
    machine: MachineName = "",
    sealed: bool = False,
) -> Store:
    """Return the store that a URL names; an empty URL is the SQLite database in `home`.

    A store whose sessions were moved to another store is refused unless `sealed` is given.
    `machine` identifies this machine, so that a copied database is detected; if it is a function,
    it is called at the first write.
    """
    if url.startswith(("postgresql:", "postgres:")):
        try:
            from forestay.store.postgres.store import PostgresStore  # start-up
        except ModuleNotFoundError as error:
            if error.name != "psycopg":
                raise
            raise InvalidInput(
                "the driver for PostgreSQL is not installed",
                hint="pip install 'forestay[postgres]'",
            ) from error
        return PostgresStore(
            url,
            home,
            clock=clock,
            busy_timeout=busy_timeout,
            machine=machine,
            opens_sealed=sealed,
        )
    if url and not url.startswith("sqlite:"):
        raise InvalidInput(
            f"the store setting cannot begin with {url.split(':', 1)[0]}:",
            why="sessions can be stored in SQLite or PostgreSQL",
            hint="leave the setting empty, or use sqlite:PATH or postgresql://HOST/DATABASE",
        )
    from forestay.store.sqlite.store import SqliteStore  # start-up

    path = url.removeprefix("sqlite:").removeprefix("//")
    store = SqliteStore(path or home, clock=clock, busy_timeout=busy_timeout, machine=machine)
    seal = None if sealed else store.maintenance.sealed()
    if seal is not None:
        raise moved(store.shown, seal)
    return store
