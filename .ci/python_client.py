"""The Python client, which nobody here wrote, against a local cluster: list, watch, resume, patch, delete, and
objects from a file.

Usage: python_client.py KUBECONFIG
"""
import sys

from kubernetes import client, config, dynamic, utils, watch
from kubernetes.client.exceptions import ApiException

config.load_kube_config(sys.argv[1])
core = client.CoreV1Api()
apps = client.AppsV1Api()


def names(objects):
    return sorted(item.metadata.name for item in objects.items)


def config_map(name, value):
    return client.V1ConfigMap(metadata=client.V1ObjectMeta(name=name), data={"k": value})


# The default namespaces, in one list and in pages.
assert names(core.list_namespace()) == ["default", "kube-node-lease", "kube-public", "kube-system"]
page = core.list_namespace(limit=3)
rest = core.list_namespace(limit=3, _continue=page.metadata._continue)
assert len(page.items) == 3 and len(rest.items) == 1, "pages do not add up"

# A watch from a version delivers all changes in order, including deletes; and again from the same version.
start = core.list_namespaced_config_map("default").metadata.resource_version
core.create_namespaced_config_map("default", config_map("a", "1"))
core.patch_namespaced_config_map("a", "default", {"data": {"k": "2"}})
core.create_namespaced_config_map("default", config_map("b", "1"))
core.delete_namespaced_config_map("a", "default")
expected = [("ADDED", "a"), ("MODIFIED", "a"), ("ADDED", "b"), ("DELETED", "a")]
for _ in range(2):
    stream = watch.Watch().stream(
        core.list_namespaced_config_map, "default", resource_version=start, timeout_seconds=2
    )
    seen = [(event["type"], event["object"].metadata.name) for event in stream]
    assert seen == expected, seen

# A stale write is a conflict.
stale = core.read_namespaced_config_map("b", "default")
core.patch_namespaced_config_map("b", "default", {"data": {"k": "2"}})
try:
    core.replace_namespaced_config_map("b", "default", stale)
    raise SystemExit("a stale write was accepted")
except ApiException as error:
    assert error.status == 409, error

# The dynamic client uses discovery.
found = dynamic.DynamicClient(client.ApiClient()).resources.get(api_version="apps/v1", kind="Deployment")
template = {
    "metadata": {"labels": {"app": "web"}},
    "spec": {"containers": [{"name": "c", "image": "web:1"}]},
}
found.create(
    namespace="default",
    body={
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": template},
    },
)
for event in watch.Watch().stream(apps.list_namespaced_deployment, "default", timeout_seconds=60):
    if event["object"].status.available_replicas == 2:
        break
else:
    raise SystemExit("the deployment never became available")

# Files with several documents; a second create fails for each of them.
for manifest, documents in [("demo", 2), ("many", 21)]:
    path = f".ci/manifests/{manifest}.yaml"
    utils.create_from_yaml(client.ApiClient(), path)
    try:
        utils.create_from_yaml(client.ApiClient(), path)
        raise SystemExit("the same objects were created twice")
    except utils.FailToCreateError as error:
        assert [failure.status for failure in error.api_exceptions] == [409] * documents, error
assert core.read_namespaced_service("demo", "default").spec.cluster_ip.startswith("10.")
claims = apps.read_namespaced_stateful_set("many-set", "default").spec.volume_claim_templates
assert claims[0].kind == "PersistentVolumeClaim", claims
assert client.BatchV1Api().read_namespaced_job("many", "default").spec.parallelism == 1

# A custom kind: defined, used with the defaults and rules of its schema, and deleted with its definition.
definition = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "widgets.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "widgets", "singular": "widget", "kind": "Widget"},
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
                                "properties": {
                                    "size": {"type": "integer", "minimum": 1},
                                    "colour": {"type": "string", "default": "blue"},
                                },
                            }
                        },
                    }
                },
            }
        ],
    },
}
definitions = client.ApiextensionsV1Api()
definitions.create_custom_resource_definition(definition)
custom = client.CustomObjectsApi()
kind = ("example.com", "v1", "default", "widgets")
widget = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": {"size": 2}}
created = custom.create_namespaced_custom_object(*kind, widget)
assert created["spec"] == {"size": 2, "colour": "blue"}, created
try:
    custom.patch_namespaced_custom_object(*kind, "w", {"spec": {"size": 0}})
    raise SystemExit("a value against its schema was accepted")
except ApiException as error:
    assert error.status == 422, error
changed = custom.patch_namespaced_custom_object(*kind, "w", {"spec": {"colour": "red"}})
assert changed["metadata"]["generation"] == 2, changed
definitions.delete_custom_resource_definition("widgets.example.com")
try:
    custom.get_namespaced_custom_object(*kind, "w")
    raise SystemExit("a custom object has outlived its definition")
except ApiException as error:
    assert error.status == 404, error
print("the Python client: all checks passed")
