//! Manifests from files, directories and standard input; a bad one does not affect the others.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use clap::Args;
use watchkeeper_client::discovery::MapError;
use watchkeeper_client::{DynamicApi, ManifestError};

use crate::cluster::{Cluster, is_namespaced};
use crate::failure::Failure;
use crate::selection::{Selected, joined};
use crate::session::Session;

/// Larger than any set of manifests.
const MAX_FILE_BYTES: u64 = 256 << 20;

/// The deepest directory that is followed, against cyclic links.
const MAX_DEPTH: usize = 64;

const EXTENSIONS: [&str; 3] = ["json", "yaml", "yml"];

/// The files of manifests on the command line.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Filenames {
    /// A file, a directory or - for standard input; may be repeated
    #[arg(short, long = "filename", value_name = "FILE", value_delimiter = ',')]
    pub(crate) filename: Vec<PathBuf>,

    /// Process directories recursively
    #[arg(short = 'R', long)]
    pub(crate) recursive: bool,

    /// Refused, with the way round
    #[arg(short, long, value_name = "DIR", hide = true)]
    kustomize: Option<PathBuf>,
}

/// An object in a manifest, with its file.
#[derive(Clone, Debug)]
pub(crate) struct Manifest {
    /// The file, as typed.
    pub(crate) source: String,
    pub(crate) wanted: watchkeeper_client::Manifest,
}

/// The content of a file, and its name as typed.
pub(crate) struct Text {
    pub(crate) source: String,
    pub(crate) bytes: Vec<u8>,
}

impl Filenames {
    /// True if no file was named.
    pub(crate) fn is_empty(&self) -> bool {
        self.filename.is_empty() && self.kustomize.is_none()
    }

    /// Fails if there is nothing to read, or something that cannot be read here.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        if let Some(directory) = &self.kustomize {
            return Err(Failure::text(format!(
                "kustomizations are not supported: pipe `kubectl kustomize {}` into -f -",
                directory.display()
            )));
        }
        let url = self
            .filename
            .iter()
            .filter_map(|file| file.to_str())
            .find(|file| is_url(file));
        match url {
            Some(url) => Err(Failure::text(format!(
                "{url:?} is a URL, and only files are read: pipe `curl -fsSL {url}` into -f -"
            ))),
            None if self.filename.is_empty() => Err(Failure::text("required flag(s) \"filename\" not set")),
            None => Ok(()),
        }
    }

    /// Reads everything, in order; errors are items in their place.
    pub(crate) fn read(&self, session: &mut Session) -> Result<Vec<Result<Manifest, Failure>>, Failure> {
        self.check()?;
        let mut found = Vec::new();
        for text in self.texts(session) {
            match text {
                Ok(text) => documents(&text.source, &text.bytes, &mut found),
                Err(failure) => found.push(Err(failure)),
            }
        }
        match found.is_empty() {
            true => Err(Failure::text("no objects passed: the input is empty")),
            false => Ok(found),
        }
    }

    /// The files, in order; errors are items in their place.
    pub(crate) fn texts(&self, session: &mut Session) -> Vec<Result<Text, Failure>> {
        let mut found = Vec::new();
        for path in &self.filename {
            match path.as_os_str() == "-" {
                true => found.push(standard_input(session)),
                false => self.path(path, &mut found),
            }
        }
        found
    }

    fn path(&self, path: &Path, found: &mut Vec<Result<Text, Failure>>) {
        if !path.exists() {
            let failure = format!("the path {:?} does not exist", path.display().to_string());
            return found.push(Err(Failure::text(failure)));
        }
        if !path.is_dir() {
            return found.push(read_file(path));
        }
        let mut files = Vec::new();
        if let Err(error) = manifest_files(path, self.recursive, MAX_DEPTH, &mut files) {
            found.push(Err(Failure::text(format!(
                "error reading {}: {error}",
                path.display()
            ))));
        }
        if files.is_empty() {
            found.push(Err(Failure::text(format!(
                "error reading [{}]: recognized file extensions are [.json .yaml .yml]",
                path.display()
            ))));
        }
        found.extend(files.iter().map(|file| read_file(file)));
    }
}

fn is_url(file: &str) -> bool {
    ["http://", "https://"]
        .iter()
        .any(|scheme| file.starts_with(scheme))
}

/// Reads the manifests of a text.
pub(crate) fn parse(source: &str, bytes: &[u8]) -> Vec<Result<Manifest, Failure>> {
    let mut found = Vec::new();
    documents(source, bytes, &mut found);
    found
}

fn standard_input(session: &mut Session) -> Result<Text, Failure> {
    let mut bytes = Vec::new();
    let mut input = session.input.by_ref().take(MAX_FILE_BYTES);
    match input.read_to_end(&mut bytes) {
        Ok(_) => Ok(Text {
            source: "STDIN".to_owned(),
            bytes,
        }),
        Err(error) => Err(Failure::text(format!("error reading STDIN: {error}"))),
    }
}

/// The manifests of a directory, sorted by name.
fn manifest_files(
    directory: &Path,
    recursive: bool,
    depth: usize,
    files: &mut Vec<PathBuf>,
) -> std::io::Result<()> {
    let mut entries = std::fs::read_dir(directory)?
        .map(|entry| Ok(entry?.path()))
        .collect::<std::io::Result<Vec<_>>>()?;
    entries.sort();
    for path in entries {
        let extension = path.extension().and_then(|extension| extension.to_str());
        if path.is_dir() && recursive && depth > 0 {
            manifest_files(&path, recursive, depth - 1, files)?;
        } else if extension.is_some_and(|extension| EXTENSIONS.contains(&extension)) && path.is_file() {
            files.push(path);
        }
    }
    Ok(())
}

fn read_file(path: &Path) -> Result<Text, Failure> {
    let source = path.display().to_string();
    let read = std::fs::metadata(path).and_then(|metadata| match metadata.len() > MAX_FILE_BYTES {
        true => Err(std::io::Error::other("it is too large to be a manifest")),
        false => std::fs::read(path),
    });
    match read {
        Ok(bytes) => Ok(Text { source, bytes }),
        Err(error) => Err(Failure::text(format!("error reading {source}: {error}"))),
    }
}

fn documents(source: &str, bytes: &[u8], found: &mut Vec<Result<Manifest, Failure>>) {
    for wanted in watchkeeper_client::Manifest::parse(bytes) {
        found.push(match wanted {
            Ok(wanted) => Ok(Manifest {
                source: source.to_owned(),
                wanted,
            }),
            Err(ManifestError::Syntax(error)) => {
                Err(Failure::text(format!("error parsing {source}: {error}")))
            }
            Err(error) => Err(Failure::text(format!("unable to decode {source:?}: {error}"))),
        });
    }
}

/// The objects that manifests name.
pub(crate) async fn of_manifests(
    files: &Filenames,
    cluster: &Cluster,
    session: &mut Session,
) -> Result<Vec<Selected>, Failure> {
    let mut found = Vec::new();
    for manifest in files.read(session)? {
        let manifest = manifest?;
        let target = manifest.target(cluster).await?;
        let kind = target.resource().group_resource().to_string();
        found.push(Selected {
            resource: cluster.resource(&kind).await?,
            names: vec![manifest.wanted.name],
            namespace: Some(target.namespace_name().to_owned()),
        });
    }
    Ok(joined(found))
}

impl Manifest {
    /// The API of the object: its resource, in its own namespace or else the request's.
    pub(crate) async fn target(&self, cluster: &Cluster) -> Result<DynamicApi, Failure> {
        let (name, namespace) = (&self.wanted.name, &self.wanted.namespace);
        let found = self.wanted.api(&cluster.discovery, &cluster.namespace).await;
        let target = found.map_err(|error| match error {
            MapError::Discovery(error) => error.into(),
            error => Failure::text(format!(
                "resource mapping not found for name: {name:?} namespace: {namespace:?} from {:?}: {error}\n\
                 ensure CRDs are installed first",
                self.source
            )),
        })?;
        let elsewhere = !namespace.is_empty() && *namespace != cluster.namespace;
        if elsewhere && cluster.namespace_typed && is_namespaced(target.resource()) {
            return Err(Failure::text(format!(
                "the namespace from the provided object {namespace:?} does not match the namespace {:?}. \
                 You must pass '--namespace={namespace}' to perform this operation.",
                cluster.namespace
            )));
        }
        Ok(target)
    }
}
