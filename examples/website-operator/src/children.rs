//! The desired children of a website.

use serde_json::{Value, json};
use watchkeeper::prelude::*;

use crate::{NAME, Website};

/// The objects of a kind made by the operator: it does not watch others.
pub(crate) fn selection<C: ResourceType>() -> Selection<C> {
    Selection {
        labels: format!("app.kubernetes.io/managed-by={NAME}")
            .parse()
            .expect("a selector"),
        ..Selection::of::<C>()
    }
}

/// The pages, as files.
pub(crate) fn pages(site: &Website) -> Value {
    json!({"metadata": metadata(site), "data": site.spec.pages})
}

/// The service of the pods.
pub(crate) fn service(site: &Website) -> Value {
    let spec = json!({"selector": labels(site), "ports": [{"port": 80, "targetPort": 8080}]});
    json!({"metadata": metadata(site), "spec": spec})
}

/// The pods that serve the pages.
pub(crate) fn pods(site: &Website) -> Value {
    let server = json!({
        "name": "server",
        "image": "busybox:1.37",
        "command": ["httpd", "-f", "-p", "8080", "-h", "/pages"],
        "ports": [{"containerPort": 8080}],
        "volumeMounts": [{"name": "pages", "mountPath": "/pages"}],
    });
    let pages = json!({"name": "pages", "configMap": {"name": site.metadata.name}});
    json!({
        "metadata": metadata(site),
        "spec": {
            "replicas": site.spec.replicas,
            "selector": {"matchLabels": labels(site)},
            "template": {
                "metadata": {"labels": labels(site)},
                "spec": {"containers": [server], "volumes": [pages]},
            },
        },
    })
}

fn metadata(site: &Website) -> Value {
    json!({"labels": labels(site), "ownerReferences": [site.owner_reference()]})
}

fn labels(site: &Website) -> Value {
    json!({"app.kubernetes.io/instance": site.metadata.name, "app.kubernetes.io/managed-by": NAME})
}
