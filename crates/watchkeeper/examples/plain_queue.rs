//! client-go's plain queue, method by method: `add`, `get`, `len` and `done`.
//!
//! 添加数据 "added", 读取数据 "got", 队列大小 "queue length", 队列是否已经关闭 "is the queue shut down".
#![allow(clippy::print_stdout)]

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{sleep, timeout};
use watchkeeper::runtime::workqueue::WorkQueue;

// Nothing waits in real time: time moves on as soon as all tasks are idle.
#[tokio::main(flavor = "current_thread", start_paused = true)]
async fn main() {
    println!("-- first in, first out");
    let queue = WorkQueue::new();
    for i in 1..=5 {
        queue.add(i);
        println!("添加数据: {i:<5} 队列大小: {:<5}", queue.len());
    }
    for _ in 1..=5 {
        let (item, shutdown) = queue.get().await;
        let (item, len) = (item.unwrap_or_default(), queue.len());
        println!("读取数据: {item:<5} 队列大小: {len:<5} 队列是否已经关闭: {shutdown}");
    }

    println!("-- what is equal is queued once");
    #[derive(Clone, PartialEq, Eq, Hash)]
    enum User {
        Named(&'static str),
        /// Equal to nothing but itself.
        Address(usize),
    }
    let queue = WorkQueue::new();
    queue.add(User::Named("bob"));
    queue.add(User::Named("bob"));
    println!("队列大小:  {}", queue.len());
    let bobs = [String::from("bob"), String::from("bob")];
    for bob in &bobs {
        queue.add(User::Address(std::ptr::from_ref(bob).addr()));
    }
    println!("队列大小:  {}", queue.len());

    println!("-- get waits, for ever if nobody adds anything");
    let queue = Arc::new(WorkQueue::new());
    let waited = timeout(Duration::from_secs(3600), queue.get()).await;
    println!("Get: {waited:?}");
    let adding = queue.clone();
    tokio::spawn(async move {
        sleep(Duration::from_secs(10)).await;
        adding.add(1);
    });
    println!("Get: {:?}", queue.get().await);

    println!("-- a length is old news: another worker may be faster");
    queue.add(2);
    let rival = queue.clone();
    tokio::spawn(async move { rival.get().await });
    if !queue.is_empty() {
        tokio::task::yield_now().await;
        println!("队列大小:  {}", queue.len());
    }

    println!("-- done without get queues an item twice");
    let queue = WorkQueue::new();
    queue.add("item");
    queue.done(&"item");
    println!("队列大小:  {}", queue.len());
    println!("{:?}", queue.get().await);
    println!("队列大小:  {}", queue.len());
}
