//! Custom kinds over HTTP.

use ::http::Method;
use serde_json::{Value, json};
use watchkeeper_server::Server;

use crate::client::Client;

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// kubectl selects its apply strategy from the schema, which must name exactly the accepted patch types.
#[tokio::test]
async fn a_custom_kind_accepts_the_patch_types_in_its_schema() {
    let server = Server::builder().start().await.unwrap();
    let pipe = server.connector().connect().await.unwrap();
    let mut client = Client::http2(pipe).await.with_token(&server);
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}],
        },
    });
    let widget = json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}});
    let widgets = "/apis/example.com/v1/namespaces/default/widgets";
    for (path, object) in [(DEFINITIONS, &definition), (widgets, &widget)] {
        let created = client.send(Method::POST, path, &[], &object.to_string()).await;
        assert_eq!(created.status, 201, "{}", created.text());
    }

    let one = "/apis/example.com/v1/namespaces/{namespace}/widgets/{name}";
    let version_3 = client.get("/openapi/v3/apis/example.com/v1").await.json();
    let version_2 = client.get("/openapi/v2").await.json();
    let named: Vec<&String> = version_3["paths"][one]["patch"]["requestBody"]["content"]
        .as_object()
        .unwrap()
        .keys()
        .collect();
    assert_eq!(json!(named), version_2["paths"][one]["patch"]["consumes"]);
    let (merge, list) = ("application/merge-patch+json", "application/json-patch+json");
    assert_eq!(named, ["application/apply-patch+yaml", list, merge]);
    for name in named {
        let patch = if name == list { json!([]) } else { widget.clone() };
        let path = format!("{widgets}/w?fieldManager=test");
        let headers = [("content-type", &**name)];
        let patched = client
            .send(Method::PATCH, &path, &headers, &patch.to_string())
            .await;
        assert_eq!(patched.status, 200, "{name}: {}", patched.text());
    }
    let answers = &version_3["paths"][one]["get"]["responses"]["200"]["content"];
    assert_eq!(answers["application/vnd.kubernetes.protobuf"], Value::Null);

    let fields = &version_3["components"]["schemas"]["com.example.v1.Widget"]["properties"];
    for field in ["apiVersion", "kind", "metadata"] {
        let expected = watchkeeper_descriptions::of_common_field(field);
        assert_eq!(fields[field]["description"].as_str(), expected, "{field}");
    }
}
