"""The programs of the README, run as they are printed there."""

import re
from datetime import timedelta
from importlib.metadata import metadata

import urllib3
from kubernetes import client
from kubernetes.client.exceptions import ApiException

PROGRAMS = re.findall(r"```python\n(.*?)```", metadata("watchkeeper")["Description"], re.DOTALL)


class MyController:
    """Keeps a deployment with its own age in hours as an annotation, and creates a pod whenever that has changed."""

    def __init__(self, api_client, now):
        self.apps, self.core = client.AppsV1Api(api_client), client.CoreV1Api(api_client)
        self.now, self.started = now, now()

    def reconcile(self):
        annotations = {"hour": str((self.now() - self.started) // timedelta(hours=1))}
        try:
            found = self.apps.read_namespaced_deployment("web", "default")
        except ApiException:
            spec = {"containers": [{"name": "web", "image": "web"}]}
            template = {"metadata": {"labels": {"app": "web"}}, "spec": spec}
            body = {"metadata": {"name": "web", "annotations": annotations}}
            body["spec"] = {"selector": {"matchLabels": {"app": "web"}}, "template": template}
            self.apps.create_namespaced_deployment("default", body)
            return
        if found.metadata.annotations["hour"] == annotations["hour"]:
            return
        for paused in (True, False):
            found.spec.paused = paused
            found.metadata.annotations.update(annotations)
            try:
                found = self.apps.replace_namespaced_deployment("web", "default", found)
            except ApiException as error:
                assert error.status == 409
        try:
            pod = {"metadata": {"name": "web"}, "spec": {"containers": [{"name": "web", "image": "web"}]}}
            self.core.create_namespaced_pod("default", pod)
        except (ApiException, urllib3.exceptions.HTTPError):
            pass  # stored, but the answer is lost


def test_a_cluster_is_started_and_stopped():
    exec(PROGRAMS[0], {})


def test_the_test_passes(watchkeeper):
    names = {"MyController": MyController}
    exec(PROGRAMS[1], names)
    names["test_objects_expire"](watchkeeper)
