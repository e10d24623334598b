//! A cluster in this process, and commands run against it as a user types them.

use std::ffi::OsString;
use std::sync::Arc;

use tempfile::TempDir;
use watchkeeper_cli::{Look, Output, Session};
use watchkeeper_client::Client;
use watchkeeper_client::config::Environment;
use watchkeeper_server::{Handle, Server};

/// A server, and a directory for manifests.
pub(crate) struct World {
    /// Ends with the world.
    #[allow(dead_code, reason = "not every test has faults")]
    pub(crate) server: Handle,
    pub(crate) client: Client,
    pub(crate) directory: TempDir,
}

impl World {
    pub(crate) async fn new() -> Self {
        let server = Server::builder().in_memory().start().await.unwrap();
        let client = watchkeeper_testing::client_of(&server, watchkeeper_testing::unlimited()).unwrap();
        let directory = tempfile::tempdir().unwrap();
        Self {
            server,
            client,
            directory,
        }
    }

    /// Compacts the history of the server.
    #[allow(dead_code, reason = "few tests need a short memory")]
    pub(crate) async fn compact(&self) {
        let store = self.server.registry().store();
        store.compact(store.current_revision()).await.unwrap();
    }

    /// Writes a manifest.
    #[allow(dead_code, reason = "not every test has a manifest")]
    pub(crate) fn write(&self, name: &str, text: &str) -> &Self {
        let path = self.directory.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
        self
    }

    /// Runs a command line with input; returns the output, then the exit code.
    pub(crate) async fn run_with(&self, line: &str, input: &'static str) -> String {
        self.run_words(self.words(line), input).await
    }

    /// Runs these words, starting with the program's name.
    pub(crate) async fn run_words(&self, words: Vec<OsString>, input: &'static str) -> String {
        let (out, out_text) = Output::kept();
        let (err, err_text) = Output::kept();
        let mut session = self.session(out, err, input);
        let code = watchkeeper_cli::run(words, &mut session).await;
        let text = |bytes: &Arc<std::sync::Mutex<Vec<u8>>>| {
            String::from_utf8(bytes.lock().unwrap().clone()).unwrap()
        };
        let mut screen = text(&out_text);
        for line in text(&err_text).lines() {
            screen.push_str(&format!("stderr: {line}\n"));
        }
        match code {
            std::process::ExitCode::SUCCESS => {}
            code if code == 2.into() => screen.push_str("exit 2\n"),
            _ => screen.push_str("exit 1\n"),
        }
        let directory = format!("{}/", self.directory.path().display());
        screen.replace(&directory, "")
    }

    /// The session of a command: these streams, and this cluster.
    pub(crate) fn session(&self, out: Output, err: Output, input: &'static str) -> Session {
        Session {
            out,
            err,
            input: Box::new(input.as_bytes()),
            look: Look::Plain,
            progress_after: None,
            environment: Environment {
                variables: Default::default(),
                service_account: self.directory.path().join("no-service-account"),
            },
            client: Some(self.client.clone()),
            logs: false,
        }
    }

    pub(crate) async fn run(&self, line: &str) -> String {
        self.run_with(line, "").await
    }

    /// `@name` is a file in the directory.
    pub(crate) fn words(&self, line: &str) -> Vec<OsString> {
        let word = |word: &str| match word.strip_prefix('@') {
            Some(name) => self.directory.path().join(name).into_os_string(),
            None => word.into(),
        };
        std::iter::once("watchkeeper".into())
            .chain(line.split_whitespace().map(word))
            .collect()
    }
}
