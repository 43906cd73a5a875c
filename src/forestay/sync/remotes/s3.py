"""A bucket as a remote, through obstore: S3 and compatible servers.

An address never contains a credential; plain HTTP is allowed to this machine only. A write has the
condition "only if the name is free" and is never sent in parts, because a multipart write has no
such condition. If a server answers "exists", the object is read to check it: some servers answer
so when two writes collide and neither succeeds. A missing bucket is an error, not an empty remote.

Errors of obstore contain addresses, headers and answers of the server; only the status and the
code of the answer leave this module.
"""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import NamedTuple, TypeVar
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

from forestay.base.clock import Clock
from forestay.errors import InvalidInput, NotThere, RemoteFailed, Unreachable
from forestay.sync.remotes.object_names import size_limit
from forestay.sync.remotes.port import Object, Probe, Remote, check_name, is_name, require_few

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from obstore.store import S3Store

T = TypeVar("T")

_FORM = "s3://BUCKET/PREFIX?endpoint=https://HOST"
_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_PREFIX = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*(?:/[A-Za-z0-9_-][A-Za-z0-9._-]*)*")
_LOOPBACK = ("127.0.0.1", "::1", "localhost")
_SMALL = 1 << 20
_PATIENCE = 40
"""The time limit of the largest transfer, as a multiple of that of a short request."""
_RETRIES, _FIRST_PAUSE, _LONGEST_PAUSE = 6, 0.1, 2.0
_WRITERS = 4

_STATUS = re.compile(r"status code: (\d{3})")
_CODE = re.compile(r"<Code>(\w{1,60})</Code>")
_KIND = re.compile(r"HttpError \{\s*kind: (\w+)")

_NOT_ALLOWED = (
    "these credentials do not allow the request",
    "allow them to list, read, write and delete objects",
)
# Code of an answer → reason and hint.
_MEANING = {
    "NoSuchBucket": ("there is no such bucket", "create it, or check the name"),
    "InvalidBucketName": ("there is no such bucket", "create it, or check the name"),
    "SignatureDoesNotMatch": ("the secret key is wrong", "check AWS_SECRET_ACCESS_KEY"),
    "InvalidAccessKeyId": ("the server does not know this access key", "check AWS_ACCESS_KEY_ID"),
    "ExpiredToken": ("the credentials have expired", "sign in again"),
    "AccessDenied": _NOT_ALLOWED,
    "QuotaExceeded": ("there is no room left", "free some space there, or raise the quota"),
    "XMinioStorageFull": ("there is no room left", "free some space there"),
    "EntityTooLarge": ("the server does not accept objects of this size", ""),
    "RequestTimeTooSkewed": ("the clock of this machine is wrong", "set the clock"),
    "AuthorizationHeaderMalformed": ("the region is wrong", "add &region=REGION to the address"),
    "PermanentRedirect": ("the bucket is on another endpoint", "check endpoint and region"),
}
_BY_STATUS = {
    401: ("the credentials are not accepted", "check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY"),
    403: _NOT_ALLOWED,
    507: ("there is no room left", "free some space there"),
}


class Place(NamedTuple):
    """A parsed address; it holds no secret."""

    bucket: str
    prefix: str
    endpoint: str
    region: str

    @property
    def address(self) -> str:
        query = {"endpoint": self.endpoint, "region": self.region}
        given = urlencode({name: value for name, value in query.items() if value}, safe=":/[]")
        return f"s3://{self.bucket}/{quote(self.prefix)}{'?' if given else ''}{given}"


def parse(address: str) -> Place:
    """Parse an address; refuse one that may contain a secret, without repeating it in the error."""
    try:
        parts = urlsplit(address)
        strict = bool(parts.query)
        query = dict(parse_qsl(parts.query, keep_blank_values=True, strict_parsing=strict))
    except ValueError:
        raise _bad("it is not a valid URL") from None
    if "@" in parts.netloc or "@" in query.get("endpoint", ""):
        raise _bad("credentials do not belong into an address", _by_environment())
    if query.keys() - {"endpoint", "region"} or parts.fragment:
        raise _bad("it can have only the options endpoint and region", _by_environment())
    prefix = parts.path.strip("/")
    if parts.scheme != "s3" or not _BUCKET.fullmatch(parts.netloc):
        raise _bad("the name of the bucket is invalid")
    if prefix and not _PREFIX.fullmatch(prefix):
        raise _bad("the prefix can have only letters, digits, '.', '_', '-' and '/'")
    region = query.get("region", "")
    if region and not re.fullmatch(r"[A-Za-z0-9-]{1,40}", region):
        raise _bad("the name of the region is invalid")
    return Place(parts.netloc, prefix, _endpoint(query.get("endpoint", "")), region)


def _endpoint(text: str) -> str:
    if not text:
        return ""
    try:
        parts = urlsplit(text)
        host, _ = parts.hostname, parts.port
    except ValueError:
        raise _bad("the endpoint is not a URL") from None
    if parts.scheme not in ("https", "http") or not host or parts.query or parts.fragment:
        raise _bad("the endpoint must be like https://HOST")
    if "@" in parts.netloc:
        raise _bad("credentials do not belong into an address", _by_environment())
    if parts.scheme == "http" and host not in _LOOPBACK:
        raise _bad("plain http is allowed for this machine only", "use https in endpoint=")
    return text.rstrip("/")


def _by_environment() -> str:
    return "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY in the environment"


def _bad(why: str, hint: str = "") -> InvalidInput:
    return InvalidInput("this address of a bucket cannot be used", why=why, hint=hint or _FORM)


def _longer(size: int) -> int:
    """Return the time limit of an upload, as a multiple of that of a short request.

    Only this limit detects a server that stops answering. It is a power of two, so that few
    different clients are needed.
    """
    return 1 if size <= _SMALL else min(2 << (size // _SMALL).bit_length(), _PATIENCE)


class S3Remote(Remote):
    """A remote that stores objects in a bucket, below a prefix.

    `access` has the credentials, and endpoint and region if the address does not have them.
    """

    backend = "s3"

    def __init__(
        self,
        address: str,
        access: Mapping[str, str],
        *,
        timeout: float = 30.0,
        clock: Clock | None = None,
    ) -> None:
        place = parse(address)
        self.address = place.address
        endpoint = place.endpoint or _endpoint(access.get("endpoint", ""))
        self.place = place._replace(endpoint=endpoint)
        self._access, self._timeout, self._clock = dict(access), timeout, clock or Clock()
        self._stores: dict[tuple[str, int], S3Store] = {}
        self._plain = False
        try:
            import obstore  # noqa: F401
        except ImportError:
            raise RemoteFailed(
                "a bucket needs a library that is not installed",
                hint="pip install 'forestay[teleport]'",
            ) from None
        if not self._access.get("access_key_id") and not self._access.get("by_role"):
            raise RemoteFailed(f"no credentials for {self.address}", hint=_by_environment())

    # -- the port --------------------------------------------------------------------------------

    def list(self, prefix: str) -> Iterator[Object]:
        import obstore

        folder = prefix.rpartition("/")[0] or None

        def ask() -> list[Object]:
            pages = obstore.list(self._store(), folder, chunk_size=1000)
            found: list[Object] = []
            for page in pages:
                found += [Object(each["path"], each["size"]) for each in page]
                require_few(len(found), self.address)
            return sorted(found)

        for each in self._ask("list", prefix, ask):
            if each.name.startswith(prefix) and is_name(each.name):
                yield each

    def get(self, name: str) -> bytes:
        import obstore

        check_name(name)

        def ask() -> bytes:
            answer = obstore.get(self._store("down", _PATIENCE), name)
            if answer.meta["size"] > size_limit(name):
                what = f"{name} at {self.address} is too large for an object of Forestay"
                raise RemoteFailed(what)
            return bytes(answer.bytes())

        return self._ask("read", name, ask)

    def put(self, name: str, data: bytes) -> bool:
        check_name(name)
        pause = _FIRST_PAUSE
        for _ in range(_RETRIES):
            done = self._ask("write", name, lambda: self._write(name, data))
            # If the server answers "exists", check it: if the object is missing, write it again.
            if done or self._is_there(name):
                return done
            self._clock.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE)
        why = "other devices write it at the same time"
        raise Unreachable(f"cannot write {name} at {self.address}", why=why)

    def delete(self, name: str) -> None:
        import obstore

        check_name(name)
        try:
            self._ask("remove", name, lambda: obstore.delete(self._store(), name))
        except NotThere:
            return

    def probe(self) -> Probe:
        name = f"probe/{self._clock.random(16).hex()}"
        try:
            seen: list[str] = []
            with ThreadPoolExecutor(_WRITERS) as pool:
                won = sum(pool.map(lambda n: self.put(name, b"%d" % n), range(_WRITERS)))
            first = self.get(name)
            if won != 1:
                seen.append(f"{won} of {_WRITERS} writers got the answer that they were the first")
            if self.put(name, b"second") or self.get(name) != first:
                seen.append("it overwrites existing objects")
            if self._plain:
                seen.append("it does not support conditional writes")
            conditional = not seen
            lists = [each.name for each in self.list(name)] == [name]
            if not lists:
                seen.append("it does not list what was just written")
            return Probe(conditional, lists, "; ".join(seen))
        finally:
            self.delete(name)

    def close(self) -> None:
        self._stores.clear()

    # -- requests -------------------------------------------------------------------------------

    def _write(self, name: str, data: bytes) -> bool:
        import obstore
        from obstore.exceptions import AlreadyExistsError

        store = self._store("up", _longer(len(data)))
        if self._plain:
            if self._is_there(name):
                return False
            obstore.put(store, name, data, mode="overwrite", use_multipart=False)
            return True
        try:
            obstore.put(store, name, data, mode="create")
        except AlreadyExistsError:
            return False
        except Exception as error:
            if _status(error) != 501:
                raise
            self._plain = True  # the server rejects conditional writes
            return self._write(name, data)
        return True

    def _is_there(self, name: str) -> bool:
        import obstore

        try:
            self._ask("read", name, lambda: obstore.head(self._store(), name))
        except NotThere:
            return False
        return True

    def _store(self, way: str = "up", longer: int = 1) -> S3Store:
        """Return a client whose time limit is `longer` times that of a short request."""
        from obstore.store import S3Store

        if (way, longer) not in self._stores:
            names = ("access_key_id", "secret_access_key", "session_token")
            config: dict[str, object] = {n: self._access[n] for n in names if self._access.get(n)}
            config["region"] = self.place.region or self._access.get("region") or "us-east-1"
            config["disable_bulk_delete"] = True  # not every server supports it
            if self.place.endpoint:
                # Under both names, or an environment variable would override the address.
                config["endpoint"] = config["aws_endpoint_url_s3"] = self.place.endpoint
            client: dict[str, object] = {
                "allow_http": self.place.endpoint.startswith("http:"),
                "connect_timeout": timedelta(seconds=min(5.0, self._timeout)),
                "timeout": timedelta(seconds=self._timeout * longer),
            }
            if way == "down":
                # An upload reports no progress, so the limit is for the whole upload.
                client["read_timeout"] = timedelta(seconds=self._timeout)
            self._stores[way, longer] = S3Store(
                self.place.bucket,
                prefix=self.place.prefix or None,
                config=config,  # type: ignore[arg-type]
                client_options=client,  # type: ignore[arg-type]
                retry_config={
                    "max_retries": _RETRIES,
                    "retry_timeout": timedelta(seconds=self._timeout),
                    "backoff": {
                        "init_backoff": timedelta(seconds=_FIRST_PAUSE),
                        "max_backoff": timedelta(seconds=_LONGEST_PAUSE),
                        "base": 2,
                    },
                },
            )
        return self._stores[way, longer]

    # -- errors ---------------------------------------------------------------------------------

    def _ask(self, doing: str, name: str, question: Callable[[], T]) -> T:
        from obstore.exceptions import BaseError

        try:
            return question()
        except (BaseError, OSError, NotImplementedError) as error:
            # Not "from error": its text contains headers and answers.
            raise self._failure(error, doing, name) from None

    def _failure(self, error: Exception, doing: str, name: str) -> RemoteFailed:
        found = _CODE.search(str(error))
        code, status = found[1] if found else "", _status(error)
        if isinstance(error, FileNotFoundError) and code not in _MEANING:
            return NotThere(f"no {name} at {self.address}")
        what = f"cannot {doing} at {self.address}"
        if why_hint := _MEANING.get(code) or _BY_STATUS.get(status):
            return RemoteFailed(what, why=why_hint[0], hint=why_hint[1], file=name)
        if status >= 500 or status in (408, 409, 429) or _KIND.search(str(error)):
            why = _silence(error, status)
            return Unreachable(what, why=why, hint="try again later", file=name)
        if type(error).__name__ == "InvalidPathError":
            why, hint = "an object there has an invalid name", "use a prefix for Forestay alone"
            return RemoteFailed(what, why=why, hint=hint)
        why = f"the server answered {status} {code}".rstrip() if status else type(error).__name__
        return RemoteFailed(what, why=why, file=name)


def _status(error: Exception) -> int:
    found = _STATUS.search(str(error))
    return int(found[1]) if found else 0


def _silence(error: Exception, status: int) -> str:
    if status in (429, 503):
        return "the server limits the rate of requests"
    if status:
        return f"the server answered with error {status}"
    kind = _KIND.search(str(error))
    return {
        "Connect": "no server answers at this address",
        "Timeout": "no answer in time",
        "Interrupted": "the connection broke off",
    }.get(kind[1] if kind else "", "the connection failed")
