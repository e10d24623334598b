//! A list returns everything at once, unless it has a limit: then it is one page with the token of the next.
#![allow(clippy::print_stdout)]

use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use tokio::task::JoinSet;
use watchkeeper::client::{Api, ClientOptions, Error};
use watchkeeper::meta::ListOptions;
use watchkeeper::wire::Object;
use watchkeeper_testing::Sandbox;

const WORKERS: usize = 8;
const EACH: usize = 50;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Unlike in client-go, this is the default: no client-side rate limit.
    let sandbox = Sandbox::open(ClientOptions {
        rate_limit: None,
        ..Default::default()
    });
    let sandbox = sandbox.await?;
    let maps = sandbox.client().api::<ConfigMap>().namespace(sandbox.namespace());

    let workers = (0..WORKERS).map(|worker| create(maps.clone(), worker));
    let results = workers.collect::<JoinSet<_>>().join_all().await;
    let failed = results.iter().filter(|result| result.is_err()).count();
    println!("Create {} config maps, failed workers {failed}", WORKERS * EACH);

    // Other components keep config maps in every namespace as well.
    let ours = |list: &[Object]| list.iter().filter(|map| map.name().starts_with("test")).count();
    let all = maps.list().await?;
    println!("List {} config maps at once", ours(all.objects()));

    let (mut total, mut pages, mut next) = (0, 0, String::new());
    loop {
        let options = ListOptions {
            limit: Some(100),
            continue_token: next,
            ..Default::default()
        };
        let page = maps.list().with(&options).await?;
        (total, pages) = (total + ours(page.objects()), pages + 1);
        next = page.head.continue_token.clone();
        if next.is_empty() {
            break;
        }
    }
    println!("List {total} config maps in {pages} pages of 100");

    // The same as one stream: pages of 500, and a new list if a token has expired.
    let streamed = maps.pages().collect().await?;
    println!("List {} config maps as a stream", ours(&streamed.items));
    sandbox.close().await?;
    Ok(())
}

async fn create(maps: Api<ConfigMap>, worker: usize) -> Result<(), Error> {
    for number in worker * EACH..(worker + 1) * EACH {
        let map = ConfigMap {
            metadata: ObjectMeta {
                name: Some(format!("test{number:05}")),
                ..Default::default()
            },
            ..Default::default()
        };
        maps.create(&map).await?;
    }
    Ok(())
}
