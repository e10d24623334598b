//! A queue that is shut down accepts nothing more and hands out what it has. With a drain, the call waits for work in
//! progress.
//!
//! 添加元素 "added", 读取数据 "got", 关闭队列 "shutting down", 队列大小 "queue length", 队列是否已经关闭 "is the queue shut
//! down", asked in two ways.
#![allow(clippy::print_stdout)]

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep};
use watchkeeper::runtime::workqueue::WorkQueue;

#[tokio::main(flavor = "current_thread", start_paused = true)]
async fn main() {
    for drain in [false, true] {
        let queue = Arc::new(WorkQueue::new());
        for i in 1..5 {
            queue.add(i);
            println!("添加元素: {i}");
        }
        let item = get(&queue).await.unwrap_or_default();
        let worker = queue.clone();
        tokio::spawn(async move {
            sleep(Duration::from_secs(5)).await;
            worker.done(&item);
        });

        println!("关闭队列");
        let begun = Instant::now();
        match drain {
            false => queue.shut_down(),
            true => queue.shut_down_with_drain().await,
        }
        println!("{} s", begun.elapsed().as_secs());
        queue.add(10);
        println!("队列大小: {}", queue.len());
        while get(&queue).await.is_some() {}
    }
}

async fn get(queue: &WorkQueue<i32>) -> Option<i32> {
    let (item, shutdown) = queue.get().await;
    let (text, closing) = (
        item.map_or("<nil>".to_owned(), |item| item.to_string()),
        queue.shutting_down(),
    );
    println!(
        "读取数据: {text:<5} 队列是否已经关闭(Get): {shutdown:<5} 队列是否已经关闭(ShuttingDown): {closing:<5}"
    );
    item
}
