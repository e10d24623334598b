//! Keeps a program in sync with a cluster: work queues, watchers, stores, informers and controllers.
//!
//! ```text
//! watcher ▶ reflector ▶ store/index ▶ informer ▶ queue ▶ controller ▶ reconcile
//! ```
//!
//! An informer is one watch with a local copy of what it has seen. It delivers every change once, and heals by itself:
//!
//! ```no_run
//! use watchkeeper_client::Client;
//! use watchkeeper_meta::Resource;
//! use watchkeeper_runtime::factory::{Factory, Selection};
//! use watchkeeper_runtime::informer::Notice;
//!
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! let client = Client::from_environment()?; // the cluster that kubectl would use
//! let maps = Selection::all(Resource::namespaced("", "v1", "ConfigMap", "configmaps"));
//! let informer = Factory::new(client, Default::default()).informer(maps);
//! let mut changes = informer.subscribe(Default::default());
//! while let Some(notice) = changes.next().await {
//!     if let Notice::Change(delta) = notice {
//!         println!("{} {:?}, one of {}", delta.key(), delta.cause(), informer.store().list().len());
//!     }
//! }
//! # Ok(())
//! # }
//! ```
//!
//! With structs, and with controllers on top: the front page of `watchkeeper`, which stands above this crate.
//!
//! The hard parts are plain data structures with plain methods and time as an argument; thin async shells around them
//! own locks, timers and streams. The cores are tested against oracles, the shells against a server.
//!
//! # Differences from client-go
//!
//! Everything else follows client-go's rules, and each rule is a test. The differences, and their reasons:
//!
//! | client-go | here |
//! |---|---|
//! | **Work queue.** `Done` without `Get` queues an item twice | [`queue`]: a guard ends the work, once. [`workqueue`] does as client-go |
//! | `Add` leaves a pending `AddAfter` in place | [`queue`]: it cancels it. [`workqueue`] does as client-go |
//! | `ShutDownWithDrain` does not wait for queued items | [`queue`]: drained means empty. [`workqueue`] does as client-go |
//! | `AddAfter` blocks at 1000 waiting items, fires up to 10 s late; one of two drainers wakes | not here: no channel, no heartbeat, all drainers wake |
//! | Default limiter has a bucket of 10/s over all keys | not in [`queue`]: a storm of failures must not delay all other keys. [`queue::default_controller_limiter`] has it |
//! | controller-runtime's priority queue drops what is queued when it is shut down | it is handed out, as in client-go; a controller does not take it |
//! | … of a rate limit and a delay together takes the smaller | an add has either a rate limit or a delay |
//! | **DeltaFIFO.** Deltas gather per key until popped; consecutive deletes collapse | in order, as RealFIFO; coalesced only for a subscriber that is behind |
//! | `Replaced` and `Sync` for objects that have not changed | a list reports only changes; a resync is [`delta::Cause::Resync`] |
//! | Deletes before adds in a replace (RealFIFO), after them (DeltaFIFO) | before: a name may be taken again |
//! | `DeletedFinalStateUnknown` in place of the object | `final_state: false` beside the object, which is always there |
//! | RealFIFO reports a delete of an unknown object | not reported |
//! | `Pop` runs the handler under the queue's lock; batches of distinct keys | subscribers run independently; a batch is what has arrived, at most [`reflector::MAX_BATCH`] |
//! | **Informer.** Unbounded buffer per handler; a handler's panic ends the process | bounded, then coalesced; a panic is counted and reported |
//! | Runs once; ends by its own stop channel | ends with its last user; a factory starts it again |
//! | Resync periods are raised to the informer's; no jitter; a new list begins the period anew | each subscriber has its own, independent of the watch; a tenth of jitter |
//! | Handlers may be added to an informer that has stopped only with an error | they see the end of the stream |
//! | A transform or a store that returns an error loses the event | neither can: a transform returns an object, and one that panics ends the informer |
//! | Transform runs twice per object with streaming lists | once |
//! | One undecodable item fails the list forever; in a watch it causes a relist | the last known state is kept and the failure reported; only a watch event without a key causes a relist |
//! | **Reflector.** First list from any state (`0`) | the most recent state, unless [`watcher::ListSemantic::Any`] is asked for: a restarted program must not go back in time |
//! | 500 ends the watch with a list | it resumes once, because the version is still valid; then it lists |
//! | Fallback from a streaming list lasts for one cycle; none if its end never comes | it is remembered for all watchers of a client, and a timeout counts as failure |
//! | A list is not paged where a version is given | the same: servers ignore one of the two |
//! | **Retry watcher** loops on 410 as an HTTP status | ends on 410 in every form |
//! | **Leader election** releases the lease while work may still run | after it has ended |
//! | Works until its deadline although another is observed to hold the lease | ends at once |

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
mod shard;
pub mod sharding;
pub mod store;
pub mod view;
pub mod wait;
pub mod watcher;
pub mod workqueue;
