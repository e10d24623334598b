//! One run: a cluster, its processes, the workload and the faults, on one thread and in virtual time.
//!
//! ```text
//! processes start ▶ workload ▶ until nobody writes ▶ faults are over ▶ until nobody writes ▶ final invariants
//!                   └── every write: trace ▶ invariants ▶ planned crash or lost answer ──┘
//! ```
//!
//! Everything runs on a current-thread runtime whose time jumps to the next timer when all tasks are idle, and all
//! randomness comes from the seed. The same plan therefore makes the same run, to the last byte of its trace.

use std::any::Any;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Weak};
use std::time::Duration;

use fastrand::Rng;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{Notify, oneshot};
use tokio::task::{JoinError, JoinSet};
use tokio::time::Instant;
use watchkeeper_meta::Status;
use watchkeeper_server::{
    Action, Answering, Cut, Flow, Line, Observed, Outcome, Reach, RequestInfo, RequestMatch, Rule, Stale,
    Verb, Write,
};
use watchkeeper_simulator::Simulator;

use super::description::{Beginning, Controller, Invariant, Parts};
use super::plan::{Fault, Plan, Trouble};
use super::process::{Process, user_of};
use super::report::{Failure, Run};
use super::state::{Objects, State};
use super::trace::{Trace, changes_holder, fault_line, write_line};
use crate::TestCluster;

/// The time without writes after which a cluster is at rest.
const QUIET: Duration = Duration::from_secs(60);

/// The time a cluster has to come to rest, and then to meet the final invariants.
const PATIENCE: Duration = Duration::from_secs(30 * 60);

/// The time limit of the workload.
const LONGEST_WORKLOAD: Duration = Duration::from_secs(24 * 3600);

/// The delay before a process that has ended is restarted, as by a kubelet.
const RESTART: Duration = Duration::from_secs(10);

/// The time a restarted process meets a stale server.
const STALE_FOR: Duration = Duration::from_secs(10);

/// More writes than this in one run count as endless.
const MAX_WRITES: u64 = 5_000;

/// The request limit per virtual second. A user who exceeds it is in a hot loop.
const MAX_REQUESTS_PER_SECOND: u32 = 10_000;

/// The user of the workload.
const USER: &str = "user";

/// The user of simulated nodes and control plane controllers.
const CONTROL_PLANE: &str = "control-plane";

/// The state of a run.
struct World {
    parts: Arc<Parts>,
    cluster: TestCluster,
    began: Instant,
    progress: Mutex<Progress>,
    /// Notified when an invariant is violated.
    failed: Notify,
}

/// The progress of a run.
struct Progress {
    trace: Trace,
    objects: Objects,
    actors: BTreeMap<Arc<str>, Actor>,
    failure: Option<Failure>,
    last_change: Instant,
    writes: u64,
    /// The number of requests of each user in the current virtual second.
    asked: BTreeMap<String, Asked>,
}

/// The requests of one user within one virtual second.
#[derive(Default)]
struct Asked {
    second: u64,
    requests: u32,
}

/// A process over all its lives.
struct Actor {
    life: u32,
    /// The server connection of the current life.
    line: Line,
    /// Ends the current life; `None` between two.
    crash: Option<oneshot::Sender<Crash>>,
    is_cut_off: bool,
    writes: u64,
    /// The faults at its writes.
    at_writes: Vec<Trouble>,
}

/// The end of a process.
struct Crash {
    down: Duration,
    /// The number of revisions the server lags behind afterwards.
    behind: Option<u64>,
}

/// Runs a plan on this thread.
pub(super) fn run(parts: &Arc<Parts>, beginning: &Beginning, plan: &Plan) -> Run {
    // Names, uids and jitter come from this thread's generator.
    fastrand::seed(plan.seed);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build();
    let ended = match runtime {
        Ok(runtime) => runtime.block_on(simulate(parts, beginning, plan)),
        Err(error) => Err(Failure::Setup(error.to_string())),
    };
    let (trace, failure) = ended.unwrap_or_else(|failure| (Trace::default(), Some(failure)));
    Run {
        plan: plan.clone(),
        trace,
        failure,
    }
}

async fn simulate(
    parts: &Arc<Parts>,
    beginning: &Beginning,
    plan: &Plan,
) -> Result<(Trace, Option<Failure>), Failure> {
    let cluster = beginning.cluster().await;
    let cluster = cluster.map_err(|error| Failure::setup(&error))?;
    let world = World::new(parts.clone(), cluster, plan);
    let mut tasks = JoinSet::new();
    let _control_plane = world.control_plane();
    for controller in &parts.controllers {
        tasks.spawn(live(world.clone(), controller.clone()));
    }
    for fault in &plan.faults {
        world.inject(fault, &mut tasks);
    }
    let told = tokio::select! {
        biased;
        () = world.failed.notified() => Ok(()),
        told = world.story(plan.seed) => told,
    };
    let mut progress = world.progress.lock();
    progress.failure = progress.failure.take().or(told.err());
    Ok((std::mem::take(&mut progress.trace), progress.failure.take()))
}

/// Runs the lives of a process, one after the other.
async fn live(world: Arc<World>, controller: Controller) {
    let name = &controller.name;
    loop {
        let (process, crashed) = world.begin_life(name);
        let mut running = tokio::spawn((controller.start)(process));
        let crash = tokio::select! {
            biased;
            Ok(crash) = crashed => {
                running.abort();
                crash
            }
            ended = &mut running => world.ended(name, ended),
        };
        tokio::time::sleep(crash.down).await;
        if let Some(behind) = crash.behind {
            world.fall_behind(name, behind);
        }
    }
}

impl World {
    fn new(parts: Arc<Parts>, cluster: TestCluster, plan: &Plan) -> Arc<Self> {
        let began = Instant::now();
        let actor = |controller: &Controller| {
            let name = controller.name.clone();
            let faults = plan.faults.iter().filter(|fault| *fault.process == *name);
            let actor = Actor {
                life: 0,
                line: cluster.server().connector().line(user_of(&name)),
                crash: None,
                is_cut_off: false,
                writes: 0,
                at_writes: faults.map(|fault| fault.trouble.clone()).collect(),
            };
            (name, actor)
        };
        let progress = Progress {
            trace: Trace::default(),
            objects: Objects::default(),
            actors: parts.controllers.iter().map(actor).collect(),
            failure: None,
            last_change: began,
            writes: 0,
            asked: BTreeMap::new(),
        };
        let world = Arc::new(Self {
            parts,
            cluster,
            began,
            progress: Mutex::new(progress),
            failed: Notify::new(),
        });
        // Weak: the server must not keep itself alive.
        let observer: Weak<Self> = Arc::downgrade(&world);
        world.cluster.server().observe(move |observed| {
            let world = observer.upgrade();
            world.map_or(Answering::Sent, |world| world.observe(observed))
        });
        world
    }

    fn control_plane(&self) -> Option<Simulator> {
        let options = self.parts.control_plane.clone()?;
        Some(Simulator::start(self.outsider(CONTROL_PLANE).client(), options))
    }

    /// A process exempt from faults.
    fn outsider(&self, name: &str) -> Process {
        let line = self.cluster.server().connector().line(user_of(name));
        Process::new(name.into(), 1, line)
    }

    /// The run from its first write to its end.
    async fn story(&self, seed: u64) -> Result<(), Failure> {
        if let Some(workload) = &self.parts.workload {
            let work = workload(self.outsider(USER), Rng::with_seed(seed));
            let worked = tokio::time::timeout(LONGEST_WORKLOAD, tokio::spawn(work)).await;
            let worked = worked.map_err(|_| Failure::Workload("it does not end".to_owned()))?;
            worked.map_err(|error| Failure::Workload(reason(error)))?;
        }
        self.comes_to_rest(Instant::now() + PATIENCE).await;
        self.heal();
        let deadline = Instant::now() + PATIENCE;
        loop {
            let rests = self.comes_to_rest(deadline).await;
            let verdict = self.judge_end();
            match (rests, verdict) {
                (true, Ok(())) => return Ok(()),
                (false, verdict) => return Err(verdict.err().unwrap_or(Failure::Restless)),
                (true, Err(failure)) if Instant::now() >= deadline => return Err(failure),
                (true, Err(_)) => tokio::time::sleep(QUIET).await,
            }
        }
    }

    /// Waits until there were no writes for a while; false if that takes too long.
    async fn comes_to_rest(&self, deadline: Instant) -> bool {
        loop {
            let (rests_at, all_up) = {
                let progress = self.progress.lock();
                let up = |actor: &Actor| actor.crash.is_some() && !actor.is_cut_off;
                (progress.last_change + QUIET, progress.actors.values().all(up))
            };
            let now = Instant::now();
            if now >= rests_at && all_up {
                return true;
            }
            if now >= deadline {
                return false;
            }
            let next_look = rests_at.max(now + Duration::from_secs(1));
            tokio::time::sleep_until(next_look.min(deadline)).await;
        }
    }

    /// Ends all faults.
    fn heal(&self) {
        self.cluster.faults().clear();
        let mut progress = self.progress(None);
        for actor in progress.actors.values_mut() {
            actor.at_writes.clear();
            if std::mem::take(&mut actor.is_cut_off) {
                actor.line.set_reach(Reach::Open);
            }
        }
    }

    fn judge_end(&self) -> Result<(), Failure> {
        let mut progress = self.progress.lock();
        let state = progress.see(&self.cluster, None);
        let always = broken(&self.parts.always, &state);
        let eventually = broken(&self.parts.eventually, &state);
        match (always, eventually) {
            (Some((name, why)), _) => Err(Failure::Always { name, why }),
            (None, Some((name, why))) => Err(Failure::Eventually { name, why }),
            (None, None) => Ok(()),
        }
    }

    /// The progress, with all faults so far in its trace, and optionally another line.
    fn progress(&self, line: Option<(&str, String)>) -> MutexGuard<'_, Progress> {
        let fired = self.cluster.faults().fired();
        if !fired.is_empty() {
            self.cluster.faults().clear_fired();
        }
        let mut progress = self.progress.lock();
        for fired in fired {
            progress.tell(self.began, &fired.user, fault_line(&fired));
            progress.last_change = Instant::now();
        }
        if let Some((who, what)) = line {
            progress.tell(self.began, who, what);
        }
        progress
    }

    fn observe(&self, observed: Observed<'_>) -> Answering {
        match observed {
            Observed::Asked { user, request } => {
                self.asked(user, request);
                Answering::Sent
            }
            Observed::Done(write) => self.wrote(write),
            Observed::Refused {
                user,
                request,
                status,
            } => {
                let line = format!(
                    "{} {} is refused: {} {}",
                    request.verb, request.path, status.code, status.reason
                );
                drop(self.progress(Some((user, line))));
                Answering::Sent
            }
        }
    }

    /// Ends the run if a user sends requests without a pause.
    fn asked(&self, user: &str, request: &RequestInfo) {
        let mut progress = self.progress.lock();
        if progress.count_request(user, self.began.elapsed().as_secs()) <= MAX_REQUESTS_PER_SECOND {
            return;
        }
        let last = format!("{} {}", request.verb, request.path);
        let line = format!("does not pause: more than {MAX_REQUESTS_PER_SECOND} requests in a second");
        progress.tell(self.began, user, format!("{line}, the last: {last}"));
        progress.fail(Failure::HotLoop {
            who: user.to_owned(),
            request: last,
        });
        self.failed.notify_one();
    }

    /// Processes a write: records it, checks the invariants, and triggers the faults planned for it.
    fn wrote(&self, write: &Write) -> Answering {
        let mut answering = Answering::Sent;
        let is_heartbeat = self.parts.heartbeats.contains(&write.kind);
        let line = (!is_heartbeat || changes_holder(write)).then(|| write_line(write));
        let mut progress = self.progress(line.map(|line| (&*write.user, line)));
        progress.writes += 1;
        if progress.writes > MAX_WRITES {
            progress.fail(Failure::Runaway { writes: MAX_WRITES });
        }
        if write.outcome != Outcome::Unchanged && !is_heartbeat {
            progress.last_change = Instant::now();
            let state = progress.see(&self.cluster, Some(write));
            if let Some((name, why)) = broken(&self.parts.always, &state) {
                progress.fail(Failure::Always { name, why });
            }
            answering = progress.strike(self.began, &write.user);
        }
        if progress.failure.is_some() {
            self.failed.notify_one();
        }
        answering
    }

    /// Starts a life of a process.
    fn begin_life(&self, name: &Arc<str>) -> (Process, oneshot::Receiver<Crash>) {
        let (crash, crashed) = oneshot::channel();
        let line = self.cluster.server().connector().line(user_of(name));
        let mut progress = self.progress(None);
        progress.last_change = Instant::now();
        let actor = progress.actor(name);
        actor.life += 1;
        actor.crash = Some(crash);
        actor.line = line.clone();
        if actor.is_cut_off {
            line.set_reach(Reach::Down);
        }
        let process = Process::new(name.clone(), actor.life, line);
        progress.tell(self.began, name, "starts");
        (process, crashed)
    }

    /// A process has ended by itself.
    fn ended(&self, name: &Arc<str>, ended: Result<(), JoinError>) -> Crash {
        let how = match ended {
            Ok(()) => "ends".to_owned(),
            Err(error) => format!("panics: {}", reason(error)),
        };
        let mut progress = self.progress(Some((name, how)));
        progress.last_change = Instant::now();
        let actor = progress.actor(name);
        actor.crash = None;
        actor.line.set_reach(Reach::Gone);
        Crash {
            down: RESTART,
            behind: None,
        }
    }

    /// Makes a process meet a stale server for a while.
    fn fall_behind(self: &Arc<Self>, name: &Arc<str>, behind: u64) {
        let past = self.cluster.revision().saturating_sub(behind);
        let line = format!("meets a server that is at version {past}");
        drop(self.progress(Some((name, line))));
        let reads = RequestMatch {
            any_version: Some(true),
            ..RequestMatch::user(&**name)
        };
        let stale = self.rule(Rule::always(reads, Action::Stale(Stale::At(past))));
        let stalled = self.rule(Rule::always(watches(name), Action::Flow(Flow::Stalled)));
        let (world, name) = (self.clone(), name.clone());
        tokio::spawn(async move {
            tokio::time::sleep(STALE_FOR).await;
            let faults = world.cluster.faults();
            stale.into_iter().chain(stalled).for_each(|rule| {
                faults.remove(rule);
            });
            faults.set_flow(&watches(&name), Flow::Running);
        });
    }

    /// Injects a fault that is not bound to a write.
    fn inject(self: &Arc<Self>, fault: &Fault, tasks: &mut JoinSet<()>) {
        let process = &*fault.process;
        let (request, nth, action) = match fault.trouble {
            Trouble::Crash { .. } | Trouble::CrashStale { .. } | Trouble::LoseAnswer { .. } => return,
            Trouble::CutOff { at, lasts, compacts } => {
                tasks.spawn(self.clone().cut_off(process.into(), at, lasts, compacts));
                return;
            }
            Trouble::Drop { request } => (any(process), request, Action::Cut(Cut::BeforeHandling)),
            Trouble::Fail { request, code } => (any(process), request, Action::fail(status(code))),
            Trouble::Delay { request, by } => (any(process), request, Action::Delay(by)),
            Trouble::CutWatch { event } => (watches(process), event, Action::Flow(Flow::Cut)),
            Trouble::LateEvents { event, by } => (watches(process), event, Action::DelayEvent(by)),
        };
        self.rule(Rule {
            nth,
            ..Rule::new(request, action)
        });
    }

    /// Adds a rule; there are never more than a server allows.
    fn rule(&self, rule: Rule) -> Option<watchkeeper_server::RuleId> {
        self.cluster.faults().inject(rule).ok()
    }

    /// Cuts a process off from the server for a while.
    async fn cut_off(self: Arc<Self>, process: Arc<str>, at: Duration, lasts: Duration, compacts: bool) {
        tokio::time::sleep(at).await;
        let set = |is_cut_off: bool| {
            let what = match is_cut_off {
                true => "is cut off",
                false => "can reach the server again",
            };
            let mut progress = self.progress(Some((&process, what.to_owned())));
            progress.last_change = Instant::now();
            let actor = progress.actor(&process);
            actor.is_cut_off = is_cut_off;
            if actor.crash.is_some() {
                let reach = if is_cut_off { Reach::Down } else { Reach::Open };
                actor.line.set_reach(reach);
            }
        };
        set(true);
        tokio::time::sleep(lasts).await;
        if compacts {
            let store = self.cluster.server().registry().store();
            // An open store in memory cannot fail.
            let _ = store.compact(store.current_revision()).await;
        }
        set(false);
    }
}

impl Progress {
    /// Adds a line about a process, until a failure is found.
    fn tell(&mut self, began: Instant, who: &str, what: impl std::fmt::Display) {
        if self.failure.is_some() {
            return;
        }
        match self.actors.get(who) {
            Some(actor) => self.trace.push(began, &format!("{who}#{}", actor.life), what),
            None => self.trace.push(began, who, what),
        }
    }

    /// Counts a request of a user, and returns their number in this second.
    fn count_request(&mut self, user: &str, second: u64) -> u32 {
        if !self.asked.contains_key(user) {
            self.asked.insert(user.to_owned(), Asked::default());
        }
        let asked = self.asked.get_mut(user);
        let asked = asked.unwrap_or_else(|| unreachable!("it was inserted above"));
        if asked.second != second {
            *asked = Asked { second, requests: 0 };
        }
        asked.requests += 1;
        asked.requests
    }

    fn fail(&mut self, failure: Failure) {
        self.failure.get_or_insert(failure);
    }

    fn actor(&mut self, name: &Arc<str>) -> &mut Actor {
        let actor = self.actors.get_mut(name);
        actor.unwrap_or_else(|| unreachable!("every controller has an actor"))
    }

    fn see<'a>(&'a mut self, cluster: &TestCluster, write: Option<&'a Write>) -> State<'a> {
        self.objects.update(&cluster.snapshot(), &cluster.bare);
        State::new(&self.objects, write)
    }

    /// Triggers the faults planned for this write of a process.
    fn strike(&mut self, began: Instant, who: &str) -> Answering {
        let Some(actor) = self.actors.get_mut(who) else {
            return Answering::Sent;
        };
        actor.writes += 1;
        let (mut loses_answer, mut crash) = (false, None);
        for trouble in &actor.at_writes {
            match *trouble {
                Trouble::LoseAnswer { write } if write == actor.writes => loses_answer = true,
                Trouble::Crash { write, down } if write == actor.writes => {
                    crash = Some(Crash { down, behind: None });
                }
                Trouble::CrashStale { write, down, behind } if write == actor.writes => {
                    crash = Some(Crash {
                        down,
                        behind: Some(behind),
                    });
                }
                _ => {}
            }
        }
        let crash = crash.and_then(|crash| Some((actor.crash.take()?, crash)));
        match crash {
            Some((end, crash)) => {
                actor.line.set_reach(Reach::Gone);
                self.tell(began, who, "crashes");
                // Its task waits for this until it has ended.
                let _ = end.send(crash);
                Answering::Lost
            }
            None if loses_answer => {
                self.tell(began, who, "never hears of it: the connection breaks");
                Answering::Lost
            }
            None => Answering::Sent,
        }
    }
}

/// The first violated invariant, with its message.
fn broken(invariants: &[Invariant], state: &State<'_>) -> Option<(String, String)> {
    invariants.iter().find_map(|invariant| {
        let verdict = catch_unwind(AssertUnwindSafe(|| (invariant.holds)(state)));
        let why = match verdict {
            Ok(verdict) => verdict.err()?,
            Err(panic) => panic_text(&*panic),
        };
        Some((invariant.name.clone(), why))
    })
}

fn any(process: &str) -> RequestMatch {
    RequestMatch::user(process)
}

fn watches(process: &str) -> RequestMatch {
    RequestMatch {
        verb: Some(Verb::Watch),
        ..RequestMatch::user(process)
    }
}

fn status(code: u16) -> Status {
    match code {
        429 => Status::too_many_requests("planned by the simulation", 1),
        503 => Status::service_unavailable("planned by the simulation"),
        504 => Status::timeout("planned by the simulation", 1),
        _ => Status::internal_error("planned by the simulation"),
    }
}

fn reason(error: JoinError) -> String {
    match error.try_into_panic() {
        Ok(panic) => panic_text(&*panic),
        Err(error) => error.to_string(),
    }
}

fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    text.unwrap_or("a panic").to_owned()
}
