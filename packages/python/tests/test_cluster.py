"""The guarantees of a cluster."""

import subprocess
import sys

import pytest
from jsonschema import Draft202012Validator
from kubernetes import client
from openapi_spec_validator import validate

from watchkeeper import Refused, Watchkeeper


def create(api, name):
    config_map = client.V1ConfigMap(metadata=client.V1ObjectMeta(name=name))
    return client.CoreV1Api(api).create_namespaced_config_map("default", config_map)


def names(api):
    return [item.metadata.name for item in client.CoreV1Api(api).list_namespaced_config_map("default").items]


def test_a_snapshot_is_restored(watchkeeper):
    with watchkeeper.api_client() as api:
        create(api, "a")
        snapshot = watchkeeper.snapshot()
        create(api, "b")
        snapshot.restore()
        assert names(api) == ["a"]
        snapshot.forget()
        with pytest.raises(Refused) as refused:
            snapshot.restore()
        assert refused.value.code == 404


def test_every_test_has_a_reset_cluster(watchkeeper):
    with watchkeeper.api_client() as api:
        assert names(api) == []
        assert watchkeeper.writes() == []


def test_time_is_frozen_advanced_and_runs_again(watchkeeper):
    frozen = watchkeeper.clock.freeze()
    assert watchkeeper.clock.now() == frozen
    moved = watchkeeper.clock.advance(90)
    assert (moved - frozen).total_seconds() == 90
    with watchkeeper.api_client() as api:
        assert create(api, "a").metadata.creation_timestamp == moved.replace(microsecond=0)
    watchkeeper.clock.thaw()


def test_idleness_is_awaited(watchkeeper):
    watchkeeper.wait_idle(quiet="5ms")
    watchkeeper.compact()


def test_a_fault_can_be_removed(watchkeeper):
    fault = watchkeeper.faults.add("forbid", times=None, resource="configmaps")
    fault.remove()
    with watchkeeper.api_client() as api:
        create(api, "a")


def test_the_openapi_document_describes_the_answers(watchkeeper):
    wire = watchkeeper._running
    document = wire.ask("GET", "openapi.json")
    validate(document)
    with watchkeeper.api_client() as api:
        create(api, "a")
    watchkeeper.faults.add("forbid", nth=100)
    for path in ("clock", "faults", "fired", "writes"):
        answer = document["paths"][f"/testing/v1/{path}"]["get"]["responses"]["200"]
        schema = {**answer["content"]["application/json"]["schema"], "components": document["components"]}
        Draft202012Validator(schema).validate(wire.ask("GET", path))


def test_pods_run_with_the_simulator():
    with Watchkeeper(simulator=True) as cluster, cluster.api_client() as api:
        spec = client.V1PodSpec(containers=[client.V1Container(name="c", image="i")])
        core = client.CoreV1Api(api)
        core.create_namespaced_pod("default", client.V1Pod(metadata=client.V1ObjectMeta(name="p"), spec=spec))
        while core.read_namespaced_pod("p", "default").status.phase != "Running":
            cluster.clock.advance(1)


def test_a_server_stops_with_the_process_that_started_it():
    program = (
        "import os, watchkeeper\n"
        "cluster = watchkeeper.Watchkeeper().start()\n"
        "print(cluster._process.pid, flush=True)\n"
        "os.kill(os.getpid(), 9)\n"
    )
    killed = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert killed.returncode == -9
    # Nothing else inherits its standard output, so it has ended when `run` returns, or ends soon.
    server = int(killed.stdout)
    while _runs(server):
        pass


def _runs(process):
    try:
        with open(f"/proc/{process}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_server_that_cannot_start_reports_why():
    with pytest.raises(RuntimeError, match="did not start: .*--no-such-flag"):
        Watchkeeper(arguments=["--no-such-flag"]).start()
