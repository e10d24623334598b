//! client-go's delaying queue: an item is queued after its delay.
//!
//! 添加元素 "added", 读取数据 "got", 队列大小 "queue length", 队列是否已经关闭 "is the queue shut down".
#![allow(clippy::print_stdout)]

use std::time::Duration;

use tokio::time::{Instant, sleep};
use watchkeeper::runtime::workqueue::WorkQueue;

#[tokio::main(flavor = "current_thread", start_paused = true)]
async fn main() {
    let queue = WorkQueue::new();
    let begun = Instant::now();
    let clock = || format!("{:02}", begun.elapsed().as_secs());
    for i in 1..=3 {
        println!("{} 添加元素: {i}", clock());
        queue.add_after(i, Duration::from_secs(i));
    }
    for _ in 0..5 {
        println!("{} 队列大小: {}", clock(), queue.len());
        sleep(Duration::from_secs(1)).await;
    }
    for _ in 0..3 {
        let (item, shutdown) = queue.get().await;
        let item = item.unwrap_or_default();
        println!("{} 读取数据: {item} 队列是否已经关闭: {shutdown}", clock());
    }

    // Adding never blocks, however many items are delayed.
    for i in 1..=2000 {
        queue.add_after(i, Duration::from_secs(i));
    }
    println!("{} 添加元素: 2000", clock());
}
