//! The queue's guarantees, with tokio's clock moved by hand.

use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::time::{advance, timeout};

use super::*;

const NOW: AddOptions = AddOptions {
    after: Duration::ZERO,
    priority: 0,
};
const A_SECOND: Duration = Duration::from_secs(1);

fn after(seconds: u64) -> AddOptions {
    AddOptions {
        after: Duration::from_secs(seconds),
        priority: 0,
    }
}

fn queue_of(keys: &[&'static str]) -> Queue<&'static str> {
    let queue = Queue::new(QueueOptions::default());
    for key in keys {
        assert!(queue.add(*key, NOW));
    }
    queue
}

/// Takes all ready keys, in order.
fn take_all(queue: &Queue<&'static str>) -> Vec<&'static str> {
    let taken = std::iter::from_fn(|| queue.try_next().map(|work| *work.key()));
    taken.collect()
}

#[tokio::test]
async fn a_key_that_is_done_is_let_go() {
    let queue = Queue::new(Default::default());
    let key = Arc::new("web");
    queue.add(key.clone(), AddOptions::default());
    queue.next().await.unwrap().succeed();
    assert_eq!(Arc::strong_count(&key), 1);
}

#[tokio::test(start_paused = true)]
async fn keys_come_out_once_in_the_order_of_their_first_adding() {
    let queue = queue_of(&["b", "a", "b", "c", "a"]);
    assert_eq!(take_all(&queue), ["b", "a", "c"]);
}

#[tokio::test(start_paused = true)]
async fn a_key_is_handed_to_one_worker_at_a_time_and_comes_back_if_added_meanwhile() {
    let queue = queue_of(&["a"]);
    let work = queue.next().await.unwrap();
    queue.add("a", NOW);
    queue.add("a", NOW);
    assert!(queue.try_next().is_none());
    queue.add("b", NOW);
    drop(work);
    assert_eq!(take_all(&queue), ["b", "a"]);
}

#[tokio::test(start_paused = true)]
async fn a_panicking_worker_gives_its_key_back() {
    let queue = queue_of(&["a"]);
    let worker = queue.clone();
    let task = tokio::spawn(async move {
        let _work = worker.next().await.unwrap();
        panic!("on purpose");
    });
    assert!(task.await.is_err());
    assert_eq!(queue.stats().running, 0);
    queue.add("a", NOW);
    assert_eq!(take_all(&queue), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn add_cancels_a_pending_later_add_of_the_same_key() {
    let queue = queue_of(&[]);
    queue.add("a", after(10));
    queue.add("a", NOW);
    assert_eq!(take_all(&queue), ["a"]);
    advance(Duration::from_secs(60)).await;
    assert!(
        take_all(&queue).is_empty(),
        "handed out once, not again ten seconds later"
    );
}

#[tokio::test(start_paused = true)]
async fn of_two_delays_the_earlier_counts() {
    let queue = queue_of(&[]);
    queue.add("a", after(10));
    queue.add("a", after(1));
    queue.add("a", after(5));
    assert!(take_all(&queue).is_empty());
    advance(A_SECOND).await;
    assert_eq!(take_all(&queue), ["a"]);
    assert_eq!(queue.stats(), QueueStats::default());
}

#[tokio::test(start_paused = true)]
async fn a_delay_asked_for_while_running_begins_to_count_at_once() {
    let queue = queue_of(&["a"]);
    let work = queue.try_next().unwrap();
    queue.add("a", after(3));
    advance(Duration::from_secs(2)).await;
    drop(work);
    assert!(take_all(&queue).is_empty());
    advance(A_SECOND).await;
    assert_eq!(take_all(&queue), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn delayed_keys_wake_a_waiting_worker_at_their_time() {
    let queue = queue_of(&[]);
    let start = tokio::time::Instant::now();
    for (key, seconds) in [("c", 3), ("a", 1), ("b", 2)] {
        queue.add(key, after(seconds));
    }
    for (key, seconds) in [("a", 1), ("b", 2), ("c", 3)] {
        assert_eq!(*queue.next().await.unwrap().key(), key);
        assert_eq!(start.elapsed().as_secs(), seconds);
    }
}

#[tokio::test(start_paused = true)]
async fn a_busy_worker_leaves_the_alarm_to_another() {
    let queue = queue_of(&[]);
    let take = |queue: Queue<_>| async move { queue.next().await.map(|work| (*work.key(), work)) };
    let (first, second) = (
        tokio::spawn(take(queue.clone())),
        tokio::spawn(take(queue.clone())),
    );
    tokio::task::yield_now().await;
    queue.add("a", after(1));
    queue.add("b", after(2));
    let mut keys = Vec::new();
    let mut held = Vec::new();
    for task in [first, second] {
        let (key, work) = timeout(10 * A_SECOND, task)
            .await
            .expect("woken")
            .unwrap()
            .unwrap();
        keys.push(key);
        held.push(work);
    }
    keys.sort();
    assert_eq!(keys, ["a", "b"]);
}

#[tokio::test(start_paused = true)]
async fn a_dropped_waiter_leaves_the_alarm_to_another() {
    let queue = queue_of(&[]);
    let (one, other) = (queue.clone(), queue.clone());
    let dropped = tokio::spawn(async move { one.next().await.is_some() });
    let waiting = tokio::spawn(async move { other.next().await.is_some() });
    tokio::task::yield_now().await;
    queue.add("a", after(1));
    tokio::task::yield_now().await;
    dropped.abort();
    assert!(timeout(10 * A_SECOND, waiting).await.expect("woken").unwrap());
}

#[tokio::test(start_paused = true)]
async fn priorities_go_first_and_a_raised_key_moves() {
    let queue = queue_of(&["a", "b"]);
    queue.add(
        "low",
        AddOptions {
            priority: LOW_PRIORITY,
            ..NOW
        },
    );
    queue.add("high", AddOptions { priority: 1, ..NOW });
    queue.add("b", AddOptions { priority: 1, ..NOW });
    assert_eq!(take_all(&queue), ["high", "b", "a", "low"]);
}

#[tokio::test(start_paused = true)]
async fn failures_delay_longer_and_success_forgets_them() {
    let queue = queue_of(&["a"]);
    for (attempts, millis) in [(0, 5), (1, 10), (2, 20)] {
        let work = queue.next().await.unwrap();
        assert_eq!(work.attempts(), attempts);
        assert_eq!(work.retry(), Duration::from_millis(millis));
    }
    queue.next().await.unwrap().succeed();
    assert_eq!(queue.attempts(&"a"), 0);
    assert_eq!(queue.stats(), QueueStats::default());
}

#[tokio::test(start_paused = true)]
async fn again_after_forgets_failures_and_comes_back() {
    let queue = queue_of(&["a"]);
    queue.try_next().unwrap().retry();
    let start = tokio::time::Instant::now();
    queue.next().await.unwrap().again_after(60 * A_SECOND);
    assert_eq!(queue.attempts(&"a"), 0);
    assert_eq!(*queue.next().await.unwrap().key(), "a");
    assert_eq!(start.elapsed().as_secs(), 60);
}

#[tokio::test(start_paused = true)]
async fn shut_down_hands_out_the_rest_then_ends() {
    let queue = queue_of(&["a"]);
    queue.add("later", after(10));
    queue.shut_down();
    queue.shut_down();
    assert!(!queue.add("b", NOW));
    assert_eq!(*queue.next().await.unwrap().key(), "a");
    assert!(queue.next().await.is_none());
    assert!(queue.is_shut_down());
}

#[tokio::test(start_paused = true)]
async fn shut_down_wakes_every_waiting_worker() {
    let queue = queue_of(&[]);
    let workers: Vec<_> = (0..3)
        .map(|_| {
            let queue = queue.clone();
            tokio::spawn(async move { queue.next().await.is_none() })
        })
        .collect();
    tokio::task::yield_now().await;
    queue.shut_down();
    for worker in workers {
        assert!(worker.await.unwrap());
    }
}

#[tokio::test(start_paused = true)]
async fn drain_means_empty() {
    let queue = queue_of(&["a", "b"]);
    let work = queue.next().await.unwrap();
    queue.add("a", NOW);
    let drain = tokio::spawn({
        let queue = queue.clone();
        async move { queue.drain().await }
    });
    tokio::task::yield_now().await;
    drop(work);
    assert_eq!(
        take_all(&queue),
        ["b", "a"],
        "queued and marked keys are still worked on"
    );
    timeout(A_SECOND, drain).await.expect("drained").unwrap();
    assert!(queue.next().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_worker_waits_for_marked_keys_of_others_before_it_ends() {
    let queue = queue_of(&["a"]);
    let work = queue.next().await.unwrap();
    queue.add("a", NOW);
    queue.shut_down();
    let other = tokio::spawn({
        let queue = queue.clone();
        async move { queue.next().await.map(|work| *work.key()) }
    });
    tokio::task::yield_now().await;
    drop(work);
    assert_eq!(other.await.unwrap(), Some("a"));
}

#[derive(Default)]
struct Counter {
    added: AtomicUsize,
    retried: AtomicUsize,
    waited_ms: AtomicUsize,
    worked_ms: AtomicUsize,
}

impl QueueObserver for Counter {
    fn added(&self) {
        self.added.fetch_add(1, Ordering::Relaxed);
    }
    fn retried(&self) {
        self.retried.fetch_add(1, Ordering::Relaxed);
    }
    fn started(&self, waited: Duration) {
        self.waited_ms
            .fetch_add(waited.as_millis() as usize, Ordering::Relaxed);
    }
    fn finished(&self, worked: Duration) {
        self.worked_ms
            .fetch_add(worked.as_millis() as usize, Ordering::Relaxed);
    }
}

#[tokio::test(start_paused = true)]
async fn an_observer_sees_adds_retries_and_times() {
    let counter = Arc::new(Counter::default());
    let queue = Queue::new(QueueOptions {
        observer: Some(counter.clone()),
        ..Default::default()
    });
    queue.add("a", NOW);
    queue.add("a", NOW);
    advance(A_SECOND).await;
    let work = queue.next().await.unwrap();
    advance(2 * A_SECOND).await;
    assert_eq!(queue.stats().longest_running, 2 * A_SECOND);
    work.retry();
    let read = |value: &AtomicUsize| value.load(Ordering::Relaxed);
    assert_eq!([&counter.added, &counter.retried].map(read), [1, 1]);
    assert_eq!([&counter.waited_ms, &counter.worked_ms].map(read), [1000, 2000]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_adders_and_workers_lose_nothing() {
    const KEYS: usize = 200;
    const ADDERS: usize = 8;
    let queue = Queue::<usize>::new(QueueOptions::default());
    // Each add first raises its key's target; the work that follows must see the latest target.
    let wished: Arc<Vec<AtomicUsize>> = Arc::new((0..KEYS).map(|_| AtomicUsize::new(0)).collect());
    let seen: Arc<Vec<AtomicUsize>> = Arc::new((0..KEYS).map(|_| AtomicUsize::new(0)).collect());
    let workers: Vec<_> = (0..4)
        .map(|_| {
            let (queue, wished, seen) = (queue.clone(), wished.clone(), seen.clone());
            tokio::spawn(async move {
                while let Some(work) = queue.next().await {
                    let wish = wished[*work.key()].load(Ordering::SeqCst);
                    seen[*work.key()].store(wish, Ordering::SeqCst);
                    tokio::task::yield_now().await;
                }
            })
        })
        .collect();
    let adders: Vec<_> = (0..ADDERS)
        .map(|_| {
            let (queue, wished) = (queue.clone(), wished.clone());
            tokio::spawn(async move {
                for key in 0..KEYS {
                    wished[key].fetch_add(1, Ordering::SeqCst);
                    queue.add(key, NOW);
                    tokio::task::yield_now().await;
                }
            })
        })
        .collect();
    for adder in adders {
        adder.await.unwrap();
    }
    queue.drain().await;
    for worker in workers {
        worker.await.unwrap();
    }
    for key in 0..KEYS {
        assert_eq!(seen[key].load(Ordering::SeqCst), ADDERS);
    }
}
