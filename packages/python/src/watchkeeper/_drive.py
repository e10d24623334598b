"""Controls a server's clock, faults, snapshots and log of writes through the testing API.

The server describes that API: ``GET /testing/v1/openapi.json``.
"""

from __future__ import annotations

import json
import ssl
import urllib.error
import urllib.request
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from typing import Any, Union

#: A span of time: seconds, a timedelta, or Go's "1m30s".
Span = Union[float, timedelta, str]


def span(value: Span) -> str:
    """A span in the server's format."""
    if isinstance(value, str):
        return value
    seconds = value.total_seconds() if isinstance(value, timedelta) else value
    return f"{seconds:.9f}s"


class Refused(Exception):
    """An error answer of the server."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message


class Wire:
    """An administrator's connection to a server."""

    def __init__(self, url: str, token: str, ca_file: str) -> None:
        self.url, self.token, self.ca_file = url, token, ca_file
        self._tls = ssl.create_default_context(cafile=ca_file)
        # The server is local: proxies of the environment do not apply.
        self._opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=self._tls)
        )

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """Sends a request below ``/testing/v1/`` and returns the decoded answer."""
        request = urllib.request.Request(f"{self.url}/testing/v1/{path}", method=method)
        request.add_header("Authorization", f"Bearer {self.token}")
        data = b"" if body is None else json.dumps(body).encode()
        if data:
            request.add_header("Content-Type", "application/json")
        try:
            with self._opener.open(request, data or None) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            raise Refused(error.code, _message(error.read())) from None


def _message(body: bytes) -> str:
    try:
        return str(json.loads(body)["message"])
    except (ValueError, KeyError, TypeError):
        return body.decode(errors="replace").strip()


class Clock:
    """The server's clock. It runs normally until it is frozen, and can be advanced at any time."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    def now(self) -> datetime:
        """The current time of the server."""
        return _time(self._wire.ask("GET", "clock"))

    def advance(self, by: Span) -> datetime:
        """Moves it forward; timers on the way fire."""
        return _time(self._wire.ask("POST", "clock", {"advance": span(by)}))

    def freeze(self) -> datetime:
        """Stops it; only ``advance`` moves it."""
        return _time(self._wire.ask("POST", "clock", {"frozen": True}))

    def thaw(self) -> datetime:
        """Lets it run again."""
        return _time(self._wire.ask("POST", "clock", {"frozen": False}))


def _time(clock: dict[str, Any]) -> datetime:
    return datetime.fromisoformat(clock["now"].replace("Z", "+00:00"))


class Faults:
    """Fault injection."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    def add(
        self,
        action: str | dict[str, Any],
        *,
        nth: int = 1,
        times: int | None = 1,
        probability: float = 1.0,
        seed: int = 0,
        **request: str,
    ) -> Fault:
        """Adds a fault for requests that match: ``user``, ``user_agent``, ``verb``, ``group``, ``resource``,
        ``subresource``, ``namespace``, ``name``. It affects the ``nth`` matching request and those after it, up to
        ``times`` in total; None is unlimited.

        Actions are those of the testing API: ``"forbid"``, ``{"delay": "2s"}``, ``{"cut": "beforeAnswer"}``.
        """
        rule = {
            "request": {_camel(name): value for name, value in request.items()},
            "nth": nth,
            "times": times,
            "probability": probability,
            "seed": seed,
            "action": action,
        }
        return Fault(self._wire, self._wire.ask("POST", "faults", rule)["id"])

    def fail(self, code: int, reason: str = "", message: str = "on purpose", **rule: Any) -> Fault:
        """Answers requests with an error instead of handling them: ``fail(409, "Conflict", verb="update")``."""
        status: dict[str, Any] = {"kind": "Status", "apiVersion": "v1", "status": "Failure"}
        status |= {"code": code, "reason": reason, "message": message}
        return self.add({"fail": status}, **rule)

    def lose_answer(self, **rule: Any) -> Fault:
        """Handles and stores requests, and breaks the connection before the answer."""
        return self.add({"cut": "beforeAnswer"}, **rule)

    def fired(self) -> list[dict[str, Any]]:
        """The faults that have fired, in order."""
        found: list[dict[str, Any]] = self._wire.ask("GET", "fired")
        return found

    def clear(self) -> None:
        """Removes all faults."""
        self._wire.ask("DELETE", "faults")


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


@dataclass(frozen=True)
class Fault:
    """An injected fault."""

    _wire: Wire
    id: int

    def remove(self) -> None:
        """Removes it."""
        self._wire.ask("DELETE", f"faults/{self.id}")


@dataclass(frozen=True)
class Snapshot:
    """A saved state of all objects."""

    _wire: Wire
    id: int

    def restore(self) -> None:
        """Restores the saved state; watches see the difference."""
        self._wire.ask("POST", f"snapshots/{self.id}")

    def forget(self) -> None:
        """Deletes the snapshot."""
        self._wire.ask("DELETE", f"snapshots/{self.id}")


@dataclass(frozen=True)
class Write:
    """A write with its outcome."""

    at: str
    user: str
    user_agent: str
    verb: str
    kind: str
    subresource: str
    namespace: str
    name: str
    previous: int | None
    revision: int | None
    outcome: str | dict[str, Any]

    @classmethod
    def read(cls, answer: dict[str, Any]) -> Write:
        """Reads a write from the server's JSON."""
        known = {field.name for field in fields(cls)}
        named = {"user_agent": answer["userAgent"], **answer}
        return cls(**{name: value for name, value in named.items() if name in known})

    @property
    def changed(self) -> bool:
        """False if the write did not change the object."""
        return self.outcome != "unchanged"
