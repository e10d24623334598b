//! Every create that a recorded Kubernetes server accepted is accepted, and its result can be written back.

use crate::recording::{accepted_creates, put_back};

/// Creates that this registry rejects, with the reason.
const REFUSED: &[(&str, &str)] = &[];

#[tokio::test]
async fn recorded_creates_succeed_and_can_be_written_back() {
    let mut wrong = Vec::new();
    let mut right = 0;
    for create in accepted_creates() {
        let result = put_back(&create).await;
        let is_known = REFUSED.iter().any(|(name, _)| *name == create.name);
        match result {
            Ok(()) if is_known => wrong.push(format!("{} is accepted now", create.name)),
            Ok(()) => right += 1,
            Err(_) if is_known => {}
            Err(why) => wrong.push(format!("{}: {why}", create.name)),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(right > 150, "only {right} creates were tried");
}
