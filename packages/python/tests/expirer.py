"""The controller under test: copies the data of configmaps with the label ``ttl`` to a secret, and deletes both that many
seconds after creation.

It is an ordinary controller with the ``kubernetes`` package and an injected clock.
"""

import base64
from datetime import timedelta

from kubernetes import client
from kubernetes.client.exceptions import ApiException


class Expirer:
    def __init__(self, api_client, now):
        self.core = client.CoreV1Api(api_client)
        self.now = now

    def reconcile(self):
        """Reconciles every object. A failure is left to the next reconcile."""
        for config_map in self.core.list_config_map_for_all_namespaces(label_selector="ttl").items:
            ttl = timedelta(seconds=int(config_map.metadata.labels["ttl"]))
            if self.now() >= config_map.metadata.creation_timestamp + ttl:
                self._delete(config_map)
            else:
                self._copy(config_map)

    def _delete(self, config_map):
        name, namespace = config_map.metadata.name, config_map.metadata.namespace
        for delete in (self.core.delete_namespaced_secret, self.core.delete_namespaced_config_map):
            try:
                delete(name, namespace)
            except ApiException as error:
                if error.status != 404:
                    raise

    def _copy(self, config_map):
        name, namespace = config_map.metadata.name, config_map.metadata.namespace
        wanted = {key: base64.b64encode(value.encode()).decode() for key, value in (config_map.data or {}).items()}
        try:
            found = self.core.read_namespaced_secret(name, namespace)
        except ApiException as error:
            if error.status != 404:
                raise
            secret = client.V1Secret(metadata=client.V1ObjectMeta(name=name), data=wanted)
            self.core.create_namespaced_secret(namespace, secret)
            return
        if found.data != wanted:
            self.core.patch_namespaced_secret(name, namespace, {"data": wanted})
