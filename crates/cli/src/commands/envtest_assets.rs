//! `envtest-assets`: a directory that test suites use as the binaries of a Kubernetes control plane.

use std::io;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::Args;

use crate::failure::Failure;
use crate::session::Session;

/// The binaries that suites look for.
const NAMES: [&str; 3] = ["kube-apiserver", "etcd", "kubectl"];

/// Fill a directory with stand-ins for kube-apiserver, etcd and kubectl
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  watchkeeper envtest-assets ./bin
  KUBEBUILDER_ASSETS=$PWD/bin go test ./...    an unchanged controller-runtime project

The files are links to this program, which acts by the name it is called by. They work with the
envtest of controller-runtime and of kube-rs, and with jenvtest.")]
pub(crate) struct EnvtestAssets {
    /// Directory; created if missing
    #[arg(value_name = "DIR")]
    directory: PathBuf,

    /// Replace existing programs of these names
    #[arg(long)]
    force: bool,
}

/// Creates them, and prints how to use them.
pub(crate) fn run(assets: &EnvtestAssets, session: &mut Session) -> Result<(), Failure> {
    let directory = fill(assets).map_err(Failure::Other)?;
    session
        .out
        .line(format!("export KUBEBUILDER_ASSETS={}", directory.display()));
    Ok(())
}

fn fill(assets: &EnvtestAssets) -> anyhow::Result<PathBuf> {
    let program = std::env::current_exe().context("cannot find this program")?;
    let directory = &assets.directory;
    std::fs::create_dir_all(directory).with_context(|| format!("cannot make {}", directory.display()))?;
    for name in NAMES {
        let path = directory.join(format!("{name}{}", std::env::consts::EXE_SUFFIX));
        make_room(&path, assets.force)?;
        link(&program, &path).with_context(|| format!("cannot put this program at {}", path.display()))?;
    }
    Ok(std::path::absolute(directory)?)
}

/// Removes an existing link; anything else only with `--force`: it may be the real program.
fn make_room(path: &Path, force: bool) -> anyhow::Result<()> {
    let found = match path.symlink_metadata() {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error).with_context(|| format!("cannot look at {}", path.display())),
    };
    if !found.is_symlink() && !force {
        anyhow::bail!(
            "{} is there already and no link: --force replaces it",
            path.display()
        );
    }
    std::fs::remove_file(path).with_context(|| format!("cannot replace {}", path.display()))
}

/// Links to the program, or copies it where links are not supported.
fn link(program: &Path, path: &Path) -> io::Result<()> {
    #[cfg(unix)]
    let linked = std::os::unix::fs::symlink(program, path);
    #[cfg(not(unix))]
    let linked = std::fs::hard_link(program, path);
    linked.or_else(|_| std::fs::copy(program, path).map(drop))
}
