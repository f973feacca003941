"""The keys of a server: who has one and what it may do, in a file that has their hashes alone."""

from __future__ import annotations

import hmac
import json
import os
import secrets
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from enum import StrEnum
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from spangrade.tracer.base.errors import InputError, StoreLockedError
from spangrade.tracer.store.locks import FileLock, retry_while_locked

_BYTES = 32  # of a key, so that its hash alone cannot be guessed
_WAIT_S = 5.0


class Role(StrEnum):
    """What a key may do; `admin` may do all."""

    SEND = "send"
    READ = "read"
    REVIEW = "review"
    ADMIN = "admin"

    def may(self, what: str) -> bool:
        """Return whether a role may "send" records, "read" pages and metrics, or "review": write labels."""
        return what in _RIGHTS[self]


_RIGHTS = {
    Role.SEND: frozenset({"send"}),
    Role.READ: frozenset({"read"}),
    Role.REVIEW: frozenset({"read", "review"}),
    Role.ADMIN: frozenset({"send", "read", "review"}),
}


class Key(NamedTuple):
    """A key: the name of who has it, its role, its SHA-256, and when it was made (UTC)."""

    name: str
    role: Role
    sha256: str
    created: str


class _Stored(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(min_length=1)
    role: Role
    sha256: str = Field(pattern="^[0-9a-f]{64}$")
    created: str


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    cookie_secret: str = Field(min_length=32)
    keys: list[_Stored] = []


class KeyFile:
    """A file of keys, read again whenever it has changed; `needed` says that nobody is let in without one."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.needed = False
        self._lock = threading.Lock()
        self._read_at: tuple[int, int, int] | None = None
        self._secret = b""
        self._keys: dict[str, Key] = {}  # by hash

    def is_needed(self) -> bool:
        """Return whether a key is needed: since there was such a file, and then also while it is away."""
        self.needed = self.needed or self.path.exists()
        return self.needed

    def problem(self) -> str | None:
        """Return why nobody is let in although a key is needed; None if keys can be used."""
        if not self.is_needed():
            return None
        try:
            return None if self.all() else f"{self.path}: no keys there: nobody is let in"
        except InputError as error:
            return f"{error}: nobody is let in"

    def all(self) -> list[Key]:
        """Return the keys by name. Raises InputError for a file that cannot be used."""
        return sorted(self._current()[1].values())

    def find(self, text: str) -> Key | None:
        """Return the key of a text that someone gives, None if there is none."""
        return self._current()[1].get(_hash(text)) if text else None

    def allows(self, text: str, purpose: str) -> bool:
        """Return whether a text is a key that may do something; false for a file that cannot be used."""
        try:
            found = self.find(text)
        except InputError:
            return False
        return found is not None and found.role.may(purpose)

    def of_hash(self, digest: str) -> Key | None:
        """Return the key with a hash, None if it was revoked."""
        return self._current()[1].get(digest)

    def signed(self, text: str) -> str:
        """Return the signature of a text, which only this file's server can make."""
        secret, _ = self._current()
        return hmac.new(secret, text.encode(), sha256).hexdigest()

    def create(self, name: str, role: Role) -> str:
        """Add a key, and return it: it is in no file. Raises InputError if the name has one."""
        name = name.strip()
        if not name or not name.isprintable():
            raise InputError(f"NAME: expected a name that can be printed, found {name!r}")
        key = f"sg_{secrets.token_urlsafe(_BYTES)}"
        with self._changing() as keys:
            if any(one.name == name for one in keys):
                raise InputError(f"{name} has a key already: revoke it, or choose another name")
            now = datetime.now(UTC).isoformat(timespec="seconds")
            keys.append(Key(name, role, _hash(key), now))
        return key

    def revoke(self, name: str) -> Key:
        """Remove the key of a name, and return it. Raises InputError if there is none."""
        with self._changing() as keys:
            found = next((one for one in keys if one.name == name), None)
            if found is None:
                raise InputError(f"{name} has no key: `spangrade serve keys list` shows those that there are")
            keys.remove(found)
        return found

    @contextmanager
    def _changing(self) -> Iterator[list[Key]]:
        """Give the keys to change; write them if nothing is raised, so that no reader sees a part."""
        lock = retry_while_locked(lambda: FileLock(self.path.with_name(f"{self.path.name}.lock")), _WAIT_S)
        try:
            secret, known = self._current()
            keys = sorted(known.values())
            yield keys
            content = {
                "cookie_secret": secret.hex() or secrets.token_hex(_BYTES),
                "keys": [one._asdict() for one in keys],
            }
            new = self.path.with_name(f"{self.path.name}.new")
            new.unlink(missing_ok=True)
            descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(f"{json.dumps(content, indent=2)}\n")
                file.flush()
                os.fsync(file.fileno())
            new.replace(self.path)
        except OSError as error:
            raise InputError(f"{self.path}: cannot be written: {error.strerror}") from None
        except StoreLockedError as error:
            raise InputError(str(error)) from None
        finally:
            lock.close()

    def _current(self) -> tuple[bytes, dict[str, Key]]:
        """Return the secret and the keys by hash, as the file has them now."""
        with self._lock:
            try:
                state = self.path.stat()
                read_at = (state.st_mtime_ns, state.st_ino, state.st_size)
                if read_at != self._read_at:
                    content = _File.model_validate_json(self.path.read_bytes())
                    self._secret = bytes.fromhex(content.cookie_secret)
                    found = (Key(one.name, one.role, one.sha256, one.created) for one in content.keys)
                    self._keys = {one.sha256: one for one in found}
                    self._read_at = read_at
            except FileNotFoundError:
                self._secret, self._keys, self._read_at = b"", {}, None
            except (OSError, ValidationError, ValueError) as error:
                # Until it can be used again, nobody has a key.
                self._secret, self._keys, self._read_at = b"", {}, None
                problem = getattr(error, "strerror", None) or "not a file of keys"
                raise InputError(f"{self.path}: cannot be used: {problem}") from None
            return self._secret, self._keys


def _hash(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
