//! Derived kinds beside those of `k8s-openapi`.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use watchkeeper::Resource;
use watchkeeper::client::install_crds;
use watchkeeper::runtime::factory::{Factory, FactoryOptions, Selection};
use watchkeeper_testing::TestCluster;

#[derive(Resource, Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[resource(group = "example.com", version = "v1", metadata = ObjectMeta)]
struct GadgetSpec {
    colour: String,
}

#[tokio::test]
async fn a_kind_can_have_the_metadata_of_k8s_openapi() {
    let cluster = TestCluster::start().await.unwrap();
    install_crds(cluster.client(), &[Gadget::crd()]).await.unwrap();
    let mut gadget = Gadget::new("a", GadgetSpec { colour: "red".into() });
    gadget.metadata.labels = Some(BTreeMap::from([("a".into(), "b".into())]));
    let created = cluster.client().api::<Gadget>().create(&gadget).await.unwrap();
    assert_eq!(created.metadata.labels, gadget.metadata.labels);
    cluster.stop().await;
}

#[tokio::test]
async fn an_informer_takes_a_derived_kind() {
    let cluster = TestCluster::start().await.unwrap();
    install_crds(cluster.client(), &[Gadget::crd()]).await.unwrap();
    let gadget = Gadget::new("a", GadgetSpec { colour: "red".into() });
    cluster.client().api::<Gadget>().create(&gadget).await.unwrap();
    let factory = Factory::new(cluster.client().clone(), FactoryOptions::default());
    let informer = factory.informer(Selection::of::<Gadget>());
    informer.store().synced().await.unwrap();
    let gadgets = informer.store().list();
    let colours: Vec<&str> = gadgets.iter().map(|gadget| &*gadget.spec.colour).collect();
    assert_eq!(colours, ["red"]);
    informer.stop().await;
    cluster.stop().await;
}
