"""A controller with controlled time, faults and a lost answer, with the ``kubernetes`` package."""

import pytest
import urllib3
from expirer import Expirer
from kubernetes import client
from kubernetes.client.exceptions import ApiException


@pytest.fixture
def api(watchkeeper):
    with watchkeeper.api_client() as api:
        # The test wants to see the failure; by default this package retries a lost request.
        api.rest_client.pool_manager.connection_pool_kw["retries"] = False
        yield api


@pytest.fixture
def core(api):
    return client.CoreV1Api(api)


@pytest.fixture
def expirer(watchkeeper, api):
    return Expirer(api, watchkeeper.clock.now)


@pytest.fixture
def config_map(core):
    metadata = client.V1ObjectMeta(name="a", labels={"ttl": "3600"})
    return core.create_namespaced_config_map("default", client.V1ConfigMap(metadata=metadata, data={"k": "1"}))


def secrets(core):
    return [secret.metadata.name for secret in core.list_namespaced_secret("default").items]


def test_objects_expire_after_their_ttl(watchkeeper, core, expirer, config_map):
    expirer.reconcile()
    assert secrets(core) == ["a"]
    watchkeeper.clock.advance("59m")
    expirer.reconcile()
    assert secrets(core) == ["a"]
    watchkeeper.clock.advance("1m")
    expirer.reconcile()
    assert secrets(core) == []
    assert core.list_namespaced_config_map("default", label_selector="ttl").items == []


def test_the_second_reconcile_writes_nothing(watchkeeper, expirer, config_map):
    expirer.reconcile()
    assert [(write.verb, write.kind) for write in watchkeeper.writes(user="admin")][-1] == ("create", "Secret")
    watchkeeper.clear_writes()
    expirer.reconcile()
    assert watchkeeper.writes() == []


@pytest.mark.parametrize("code, reason", [(409, "Conflict"), (500, "InternalError")])
def test_the_next_reconcile_recovers_from_a_failure(watchkeeper, core, expirer, config_map, code, reason):
    expirer.reconcile()
    core.patch_namespaced_config_map("a", "default", {"data": {"k": "2"}})
    watchkeeper.faults.fail(code, reason, verb="patch", resource="secrets")
    with pytest.raises(ApiException) as raised:
        expirer.reconcile()
    assert raised.value.status == code
    expirer.reconcile()
    assert core.read_namespaced_secret("a", "default").data == {"k": "Mg=="}
    assert [fault["verb"] for fault in watchkeeper.faults.fired()] == ["patch"]


def test_a_lost_answer_does_not_create_two_objects(watchkeeper, core, expirer, config_map):
    watchkeeper.faults.lose_answer(verb="create", resource="secrets")
    with pytest.raises(urllib3.exceptions.HTTPError):
        expirer.reconcile()
    # It was stored, though the answer was lost.
    expirer.reconcile()
    assert secrets(core) == ["a"]
    assert len(watchkeeper.writes(kind="Secret", verb="create")) == 1


def test_only_the_second_write_fails(watchkeeper, core, config_map):
    watchkeeper.faults.fail(500, nth=2, verb="patch", resource="configmaps")
    patch = lambda: core.patch_namespaced_config_map("a", "default", {"data": {"k": "2"}})
    patch()
    with pytest.raises(ApiException):
        patch()
    patch()
