"""An operator written with kopf, run as its users run it, with faults and controlled time."""

import asyncio
import logging
import threading
from datetime import datetime

import kopf
import pytest
from kubernetes import client
from kubernetes.client.exceptions import ApiException

CRD = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "notes.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "notes", "singular": "note", "kind": "Note"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {
                                "type": "object",
                                "properties": {"text": {"type": "string"}, "ttlSeconds": {"type": "integer"}},
                            },
                            "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                        },
                    }
                },
            }
        ],
    },
}


def operator(cluster, api):
    """Copies the text of every note to a configmap of the same name, and deletes expired notes."""
    registry = kopf.OperatorRegistry()
    core, notes = client.CoreV1Api(api), client.CustomObjectsApi(api)

    @kopf.on.login(registry=registry)
    def login(**_):
        return kopf.ConnectionInfo(server=cluster.url, ca_path=cluster.ca_file, token=cluster.token)

    @kopf.on.startup(registry=registry)
    def configure(settings, **_):
        settings.posting.enabled = False
        # A timer that deletes its own object is still running when kopf sees that; by default kopf checks again after a minute.
        settings.background.cancellation_polling = 0.1

    @kopf.on.create("example.com", "v1", "notes", registry=registry, backoff=0.1)
    @kopf.on.update("example.com", "v1", "notes", registry=registry, backoff=0.1)
    @kopf.on.resume("example.com", "v1", "notes", registry=registry, backoff=0.1)
    def copy(name, namespace, spec, **_):
        wanted = {"text": spec["text"]}
        try:
            found = core.read_namespaced_config_map(name, namespace)
        except ApiException as error:
            if error.status != 404:
                raise
            config_map = client.V1ConfigMap(metadata=client.V1ObjectMeta(name=name), data=wanted)
            core.create_namespaced_config_map(namespace, config_map)
            return
        if found.data != wanted:
            core.patch_namespaced_config_map(name, namespace, {"data": wanted})

    @kopf.timer("example.com", "v1", "notes", registry=registry, interval=0.1, backoff=0.1)
    def expire(name, namespace, spec, meta, **_):
        made = datetime.fromisoformat(meta["creationTimestamp"].replace("Z", "+00:00"))
        if "ttlSeconds" in spec and (cluster.clock.now() - made).total_seconds() >= spec["ttlSeconds"]:
            notes.delete_namespaced_custom_object("example.com", "v1", namespace, "notes", name)

    return registry


class Running:
    """An operator in its own thread."""

    def __init__(self, registry):
        self.stop_flag = threading.Event()
        ready = threading.Event()
        self.thread = threading.Thread(target=self._run, args=(registry, ready))
        self.thread.start()
        assert ready.wait(30), "the operator did not start"

    def _run(self, registry, ready):
        operator = kopf.operator(
            registry=registry, standalone=True, clusterwide=True, ready_flag=ready, stop_flag=self.stop_flag
        )
        asyncio.run(operator)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop_flag.set()
        self.thread.join()


@pytest.fixture
def api(watchkeeper):
    logging.getLogger("kopf").setLevel(logging.CRITICAL)
    with watchkeeper.api_client() as api:
        client.ApiextensionsV1Api(api).create_custom_resource_definition(CRD)
        yield api


def create_note(api, text, **spec):
    note = {"apiVersion": "example.com/v1", "kind": "Note", "metadata": {"name": "a"}, "spec": {"text": text, **spec}}
    client.CustomObjectsApi(api).create_namespaced_custom_object("example.com", "v1", "default", "notes", note)


def notes(api):
    found = client.CustomObjectsApi(api).list_namespaced_custom_object("example.com", "v1", "default", "notes")
    return [note["metadata"]["name"] for note in found["items"]]


def until(watchkeeper, condition):
    """Waits for a condition; the operator works in real time."""
    for _ in range(200):
        if condition():
            return
        watchkeeper.wait_idle()
    raise AssertionError("it did not come about")


def text_of(api):
    try:
        return client.CoreV1Api(api).read_namespaced_config_map("a", "default").data["text"]
    except ApiException:
        return None


def test_an_operator_retries_a_failure_and_then_writes_nothing(watchkeeper, api):
    watchkeeper.faults.fail(500, verb="create", resource="configmaps")
    with Running(operator(watchkeeper, api)):
        create_note(api, "hello")
        until(watchkeeper, lambda: text_of(api) == "hello")
        assert len(watchkeeper.faults.fired()) == 1
        watchkeeper.wait_idle(quiet=0.5)
    # A second operator has nothing to change.
    watchkeeper.clear_writes()
    with Running(operator(watchkeeper, api)):
        watchkeeper.wait_idle(quiet=0.5)
    assert watchkeeper.writes(kind="ConfigMap") == []


def test_an_operator_with_a_lost_answer_creates_one_object(watchkeeper, api):
    watchkeeper.faults.lose_answer(verb="create", resource="configmaps")
    with Running(operator(watchkeeper, api)):
        create_note(api, "hello")
        until(watchkeeper, lambda: text_of(api) == "hello")
        watchkeeper.wait_idle(quiet=0.5)
    assert len(watchkeeper.writes(kind="ConfigMap", verb="create")) == 1


def test_an_operator_deletes_expired_notes(watchkeeper, api):
    with Running(operator(watchkeeper, api)):
        create_note(api, "hello", ttlSeconds=3600)
        until(watchkeeper, lambda: text_of(api) == "hello")
        assert notes(api) == ["a"]
        watchkeeper.clock.advance("1h")
        until(watchkeeper, lambda: notes(api) == [])
