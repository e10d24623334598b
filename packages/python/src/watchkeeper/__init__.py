"""A Kubernetes API server for tests, with a controllable clock and fault injection.

>>> from watchkeeper import Watchkeeper
>>> with Watchkeeper() as cluster:
...     cluster.clock.advance("1h")
...     cluster.writes()
[]

The server is a separate process and stops with this one, even if that is killed. Clients need only its kubeconfig; this
package controls it.
"""

from ._drive import Clock, Fault, Faults, Refused, Snapshot, Write
from ._process import Watchkeeper

__all__ = ["Clock", "Fault", "Faults", "Refused", "Snapshot", "Watchkeeper", "Write"]
