//! Requests for certificates: approval and signatures.

use std::net::{Ipv4Addr, SocketAddr};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rcgen::{CertificateParams, DnType, DnValue, KeyPair};
use serde_json::{Value, json};
use watchkeeper_client::config::{Credentials, IdentityConfig, Material};
use watchkeeper_client::{Client, Config, DynamicApi};
use watchkeeper_meta::Resource;
use watchkeeper_runtime::factory::{Factory, FactoryOptions, Selection};
use watchkeeper_server::{Handle, Server};
use watchkeeper_simulator::{Simulator, SimulatorOptions};
use watchkeeper_testing::{client_of, signing_authority_of, unlimited};

use crate::simulator::support::resource;

fn requests() -> Resource {
    resource("certificates.k8s.io", "certificatesigningrequests")
}

/// A server with a port, whose authority signs.
struct Cluster {
    server: Handle,
    client: Client,
    simulator: Simulator,
}

impl Cluster {
    async fn start() -> Self {
        let any_port = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let server = Server::builder()
            .in_memory()
            .listen(any_port)
            .start()
            .await
            .unwrap();
        let client = client_of(&server, unlimited()).unwrap();
        let options = SimulatorOptions {
            nodes: 0,
            signing_authority: signing_authority_of(&server),
            ..SimulatorOptions::default()
        };
        let simulator = Simulator::start(client.clone(), options);
        Self {
            server,
            client,
            simulator,
        }
    }

    fn api(&self) -> DynamicApi {
        self.client.dynamic(requests())
    }

    /// Sends the request of a key, as administrator.
    async fn request(
        &self,
        name: &str,
        signer: &str,
        usages: &[&str],
        key: &KeyPair,
        asked: CertificateParams,
    ) {
        let pem = asked.serialize_request(key).unwrap().pem().unwrap();
        let request = json!({
            "apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": {"name": name},
            "spec": {"request": STANDARD.encode(pem), "signerName": signer, "usages": usages, "expirationSeconds": 3600},
        });
        self.api().create(&request).await.unwrap();
    }

    async fn approve(&self, name: &str) {
        let mut request = self.api().get(name).await.unwrap().to_value().unwrap();
        request["status"]["conditions"] = json!([{"type": "Approved", "status": "True", "reason": "Test"}]);
        let approval = self.api().subresource("approval");
        approval.update(name, &request).await.unwrap();
    }

    /// The status as soon as it satisfies a condition.
    async fn until(&self, name: &str, check: impl Fn(&Value) -> bool) -> Value {
        let factory = Factory::new(self.client.clone(), FactoryOptions::default());
        let informer = factory.informer(Selection::all(requests()));
        let status = || {
            let snapshot = informer.store().snapshot();
            let found = snapshot.find("", name)?.to_value().unwrap();
            Some(found["status"].clone())
        };
        let seen = informer
            .store()
            .wait_until(|_| status().is_some_and(|status| check(&status)));
        seen.await.unwrap();
        status().unwrap()
    }

    async fn stop(self) {
        self.simulator.stop().await;
        self.server.shutdown().await;
    }
}

fn subject(user: &str, group: &str, names: &[&str]) -> CertificateParams {
    let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
    let mut params = CertificateParams::new(names).unwrap();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params
        .distinguished_name
        .push(DnType::OrganizationName, DnValue::Utf8String(group.to_owned()));
    params
        .distinguished_name
        .push(DnType::CommonName, DnValue::Utf8String(user.to_owned()));
    params
}

fn condition<'a>(status: &'a Value, kind: &str) -> Option<&'a Value> {
    let mut conditions = status["conditions"].as_array()?.iter();
    conditions.find(|condition| condition["type"] == kind)
}

#[tokio::test]
async fn the_server_knows_the_owner_of_a_signed_certificate() {
    let cluster = Cluster::start().await;
    let key = KeyPair::generate().unwrap();
    let usages = ["client auth", "digital signature"];
    let signer = "kubernetes.io/kube-apiserver-client";
    let asked = subject("zoë", "dev", &[]);
    cluster.request("zoe", signer, &usages, &key, asked).await;
    cluster.approve("zoe").await;
    let status = cluster
        .until("zoe", |status| status["certificate"].is_string())
        .await;

    let certificate = STANDARD.decode(status["certificate"].as_str().unwrap()).unwrap();
    let address = cluster.server.address().unwrap();
    let mut config = Config::new(format!("https://{address}").parse().unwrap());
    let inline = |bytes: Vec<u8>| Material::Inline(bytes.into());
    config.tls.authority = Some(inline(cluster.server.authority_pem().unwrap().into_bytes()));
    config.tls.identity = Some(IdentityConfig {
        certificate: inline(certificate),
        key: inline(key.serialize_pem().into_bytes()),
    });
    config.credentials = Credentials::Anonymous;
    let client = Client::new(&config, unlimited()).unwrap();
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    let reviews = client.dynamic(resource("authentication.k8s.io", "selfsubjectreviews"));
    let answer = reviews.create(&review).await.unwrap().to_value().unwrap();
    let user = &answer["status"]["userInfo"];
    assert_eq!(
        (&user["username"], &user["groups"]),
        (&json!("zoë"), &json!(["dev", "system:authenticated"]))
    );
    cluster.stop().await;
}

#[tokio::test]
async fn a_kubelets_request_is_approved_and_signed_by_itself() {
    let cluster = Cluster::start().await;
    let key = KeyPair::generate().unwrap();
    let usages = ["client auth", "digital signature", "key encipherment"];
    let signer = "kubernetes.io/kube-apiserver-client-kubelet";
    let asked = subject("system:node:n1", "system:nodes", &[]);
    cluster.request("n1", signer, &usages, &key, asked).await;
    let status = cluster
        .until("n1", |status| status["certificate"].is_string())
        .await;
    let approved = condition(&status, "Approved").unwrap();
    assert_eq!(approved["reason"], "AutoApproved");
    let message = "Auto approving kubelet client certificate after SubjectAccessReview.";
    assert_eq!(approved["message"], message);
    cluster.stop().await;
}

#[tokio::test]
async fn an_approved_request_that_a_signer_refuses_fails() {
    let cluster = Cluster::start().await;
    let key = KeyPair::generate().unwrap();
    let usages = ["digital signature", "server auth"];
    let signer = "kubernetes.io/kubelet-serving";
    let asked = subject("system:node:n1", "system:nodes", &[]);
    cluster.request("n1", signer, &usages, &key, asked).await;
    // Nobody approves serving certificates by itself.
    cluster.approve("n1").await;
    let status = cluster
        .until("n1", |status| condition(status, "Failed").is_some())
        .await;
    let failed = condition(&status, "Failed").unwrap();
    assert_eq!(failed["reason"], "SignerValidationFailure");
    assert_eq!(failed["message"], "DNS or IP subjectAltName is required");
    assert_eq!(status["certificate"], Value::Null);

    let asked = subject("system:node:n2", "system:nodes", &["n2.example.com", "10.0.0.2"]);
    cluster.request("n2", signer, &usages, &key, asked).await;
    cluster.approve("n2").await;
    cluster
        .until("n2", |status| status["certificate"].is_string())
        .await;
    cluster.stop().await;
}
