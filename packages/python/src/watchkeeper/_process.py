"""A server as a process: started, reached and ended."""

from __future__ import annotations

import base64
import re
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Sequence

from . import _program
from ._drive import Clock, Faults, Snapshot, Span, Wire, Write, span

if TYPE_CHECKING:
    import kubernetes.client

#: How long a server may take to end before it is killed, in seconds.
PATIENCE = 15.0


class Watchkeeper:
    """A cluster of one's own. As a context manager it is started and stopped; nothing of it stays behind.

    ``simulator`` lets nodes and controllers live in it, so that pods run and deployments are rolled out; without it the
    API server is alone, as in envtest. ``arguments`` are further ones of ``watchkeeper up``.
    """

    def __init__(
        self,
        *,
        simulator: bool = False,
        arguments: Sequence[str] = (),
        program: str | None = None,
    ) -> None:
        self._program = program
        self._arguments = [*arguments] if simulator else ["--no-simulator", *arguments]
        self._directory: tempfile.TemporaryDirectory[str] | None = None
        self._process: subprocess.Popen[str] | None = None
        self._wire: Wire | None = None

    def start(self) -> Watchkeeper:
        """Starts the server; it is ready when this returns."""
        if self._process is not None:
            raise RuntimeError("the server is running already")
        self._directory = tempfile.TemporaryDirectory(prefix="watchkeeper-")
        try:
            self._launch(Path(self._directory.name))
        except BaseException:
            self.stop()
            raise
        return self

    def _launch(self, directory: Path) -> None:
        kubeconfig, log = directory / "kubeconfig", directory / "log"
        command = [self._program or _program.find(), "up", "--testing", "--end-with-stdin"]
        command += ["--listen", "127.0.0.1:0", "--kubeconfig", str(kubeconfig), *self._arguments]
        with open(log, "w") as errors:
            # The server reads its standard input until it ends: with this process, at the latest.
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True
            )
        assert self._process.stdout is not None
        if not self._process.stdout.readline():
            raise RuntimeError(f"the server did not start: {log.read_text().strip()}")
        text = kubeconfig.read_text()
        authority = directory / "ca.crt"
        authority.write_bytes(base64.b64decode(_field(text, "certificate-authority-data")))
        self._wire = Wire(_field(text, "server"), _field(text, "token"), str(authority))

    def stop(self) -> None:
        """Ends the server, if it runs."""
        process, self._process, self._wire = self._process, None, None
        if process is not None:
            assert process.stdin is not None and process.stdout is not None
            process.stdin.close()
            try:
                process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            process.stdout.close()
        if self._directory is not None:
            self._directory.cleanup()
            self._directory = None

    def __enter__(self) -> Watchkeeper:
        return self if self._process is not None else self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def _running(self) -> Wire:
        if self._wire is None:
            raise RuntimeError("the server is not running")
        return self._wire

    @property
    def url(self) -> str:
        """Where the server is."""
        return self._running.url

    @property
    def token(self) -> str:
        """The administrator's bearer token."""
        return self._running.token

    @property
    def ca_file(self) -> str:
        """The certificate to trust, as a file."""
        return self._running.ca_file

    @property
    def kubeconfig(self) -> str:
        """The administrator's kubeconfig, as a file."""
        return str(Path(self._running.ca_file).with_name("kubeconfig"))

    def api_client(self) -> kubernetes.client.ApiClient:
        """A client of the ``kubernetes`` package, for the administrator."""
        from kubernetes import config

        client: kubernetes.client.ApiClient = config.new_client_from_config(self.kubeconfig)
        return client

    @property
    def clock(self) -> Clock:
        """The time of the server."""
        return Clock(self._running)

    @property
    def faults(self) -> Faults:
        """What goes wrong on purpose."""
        return Faults(self._running)

    def writes(self, **where: Any) -> list[Write]:
        """Who has written what, in order; ``writes(kind="Pod", verb="create")`` has those alone."""
        found = [Write.read(write) for write in self._running.ask("GET", "writes")]
        return [write for write in found if all(getattr(write, name) == value for name, value in where.items())]

    def clear_writes(self) -> None:
        """Begins the log of writes anew."""
        self._running.ask("DELETE", "writes")

    def wait_idle(self, quiet: Span = 0.05, timeout: Span = 30) -> None:
        """Waits until no request is open and nothing happens for ``quiet``; watches may stay open. That is real time."""
        self._running.ask("POST", "idle", {"quiet": span(quiet), "timeout": span(timeout)})

    def snapshot(self) -> Snapshot:
        """Keeps all objects as they are now."""
        return Snapshot(self._running, self._running.ask("POST", "snapshots")["id"])

    def reset(self) -> None:
        """Puts back what the server began with. Faults, their record and the log of writes begin anew; time does not."""
        self._running.ask("POST", "reset")

    def compact(self) -> None:
        """Forgets all history: a watch from an older version is told 410."""
        self._running.ask("POST", "compact")


def _field(kubeconfig: str, name: str) -> str:
    found = re.search(rf"^\s*{name}: (\S+)$", kubeconfig, re.MULTILINE)
    if found is None:
        raise RuntimeError(f"the kubeconfig has no {name}")
    return found[1]
