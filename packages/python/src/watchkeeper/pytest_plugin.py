"""Fixtures: ``watchkeeper`` is a cluster that each test finds as new; one server serves all tests of a run.

A project that wants another server overrides ``watchkeeper_server`` in its ``conftest.py``.
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
    """The server, with no objects but those of every cluster, no faults, and time that runs."""
    yield watchkeeper_server
    watchkeeper_server.clock.thaw()
    watchkeeper_server.reset()
