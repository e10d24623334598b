//! Webhooks called by an API server.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{Method, Request};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use watchkeeper_client::config::Material;
use watchkeeper_client::{Client, Config, ResourceType, SendOptions, install_crds};
use watchkeeper_custom::Resource;
use watchkeeper_manager::Manager;
use watchkeeper_manager::webhook::{
    AdmissionRequest, Certificates, Conversions, Denied, Operation, Webhooks,
};
use watchkeeper_meta::ObjectMeta;
use watchkeeper_runtime::controller::{Action, Context, Controller};
use watchkeeper_runtime::factory::{Factory, Selection};
use watchkeeper_testing::webhook::LocalCertificate;
use watchkeeper_testing::{TestCluster, unlimited};

use crate::support::*;

#[derive(Resource, Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[resource(group = "example.com", version = "v1", namespaced, crate = watchkeeper_custom)]
struct WebsiteSpec {
    domain: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    replicas: Option<u32>,
}

fn site(name: &str, domain: &str) -> Website {
    let spec = WebsiteSpec {
        domain: domain.to_owned(),
        replicas: None,
    };
    Website::new(name, spec)
}

/// A configuration as in an operator's manifest.
fn configuration(kind: &str, address: SocketAddr, path: &str) -> Value {
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": "websites"},
        "webhooks": [{
            "name": "websites.example.com",
            "rules": [{
                "apiGroups": ["example.com"], "apiVersions": ["v1"], "resources": ["websites"],
                "operations": ["CREATE", "UPDATE", "DELETE"],
            }],
            "clientConfig": {"url": format!("https://{address}{path}")},
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
        }],
    })
}

async fn load(cluster: &TestCluster, object: &Value) {
    cluster.load(&object.to_string()).await.expect("applied");
}

fn webhooks(listen: std::net::TcpListener, certificates: Certificates) -> Webhooks {
    Webhooks::new(listen, certificates)
        .mutate(
            "/mutate",
            |mut site: Website, request: AdmissionRequest<Website>| async move {
                assert_eq!(request.operation, Operation::Create);
                site.spec.replicas.get_or_insert(2);
                Ok::<_, Denied>(site)
            },
        )
        .validate("/validate", |request: AdmissionRequest<Website>| async move {
            match (request.operation, &request.object, &request.old_object) {
                (Operation::Create, Some(site), None) if site.spec.domain.contains('_') => {
                    Err(Denied::invalid("spec.domain: has an underscore"))
                }
                (Operation::Delete, None, Some(site)) => {
                    Err(Denied::forbidden(format!("{} stays", site.spec.domain)))
                }
                _ => Ok(vec![format!("{} is watched", request.name)]),
            }
        })
        .mutating_configuration("websites")
        .validating_configuration("websites")
}

#[tokio::test]
async fn writes_are_changed_and_refused() {
    let cluster = TestCluster::start().await.unwrap();
    let client = cluster.client();
    install_crds(client, &[Website::crd()]).await.unwrap();
    let ((listen, address), (probes, probes_at)) = (socket(), socket());
    load(
        &cluster,
        &configuration("MutatingWebhookConfiguration", address, "/mutate"),
    )
    .await;
    load(
        &cluster,
        &configuration("ValidatingWebhookConfiguration", address, "/validate"),
    )
    .await;
    let certificates = Certificates::self_made("hooks", ["127.0.0.1"]);
    let (metrics, metrics_at) = socket();
    let factory = Factory::new(client.clone(), Default::default());
    let (told, mut reconciled) = mpsc::unbounded_channel();
    let websites =
        Controller::<Website>::of(&factory).reconcile(move |site: Arc<Website>, _: Context<Website>| {
            let _ = told.send(site.spec.replicas);
            async { Ok::<_, Infallible>(Action::Done) }
        });
    let manager = Manager::new(client.clone())
        .controller(websites)
        .probes(probes)
        .metrics(metrics)
        .webhooks(webhooks(listen, certificates));
    let process = Process::start(manager).await;
    eventually(async || http_get(probes_at, "/readyz").await?.0.eq(&200).then_some(())).await;

    let websites = client.api::<Website>().namespace("default");
    let created = websites.create(&site("home", "example.com")).await.unwrap();
    assert_eq!(created.spec.replicas, Some(2), "by the webhook that changes");
    assert_eq!(soon(reconciled.recv()).await, Some(Some(2)));
    let refused = websites.create(&site("odd", "a_b")).await.unwrap_err();
    let why = refused.status().unwrap();
    let said =
        r#"admission webhook "websites.example.com" denied the request: spec.domain: has an underscore"#;
    assert_eq!((why.code, &*why.message), (422, said));
    let refused = websites.delete("home").await.unwrap_err();
    assert!(
        refused.status().unwrap().message.ends_with("example.com stays"),
        "{refused}"
    );

    let (_, page) = http_get(metrics_at, "/metrics").await.unwrap();
    let counted = |path: &str, count: u32| {
        format!("controller_runtime_webhook_requests_total{{webhook=\"{path}\",code=\"200\"}} {count}\n")
    };
    assert!(page.contains(&counted("/mutate", 3)), "{page}");
    assert!(page.contains(&counted("/validate", 3)), "{page}");
    process.stop().await.unwrap();
    cluster.stop().await;
}

/// A client that trusts this authority.
fn client_at(address: SocketAddr, authority: &str) -> Client {
    let mut config = Config::new(format!("https://{address}").parse().unwrap());
    config.tls.authority = Some(Material::Inline(authority.as_bytes().into()));
    Client::new(&config, unlimited()).unwrap()
}

async fn post(client: &Client, path: &str, review: &Value) -> Result<Value, watchkeeper_client::Error> {
    let request = Request::builder().method(Method::POST).uri(path);
    let request = request.body(Bytes::from(review.to_string())).unwrap();
    let answer = client.send(request, &SendOptions::default()).await?;
    let body = answer.into_body().collect(1 << 20).await.expect("a whole answer");
    Ok(serde_json::from_slice(&body).expect("JSON"))
}

/// Sites in three versions: only neighbours convert into each other.
#[derive(Debug, Serialize, Deserialize)]
struct Site<const VERSION: u8> {
    metadata: ObjectMeta,
    size: u32,
}

impl<const VERSION: u8> ResourceType for Site<VERSION> {
    fn resource() -> watchkeeper_meta::Resource {
        watchkeeper_meta::Resource::namespaced("example.com", format!("v{VERSION}"), "Site", "sites")
    }
}

fn grow<const A: u8, const B: u8>(site: Site<A>) -> Result<Site<B>, String> {
    match site.size {
        0 => Err("size: must not be 0".to_owned()),
        size => {
            let mut metadata = ObjectMeta::default();
            metadata.annotations.insert("was".into(), format!("v{A}"));
            let size = size * 10;
            Ok(Site { metadata, size })
        }
    }
}

/// The way back.
fn shrink<const A: u8, const B: u8>(site: Site<A>) -> Result<Site<B>, String> {
    match site.size % 10 {
        0 => Ok(Site {
            metadata: ObjectMeta::default(),
            size: site.size / 10,
        }),
        _ => Err("size: must be a multiple of 10".to_owned()),
    }
}

impl<const VERSION: u8> Site<VERSION> {
    fn named(name: &str, size: u32) -> Self {
        let metadata = ObjectMeta {
            name: name.to_owned(),
            ..Default::default()
        };
        Self { metadata, size }
    }
}

#[tokio::test]
async fn objects_are_converted_from_version_to_version() {
    let cluster = TestCluster::start().await.unwrap();
    let (listen, address) = socket();
    let directory = tempfile::tempdir().unwrap();
    let certificate = LocalCertificate::new().unwrap();
    let certificates = written(directory.path(), &certificate);
    let conversions = Conversions::new().step(grow::<1, 2>).step(grow::<2, 3>);
    let webhooks = Webhooks::new(listen, certificates).convert("/convert", conversions);
    let process = Process::start(Manager::new(cluster.client().clone()).webhooks(webhooks)).await;

    let client = client_at(address, &certificate.authority_pem);
    let metadata = json!({"name": "a", "uid": "1", "labels": {"app": "web"}, "managedFields": []});
    let object = json!({"apiVersion": "example.com/v1", "kind": "Site", "metadata": metadata, "size": 1});
    let review = |objects: &[&Value], to: &str| {
        json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview",
            "request": {"uid": "u", "desiredAPIVersion": to, "objects": objects},
        })
    };
    let answer = eventually(async || {
        post(&client, "/convert", &review(&[&object], "example.com/v3"))
            .await
            .ok()
    })
    .await;
    let expected = json!({
        "apiVersion": "example.com/v3", "kind": "Site", "size": 100,
        "metadata": {"name": "a", "uid": "1", "labels": {"app": "web"}, "managedFields": [], "annotations": {"was": "v2"}},
    });
    assert_eq!(
        answer["response"],
        json!({"uid": "u", "convertedObjects": [expected], "result": {"status": "Success"}})
    );

    let empty = json!({"apiVersion": "example.com/v1", "kind": "Site", "metadata": {"name": "b"}, "size": 0});
    let failed = async |objects: &[&Value], to: &str| {
        let answer = post(&client, "/convert", &review(objects, to)).await.unwrap();
        assert_eq!(
            answer["response"]["convertedObjects"],
            json!([]),
            "all of them or none"
        );
        text_at(&answer, "/response/result/message")
    };
    assert_eq!(
        failed(&[&object, &empty], "example.com/v2").await,
        "b: size: must not be 0"
    );
    assert_eq!(
        failed(&[&object], "example.com/v9").await,
        "a: there is no conversion from example.com/v1 to example.com/v9"
    );
    let none = post(&client, "/else", &json!({})).await.unwrap_err();
    assert!(none.is_not_found(), "{none}");
    process.stop().await.unwrap();
    cluster.stop().await;
}

/// End to end: a definition names the converter, the manager writes its authority there, and objects of one version
/// are read in another.
#[tokio::test]
async fn a_server_reads_objects_in_another_version_through_the_manager() {
    let cluster = TestCluster::start().await.unwrap();
    let (listen, address) = socket();
    let version = |name: &str, stored: bool| {
        let size = json!({"type": "object", "properties": {"size": {"type": "integer"}}});
        json!({"name": name, "served": true, "storage": stored, "schema": {"openAPIV3Schema": size}})
    };
    let webhook = json!({
        "clientConfig": {"url": format!("https://{address}/convert")},
        "conversionReviewVersions": ["v1"],
    });
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "sites.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": "sites", "kind": "Site"},
            "conversion": {"strategy": "Webhook", "webhook": webhook},
            "versions": [version("v1", true), version("v2", false)],
        },
    });
    load(&cluster, &definition).await;
    let conversions = Conversions::new().step(grow::<1, 2>).step(shrink::<2, 1>);
    let webhooks = Webhooks::new(listen, Certificates::self_made("hooks", ["127.0.0.1"]))
        .convert("/convert", conversions)
        .conversion_of("sites.example.com");
    let process = Process::start(Manager::new(cluster.client().clone()).webhooks(webhooks)).await;
    let old = cluster.client().api::<Site<1>>().namespace("default");
    let new = cluster.client().api::<Site<2>>().namespace("default");

    // Stored as it was written, and read in the other version.
    let small = Site::<1>::named("a", 1);
    old.create(&small).await.unwrap();
    let converted = eventually(async || new.get("a").await.ok()).await;
    assert_eq!(converted.size, 10);
    let was = converted.metadata.annotations.get("was").map(String::as_str);
    assert_eq!(was, Some("v1"));

    // Written in the version that is not stored: by create, and by an update of what was read in it.
    new.create(&Site::<2>::named("b", 20)).await.unwrap();
    assert_eq!(old.get("b").await.unwrap().size, 2);
    let mut larger = converted;
    larger.size = 70;
    assert_eq!(new.update(&larger).await.unwrap().size, 70);
    let (in_old, in_new) = (old.list().await.unwrap(), new.list().await.unwrap());
    let in_old: Vec<u32> = in_old.iter().map(|site| site.unwrap().size).collect();
    let in_new: Vec<u32> = in_new.iter().map(|site| site.unwrap().size).collect();
    assert_eq!((in_old, in_new), (vec![7, 2], vec![70, 20]));

    // A cache of either version is fed by converted events.
    let factory = Factory::new(cluster.client().clone(), Default::default());
    let informer = factory.informer(Selection::of::<Site<2>>());
    informer.synced(SOON).await.unwrap();
    old.create(&Site::<1>::named("c", 3)).await.unwrap();
    let seen = eventually(async || informer.store().find("default", "c")).await;
    assert_eq!(seen.size, 30);

    // A write that the handler denies is not stored.
    let refused = new.create(&Site::<2>::named("d", 5)).await.unwrap_err();
    assert!(
        refused.to_string().contains("size: must be a multiple of 10"),
        "{refused}"
    );
    process.stop().await.unwrap();
    cluster.stop().await;
}

/// Writes a certificate to files atomically, like a mounted Secret.
fn written(directory: &std::path::Path, certificate: &LocalCertificate) -> Certificates {
    let put = |name: &str, text: &str| {
        let (new, path) = (directory.join("new"), directory.join(name));
        std::fs::write(&new, text).unwrap();
        std::fs::rename(&new, &path).unwrap();
        path
    };
    let authority = put("ca.crt", &certificate.authority_pem);
    let files = Certificates::files(
        put("tls.crt", &certificate.certificate_pem),
        put("tls.key", &certificate.key_pem),
    );
    files.authority_file(authority)
}

#[tokio::test]
async fn files_are_read_again_when_they_change() {
    let cluster = TestCluster::start().await.unwrap();
    let (listen, address) = socket();
    let directory = tempfile::tempdir().unwrap();
    let [one, two] = [LocalCertificate::new().unwrap(), LocalCertificate::new().unwrap()];
    let webhooks = webhooks(listen, written(directory.path(), &one));
    let process = Process::start(Manager::new(cluster.client().clone()).webhooks(webhooks)).await;

    let trusts = async |certificate: &LocalCertificate| {
        let review = json!({"kind": "Pod", "request": {}});
        let answer = post(
            &client_at(address, &certificate.authority_pem),
            "/validate",
            &review,
        )
        .await;
        // A trusted client gets the answer that this is not a review.
        answer
            .unwrap_err()
            .status()
            .is_some_and(|status| status.code == 400)
    };
    eventually(async || trusts(&one).await.then_some(())).await;
    assert!(!trusts(&two).await);
    // Half of a change has no effect.
    std::fs::write(directory.path().join("tls.crt"), &two.certificate_pem).unwrap();
    assert!(trusts(&one).await);
    written(directory.path(), &two);
    assert!(trusts(&two).await);
    assert!(!trusts(&one).await);
    process.stop().await.unwrap();
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn self_made_certificates_are_replaced_before_they_expire() {
    const DAY: Duration = Duration::from_secs(86_400);
    let cluster = TestCluster::start().await.unwrap();
    let client = cluster.client();
    let (listen, address) = socket();
    load(
        &cluster,
        &configuration("ValidatingWebhookConfiguration", address, "/validate"),
    )
    .await;
    let webhooks = Webhooks::new(listen, Certificates::self_made("hooks", ["127.0.0.1"]))
        .validating_configuration("websites");
    let process = Process::start(Manager::new(client.clone()).webhooks(webhooks)).await;

    let (first, first_bundle) = changed(client, "", "").await;
    tokio::time::advance(DAY * 61).await;
    let (second, second_bundle) = changed(client, &first, "").await;
    assert_eq!(second_bundle, first_bundle, "the authority is the same");
    tokio::time::advance(DAY * 215).await;
    let (_, third_bundle) = changed(client, &second, &second_bundle).await;
    let pem = |bundle: &str| String::from_utf8(STANDARD.decode(bundle).unwrap()).unwrap();
    assert!(
        pem(&third_bundle).ends_with(&pem(&second_bundle)),
        "the one before is still trusted"
    );
    process.stop().await.unwrap();
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_bundle_that_was_taken_away_is_put_back() {
    let cluster = TestCluster::start().await.unwrap();
    let client = cluster.client();
    let (listen, address) = socket();
    let plain = configuration("ValidatingWebhookConfiguration", address, "/validate");
    load(&cluster, &plain).await;
    let webhooks = Webhooks::new(listen, Certificates::self_made("hooks", ["127.0.0.1"]))
        .validating_configuration("websites");
    let process = Process::start(Manager::new(client.clone()).webhooks(webhooks)).await;
    let (_, bundle) = changed(client, "", "").await;
    let mut without = object(client, "websites").await.unwrap();
    without["webhooks"][0]["clientConfig"] = plain["webhooks"][0]["clientConfig"].clone();
    let configurations = client.dynamic(configurations());
    configurations.update("websites", &without).await.unwrap();
    assert_eq!(changed(client, "", "").await.1, bundle);
    process.stop().await.unwrap();
    cluster.stop().await;
}

#[tokio::test]
async fn bundles_are_written_before_anything_works() {
    let cluster = TestCluster::start().await.unwrap();
    let client = cluster.client();
    let (listen, address) = socket();
    let plain = configuration("ValidatingWebhookConfiguration", address, "/validate");
    load(&cluster, &plain).await;
    let webhooks = Webhooks::new(listen, Certificates::self_made("hooks", ["127.0.0.1"]))
        .validating_configuration("websites");
    let process = Process::start(Manager::new(client.clone()).webhooks(webhooks)).await;
    let found = object(client, "websites").await.unwrap();
    assert_ne!(text_at(&found, "/webhooks/0/clientConfig/caBundle"), "");
    process.stop().await.unwrap();
    cluster.stop().await;
}

fn configurations() -> watchkeeper_meta::Resource {
    let (kind, plural) = (
        "ValidatingWebhookConfiguration",
        "validatingwebhookconfigurations",
    );
    watchkeeper_meta::Resource::cluster("admissionregistration.k8s.io", "v1", kind, plural)
}

async fn object(client: &Client, name: &str) -> Option<Value> {
    let found = client.dynamic(configurations()).get(name).await;
    found.ok()?.to_value().ok()
}

/// The certificate in the Secret and the bundle in the configuration, once both have changed.
async fn changed(client: &Client, certificate: &str, bundle: &str) -> (String, String) {
    let secrets = watchkeeper_meta::Resource::namespaced("", "v1", "Secret", "secrets");
    let secrets = client.dynamic(secrets).namespace("default");
    eventually(async || {
        tokio::time::sleep(Duration::from_millis(100)).await;
        let secret = secrets.get("hooks").await.ok()?;
        let found = text_at(&secret.to_value().ok()?, "/data/tls.crt");
        let configuration = object(client, "websites").await?;
        let trusted = text_at(&configuration, "/webhooks/0/clientConfig/caBundle");
        let is_other = !found.is_empty() && !trusted.is_empty() && found != certificate && trusted != bundle;
        is_other.then_some((found, trusted))
    })
    .await
}
