//! `/healthz`, `/livez` and `/readyz`: the health checks.
//!
//! The checks have the names and the order of kube-apiserver's, because probes request them by name: storage is
//! `etcd`. Everything a real server does after its start is done before the first connection is accepted, so those
//! checks always pass.

use http::StatusCode;
use watchkeeper_meta::QueryParams;

use crate::respond::{Answer, plain_text, text};

/// A health endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HealthProbe {
    /// The deprecated endpoint.
    Healthz,
    /// Fails if the server should be restarted.
    Livez,
    /// Fails if the server should not receive requests.
    Readyz,
}

/// The state that the checks report.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Health {
    /// Storage responds.
    pub storage: bool,
    /// The server is shutting down.
    pub draining: bool,
}

/// The checks of a real server's start-up hooks.
const STARTED: [&str; 30] = [
    "poststarthook/start-apiserver-admission-initializer",
    "poststarthook/generic-apiserver-start-informers",
    "poststarthook/priority-and-fairness-config-consumer",
    "poststarthook/priority-and-fairness-filter",
    "poststarthook/storage-object-count-tracker-hook",
    "poststarthook/start-apiextensions-informers",
    "poststarthook/start-apiextensions-controllers",
    "poststarthook/crd-informer-synced",
    "poststarthook/start-system-namespaces-controller",
    "poststarthook/peer-endpoint-reconciler-controller",
    "poststarthook/start-cluster-authentication-info-controller",
    "poststarthook/start-kube-apiserver-identity-lease-controller",
    "poststarthook/start-kube-apiserver-identity-lease-garbage-collector",
    "poststarthook/storage-readiness",
    "poststarthook/start-legacy-token-tracking-controller",
    "poststarthook/start-service-ip-repair-controllers",
    "poststarthook/rbac/bootstrap-roles",
    "poststarthook/scheduling/bootstrap-system-priority-classes",
    "poststarthook/priority-and-fairness-config-producer",
    "poststarthook/bootstrap-controller",
    "poststarthook/start-kubernetes-service-cidr-controller",
    "poststarthook/start-kube-aggregator-informers",
    "poststarthook/apiservice-status-local-available-controller",
    "poststarthook/apiservice-status-remote-available-controller",
    "poststarthook/apiservice-registration-controller",
    "poststarthook/apiservice-discovery-controller",
    "poststarthook/kube-apiserver-autoregistration",
    "autoregister-completion",
    "poststarthook/apiservice-openapi-controller",
    "poststarthook/apiservice-openapiv3-controller",
];

impl HealthProbe {
    /// All endpoints.
    pub const ALL: [Self; 3] = [Self::Healthz, Self::Livez, Self::Readyz];

    /// Parses the first segment of a path.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|probe| probe.as_str() == word)
    }

    /// The first segment of the path.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Healthz => "healthz",
            Self::Livez => "livez",
            Self::Readyz => "readyz",
        }
    }

    /// The checks of this endpoint, in the order they are listed.
    pub(crate) fn checks(self) -> impl Iterator<Item = &'static str> {
        let (before, after): (&[_], &[_]) = match self {
            Self::Healthz | Self::Livez => (&["ping", "log", "loopback-serving-certificate", "etcd"], &[]),
            Self::Readyz => (
                &["ping", "log", "etcd", "etcd-readiness", "informer-sync"],
                &["shutdown"],
            ),
        };
        before.iter().chain(&STARTED).chain(after).copied()
    }
}

impl Health {
    fn passes(self, check: &str) -> bool {
        match check {
            "etcd" | "etcd-readiness" | "poststarthook/storage-readiness" => self.storage,
            "shutdown" => !self.draining,
            _ => true,
        }
    }

    /// Answers one check: `/livez/etcd`.
    pub(crate) fn answer_check(self, probe: HealthProbe, check: &str) -> Answer {
        match probe.checks().any(|known| known == check) {
            false => plain_text(StatusCode::NOT_FOUND, "404 page not found\n"),
            true if self.passes(check) => text(StatusCode::OK, "ok"),
            true => plain_text(
                StatusCode::INTERNAL_SERVER_ERROR,
                "internal server error: reason withheld\n",
            ),
        }
    }

    /// Answers all checks of an endpoint; `?verbose` lists them, `?exclude=` skips some.
    pub(crate) fn answer(self, probe: HealthProbe, query: &str) -> Answer {
        let params = QueryParams::parse(query);
        let verbose = params.first("verbose").is_some();
        let mut excluded = params.all("exclude").map(str::to_owned).collect();
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

    /// Every check as a metric that is 1 while it passes.
    pub(crate) fn metrics(self) -> String {
        const NAME: &str = "kubernetes_healthcheck";
        let mut page = format!("# HELP {NAME} Whether a health check passes.\n# TYPE {NAME} gauge\n");
        for probe in HealthProbe::ALL {
            for check in probe.checks() {
                let (probe, passes) = (probe.as_str(), u8::from(self.passes(check)));
                page.push_str(&format!("{NAME}{{name=\"{check}\",type=\"{probe}\"}} {passes}\n"));
            }
        }
        page
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

    fn report(health: Health, query: &str) -> (u16, String) {
        let answer = health.answer(HealthProbe::Readyz, query);
        let code = answer.status().as_u16();
        let ResponseBody::Whole(Some(bytes)) = answer.into_body() else {
            panic!("no body");
        };
        (code, String::from_utf8(bytes.into()).unwrap())
    }

    const WELL: Health = Health {
        storage: true,
        draining: false,
    };

    #[test]
    fn every_check_is_listed() {
        assert_eq!(report(WELL, ""), (200, "ok".to_owned()));
        let (code, page) = report(WELL, "verbose");
        assert_eq!(code, 200);
        assert!(page.starts_with("[+]ping ok\n[+]log ok\n[+]etcd ok\n"), "{page}");
        assert!(page.ends_with("[+]shutdown ok\nreadyz check passed\n"), "{page}");
    }

    #[test]
    fn excluded_checks_are_named() {
        let (_, page) = report(WELL, "verbose=1&exclude=etcd&exclude=nope");
        assert!(page.contains("[+]etcd excluded: ok\n"), "{page}");
        let unknown = "warn: some health checks cannot be excluded: no matches for \"nope\"\n";
        assert!(page.contains(unknown), "{page}");
    }

    #[test]
    fn a_failed_check_is_named_without_verbose() {
        let draining = Health {
            draining: true,
            ..WELL
        };
        let (code, page) = report(draining, "");
        assert_eq!(code, 500);
        let failed = "[-]shutdown failed: reason withheld\nreadyz check failed\n";
        assert!(page.ends_with(failed), "{page}");
        assert_eq!(report(draining, "exclude=shutdown"), (200, "ok".to_owned()));
    }
}
