"""A Kubernetes API server for tests, with a clock that can be moved and faults on demand.

>>> from watchkeeper import Watchkeeper
>>> with Watchkeeper() as cluster:
...     cluster.clock.advance("1h")
...     cluster.writes()
[]

The server is a process of its own and ends with this one, however that ends. Nothing here is needed to talk to it but a
kubeconfig; what is here drives it.
"""

from ._drive import Clock, Fault, Faults, Refused, Snapshot, Write
from ._process import Watchkeeper

__all__ = ["Clock", "Fault", "Faults", "Refused", "Snapshot", "Watchkeeper", "Write"]
