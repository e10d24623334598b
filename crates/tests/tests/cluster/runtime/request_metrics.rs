//! The request metrics of a client are exported with all other metrics.

use std::sync::Arc;

use watchkeeper_client::{ClientOptions, RequestMetrics};
use watchkeeper_runtime::metrics::Metrics;
use watchkeeper_server::Server;
use watchkeeper_testing::client_of;

#[tokio::test]
async fn request_metrics_are_exported_with_the_others() {
    let server = Server::builder().in_memory().start().await.unwrap();
    let (requests, metrics) = (Arc::new(RequestMetrics::default()), Metrics::new());
    metrics.add(requests.clone());
    let options = ClientOptions {
        metrics: Some(requests),
        ..Default::default()
    };
    let client = client_of(&server, options).unwrap();
    client.get_raw("/version", 1 << 20).await.unwrap();
    let shown = metrics.render();
    let counted = r#"rest_client_requests_total{code="200",host="localhost",method="GET"} 1"#;
    assert!(shown.contains(counted), "{shown}");
    server.shutdown().await;
}
