//! One task for the connections to a near server.
//!
//! A write to a server on this machine is answered on one connection and heard of on another, within microseconds. Were
//! each connection a task, both would be ready at once, and a thread that has two tasks wakes another thread before it
//! does anything: that takes longer than what the two have to do. So one task has them all. What shared connections bring
//! goes first, because events are among it; answers come when those have been dealt with.
//!
//! On longer ways answers and events do not come together that often, and many processors count for more: there each
//! connection has a task for itself.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use futures_util::task::AtomicWaker;

/// Who drives the connections of a pool.
pub(super) enum Driver {
    /// A task for each.
    Each,
    /// A task for all of them.
    Together(Arc<Crew>),
}

/// What a connection carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Load {
    /// Answers of many, and events.
    Shared,
    /// One answer at a time.
    Single,
}

/// The connections of one task, as those see it who bring others.
#[derive(Default)]
pub(super) struct Crew {
    joining: Mutex<Joining>,
    task: AtomicWaker,
}

#[derive(Default)]
struct Joining {
    members: Vec<Member>,
    /// Whether there is a task that will take them.
    is_awaited: bool,
}

struct Member {
    connection: Pin<Box<dyn Future<Output = ()> + Send>>,
    load: Load,
    due: Arc<Due>,
    waker: Waker,
}

/// Whether a connection is to be polled.
struct Due {
    is_due: AtomicBool,
    crew: Arc<Crew>,
}

impl Driver {
    /// For connections to a server that is near, or not.
    pub(super) fn new(is_near: bool) -> Self {
        match is_near {
            true => Self::Together(Arc::default()),
            false => Self::Each,
        }
    }

    /// Drives a connection to its end.
    pub(super) fn drive(&self, load: Load, connection: impl Future<Output = ()> + Send + 'static) {
        match self {
            Self::Each => drop(tokio::spawn(connection)),
            Self::Together(crew) => {
                if let Some(task) = crew.join(Member::new(connection, load, crew)) {
                    tokio::spawn(task);
                }
            }
        }
    }
}

impl Crew {
    /// Adds a connection; returns the task for it if there is none.
    fn join(self: &Arc<Self>, member: Member) -> Option<Task> {
        let mut joining = self.lock();
        joining.members.push(member);
        if !std::mem::replace(&mut joining.is_awaited, true) {
            return Some(Task::new(self.clone()));
        }
        drop(joining);
        self.task.wake();
        None
    }

    fn lock(&self) -> MutexGuard<'_, Joining> {
        self.joining.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Member {
    fn new(connection: impl Future<Output = ()> + Send + 'static, load: Load, crew: &Arc<Crew>) -> Self {
        let due = Arc::new(Due {
            is_due: AtomicBool::new(true),
            crew: crew.clone(),
        });
        Self {
            connection: Box::pin(connection),
            load,
            waker: Waker::from(due.clone()),
            due,
        }
    }

    fn is_due(&self) -> bool {
        self.due.is_due.load(Ordering::SeqCst)
    }

    /// Polls the connection; returns whether it goes on. One that panics has ended, and the others have not.
    fn poll(&mut self) -> bool {
        self.due.is_due.store(false, Ordering::SeqCst);
        let mut context = Context::from_waker(&self.waker);
        let polled = catch_unwind(AssertUnwindSafe(|| self.connection.as_mut().poll(&mut context)));
        matches!(polled, Ok(Poll::Pending))
    }
}

impl Wake for Due {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.is_due.store(true, Ordering::SeqCst);
        self.crew.task.wake();
    }
}

/// Drives connections until the last of them has ended.
struct Task {
    crew: Arc<Crew>,
    members: Vec<Member>,
    /// Whether single connections have given way and are next, whatever shared ones bring.
    gave_way: bool,
    is_over: bool,
}

impl Task {
    fn new(crew: Arc<Crew>) -> Self {
        Self {
            crew,
            members: Vec::new(),
            gave_way: false,
            is_over: false,
        }
    }

    /// Polls the connections with this load that are due; returns whether there were any.
    fn poll_due(&mut self, load: Load) -> bool {
        let mut any = false;
        self.members.retain_mut(|member| {
            let is_due = member.load == load && member.is_due();
            any |= is_due;
            !is_due || member.poll()
        });
        any
    }

    fn has_due(&self, load: Load) -> bool {
        self.members
            .iter()
            .any(|member| member.load == load && member.is_due())
    }

    /// Whether there are no connections any more, and none has come. The next one gets another task.
    fn is_over(&mut self) -> bool {
        let mut joining = self.crew.lock();
        if self.members.is_empty() && joining.members.is_empty() {
            joining.is_awaited = false;
            self.is_over = true;
        }
        self.is_over
    }
}

impl Future for Task {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        // Before anything is looked at: what becomes due afterwards wakes this task again.
        self.crew.task.register(context.waker());
        let mut joining = std::mem::take(&mut self.crew.lock().members);
        self.members.append(&mut joining);
        let heard = self.poll_due(Load::Shared);
        self.gave_way = heard && !self.gave_way && self.has_due(Load::Single);
        if self.gave_way {
            come_again(context);
            return Poll::Pending;
        }
        self.poll_due(Load::Single);
        match self.is_over() {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    }
}

impl Drop for Task {
    /// Before its end it is dropped with its runtime: whoever comes next is driven by theirs.
    fn drop(&mut self) {
        if !self.is_over {
            let left = std::mem::take(&mut *self.crew.lock());
            drop(left);
        }
    }
}

/// Has this task polled again when its thread has nothing else to do. To wake it would be to wake another thread.
pub(super) fn come_again(context: &mut Context<'_>) {
    let _ = pin!(tokio::task::yield_now()).poll(context);
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use super::*;

    type Polled = Arc<Mutex<Vec<&'static str>>>;

    /// What a connection does each time it is polled.
    type Act = fn(&mut Context<'_>) -> Poll<()>;

    const WAIT: Act = |_| Poll::Pending;
    const END: Act = |_| Poll::Ready(());
    const PANIC: Act = |_| panic!("a connection that cannot go on");
    /// Always has something to do.
    const BUSY: Act = |context| {
        context.waker().wake_by_ref();
        Poll::Pending
    };

    #[derive(Default)]
    struct Fixture {
        crew: Arc<Crew>,
        polled: Polled,
        task: Option<Task>,
    }

    impl Fixture {
        fn join(&mut self, name: &'static str, load: Load, act: Act) {
            let polled = self.polled.clone();
            let connection = poll_fn(move |context| {
                polled.lock().unwrap().push(name);
                act(context)
            });
            let task = self.crew.join(Member::new(connection, load, &self.crew));
            assert!(task.is_none() || self.task.is_none(), "two tasks");
            self.task = self.task.take().or(task);
        }

        /// Who is polled when the task is.
        fn poll(&mut self) -> Vec<&'static str> {
            let task = self.task.as_mut().expect("a task");
            let progress = Pin::new(task).poll(&mut Context::from_waker(Waker::noop()));
            if progress.is_ready() {
                self.task = None;
            }
            std::mem::take(&mut self.polled.lock().unwrap())
        }
    }

    #[test]
    fn events_come_before_answers() {
        let mut fixture = Fixture::default();
        fixture.join("answer", Load::Single, WAIT);
        fixture.join("events", Load::Shared, WAIT);
        assert_eq!(fixture.poll(), ["events"]);
        assert_eq!(fixture.poll(), ["answer"]);
        assert_eq!(fixture.poll(), [""; 0]);
    }

    #[test]
    fn an_answer_waits_for_events_once() {
        let mut fixture = Fixture::default();
        fixture.join("answer", Load::Single, BUSY);
        fixture.join("events", Load::Shared, BUSY);
        assert_eq!(fixture.poll(), ["events"]);
        assert_eq!(fixture.poll(), ["events", "answer"]);
        assert_eq!(fixture.poll(), ["events"]);
        assert_eq!(fixture.poll(), ["events", "answer"]);
    }

    #[test]
    fn only_what_is_due_is_polled() {
        let mut fixture = Fixture::default();
        fixture.join("first", Load::Shared, WAIT);
        fixture.join("second", Load::Shared, WAIT);
        assert_eq!(fixture.poll(), ["first", "second"]);
        let second = fixture.task.as_ref().expect("a task").members[1].waker.clone();
        second.wake();
        assert_eq!(fixture.poll(), ["second"]);
    }

    #[test]
    fn the_task_ends_with_its_last_connection_and_the_next_one_gets_another() {
        let mut fixture = Fixture::default();
        fixture.join("first", Load::Shared, END);
        assert_eq!(fixture.poll(), ["first"]);
        assert!(fixture.task.is_none());
        fixture.join("second", Load::Single, WAIT);
        assert_eq!(fixture.poll(), ["second"]);
        assert!(fixture.task.is_some());
    }

    #[test]
    fn a_panic_ends_one_connection_and_no_other() {
        let mut fixture = Fixture::default();
        fixture.join("broken", Load::Shared, PANIC);
        fixture.join("sound", Load::Shared, BUSY);
        assert_eq!(fixture.poll(), ["broken", "sound"]);
        assert_eq!(fixture.poll(), ["sound"]);
    }

    #[test]
    fn a_task_that_is_dropped_leaves_room_for_another() {
        let mut fixture = Fixture::default();
        fixture.join("first", Load::Shared, WAIT);
        fixture.task = None;
        fixture.join("second", Load::Shared, WAIT);
        assert_eq!(fixture.poll(), ["second"]);
    }

    #[test]
    fn who_joins_while_the_task_ends_is_driven() {
        let mut fixture = Fixture::default();
        fixture.join("first", Load::Shared, END);
        let late = fixture.crew.clone();
        fixture.crew.lock().members.push(Member::new(
            poll_fn(move |_| {
                late.join(Member::new(std::future::pending(), Load::Single, &late));
                Poll::Ready(())
            }),
            Load::Single,
            &fixture.crew,
        ));
        fixture.poll();
        fixture.poll();
        assert!(fixture.task.is_some());
        fixture.poll();
        assert_eq!(fixture.task.as_ref().expect("a task").members.len(), 1);
    }
}
