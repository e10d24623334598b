//! The lower bound of a list: curl, which discards it.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, ensure};

use super::median;

/// The two HTTP versions.
const VERSIONS: [&str; 2] = ["--http2", "--http1.1"];

/// Measures curl for the protobuf list, in seconds per HTTP version.
pub(crate) struct Curl {
    url: String,
    authorization: String,
    times: [Vec<f64>; VERSIONS.len()],
}

impl Curl {
    /// `None` if curl is not installed.
    pub(crate) fn find(kubeconfig: &Path) -> Result<Option<Self>> {
        if Command::new("curl").arg("--version").output().is_err() {
            println!("without curl, whose time is the limit");
            return Ok(None);
        }
        let kubeconfig = fs::read_to_string(kubeconfig)?;
        Ok(Some(Self {
            url: format!("{}/api/v1/pods", value_of(&kubeconfig, "server:")?),
            authorization: format!("Authorization: Bearer {}", value_of(&kubeconfig, "token:")?),
            times: Default::default(),
        }))
    }

    /// Runs once per version.
    pub(crate) fn turn(&mut self, counts: bool) -> Result<()> {
        for (version, times) in VERSIONS.iter().zip(&mut self.times) {
            let began = Instant::now();
            let status = Command::new("curl")
                .args([
                    "--silent",
                    "--fail",
                    "--insecure",
                    "--output",
                    "/dev/null",
                    version,
                ])
                .args(["--header", "Accept: application/vnd.kubernetes.protobuf"])
                .args(["--header", &self.authorization, &self.url])
                .status()?;
            ensure!(status.success(), "curl {version}: {status}");
            if counts {
                times.push(began.elapsed().as_secs_f64());
            }
        }
        Ok(())
    }

    /// Prints the medians, and the ratio of our time to them.
    pub(crate) fn print(mut self, ours: f64) {
        for (version, times) in VERSIONS.iter().zip(&mut self.times) {
            let curl = median(times);
            let name = format!("curl {version}, wall, s");
            println!("{name:<28}{curl:>14.3}   ours is {:.2} of it", ours / curl);
        }
    }
}

/// The value of a key in the server's kubeconfig, where each key occurs once.
pub(crate) fn value_of(kubeconfig: &str, name: &str) -> Result<String> {
    let mut lines = kubeconfig.lines().map(|line| line.trim_start_matches([' ', '-']));
    let value = lines.find_map(|line| line.strip_prefix(name));
    let value = value.with_context(|| format!("a kubeconfig without {name}"));
    value.map(|value| value.trim().trim_matches('"').to_owned())
}
