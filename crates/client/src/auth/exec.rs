//! Credential plugins: programs that print an `ExecCredential`.
//!
//! The plugin's configuration becomes a token, a client certificate, or both, cached until it expires or the server
//! rejects it. One process runs at a time, however many requests wait for it or are cancelled, and no longer than its
//! time limit. Its standard error goes to the user's terminal if there is one, because it may show a code to type
//! into a browser; else it becomes part of the error.

use std::io::IsTerminal;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::Command;
use tokio::sync::Mutex;
use tokio::time::timeout;
use watchkeeper_trust::Validity;

use super::{AuthError, Proof, bearer};
use crate::Secret;
use crate::config::{ExecCredentials, InteractiveMode};
use crate::metrics::{PluginCall, PluginId, RequestMetrics};
use crate::tls::Identity;

/// The supported protocol versions.
pub(crate) const API_VERSIONS: [&str; 2] = [
    "client.authentication.k8s.io/v1",
    "client.authentication.k8s.io/v1beta1",
];

/// The time limit of a plugin without a terminal.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The time limit of a plugin with a terminal: it may wait for its user.
const INTERACTIVE_TIMEOUT: Duration = Duration::from_secs(600);

/// Credentials are renewed this long before they expire, so that they do not expire in transit.
const EXPIRY_MARGIN: Duration = Duration::from_secs(10);

/// The largest output of a plugin: certificates and tokens have a few kilobytes.
const MAX_OUTPUT: u64 = 1 << 20;

/// The part of standard error, from its end, that goes into an error.
const MAX_STDERR: usize = 1024;

/// One plugin and its last credential.
pub(crate) struct ExecPlugin {
    config: ExecCredentials,
    cached: Mutex<Cached>,
    metrics: Option<Arc<RequestMetrics>>,
    terminal: Terminal,
}

/// The standard streams of this process that are terminals.
#[derive(Clone, Copy, Debug, Default)]
struct Terminal {
    /// Standard input.
    input: bool,
    /// Standard error.
    errors: bool,
}

#[derive(Default)]
struct Cached {
    credential: Option<Credential>,
    /// The server rejected the credential.
    is_refused: bool,
    runs: u64,
}

struct Credential {
    proof: Proof,
    expires: Option<Timestamp>,
    /// The validity of its certificate, if it has one.
    validity: Option<Validity>,
}

/// The output of a plugin.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ExecCredential {
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    kind: String,
    status: Option<ExecStatus>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ExecStatus {
    token: Option<Secret>,
    client_certificate_data: Option<String>,
    client_key_data: Option<Secret>,
    expiration_timestamp: Option<String>,
}

impl ExecPlugin {
    pub(super) fn new(config: ExecCredentials, metrics: Option<Arc<RequestMetrics>>) -> Arc<Self> {
        Arc::new(Self {
            config,
            cached: Mutex::default(),
            metrics,
            terminal: Terminal {
                input: std::io::stdin().is_terminal(),
                errors: std::io::stderr().is_terminal(),
            },
        })
    }

    /// The cached credential if it is valid, else a new one.
    pub(super) async fn proof(self: &Arc<Self>) -> Result<Proof, AuthError> {
        if let Some(proof) = self.cached.lock().await.fresh() {
            return Ok(proof);
        }
        // On its own task: a cancelled request must not end the plugin. If plugins took longer than requests may,
        // there would never be a credential, and the user may be typing a password.
        let renewal = tokio::spawn(self.clone().renew());
        renewal
            .await
            .unwrap_or_else(|_| Err(self.failed("was interrupted")))
    }

    async fn renew(self: Arc<Self>) -> Result<Proof, AuthError> {
        let mut cached = self.cached.lock().await;
        if let Some(proof) = cached.fresh() {
            return Ok(proof);
        }
        cached.runs += 1;
        let credential = self.run(cached.runs).await?;
        let proof = credential.proof.clone();
        self.count_certificates(cached.credential.as_ref(), &credential);
        cached.credential = Some(credential);
        cached.is_refused = false;
        Ok(proof)
    }

    /// Drops the credential, unless it was already replaced.
    pub(super) async fn rejected(&self, proof: &Proof) {
        let mut cached = self.cached.lock().await;
        if cached.runs == proof.serial {
            cached.is_refused = true;
        }
    }

    async fn run(&self, serial: u64) -> Result<Credential, AuthError> {
        let interactive = self.interactive()?;
        let output = self.output(interactive).await?;
        let credential: ExecCredential = serde_json::from_slice(&output)
            .map_err(|error| self.failed(format!("printed no ExecCredential: {error}")))?;
        let expected = &self.config.plugin.api_version;
        if credential.kind != "ExecCredential" || credential.api_version != *expected {
            return Err(self.failed(format!(
                "printed {:?} of {:?}, expected \"ExecCredential\" of {expected:?}",
                credential.kind, credential.api_version
            )));
        }
        let status = credential
            .status
            .ok_or_else(|| self.failed("printed no status"))?;
        self.credential(status, serial)
    }

    fn credential(&self, status: ExecStatus, serial: u64) -> Result<Credential, AuthError> {
        let command = &self.config.plugin.command;
        let authorization = status.token.as_ref().filter(|token| !token.is_empty());
        let authorization = authorization.map(|token| bearer(token, command)).transpose()?;
        let certificate = status.client_certificate_data.filter(|pem| !pem.is_empty());
        let key = status.client_key_data.filter(|pem| !pem.is_empty());
        let identity = match (certificate, key) {
            (Some(certificate), Some(key)) => Some(Identity {
                certificate: certificate.into_bytes().into(),
                key: key.expose().as_bytes().into(),
            }),
            (None, None) => None,
            _ => {
                return Err(
                    self.failed("printed a certificate without its key, or a key without its certificate")
                );
            }
        };
        if authorization.is_none() && identity.is_none() {
            return Err(self.failed("printed neither a token nor a certificate"));
        }
        let expires = status.expiration_timestamp.map(|text| text.parse::<Timestamp>());
        let expires = expires.transpose().map_err(|error| {
            self.failed(format!("printed an expirationTimestamp that is no time: {error}"))
        })?;
        let validity = identity
            .as_ref()
            .and_then(|identity| Validity::of_leaf(&identity.certificate));
        Ok(Credential {
            proof: Proof {
                authorization,
                identity,
                serial,
            },
            expires,
            validity,
        })
    }

    /// True if the plugin gets the terminal.
    fn interactive(&self) -> Result<bool, AuthError> {
        let terminal = self.terminal.input;
        match self
            .config
            .plugin
            .interactive_mode
            .unwrap_or(InteractiveMode::IfAvailable)
        {
            InteractiveMode::Never => Ok(false),
            InteractiveMode::IfAvailable => Ok(terminal),
            InteractiveMode::Always if terminal => Ok(true),
            InteractiveMode::Always => Err(self.failed("needs a terminal, and standard input is none")),
        }
    }

    async fn output(&self, interactive: bool) -> Result<Vec<u8>, AuthError> {
        let mut command = self.command(interactive);
        let limit = match interactive || self.terminal.errors {
            true => INTERACTIVE_TIMEOUT,
            false => TIMEOUT,
        };
        let mut child = command.spawn().map_err(|error| self.cannot_start(&error))?;
        let broke = |reason: String| {
            self.count(PluginCall::Broke);
            Err(self.failed(reason))
        };
        let (stdout, stderr) = (read(child.stdout.take()), read(child.stderr.take()));
        let finished = timeout(limit, async { tokio::join!(stdout, stderr, child.wait()) }).await;
        let (stdout, stderr, status) = match finished {
            Ok((stdout, stderr, Ok(status))) => (stdout, stderr, status),
            Ok((_, _, Err(error))) => return broke(format!("cannot be waited for: {error}")),
            // Dropping the child kills it.
            Err(_) => return broke(format!("did not finish within {limit:?}")),
        };
        if status.success() {
            self.count(PluginCall::Succeeded);
            return Ok(stdout);
        }
        // A killed program has no exit code; client-go reports -1.
        self.count(PluginCall::Failed(status.code().unwrap_or(-1)));
        let said = &stderr[stderr.len().saturating_sub(MAX_STDERR)..];
        let said = String::from_utf8_lossy(said);
        Err(self.failed(format!("failed with {status}: {}", said.trim())))
    }

    fn command(&self, interactive: bool) -> Command {
        let plugin = &self.config.plugin;
        let mut command = Command::new(&plugin.command);
        command
            .args(&plugin.args)
            .envs(
                plugin
                    .env
                    .iter()
                    .map(|variable| (&variable.name, variable.value.expose())),
            )
            .env("KUBERNETES_EXEC_INFO", self.exec_info(interactive).to_string())
            .stdin(if interactive {
                Stdio::inherit()
            } else {
                Stdio::null()
            })
            .stdout(Stdio::piped())
            .stderr(if interactive || self.terminal.errors {
                Stdio::inherit()
            } else {
                Stdio::piped()
            })
            .kill_on_drop(true);
        command
    }

    /// The `KUBERNETES_EXEC_INFO` of the plugin.
    fn exec_info(&self, interactive: bool) -> Value {
        let mut spec = json!({ "interactive": interactive });
        if let Some(cluster) = &self.config.cluster {
            spec["cluster"] = cluster.clone();
        }
        json!({ "apiVersion": self.config.plugin.api_version, "kind": "ExecCredential", "spec": spec })
    }

    /// Records the expiry of the new certificate and the age of the old one.
    fn count_certificates(&self, old: Option<&Credential>, new: &Credential) {
        let Some(metrics) = &self.metrics else { return };
        let end = new.validity.map(|validity| validity.until);
        metrics.certificate_ends(self.id(), end);
        if let Some(old) = old.filter(|old| old.proof.identity != new.proof.identity)
            && let Some(validity) = old.validity
        {
            let age = Timestamp::now().duration_since(validity.from);
            metrics.certificate_replaced(Duration::try_from(age).unwrap_or_default());
        }
    }

    /// The address of the plugin, which is unique.
    fn id(&self) -> PluginId {
        std::ptr::from_ref(self).addr()
    }

    fn count(&self, call: PluginCall) {
        if let Some(metrics) = &self.metrics {
            metrics.plugin_called(call);
        }
    }

    fn cannot_start(&self, error: &std::io::Error) -> AuthError {
        let missing = error.kind() == std::io::ErrorKind::NotFound;
        self.count(if missing {
            PluginCall::NotFound
        } else {
            PluginCall::Broke
        });
        let hint = self
            .config
            .plugin
            .install_hint
            .as_deref()
            .map(str::trim)
            .unwrap_or_default();
        match missing {
            true if hint.is_empty() => self.failed("is not installed"),
            true => self.failed(format!("is not installed: {hint}")),
            false => self.failed(format!("cannot be started: {error}")),
        }
    }

    fn failed(&self, reason: impl Into<String>) -> AuthError {
        AuthError::Exec {
            command: self.config.plugin.command.clone(),
            reason: reason.into(),
        }
    }
}

/// Reads a plugin's output up to the limit, then closes the pipe.
async fn read(pipe: Option<impl AsyncRead + Unpin>) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Some(pipe) = pipe {
        // Output before an error is treated like any other.
        let _ = pipe.take(MAX_OUTPUT).read_to_end(&mut bytes).await;
    }
    bytes
}

impl Drop for ExecPlugin {
    fn drop(&mut self) {
        if let Some(metrics) = &self.metrics {
            metrics.certificate_ends(self.id(), None);
        }
    }
}

impl Cached {
    fn fresh(&self) -> Option<Proof> {
        let credential = self.credential.as_ref().filter(|_| !self.is_refused);
        let fresh = credential.filter(|credential| credential.is_fresh());
        fresh.map(|credential| credential.proof.clone())
    }
}

impl Credential {
    fn is_fresh(&self) -> bool {
        self.expires
            .is_none_or(|expires| Timestamp::now() + EXPIRY_MARGIN < expires)
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::path::Path;

    use watchkeeper_meta::{Collect, MetricsText};

    use super::*;
    use crate::config::ExecConfig;

    /// A script that counts its runs in a file. It is run by a shell: a file just written may still be "busy" in
    /// another thread's child and cannot be executed then.
    fn plugin(directory: &Path, script: &str) -> Arc<ExecPlugin> {
        let path = directory.join("plugin");
        std::fs::write(
            &path,
            format!(
                "echo run >> {}/runs
{script}
",
                directory.display()
            ),
        )
        .unwrap();
        let config = ExecCredentials {
            plugin: ExecConfig {
                api_version: API_VERSIONS[0].to_owned(),
                command: "/bin/sh".to_owned(),
                args: vec![path.display().to_string()],
                interactive_mode: Some(InteractiveMode::Never),
                ..Default::default()
            },
            cluster: Some(json!({"server": "https://kube"})),
        };
        let mut plugin = ExecPlugin::new(config, Some(Arc::default()));
        // The tests must not depend on the terminal they run in.
        Arc::get_mut(&mut plugin).unwrap().terminal = Terminal::default();
        plugin
    }

    fn status(fields: &str) -> String {
        format!(
            "echo '{{\"apiVersion\":\"{}\",\"kind\":\"ExecCredential\",\"status\":{{{fields}}}}}'",
            API_VERSIONS[0]
        )
    }

    fn runs(directory: &Path) -> usize {
        std::fs::read_to_string(directory.join("runs"))
            .unwrap_or_default()
            .lines()
            .count()
    }

    fn header(proof: &Proof) -> &str {
        proof.authorization.as_ref().unwrap().to_str().unwrap()
    }

    #[tokio::test]
    async fn a_credential_is_kept_until_it_expires_or_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let plugin_kept = plugin(
            directory.path(),
            &status(r#""token":"t","expirationTimestamp":"2999-01-01T00:00:00Z""#),
        );
        let proof = plugin_kept.proof().await.unwrap();
        plugin_kept.proof().await.unwrap();
        assert_eq!((header(&proof), runs(directory.path())), ("Bearer t", 1));
        plugin_kept.rejected(&proof).await;
        plugin_kept.proof().await.unwrap();
        plugin_kept.rejected(&proof).await;
        plugin_kept.proof().await.unwrap();
        assert_eq!(
            runs(directory.path()),
            2,
            "a refusal of an old credential says nothing about the new one"
        );

        let expired = plugin(
            directory.path(),
            &status(r#""token":"t","expirationTimestamp":"2001-01-01T00:00:00Z""#),
        );
        expired.proof().await.unwrap();
        expired.proof().await.unwrap();
        assert_eq!(runs(directory.path()), 4);
    }

    #[tokio::test]
    async fn many_requests_wait_for_one_process() {
        let directory = tempfile::tempdir().unwrap();
        let plugin = plugin(directory.path(), &status(r#""token":"t""#));
        let proofs = futures_util::future::join_all((0..8).map(|_| plugin.proof())).await;
        assert!(proofs.iter().all(Result::is_ok));
        assert_eq!(runs(directory.path()), 1);
    }

    #[tokio::test]
    async fn a_request_that_gives_up_does_not_end_the_plugin() {
        let directory = tempfile::tempdir().unwrap();
        let go = directory.path().join("go");
        let waits = format!("until [ -e {} ]; do sleep 0.01; done", go.display());
        let script = format!("{waits}\n{}", status(r#""token":"t""#));
        let plugin = plugin(directory.path(), &script);
        let begun = async {
            while runs(directory.path()) == 0 {
                tokio::task::yield_now().await;
            }
        };
        tokio::select! {
            _ = plugin.proof() => panic!("it waits for the file"),
            () = begun => {}
        }
        std::fs::write(go, "").unwrap();
        assert_eq!(header(&plugin.proof().await.unwrap()), "Bearer t");
        assert_eq!(runs(directory.path()), 1);
    }

    #[tokio::test]
    async fn the_plugin_receives_the_cluster_information() {
        let directory = tempfile::tempdir().unwrap();
        let info = directory.path().join("info");
        let script = format!(
            "printf %s \"$KUBERNETES_EXEC_INFO\" > {}\n{}",
            info.display(),
            status(r#""token":"t""#)
        );
        plugin(directory.path(), &script).proof().await.unwrap();
        let info: Value = serde_json::from_str(&std::fs::read_to_string(info).unwrap()).unwrap();
        assert_eq!(
            info,
            json!({
                "apiVersion": API_VERSIONS[0], "kind": "ExecCredential",
                "spec": {"interactive": false, "cluster": {"server": "https://kube"}},
            })
        );
    }

    #[tokio::test]
    async fn certificates_come_with_their_keys() {
        let directory = tempfile::tempdir().unwrap();
        let both = status(r#""clientCertificateData":"c","clientKeyData":"k""#);
        let proof = plugin(directory.path(), &both).proof().await.unwrap();
        assert_eq!(&*proof.identity.unwrap().key, b"k");
        assert!(proof.authorization.is_none());

        let empty = status(r#""token":"t","clientCertificateData":"","clientKeyData":"""#);
        let proof = plugin(directory.path(), &empty).proof().await.unwrap();
        assert!(proof.identity.is_none(), "an empty one is none");
    }

    #[tokio::test]
    async fn failures_are_named() {
        async fn check(script: &str, ending: &str) {
            let directory = tempfile::tempdir().unwrap();
            let error = plugin(directory.path(), script)
                .proof()
                .await
                .err()
                .unwrap()
                .to_string();
            assert!(
                error.starts_with("credential plugin ") && error.ends_with(ending),
                "{error}"
            );
        }
        check("echo no luck >&2; exit 3", "failed with exit status: 3: no luck").await;
        check(
            "echo hello",
            "printed no ExecCredential: expected value at line 1 column 1",
        )
        .await;
        check(
            "echo '{}'",
            "expected \"ExecCredential\" of \"client.authentication.k8s.io/v1\"",
        )
        .await;
        check(&status(""), "printed neither a token nor a certificate").await;
        check(
            &status(r#""clientKeyData":"k""#),
            "or a key without its certificate",
        )
        .await;
        let mut missing = plugin(Path::new("/tmp"), "").config.clone();
        missing.plugin.command = "/no/such/plugin".to_owned();
        missing.plugin.install_hint = Some("get it at example.com".to_owned());
        let error = ExecPlugin::new(missing, None).proof().await.err().unwrap();
        assert_eq!(
            error.to_string(),
            "credential plugin \"/no/such/plugin\" is not installed: get it at example.com"
        );
    }

    #[tokio::test]
    async fn a_plugin_gets_the_terminal_if_it_wants_one_and_there_is_one() {
        let mut plugin = plugin(Path::new("/tmp"), "");
        let mut check = |mode, terminal, expected: Result<bool, &str>| {
            let changed = Arc::get_mut(&mut plugin).unwrap();
            changed.config.plugin.interactive_mode = mode;
            changed.terminal.input = terminal;
            let given = plugin.interactive().map_err(|error| error.to_string());
            assert_eq!(given, expected.map_err(str::to_owned), "{mode:?} {terminal}");
            let info = plugin.exec_info(given == Ok(true));
            assert_eq!(info["spec"]["interactive"], given == Ok(true));
        };
        use InteractiveMode::{Always, IfAvailable, Never};
        check(Some(Never), true, Ok(false));
        check(Some(Never), false, Ok(false));
        check(Some(IfAvailable), true, Ok(true));
        check(Some(IfAvailable), false, Ok(false));
        check(None, true, Ok(true));
        check(Some(Always), true, Ok(true));
        let refusal = "credential plugin \"/bin/sh\" needs a terminal, and standard input is none";
        check(Some(Always), false, Err(refusal));
    }

    #[tokio::test(start_paused = true)]
    async fn a_plugin_that_hangs_is_ended() {
        let directory = tempfile::tempdir().unwrap();
        let error = plugin(directory.path(), "exec sleep 600")
            .proof()
            .await
            .err()
            .unwrap();
        assert_eq!(
            error.to_string(),
            "credential plugin \"/bin/sh\" did not finish within 60s"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn an_interactive_plugin_has_a_longer_time_limit() {
        let directory = tempfile::tempdir().unwrap();
        let mut plugin = plugin(directory.path(), "exec sleep 6000");
        Arc::get_mut(&mut plugin).unwrap().terminal.errors = true;
        let error = plugin.proof().await.err().unwrap().to_string();
        assert!(error.ends_with("did not finish within 600s"), "{error}");
    }

    fn certificate(from: i32, until: i32) -> String {
        let key = rcgen::KeyPair::generate().unwrap();
        let mut params = rcgen::CertificateParams::default();
        params.not_before = rcgen::date_time_ymd(from, 1, 1);
        params.not_after = rcgen::date_time_ymd(until, 1, 1);
        let pem = params.self_signed(&key).unwrap().pem().replace('\n', "\\n");
        status(&format!(r#""clientCertificateData":"{pem}","clientKeyData":"k""#))
            .replace("echo '", "printf %s '")
    }

    /// The lines of a metric that are not buckets.
    fn shown(metrics: &RequestMetrics, name: &str) -> Vec<String> {
        let mut text = MetricsText::default();
        metrics.collect(&mut text);
        let text = text.into_string();
        let wanted = |line: &&str| line.starts_with(name) && !line.contains("_bucket");
        text.lines().filter(wanted).map(str::to_owned).collect()
    }

    #[tokio::test]
    async fn certificates_are_counted_as_client_go_counts_them() {
        let directory = tempfile::tempdir().unwrap();
        let mut plugin = plugin(directory.path(), &certificate(2000, 2990));
        let metrics = plugin.metrics.clone().unwrap();
        let left = || shown(&metrics, "rest_client_exec_plugin_ttl_seconds")[0].clone();
        let ages = || shown(&metrics, "rest_client_exec_plugin_certificate_rotation_age");
        assert_eq!(left(), "rest_client_exec_plugin_ttl_seconds +Inf");
        let first = plugin.proof().await.unwrap();
        assert!(!left().ends_with("+Inf"), "{}", left());
        assert_eq!(
            ages()[1],
            "rest_client_exec_plugin_certificate_rotation_age_count 0"
        );

        plugin.rejected(&first).await;
        let changed = Arc::get_mut(&mut plugin).unwrap();
        changed.config.plugin.args = vec!["-c".to_owned(), certificate(2000, 2001)];
        plugin.proof().await.unwrap();
        assert!(left().contains(" -"), "it has ended: {}", left());
        assert_eq!(
            ages()[1],
            "rest_client_exec_plugin_certificate_rotation_age_count 1"
        );
        drop(plugin);
        assert_eq!(left(), "rest_client_exec_plugin_ttl_seconds +Inf");
    }

    #[tokio::test]
    async fn calls_are_counted_as_client_go_counts_them() {
        let directory = tempfile::tempdir().unwrap();
        let mut plugin = plugin(directory.path(), "exit 3");
        assert!(plugin.proof().await.is_err());
        let changed = Arc::get_mut(&mut plugin).unwrap();
        changed.config.plugin.args = vec!["-c".to_owned(), status(r#""token":"t""#)];
        assert!(plugin.proof().await.is_ok());
        assert!(plugin.proof().await.is_ok(), "the same one once more");
        let changed = Arc::get_mut(&mut plugin).unwrap();
        changed.cached = Mutex::default();
        changed.config.plugin.command = "/no/such/plugin".to_owned();
        assert!(plugin.proof().await.is_err());
        let metrics = plugin.metrics.as_ref().unwrap();
        assert_eq!(
            shown(metrics, "rest_client_exec_plugin_call_total"),
            [
                r#"rest_client_exec_plugin_call_total{call_status="no_error",code="0"} 1"#,
                r#"rest_client_exec_plugin_call_total{call_status="plugin_execution_error",code="3"} 1"#,
                r#"rest_client_exec_plugin_call_total{call_status="plugin_not_found_error",code="1"} 1"#,
            ]
        );
    }
}
