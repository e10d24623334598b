//! A work queue and three workers: repeated adds are handed out once, failures are retried later, and a drain means
//! empty.
#![allow(clippy::print_stdout)]

use tokio::sync::mpsc;
use watchkeeper::runtime::queue::{AddOptions, Queue};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let queue = Queue::<&str>::new(Default::default());
    for key in ["default/web", "default/db", "default/web", "default/flaky"] {
        queue.add(key, AddOptions::default());
    }
    assert_eq!(queue.stats().ready, 3, "what is added twice is handed out once");

    let (report, mut reports) = mpsc::unbounded_channel();
    let workers: Vec<_> = (0..3)
        .map(|_| tokio::spawn(work(queue.clone(), report.clone())))
        .collect();
    drop(report);
    let mut attempts = Vec::new();
    while attempts.len() < 3
        && let Some((key, failures)) = reports.recv().await
    {
        println!("{key} succeeded after {failures} failures");
        attempts.push((key, failures));
    }
    attempts.sort();
    assert_eq!(
        attempts,
        [("default/db", 0), ("default/flaky", 2), ("default/web", 0)]
    );

    queue.drain().await;
    for worker in workers {
        worker.await?;
    }
    assert!(
        !queue.add("default/late", AddOptions::default()),
        "it is shut down"
    );
    Ok(())
}

/// Works until the queue is shut down and empty. The flaky key fails twice.
async fn work(queue: Queue<&'static str>, report: mpsc::UnboundedSender<(&'static str, u32)>) {
    while let Some(work) = queue.next().await {
        let (key, failures) = (*work.key(), work.attempts());
        if key == "default/flaky" && failures < 2 {
            work.retry();
            continue;
        }
        work.succeed();
        let _ = report.send((key, failures));
    }
}
