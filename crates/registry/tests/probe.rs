#[path = "support/recording.rs"]
mod recording;
use recording::send;
use serde_json::{Value, json};
use watchkeeper_registry::Registry;
use watchkeeper_storage::{Store, StoreOptions};

#[tokio::test]
async fn probe() {
    let text = std::fs::read_to_string("/tmp/probe.jsonl").unwrap();
    let registry = Registry::open(Store::memory(StoreOptions::default()))
        .await
        .unwrap();
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        let v: Value = serde_json::from_str(line).unwrap();
        let m = v[0].as_str().unwrap();
        let answer = send(&registry, m, v[1].as_str().unwrap(), v[2].clone()).await;
        match answer {
            Ok(mut o) => {
                if let Some(x) = o["metadata"].as_object_mut() {
                    for k in [
                        "managedFields",
                        "uid",
                        "creationTimestamp",
                        "resourceVersion",
                        "namespace",
                    ] {
                        x.remove(k);
                    }
                }
                println!("{} {} => {}", m, v[1], o)
            }
            Err(s) => println!("{} {} => {} {}", m, v[1], s.code, s.message),
        }
    }
    let _ = json!({});
}
