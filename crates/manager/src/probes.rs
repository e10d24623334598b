//! `/healthz`, `/livez` and `/readyz`: named checks, answered as Kubernetes' programs do.
//!
//! ```text
//! GET /readyz            ok
//! GET /readyz?verbose    [+]ping ok
//!                        [-]informer/websites.example.com failed: reason withheld
//!                        readyz check failed
//! GET /readyz/ping       ok
//! ```
//! Anybody may ask, so the reason of a failure goes to the log and not into the response.

use std::fmt::Write as _;

use http::{Method, Request, Response, StatusCode};
use tokio::sync::watch;
use watchkeeper_meta::QueryParams;
use watchkeeper_runtime::informer::Health;

use crate::http_server::{Answer, text};

/// A check that passes, or returns the reason it fails.
type Question = Box<dyn Fn() -> Result<(), String> + Send + Sync>;

struct Check {
    name: String,
    question: Question,
}

/// The checks of a process.
#[derive(Default)]
pub(crate) struct Probes {
    health: Vec<Check>,
    ready: Vec<Check>,
    /// The informers that are already checked.
    informers: Vec<(String, watch::Receiver<Health>)>,
}

impl Probes {
    /// Adds a check of whether the process should keep running.
    pub(crate) fn add_health(&mut self, name: &str, question: Question) {
        let name = name.to_owned();
        self.health.push(Check { name, question });
    }

    /// Adds a check of whether the process should get requests.
    pub(crate) fn add_ready(&mut self, name: &str, question: Question) {
        let name = name.to_owned();
        self.ready.push(Check { name, question });
    }

    /// Adds an informer: ready while it is synced and not failing. Several controllers may share one, and several
    /// informers may watch different objects of one resource.
    pub(crate) fn add_informer(&mut self, informer: &str, health: watch::Receiver<Health>) {
        if self
            .informers
            .iter()
            .any(|(_, known)| known.same_channel(&health))
        {
            return;
        }
        let before = self.informers.iter().filter(|(name, _)| name == informer).count();
        let name = match before {
            0 => format!("informer/{informer}"),
            _ => format!("informer/{informer}-{}", before + 1),
        };
        self.informers.push((informer.to_owned(), health.clone()));
        self.add_ready(&name, Box::new(move || fitness(&health.borrow())));
    }

    /// Answers a probe.
    pub(crate) fn answer<B>(&self, request: &Request<B>) -> Answer {
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            return text(StatusCode::METHOD_NOT_ALLOWED, "Method Not Allowed\n");
        }
        let path = request.uri().path().trim_matches('/');
        let (probe, check) = path.split_once('/').unwrap_or((path, ""));
        let checks = match probe {
            "healthz" | "livez" => &self.health,
            "readyz" => &self.ready,
            _ => return not_found(),
        };
        match check {
            "" => answer_all(probe, checks, request.uri().query().unwrap_or_default()),
            "ping" => text(StatusCode::OK, "ok"),
            name => match checks.iter().find(|check| check.name == name) {
                Some(check) => answer_one(check),
                None => not_found(),
            },
        }
    }
}

fn fitness(health: &Health) -> Result<(), String> {
    match health.is_synced() && health.failing.is_none() {
        true => Ok(()),
        false => Err(health.to_string()),
    }
}

fn answer_one(check: &Check) -> Answer {
    match passes(check) {
        true => text(StatusCode::OK, "ok"),
        false => text(
            StatusCode::INTERNAL_SERVER_ERROR,
            "internal server error: reason withheld\n",
        ),
    }
}

/// All checks of a probe; `?verbose` lists them, `?exclude=` skips some.
fn answer_all(probe: &str, checks: &[Check], query: &str) -> Answer {
    let query = QueryParams::parse(query);
    let mut excluded: Vec<&str> = query.all("exclude").collect();
    let (mut lines, mut failed) = ("[+]ping ok\n".to_owned(), false);
    for check in checks {
        let name = &check.name;
        let is_excluded = excluded.contains(&name.as_str());
        excluded.retain(|other| other != name);
        let _ = match is_excluded || passes(check) {
            true if is_excluded => writeln!(lines, "[+]{name} excluded: ok"),
            true => writeln!(lines, "[+]{name} ok"),
            false => {
                failed = true;
                writeln!(lines, "[-]{name} failed: reason withheld")
            }
        };
    }
    if !excluded.is_empty() {
        let names = excluded.iter().map(|name| format!("{name:?}"));
        let names = names.collect::<Vec<_>>().join(", ");
        let _ = writeln!(
            lines,
            "warn: some health checks cannot be excluded: no matches for {names}"
        );
    }
    match (failed, query.first("verbose").is_some()) {
        (true, _) => text(
            StatusCode::INTERNAL_SERVER_ERROR,
            format!("{lines}{probe} check failed\n"),
        ),
        (false, true) => text(StatusCode::OK, format!("{lines}{probe} check passed\n")),
        (false, false) => text(StatusCode::OK, "ok"),
    }
}

fn passes(check: &Check) -> bool {
    let answer = (check.question)();
    if let Err(reason) = &answer {
        tracing::info!(check = check.name, reason, "a check failed");
    }
    answer.is_ok()
}

fn not_found() -> Response<http_body_util::Full<bytes::Bytes>> {
    text(StatusCode::NOT_FOUND, "404 page not found\n")
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use http_body_util::BodyExt as _;
    use watchkeeper_runtime::informer::HealthPhase;

    use super::*;

    async fn check(probes: &Probes, path: &str, expected: Expect) {
        let request = Request::builder().uri(path).body(()).unwrap();
        let (head, body) = probes.answer(&request).into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        let body = String::from_utf8(body.to_vec()).unwrap();
        expected.assert_eq(&format!("{} {body}", head.status.as_u16()));
    }

    #[tokio::test]
    async fn a_check_that_fails_is_named() {
        let mut probes = Probes::default();
        let syncing = Health {
            phase: HealthPhase::Syncing,
            failing: None,
        };
        let (report, health) = watch::channel(syncing.clone());
        probes.add_informer("pods", health.clone());
        probes.add_informer("pods", health);
        let (other_report, other) = watch::channel(syncing);
        probes.add_informer("pods", other);
        probes.add_ready("shutdown", Box::new(|| Ok(())));
        check(
            &probes,
            "/readyz",
            expect![[r#"
                500 [+]ping ok
                [-]informer/pods failed: reason withheld
                [-]informer/pods-2 failed: reason withheld
                [+]shutdown ok
                readyz check failed
            "#]],
        )
        .await;
        other_report.send_modify(|health| health.phase = HealthPhase::Synced);
        check(&probes, "/healthz", expect!["200 ok"]).await;
        check(
            &probes,
            "/readyz?verbose&exclude=informer/pods&exclude=nope",
            expect![[r#"
                200 [+]ping ok
                [+]informer/pods excluded: ok
                [+]informer/pods-2 ok
                [+]shutdown ok
                warn: some health checks cannot be excluded: no matches for "nope"
                readyz check passed
            "#]],
        )
        .await;
        report.send_modify(|health| health.phase = HealthPhase::Synced);
        check(&probes, "/readyz", expect!["200 ok"]).await;
    }

    #[tokio::test]
    async fn one_check_can_be_asked_for() {
        let mut probes = Probes::default();
        probes.add_health("disk", Box::new(|| Err("full".to_owned())));
        check(
            &probes,
            "/livez/disk",
            expect![[r#"
                500 internal server error: reason withheld
            "#]],
        )
        .await;
        check(&probes, "/livez/ping", expect!["200 ok"]).await;
        check(
            &probes,
            "/livez/nope",
            expect![[r#"
                404 404 page not found
            "#]],
        )
        .await;
        check(
            &probes,
            "/else",
            expect![[r#"
                404 404 page not found
            "#]],
        )
        .await;
    }
}
