"""The server process: start, connect, stop."""

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

#: The time a server has to stop before it is killed, in seconds.
PATIENCE = 15.0


class Watchkeeper:
    """A server for tests. As a context manager it is started, and then stopped with its files deleted.

    ``simulator`` adds simulated nodes and controllers, so that pods run and deployments are rolled out; without it there
    is only the API server, as in envtest. ``arguments`` are further arguments of ``watchkeeper up``.
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
            # The server stops when its standard input ends, at the latest with this process.
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
        """Stops the server, if it is running."""
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
        """The URL of the server."""
        return self._running.url

    @property
    def token(self) -> str:
        """The administrator's bearer token."""
        return self._running.token

    @property
    def ca_file(self) -> str:
        """The path of the server's CA certificate."""
        return self._running.ca_file

    @property
    def kubeconfig(self) -> str:
        """The path of the administrator's kubeconfig."""
        return str(Path(self._running.ca_file).with_name("kubeconfig"))

    def api_client(self) -> kubernetes.client.ApiClient:
        """A client of the ``kubernetes`` package, for the administrator."""
        from kubernetes import config

        client: kubernetes.client.ApiClient = config.new_client_from_config(self.kubeconfig)
        return client

    @property
    def clock(self) -> Clock:
        """The server's clock."""
        return Clock(self._running)

    @property
    def faults(self) -> Faults:
        """Fault injection."""
        return Faults(self._running)

    def writes(self, **where: Any) -> list[Write]:
        """The log of writes, optionally filtered: ``writes(kind="Pod", verb="create")``."""
        found = [Write.read(write) for write in self._running.ask("GET", "writes")]
        return [write for write in found if all(getattr(write, name) == value for name, value in where.items())]

    def clear_writes(self) -> None:
        """Clears the log of writes."""
        self._running.ask("DELETE", "writes")

    def wait_idle(self, quiet: Span = 0.05, timeout: Span = 30) -> None:
        """Waits until there is no open request and no activity for ``quiet``, in real time. Open watches do not count."""
        self._running.ask("POST", "idle", {"quiet": span(quiet), "timeout": span(timeout)})

    def snapshot(self) -> Snapshot:
        """Saves the current state of all objects."""
        return Snapshot(self._running, self._running.ask("POST", "snapshots")["id"])

    def reset(self) -> None:
        """Restores the initial objects, removes all faults, and clears the records of faults and writes. The clock stays."""
        self._running.ask("POST", "reset")

    def compact(self) -> None:
        """Drops all history: a watch from an older version gets 410 Gone."""
        self._running.ask("POST", "compact")


def _field(kubeconfig: str, name: str) -> str:
    found = re.search(rf"^\s*{name}: (\S+)$", kubeconfig, re.MULTILINE)
    if found is None:
        raise RuntimeError(f"the kubeconfig has no {name}")
    return found[1]
