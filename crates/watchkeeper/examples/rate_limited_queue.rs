//! client-go's rate limiting queue with a token bucket: ten items at once, then at the refill rate.
//!
//! 添加数据 "added", 读取数据 "got", 队列大小 "queue length", 队列是否已经关闭 "is the queue shut down".
#![allow(clippy::print_stdout)]

use tokio::time::Instant;
use watchkeeper::runtime::{queue::Bucket, workqueue::WorkQueue};

#[tokio::main(flavor = "current_thread", start_paused = true)]
async fn main() {
    for per_second in [1.0, 2.0] {
        let queue = WorkQueue::with_limiter(Bucket::new(per_second, 10));
        let begun = Instant::now();
        let clock = || begun.elapsed().as_secs();
        for i in 1..=20 {
            queue.add_rate_limited(i);
            println!("{:02} 添加数据: {i:<3} 队列大小: {:<3}", clock(), queue.len());
        }
        for _ in 1..=20 {
            let (item, shutdown) = queue.get().await;
            let (at, item, len) = (clock(), item.unwrap_or_default(), queue.len());
            println!("{at:02} 读取数据: {item:<3} 队列是否已经关闭: {shutdown:<5} 队列大小: {len:<3}");
        }
    }
}
