//! `/healthz`, `/livez` and `/readyz`: whether the server works, check by check.
//!
//! The checks are this server's own. Storage is called `etcd`, because that is the name under which operators'
//! probes ask for it.

use http::StatusCode;

use crate::request_info::query_pairs;
use crate::respond::{Answer, plain_text, text};

/// Which question a health path asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HealthProbe {
    /// The old path: is it well?
    Healthz,
    /// Should it be left running?
    Livez,
    /// Should it be sent requests?
    Readyz,
}

/// What the checks look at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Health {
    /// Storage answers.
    pub storage: bool,
    /// The server has begun to shut down.
    pub draining: bool,
}

impl HealthProbe {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Healthz, Self::Livez, Self::Readyz];

    /// Reads the first part of a path.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|probe| probe.as_str() == word)
    }

    /// The first part of the path.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Healthz => "healthz",
            Self::Livez => "livez",
            Self::Readyz => "readyz",
        }
    }

    /// The checks behind this question, in the order they are shown.
    pub(crate) fn checks(self) -> &'static [&'static str] {
        match self {
            Self::Healthz | Self::Livez => &["ping", "etcd"],
            Self::Readyz => &["ping", "etcd", "shutdown"],
        }
    }
}

impl Health {
    fn passes(self, check: &str) -> bool {
        match check {
            "etcd" => self.storage,
            "shutdown" => !self.draining,
            _ => true,
        }
    }

    /// Answers one check: `/livez/etcd`.
    pub(crate) fn answer_check(self, probe: HealthProbe, check: &str) -> Answer {
        match probe.checks().contains(&check) {
            false => plain_text(StatusCode::NOT_FOUND, "404 page not found\n"),
            true if self.passes(check) => text(StatusCode::OK, "ok"),
            true => plain_text(
                StatusCode::INTERNAL_SERVER_ERROR,
                "internal server error: reason withheld\n",
            ),
        }
    }

    /// Answers all checks of a question; `?verbose` lists them, `?exclude=` leaves some out.
    pub(crate) fn answer(self, probe: HealthProbe, query: &str) -> Answer {
        let mut verbose = false;
        let mut excluded = Vec::new();
        for (name, value) in query_pairs(query) {
            match name.as_str() {
                "verbose" => verbose = true,
                "exclude" => excluded.push(value),
                _ => {}
            }
        }
        let report = self.report(probe, &mut excluded);
        let name = probe.as_str();
        match (report.failed, verbose) {
            (true, _) => {
                let page = format!("{}{name} check failed\n", report.lines);
                plain_text(StatusCode::INTERNAL_SERVER_ERROR, page)
            }
            (false, true) => plain_text(StatusCode::OK, format!("{}{name} check passed\n", report.lines)),
            (false, false) => plain_text(StatusCode::OK, "ok"),
        }
    }

    fn report(self, probe: HealthProbe, excluded: &mut Vec<String>) -> Report {
        let mut report = Report::default();
        for check in probe.checks() {
            if let Some(index) = excluded.iter().position(|name| name == check) {
                excluded.remove(index);
                report.lines.push_str(&format!("[+]{check} excluded: ok\n"));
            } else if self.passes(check) {
                report.lines.push_str(&format!("[+]{check} ok\n"));
            } else {
                report.failed = true;
                report
                    .lines
                    .push_str(&format!("[-]{check} failed: reason withheld\n"));
            }
        }
        if !excluded.is_empty() {
            let names: Vec<String> = excluded.iter().map(|name| format!("{name:?}")).collect();
            let warning = format!(
                "warn: some health checks cannot be excluded: no matches for {}\n",
                names.join(", ")
            );
            report.lines.push_str(&warning);
        }
        report
    }
}

#[derive(Default)]
struct Report {
    lines: String,
    failed: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::body::ResponseBody;

    fn check(health: Health, query: &str, expected: &str) {
        let answer = health.answer(HealthProbe::Readyz, query);
        let code = answer.status().as_u16();
        let ResponseBody::Whole(Some(bytes)) = answer.into_body() else {
            panic!("no body");
        };
        assert_eq!(
            format!("{code} {}", std::str::from_utf8(&bytes).unwrap()),
            expected
        );
    }

    #[test]
    fn every_check_is_listed() {
        let well = Health {
            storage: true,
            draining: false,
        };
        check(well, "", "200 ok");
        let all = "200 [+]ping ok\n[+]etcd ok\n[+]shutdown ok\nreadyz check passed\n";
        check(well, "verbose", all);
        let excluded = "200 [+]ping ok\n[+]etcd excluded: ok\n[+]shutdown ok\nwarn: some health checks cannot be \
                        excluded: no matches for \"nope\"\nreadyz check passed\n";
        check(well, "verbose=1&exclude=etcd&exclude=nope", excluded);
    }

    #[test]
    fn a_failed_check_is_named_even_if_nobody_asked() {
        let draining = Health {
            storage: true,
            draining: true,
        };
        let failed = "500 [+]ping ok\n[+]etcd ok\n[-]shutdown failed: reason withheld\nreadyz check failed\n";
        check(draining, "", failed);
        check(draining, "exclude=shutdown", "200 ok");
    }
}
