//! What keeps a program in step with a cluster: work queues, watchers, stores, informers and controllers.
//!
//! ```text
//! watcher ▶ reflector ▶ store/index ▶ informer ▶ queue ▶ controller ▶ reconcile
//! ```
//!
//! The hard parts are plain data that change by plain method calls, with time as an argument; thin async shells
//! around them own locks, timers and streams. The hearts are tested against oracles, the shells against a server.
//!
//! # client-go's rules
//!
//! Whoever knows client-go knows what to expect here; each rule that is kept is a test. What is dropped, and why:
//!
//! | client-go | here |
//! |---|---|
//! | **Work queue.** `Done` without `Get` queues an item twice | [`queue`]: a guard ends the work, once. [`workqueue`] keeps the habit |
//! | `Add` leaves a pending `AddAfter` in place | [`queue`]: it cancels it. [`workqueue`] keeps the habit |
//! | `ShutDownWithDrain` does not wait for queued items | [`queue`]: drained means empty. [`workqueue`] keeps the habit |
//! | `AddAfter` blocks at 1000 waiting items, fires up to 10 s late; one of two drainers wakes | nowhere: no channel, no heartbeat, everybody wakes |
//! | Default limiter has a bucket of 10/s over all keys | not in [`queue`]: a storm of failures must not hold up every other key. [`queue::default_controller_limiter`] has it |
//! | controller-runtime's priority queue drops what is queued when it is shut down | it is handed out, as by client-go's; a controller takes no more of it |
//! | … of a rate limit and a delay together takes the smaller | there is one way to add with a limit and one with a delay |
//! | **DeltaFIFO.** Deltas gather per key until popped; consecutive deletes collapse | in order as they came, as RealFIFO; coalesced only for a subscriber that is behind |
//! | `Replaced` and `Sync` for objects that have not changed | a list tells what has changed; a resync is [`delta::Cause::Resync`] |
//! | Deletes before adds in a replace (RealFIFO), after them (DeltaFIFO) | before: a name may be taken again |
//! | `DeletedFinalStateUnknown` in place of the object | `final_state: false` beside the object, which is always there |
//! | RealFIFO tells a delete of an unknown object | nothing: nobody was told that it was there |
//! | `Pop` runs the handler under the queue's lock; batches of distinct keys | subscribers run by themselves; a batch is whatever has arrived, at most [`reflector::MAX_BATCH`] |
//! | **Informer.** Unbounded buffer per handler; a handler's panic ends the process | bounded, then told the sum; a panic is counted and reported |
//! | Runs once; ends by its own stop channel | ends with its last user; a factory starts it anew |
//! | Resync periods are raised to the informer's; no jitter; a new list begins the period anew | each subscriber has its own, whatever the watch does; a tenth of jitter |
//! | Handlers may be added to an informer that has stopped only with an error | they are told their end |
//! | A transform or a store that returns an error loses the event | neither can: a transform returns an object, and one that panics ends the informer |
//! | Transform runs twice per object with streaming lists | once |
//! | One undecodable item fails the list for ever; in a watch it leads to a list | it keeps the state it had and is reported; only a watch event without a name leads to a list |
//! | **Reflector.** First list from any state (`0`) | the most recent state, unless [`watcher::ListSemantic::Any`] is asked for: a program that starts twice must not go back in time |
//! | 500 ends the watch with a list | it resumes once, for the version is still good; then it lists |
//! | Fallback from a streaming list lasts for one cycle; none if its end never comes | it is remembered for all watchers of a client, and silence counts |
//! | A list is not paged where a version is given | the same: servers ignore one of the two |
//! | **Retry watcher** loops on 410 as an HTTP status | ends on 410 in every form |
//! | **Leader election** gives the lease back while work may still run | after it has ended |
//! | Works on until its deadline although another is seen to hold the lease | ends at once |

pub mod api_source;
mod clock;
pub mod controller;
pub mod decoded;
pub mod delta;
pub mod factory;
pub mod finalizer;
pub mod follow;
pub mod informer;
pub mod leader;
pub mod metrics;
pub mod position;
pub mod queue;
pub mod recorder;
pub mod reflector;
pub mod retry_watcher;
pub mod store;
pub mod view;
pub mod wait;
pub mod watcher;
pub mod workqueue;
