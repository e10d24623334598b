//! client-go's rules, each by name, and printed outputs of client-go programs, line by line.

use std::fmt::Write;
use std::sync::Arc;

use expect_test::{Expect, expect};
use tokio::time::{advance, timeout};

use super::*;
use crate::queue::{Bucket, MaxOf, PerKeyExponential};

const A_SECOND: Duration = Duration::from_secs(1);

fn check(printed: String, expected: Expect) {
    expected.assert_eq(&printed);
}

/// Go prints a missing item as `<nil>`.
fn show<T: ToString>(item: &Option<T>) -> String {
    item.as_ref().map_or("<nil>".to_owned(), T::to_string)
}

#[tokio::test(start_paused = true)]
async fn printed_basic_add_and_get() {
    let (queue, mut out) = (WorkQueue::new(), String::new());
    for item in 1..=5 {
        queue.add(item);
        writeln!(out, "added {item}, length {}", queue.len()).unwrap();
    }
    for _ in 1..=5 {
        let (item, shutdown) = queue.get().await;
        writeln!(
            out,
            "got {}, length {}, shutdown {shutdown}",
            show(&item),
            queue.len()
        )
        .unwrap();
    }
    check(
        out,
        expect![[r#"
            added 1, length 1
            added 2, length 2
            added 3, length 3
            added 4, length 4
            added 5, length 5
            got 1, length 4, shutdown false
            got 2, length 3, shutdown false
            got 3, length 2, shutdown false
            got 4, length 1, shutdown false
            got 5, length 0, shutdown false
        "#]],
    );
}

#[tokio::test(start_paused = true)]
async fn printed_equal_items_are_stored_once_and_pointers_by_identity() {
    /// Go compares pointers by address; so does this.
    #[derive(Clone)]
    enum User {
        Value(&'static str),
        Pointer(Arc<String>),
    }
    impl User {
        fn identity(&self) -> (usize, &str) {
            match self {
                User::Value(name) => (0, name),
                User::Pointer(name) => (Arc::as_ptr(name) as usize, ""),
            }
        }
    }
    impl PartialEq for User {
        fn eq(&self, other: &Self) -> bool {
            self.identity() == other.identity()
        }
    }
    impl Eq for User {}
    impl Hash for User {
        fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
            self.identity().hash(state);
        }
    }
    let queue = WorkQueue::new();
    queue.add(User::Value("bob"));
    queue.add(User::Value("bob"));
    assert_eq!(queue.len(), 1);
    queue.add(User::Pointer(Arc::new("bob".to_owned())));
    queue.add(User::Pointer(Arc::new("bob".to_owned())));
    assert_eq!(queue.len(), 3);
}

#[tokio::test(start_paused = true)]
async fn printed_get_waits_ten_seconds_for_an_add() {
    let queue = Arc::new(WorkQueue::new());
    let start = tokio::time::Instant::now();
    tokio::spawn({
        let queue = queue.clone();
        async move {
            tokio::time::sleep(10 * A_SECOND).await;
            queue.add(1);
        }
    });
    assert_eq!(queue.get().await, (Some(1), false));
    assert_eq!(start.elapsed(), 10 * A_SECOND);
}

#[tokio::test(start_paused = true)]
async fn printed_done_without_get_queues_the_item_twice() {
    let queue = WorkQueue::new();
    queue.add("item");
    queue.done(&"item");
    assert_eq!(queue.len(), 2);
    assert_eq!(queue.get().await, (Some("item"), false));
    assert_eq!(queue.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn printed_shut_down() {
    let (queue, mut out) = (WorkQueue::new(), String::new());
    (1..5).for_each(|item| queue.add(item));
    got(&queue, &mut out).await;
    queue.shut_down();
    queue.add(10);
    writeln!(out, "length {}", queue.len()).unwrap();
    for _ in 1..5 {
        got(&queue, &mut out).await;
    }
    check(
        out,
        expect![[r#"
            got 1, shutdown (get) false, shutdown (shutting_down) false
            length 3
            got 2, shutdown (get) false, shutdown (shutting_down) true
            got 3, shutdown (get) false, shutdown (shutting_down) true
            got 4, shutdown (get) false, shutdown (shutting_down) true
            got <nil>, shutdown (get) true, shutdown (shutting_down) true
        "#]],
    );
}

async fn got(queue: &WorkQueue<i32>, out: &mut String) {
    let (item, shutdown) = queue.get().await;
    let (item, shutting_down) = (show(&item), queue.shutting_down());
    writeln!(
        out,
        "got {item}, shutdown (get) {shutdown}, shutdown (shutting_down) {shutting_down}"
    )
    .unwrap();
}

#[tokio::test(start_paused = true)]
async fn printed_shut_down_with_drain() {
    let (queue, mut out) = (Arc::new(WorkQueue::new()), String::new());
    (1..5).for_each(|item| queue.add(item));
    got(&queue, &mut out).await;
    let start = tokio::time::Instant::now();
    tokio::spawn({
        let queue = queue.clone();
        async move {
            tokio::time::sleep(5 * A_SECOND).await;
            queue.done(&1);
        }
    });
    queue.shut_down_with_drain().await;
    writeln!(out, "drained after {} s", start.elapsed().as_secs()).unwrap();
    queue.add(10);
    writeln!(out, "length {}", queue.len()).unwrap();
    for _ in 1..5 {
        got(&queue, &mut out).await;
    }
    check(
        out,
        expect![[r#"
            got 1, shutdown (get) false, shutdown (shutting_down) false
            drained after 5 s
            length 3
            got 2, shutdown (get) false, shutdown (shutting_down) true
            got 3, shutdown (get) false, shutdown (shutting_down) true
            got 4, shutdown (get) false, shutdown (shutting_down) true
            got <nil>, shutdown (get) true, shutdown (shutting_down) true
        "#]],
    );
}

/// The recorded run looked just before the first two items were due and just after the third.
#[tokio::test(start_paused = true)]
async fn printed_delayed_items_appear_at_their_time() {
    let (queue, mut out) = (WorkQueue::new(), String::new());
    for item in 1..=3 {
        queue.add_after(item, item * A_SECOND);
    }
    let mut elapsed = 0;
    for look_ms in [0, 999, 1999, 3001, 4001] {
        advance(Duration::from_millis(look_ms - elapsed)).await;
        elapsed = look_ms;
        writeln!(out, "length {}", queue.len()).unwrap();
    }
    for _ in 1..=3 {
        let (item, shutdown) = queue.get().await;
        writeln!(out, "got {}, shutdown {shutdown}", show(&item)).unwrap();
    }
    assert!(
        timeout(100 * A_SECOND, queue.get()).await.is_err(),
        "then it waits"
    );
    check(
        out,
        expect![[r#"
            length 0
            length 0
            length 1
            length 3
            length 3
            got 1, shutdown false
            got 2, shutdown false
            got 3, shutdown false
        "#]],
    );
}

#[tokio::test(start_paused = true)]
async fn printed_two_thousand_delayed_items_never_block() {
    let queue = WorkQueue::new();
    for item in 1..=2000 {
        queue.add_after(item, item * A_SECOND);
    }
    advance(2000 * A_SECOND).await;
    assert_eq!(queue.len(), 2000);
    assert_eq!(queue.get().await, (Some(1), false));
}

/// Twenty items through a bucket with a burst of 10; each line is a second and the items got in it.
async fn bucket_run(per_second: f64) -> String {
    let queue = WorkQueue::with_limiter(Bucket::new(per_second, 10));
    let mut out = String::new();
    for item in 1..=20 {
        queue.add_rate_limited(item);
        write!(out, "{} ", queue.len()).unwrap();
    }
    let start = tokio::time::Instant::now();
    let mut second = u64::MAX;
    for _ in 1..=20 {
        let (item, shutdown) = queue.get().await;
        assert!(!shutdown);
        if start.elapsed().as_secs() != second {
            second = start.elapsed().as_secs();
            write!(out, "\n{second} s:").unwrap();
        }
        write!(out, " {}({})", show(&item), queue.len()).unwrap();
    }
    out + "\n"
}

#[tokio::test(start_paused = true)]
async fn printed_bucket_of_one_a_second() {
    check(
        bucket_run(1.0).await,
        expect![[r#"
            1 2 3 4 5 6 7 8 9 10 10 10 10 10 10 10 10 10 10 10 
            0 s: 1(9) 2(8) 3(7) 4(6) 5(5) 6(4) 7(3) 8(2) 9(1) 10(0)
            1 s: 11(0)
            2 s: 12(0)
            3 s: 13(0)
            4 s: 14(0)
            5 s: 15(0)
            6 s: 16(0)
            7 s: 17(0)
            8 s: 18(0)
            9 s: 19(0)
            10 s: 20(0)
        "#]],
    );
}

#[tokio::test(start_paused = true)]
async fn printed_bucket_of_two_a_second() {
    check(
        bucket_run(2.0).await,
        expect![[r#"
            1 2 3 4 5 6 7 8 9 10 10 10 10 10 10 10 10 10 10 10 
            0 s: 1(9) 2(8) 3(7) 4(6) 5(5) 6(4) 7(3) 8(2) 9(1) 10(0) 11(0)
            1 s: 12(0) 13(0)
            2 s: 14(0) 15(0)
            3 s: 16(0) 17(0)
            4 s: 18(0) 19(0)
            5 s: 20(0)
        "#]],
    );
}

#[tokio::test(start_paused = true)]
async fn adds_before_get_collapse_into_one() {
    let queue = WorkQueue::new();
    (0..3).for_each(|_| queue.add("foo"));
    queue.add("bar");
    assert_eq!(queue.len(), 2);
    assert_eq!(queue.get().await.0, Some("foo"));
    assert_eq!(queue.get().await.0, Some("bar"));
}

#[tokio::test(start_paused = true)]
async fn adds_while_processing_collapse_into_one_more_at_done() {
    let queue = WorkQueue::new();
    queue.add("foo");
    queue.get().await;
    (0..3).for_each(|_| queue.add("foo"));
    queue.add("bar");
    assert_eq!(queue.len(), 1, "what is processed and dirty does not count");
    queue.done(&"foo");
    assert_eq!(queue.len(), 2);
    assert_eq!(queue.get().await.0, Some("bar"), "it queues up behind the others");
    assert_eq!(queue.get().await.0, Some("foo"));
    queue.done(&"foo");
    assert_eq!(queue.len(), 0);
}

#[tokio::test(start_paused = true)]
async fn done_of_an_unknown_item_does_nothing() {
    let queue = WorkQueue::new();
    queue.add("foo");
    queue.done(&"other");
    assert_eq!(queue.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_second_done_of_a_requeued_item_queues_it_twice() {
    let queue = WorkQueue::new();
    queue.add("foo");
    queue.get().await;
    queue.add("foo");
    queue.done(&"foo");
    queue.done(&"foo");
    assert_eq!(queue.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn an_item_dirty_at_shut_down_is_queued_by_done_and_delivered() {
    let queue = WorkQueue::new();
    queue.add("foo");
    queue.get().await;
    queue.add("foo");
    queue.shut_down();
    queue.shut_down();
    assert_eq!(queue.get().await, (None, true), "nothing is queued yet");
    queue.done(&"foo");
    assert_eq!(queue.get().await, (Some("foo"), false));
    assert_eq!(queue.get().await, (None, true));
}

#[tokio::test(start_paused = true)]
async fn drain_does_not_wait_for_items_nobody_has_fetched() {
    let queue = WorkQueue::new();
    queue.add("foo");
    timeout(A_SECOND, queue.shut_down_with_drain())
        .await
        .expect("returns at once");
    assert_eq!(queue.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn drain_waits_for_ever_without_done_until_shut_down() {
    let queue = Arc::new(WorkQueue::new());
    queue.add("foo");
    queue.get().await;
    let drain = {
        let queue = queue.clone();
        tokio::spawn(async move { queue.shut_down_with_drain().await })
    };
    advance(1000 * A_SECOND).await;
    assert!(!drain.is_finished());
    queue.shut_down();
    timeout(A_SECOND, drain).await.expect("released").unwrap();
}

#[tokio::test(start_paused = true)]
async fn every_drainer_returns() {
    let queue = Arc::new(WorkQueue::new());
    queue.add("foo");
    queue.get().await;
    let drains = [(); 2].map(|()| {
        let queue = queue.clone();
        tokio::spawn(async move { queue.shut_down_with_drain().await })
    });
    tokio::task::yield_now().await;
    queue.done(&"foo");
    for drain in drains {
        timeout(A_SECOND, drain).await.expect("woken").unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn every_waiting_get_returns_at_shut_down() {
    let queue = Arc::new(WorkQueue::<u8>::new());
    let gets = [(); 3].map(|()| {
        let queue = queue.clone();
        tokio::spawn(async move { queue.get().await })
    });
    tokio::task::yield_now().await;
    queue.shut_down();
    for get in gets {
        assert_eq!(get.await.unwrap(), (None, true));
    }
}

#[tokio::test(start_paused = true)]
async fn of_two_delays_the_earlier_is_kept() {
    let queue = WorkQueue::new();
    queue.add_after("foo", 10 * A_SECOND);
    queue.add_after("foo", A_SECOND);
    queue.add_after("foo", 5 * A_SECOND);
    advance(A_SECOND).await;
    assert_eq!(queue.len(), 1);
    queue.get().await;
    queue.done(&"foo");
    advance(100 * A_SECOND).await;
    assert_eq!(queue.len(), 0);
}

#[tokio::test(start_paused = true)]
async fn add_leaves_a_pending_delayed_add_in_place() {
    let queue = WorkQueue::new();
    queue.add_after("foo", 10 * A_SECOND);
    queue.add("foo");
    assert_eq!(queue.get().await.0, Some("foo"));
    queue.done(&"foo");
    advance(10 * A_SECOND).await;
    assert_eq!(queue.get().await.0, Some("foo"), "once more");
}

#[tokio::test(start_paused = true)]
async fn a_zero_delay_adds_at_once_and_delays_are_lost_at_shut_down() {
    let queue = WorkQueue::new();
    queue.add_after("now", Duration::ZERO);
    assert_eq!(queue.len(), 1);
    queue.add_after("later", A_SECOND);
    queue.shut_down();
    queue.add_after("too late", A_SECOND);
    advance(10 * A_SECOND).await;
    assert_eq!(queue.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn rate_limited_adds_count_and_forget_only_resets_the_count() {
    let limiter = PerKeyExponential::new(Duration::from_millis(1), A_SECOND);
    let queue = WorkQueue::with_limiter(MaxOf::new(vec![Box::new(limiter)]));
    queue.add_rate_limited("one");
    queue.add_rate_limited("one");
    queue.add_rate_limited("two");
    assert_eq!(queue.num_requeues(&"one"), 2);
    queue.forget(&"one");
    assert_eq!(queue.num_requeues(&"one"), 0);
    advance(Duration::from_millis(1)).await;
    assert_eq!(queue.len(), 2, "forgetting takes nothing off the queue");
}
