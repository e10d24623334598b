"""Fixtures: ``watchkeeper`` is a cluster that is reset after each test; one server is used for all tests of a run.

To use another server, override ``watchkeeper_server`` in its ``conftest.py``.
"""

from __future__ import annotations

from typing import Iterator

import pytest

from . import Watchkeeper


@pytest.fixture(scope="session")
def watchkeeper_server() -> Iterator[Watchkeeper]:
    """The server of this test run."""
    with Watchkeeper() as server:
        yield server


@pytest.fixture
def watchkeeper(watchkeeper_server: Watchkeeper) -> Iterator[Watchkeeper]:
    """The server with only its initial objects, no faults, and a running clock."""
    yield watchkeeper_server
    watchkeeper_server.clock.thaw()
    watchkeeper_server.reset()
