"""Settings: one frozen value, and the only code that reads the environment and config files.

An *option* is a name with a default, a meaning and a rule. A *layer* gives values to options. The
order is defaults, the file `config.toml` in the home, the environment (`FORESTAY_` and the name in
capitals; empty counts as not set), arguments: each overrides the one before. The *origin* of a
value names the layer that gave it.

The home cannot be set in the file that is in it, and a session in a file would make every command
guess: these two come from environment and arguments only. An option in the file that this version
does not know is preserved and reported (`unknown`), because another version may know it. A bad
value of a known option is an error that names option, rule, value and origin.
"""

from __future__ import annotations

import os
import sys

from forestay.base import files
from forestay.errors import ForestayError, InvalidInput

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    Rule = tuple[str, Callable[[object], object]]
    Layer = Mapping[str, tuple[object, str]]

FILE_NAME = "config.toml"
_FILE_LIMIT = 64 * 1024


# --- rules: a text for people, and a check that returns the clean value or raises ValueError ---


def _integer(low: int, high: int) -> Rule:
    def check(value: object) -> object:
        if isinstance(value, str) and value.isascii() and value.isdigit():
            value = int(value)
        if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
            raise ValueError
        return value

    return f"a whole number from {low} to {high}", check


def _number(low: float, high: float) -> Rule:
    def check(value: object) -> object:
        if isinstance(value, bool) or not isinstance(value, int | float | str):
            raise ValueError
        number = float(value)
        if not low <= number <= high:  # false for nan, too
            raise ValueError
        return number

    return f"a number from {low:g} to {high:g}", check


def _choice(*words: str) -> Rule:
    def check(value: object) -> object:
        if value not in words:
            raise ValueError
        return value

    return " or ".join(words), check


def _line(value: object) -> str:
    if not isinstance(value, str) or len(value) > 2000 or not value.isprintable():
        raise ValueError
    return value


def _url(value: object) -> object:
    import re

    if _line(value) and not re.match(r"[a-z][a-z0-9+.-]*:", str(value)):
        raise ValueError
    return value


def _path(value: object) -> object:
    # A path may hold unprintable bytes; only what breaks lines is refused.
    if not isinstance(value, str) or not value or len(value) > 4000 or {"\0", "\n"} & set(value):
        raise ValueError
    return os.path.abspath(value)


def _patterns(value: object) -> object:
    from forestay.base.redact import Redactor

    items = _parse_patterns(value) if isinstance(value, str) else value
    if not isinstance(items, list | tuple) or not all(_line(item) for item in items):
        raise ValueError  # an empty pattern would match everywhere
    try:
        Redactor(items)
    except InvalidInput:
        raise ValueError from None
    return tuple(items)


def _parse_patterns(text: str) -> object:
    """Parse patterns given as one text: one per line, or a TOML list as in the file."""
    bare = text.strip()
    inner = bare[1:-1].strip()
    if (bare[:1], bare[-1:]) != ("[", "]") or (inner and inner[0] not in "\"'"):
        return text.splitlines()
    import tomllib

    # A pattern such as [a-z] looks like a list; it has to be given inside a list: ['[a-z]'].
    return tomllib.loads(f"it = {bare}").get("it")


_FOLDER: Rule = ("a folder", _path)
_URL: Rule = ("a URL such as sqlite:PATH or postgresql://HOST/DATABASE, or empty", _url)
_LINE: Rule = ("one line of text", _line)
_PATTERNS: Rule = ("a list of at most 50 short regular expressions, each one line", _patterns)


class Option:
    """One setting: its meaning, its rule as text, and the check for the rule."""

    __slots__ = ("check", "default", "in_file", "meaning", "name", "rule")

    def __init__(
        self, name: str, default: object, rule: Rule, meaning: str, *, in_file: bool = True
    ) -> None:
        self.name, self.default, self.meaning, self.in_file = name, default, meaning, in_file
        self.rule, self.check = rule

    @property
    def variable(self) -> str:
        return f"FORESTAY_{self.name.upper()}"


_ALL = (
    Option("home", "", _FOLDER, "where everything is stored", in_file=False),
    Option("store", "", _URL, "where journals are stored; empty: SQLite in the home"),
    Option("session", "", _LINE, "the session that commands use", in_file=False),
    Option("busy_timeout", 10.0, _number(0, 3600), "seconds to wait for another process"),
    Option("brief_budget", 1500, _integer(150, 20_000), "tokens a briefing may cost"),
    Option("hook_budget", 1500, _integer(150, 20_000), "tokens of a briefing at agent start"),
    Option("context_window", 128_000, _integer(1_000, 10**8), "tokens an agent's context holds"),
    Option("drift_files", 200, _integer(0, 100_000), "touched files a briefing checks"),
    Option("drift_ms", 50, _integer(0, 60_000), "milliseconds for that check of files"),
    Option("pause_hours", 0.0, _number(0, 10**6), "idle hours before a pause; 0: default"),
    Option(
        "abandon_hours", 0.0, _number(0, 10**6), "idle hours before asking to abandon; 0: default"
    ),
    Option("backup_every_minutes", 60, _integer(0, 525_600), "time between backups; 0: never"),
    Option("backup_keep", 3, _integer(1, 1_000), "how many backups to retain"),
    Option("redact_patterns", (), _PATTERNS, "secrets to remove before anything is stored"),
    Option("device_name", "", _LINE, "name of this device, without a group; empty: host name"),
    Option("pager", "", _LINE, "the command that shows long output; empty: none"),
    Option("color", "auto", _choice("auto", "always", "never"), "colour on a terminal"),
    Option("session_root", "", _LINE, "where ai-session files are; empty: .ai-session"),
    Option("auto_sync", "on", _choice("on", "off"), "sync automatically if there is a remote"),
    Option("sync_seconds", 10, _integer(0, 86_400), "minimum time between syncs; 0: none"),
    Option("pull_seconds", 5, _integer(0, 3600), "resume's wait for remotes; 0: no wait"),
    Option("naive_time", "local", _choice("local", "utc"), "zone of a time given without one"),
)
OPTIONS = {option.name: option for option in _ALL}


class Settings:
    """All options with their values. They cannot be changed: `load` returns new settings."""

    __slots__ = (*OPTIONS, "_origins", "unknown")

    home: str
    store: str
    session: str
    busy_timeout: float
    brief_budget: int
    hook_budget: int
    context_window: int
    drift_files: int
    drift_ms: int
    pause_hours: float
    abandon_hours: float
    backup_every_minutes: int
    backup_keep: int
    redact_patterns: tuple[str, ...]
    device_name: str
    pager: str
    color: str
    session_root: str
    auto_sync: str
    sync_seconds: int
    pull_seconds: int
    naive_time: str
    unknown: tuple[str, ...]
    _origins: Mapping[str, str]

    def __init__(self, layer: Layer, unknown: tuple[str, ...] = ()) -> None:
        for name, option in OPTIONS.items():
            object.__setattr__(self, name, layer[name][0] if name in layer else option.default)
        origins = {name: origin for name, (_, origin) in layer.items()}
        object.__setattr__(self, "_origins", origins)
        object.__setattr__(self, "unknown", unknown)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"settings are frozen; give {name} to load() instead")

    def __repr__(self) -> str:
        values = (f"{name}={_format(value)}" for name, value, _ in self.items())
        return f"Settings({', '.join(values)})"

    def origin(self, name: str) -> str:
        """Return where the value came from: "default", the file, the variable or "argument"."""
        return self._origins.get(name, "default")

    def items(self) -> Iterator[tuple[str, object, str]]:
        """Yield every option in order: name, value, origin."""
        for name in OPTIONS:
            yield name, getattr(self, name), self.origin(name)


def load(
    home: str | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    overrides: Mapping[str, object] | None = None,
    trust_env: bool = True,
    read_file: bool = True,
) -> Settings:
    """Return the settings for this process. An override of None counts as not given.

    `environ` replaces the process's environment; with trust_env=False none is read and the home is
    the platform's default. Only the values that win are checked, so a variable or an argument can
    always override a bad line in the file; with read_file=False the file is not read at all.
    """
    variables = {} if not trust_env else os.environ if environ is None else environ
    given = {name: (v, "argument") for name, v in (overrides or {}).items() if v is not None}
    if home is not None:
        given["home"] = (home, "argument")
    if unknown_names := given.keys() - OPTIONS.keys():
        raise TypeError(f"no such option: {', '.join(sorted(unknown_names))}")
    outer = {**_from_environment(variables), **given}
    place, origin = outer.get("home") or _default_home(variables)
    outer["home"] = _check("home", _expand(place, variables), origin)
    inner, unknown = _from_file(str(outer["home"][0])) if read_file else ({}, ())
    layer = {name: _check(name, *pair) for name, pair in {**inner, **outer}.items()}
    return Settings(layer, unknown)


def _check(name: str, value: object, origin: str) -> tuple[object, str]:
    option = OPTIONS[name]
    try:
        return option.check(value), origin
    except (ValueError, OverflowError, OSError):
        is_argument = origin == "argument"
        source = "it was given with the command" if is_argument else f"it is from {origin}"
        raise InvalidInput(
            f"{name} cannot be {_format(value)}",
            why=f"it must be {option.rule}; {source}",
            hint=f"forestay config {name} VALUE" if option.in_file else "",
        ) from None


def _format(value: object) -> str:
    """Return a value for messages: short, and without the password a URL may carry."""
    text = without_password(repr(value))
    return text if len(text) <= 100 else text[:99] + "…"


def without_password(text: str) -> str:
    """Return a text with the password removed from every URL; the user name stays.

    Everything up to the last @ of a word is removed: no part of a password that contains @ may be
    shown.
    """
    import re

    named = re.sub(r"://([^:@/\s]*)(:[^\s]*)?@", r"://\1@", text)
    return re.sub(r"([?&](?:ssl)?password=)[^&\s'\"]*", r"\1…", named)


def user_home() -> str:
    """Return the user's home folder."""
    return _user_home(os.environ)


_S3_NAMES = {
    "access_key_id": "ACCESS_KEY_ID",
    "secret_access_key": "SECRET_ACCESS_KEY",
    "session_token": "SESSION_TOKEN",
    "region": "REGION",
    "endpoint": "ENDPOINT_URL_S3",
}
_S3_ALIASES = {"region": ["AWS_DEFAULT_REGION"], "endpoint": ["AWS_ENDPOINT_URL", "AWS_ENDPOINT"]}
_S3_ROLES = (
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
)


def s3_access(environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the credentials for a bucket: from FORESTAY_S3_…, AWS_…, or the profile in ~/.aws.

    Keys of two origins are never mixed. `by_role` is set if the machine itself has access.
    """
    variables = os.environ if environ is None else environ
    found: dict[str, str] = {}
    for layer in ("FORESTAY_S3_", "AWS_"):
        given = {name: variables.get(layer + part, "") for name, part in _S3_NAMES.items()}
        if found.get("access_key_id"):
            given = {name: given[name] for name in ("region", "endpoint")}
        found |= {name: value for name, value in given.items() if value and not found.get(name)}
    for name, others in _S3_ALIASES.items():
        found.setdefault(name, next((variables[o] for o in others if variables.get(o)), ""))
    if any(variables.get(name) for name in _S3_ROLES):
        found["by_role"] = "yes"
    elif not found.get("access_key_id"):
        found = {**_s3_profile(variables), **{n: v for n, v in found.items() if v}}
    return {name: value for name, value in found.items() if value}


def _s3_profile(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the credentials of the AWS profile in ~/.aws; empty if there is no profile."""
    import configparser

    folder = os.path.join(_user_home(environ), ".aws")
    path = environ.get("AWS_SHARED_CREDENTIALS_FILE") or os.path.join(folder, "credentials")
    profiles = configparser.RawConfigParser()
    try:
        profiles.read_string(files.read_text(path, _FILE_LIMIT) or "")
    except configparser.Error:
        return {}
    name = environ.get("AWS_PROFILE") or "default"
    return {
        key.removeprefix("aws_"): value
        for key, value in (profiles[name].items() if profiles.has_section(name) else ())
        if key.removeprefix("aws_") in _S3_NAMES
    }


def _user_home(environ: Mapping[str, str]) -> str:
    if os.path.isabs(environ.get("HOME", "")):
        return environ["HOME"]
    import pwd

    try:
        return pwd.getpwuid(os.geteuid()).pw_dir
    except KeyError:
        return "/"


def _default_home(environ: Mapping[str, str]) -> tuple[object, str]:
    if os.path.isabs(environ.get("XDG_DATA_HOME", "")):  # the XDG rule: a relative one is ignored
        return os.path.join(environ["XDG_DATA_HOME"], "forestay"), "default"
    mac = sys.platform == "darwin"
    data = "Library/Application Support/forestay" if mac else ".local/share/forestay"
    return os.path.join(_user_home(environ), data), "default"


def _expand(value: object, environ: Mapping[str, str]) -> object:
    # Shells do not expand the ~ of --home=~/x; no one names a folder ~.
    if isinstance(value, str) and (value == "~" or value.startswith("~/")):
        return _user_home(environ) + value[1:]
    return value


def _from_environment(environ: Mapping[str, str]) -> Layer:
    layer: dict[str, tuple[object, str]] = {}
    # Variables of all programs come first, so that Forestay's own variables override them.
    for variable in ("PAGER", "SESSION_ROOT"):
        if environ.get(variable):
            layer[variable.lower()] = (environ[variable], f"environment {variable}")
    if environ.get("NO_COLOR"):
        layer["color"] = ("never", "environment NO_COLOR")
    elif environ.get("TERM") == "dumb":
        layer["color"] = ("never", "environment TERM")
    for option in OPTIONS.values():
        if environ.get(option.variable):
            layer[option.name] = (environ[option.variable], f"environment {option.variable}")
    return layer


_PASSPHRASE = "FORESTAY_PASSPHRASE"


def passphrase() -> str:
    """Return the passphrase of the device's key from the environment; no setting shows it."""
    return os.environ.get(_PASSPHRASE, "")


def environment_of(settings: Settings, passphrase: str = "") -> dict[str, str]:
    """Return the environment for a Forestay process that uses the same home and store.

    A command line would reveal a password in the store's URL to other users.
    """
    given = {"FORESTAY_HOME": settings.home, "FORESTAY_STORE": settings.store}
    given |= {_PASSPHRASE: passphrase} if passphrase else {}
    return {**os.environ, **given}


def user_environment() -> dict[str, str]:
    """Return the environment for a user's command: this process's, without the passphrase."""
    return {name: value for name, value in os.environ.items() if name != _PASSPHRASE}


def child_environment() -> dict[str, str]:
    """Return the environment for other programs that Forestay starts: their output is English."""
    return {**user_environment(), "LC_ALL": "C"}


# --- the file --------------------------------------------------------------------------------


def _from_file(home: str) -> tuple[Layer, tuple[str, ...]]:
    path = os.path.join(home, FILE_NAME)
    if not os.path.lexists(path):  # the usual case: the parser is not even imported
        return {}, ()
    found = _parse(_read(path), path)
    known = {name: (v, path) for name, v in found.items() if name in OPTIONS}
    for name in known:
        _require_in_file(name)
    return known, tuple(name for name in found if name not in OPTIONS)


def _read(path: str) -> str:
    try:
        return (files.read_optional(path, _FILE_LIMIT, private=True) or b"").decode()
    except UnicodeDecodeError as error:
        why, hint = f"the first invalid byte is at offset {error.start}", _repair_hint(path)
        raise InvalidInput(f"{path} is not UTF-8", why=why, hint=hint, file=path) from None
    except ForestayError as error:
        if not error.hint or files.is_irregular(path):
            error.hint = f"move it away: {files.move_away_command(path)}"
        raise


def _repair_hint(path: str) -> str:
    return f"correct it in an editor, or move it away: {files.move_away_command(path)}"


def _parse(text: str, path: str) -> dict[str, object]:
    import tomllib

    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        why, hint = str(error) or "its values are nested too deeply", _repair_hint(path)
        raise InvalidInput(f"{path} is not TOML", why=why, hint=hint, file=path) from None


def require_known(name: str) -> None:
    """Refuse the name of an unknown setting."""
    if name not in OPTIONS:
        import difflib

        near = difflib.get_close_matches(name, OPTIONS, 3, 0.6)
        hint = f"did you mean {' or '.join(near)}?" if near else "forestay config"
        raise InvalidInput(f"there is no setting {name[:100]!r}", hint=hint)


def _require_in_file(name: str) -> None:
    require_known(name)
    if not OPTIONS[name].in_file:
        raise InvalidInput(
            f"{name} cannot be set in the file",
            hint=f"set {OPTIONS[name].variable} or pass --{name}",
        )


def set_value(home: str, key: str, value: object) -> object:
    """Set an option in the home's file durably; return the clean value. Other lines stay."""
    _require_in_file(key)
    clean, _ = _check(key, value, "argument")
    files.make_private_dir(home)
    _edit(home, key, f"{key} = {_toml(clean)}")
    return clean


def unset(home: str, key: str) -> bool:
    """Remove an option, known or unknown, from the home's file; return whether it was set."""
    path = os.path.join(home, FILE_NAME)
    if not os.path.lexists(path) or key not in _parse(_read(path), path):
        return False
    _edit(home, key, None)
    return True


def _edit(home: str, key: str, statement: str | None) -> None:
    path = os.path.join(home, FILE_NAME)
    with files.locked(home):
        old = _read(path)
        expected = _parse(old, path)
        expected.pop(key, None)
        new = _replace_statement(old, key, statement)
        if statement is not None:
            expected.update(_parse(statement, path))
        if _parse(new, path) != expected:
            raise InvalidInput(
                f"{path} is too complex to edit", hint="change it in an editor", file=path
            )
        if len(new.encode()) > _FILE_LIMIT:
            raise InvalidInput(
                f"{path} would be too large",
                why=f"it may have at most {_FILE_LIMIT} bytes",
                hint="remove lines that are not needed",
                file=path,
            )
        files.replace(path, new.encode())


def _replace_statement(text: str, key: str, statement: str | None) -> str:
    """Return `text` with the statement of `key` replaced, added before any table, or removed."""
    lines = text.removesuffix("\n").split("\n") if text else []
    first, end = _find(lines, key)
    new = [] if statement is None else [statement + _comment("\n".join(lines[first:end]))]
    return "".join(f"{line}\n" for line in [*lines[:first], *new, *lines[end:]])


def _find(lines: list[str], key: str) -> tuple[int, int]:
    """Return the lines of `key`'s statement; if it has none, the empty range where it belongs."""
    at = 0
    while at < len(lines) and not lines[at].lstrip().startswith("["):
        end = at + 1
        # A statement may span lines; it is complete as soon as it parses.
        while end < len(lines) and _statement(lines[at:end]) is None:
            end += 1
        if key in (_statement(lines[at:end]) or {}):
            return at, end
        at = end
    return at, at


def _statement(lines: list[str]) -> dict[str, object] | None:
    import tomllib

    try:
        return tomllib.loads("".join(f"{line}\n" for line in lines))
    except (ValueError, RecursionError):
        return None


def _comment(old: str) -> str:
    """Return the user's comment at the end of a statement, so that an edit preserves it."""
    for at, sign in enumerate(old):
        if sign == "#" and _statement([old[:at]]):
            return "  " + old[at:].rstrip("\r")
    return ""


def _toml(value: object) -> str:
    import json

    if isinstance(value, tuple):
        return f"[{', '.join(_toml(item) for item in value)}]"
    # JSON's strings and numbers are TOML's too, as long as nothing outside ASCII is escaped.
    return json.dumps(value, ensure_ascii=False)


def example_toml() -> str:
    """Return a file with every option commented out: its meaning, its rule, its default."""
    parts = ["# Settings of Forestay. Remove the # before a line to change it.\n"]
    for option in OPTIONS.values():
        if option.in_file:
            head = f"# {option.meaning} ({option.rule}; or {option.variable})"
            parts.append(f"{head}\n# {option.name} = {_toml(option.default)}\n")
    return "\n".join(parts)
