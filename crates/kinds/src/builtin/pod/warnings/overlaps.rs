//! Warnings about files of a volume whose paths overlap.

use watchkeeper_meta::quote;

use crate::Warnings;
use crate::rules::place::Place;

/// Sources with a list of key-to-path items: the field, the field within it that names the source, and the name in
/// warnings.
const SOURCES: &[(&str, &str, &str)] = &[
    ("configMap", "name", "ConfigMap"),
    ("secret", "secretName", "Secret"),
    ("downwardAPI", "", "DownwardAPI"),
];

/// Sources of a single file.
const FILES: &[(&str, &str)] = &[
    ("serviceAccountToken", "ServiceAccountToken"),
    ("clusterTrustBundle", "ClusterTrustBundle"),
];

/// The files of a pod certificate.
const CERTIFICATE_FILES: &[(&str, &str)] = &[
    ("certificateChainPath", "PodCertificate chain"),
    ("keyPath", "PodCertificate key"),
    ("credentialBundlePath", "PodCertificate credential bundle"),
];

/// A file and its source.
struct File<'v> {
    path: &'v str,
    source: String,
}

impl File<'_> {
    fn shown(&self) -> String {
        match self.source.as_str() {
            "" => quote(self.path),
            source => format!("{} ({source})", quote(self.path)),
        }
    }

    /// True if the paths are equal, or one is below the other.
    fn hides(&self, other: &Self) -> bool {
        let is_within = |path: &str, folder: &str| {
            let rest = path.strip_prefix(folder);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let are_named = !self.path.is_empty() && !other.path.is_empty();
        are_named && (is_within(self.path, other.path) || is_within(other.path, self.path))
    }
}

/// The number of pairs of files that are compared: enough for seven hundred files of a volume.
const MAX_PAIRS: usize = 1 << 18;

pub(crate) fn warn(volumes: &Place<'_, '_>, warnings: &Warnings) {
    let mut pairs = MAX_PAIRS;
    for volume in volumes.items() {
        for (source, name, kind) in SOURCES {
            let source = volume.field(source);
            let files = files(&source, "");
            if files.len() > 1 {
                warn_of_files(
                    &volume,
                    &title(kind, source.field(name).text()),
                    &files,
                    &mut pairs,
                    warnings,
                );
            }
        }
        let mut files = Vec::new();
        for source in volume.field("projected").field("sources").items() {
            let sources = source.value().as_object().map_or(0, serde_json::Map::len);
            if sources == 0 {
                let name = quote(volume.field("name").text());
                warnings.add(format!("volume {name} (Projected) has no sources provided"));
            }
            files.extend(projected(&source));
        }
        warn_of_files(&volume, "Projected", &files, &mut pairs, warnings);
    }
}

fn title(kind: &str, name: &str) -> String {
    match kind {
        "ConfigMap" | "Secret" | "ClusterTrustBundle" => format!("{kind} {}", quote(name)),
        kind => kind.to_owned(),
    }
}

/// The files of a source that lists them.
fn files<'v>(source: &Place<'v, '_>, from: &str) -> Vec<File<'v>> {
    let items = source.field("items");
    let paths = items.items().map(|item| item.field("path").text());
    paths
        .map(|path| File {
            path: path.trim_end_matches('/'),
            source: from.to_owned(),
        })
        .collect()
}

fn projected<'v>(source: &Place<'v, '_>) -> Vec<File<'v>> {
    let mut all = Vec::new();
    for (field, _, kind) in SOURCES {
        let listed = source.field(field);
        all.extend(files(&listed, &title(kind, listed.field("name").text())));
    }
    for (field, kind) in FILES {
        let one = source.field(field);
        let names = ["name", "signerName"].map(|name| one.field(name).text());
        let name = names
            .into_iter()
            .find(|name| !name.is_empty())
            .unwrap_or_default();
        if one.is_set() {
            all.push(File {
                path: one.field("path").text().trim_end_matches('/'),
                source: title(kind, name),
            });
        }
    }
    let certificate = source.field("podCertificate");
    all.extend(CERTIFICATE_FILES.iter().map(|(field, source)| File {
        path: certificate.field(field).text().trim_end_matches('/'),
        source: (*source).to_owned(),
    }));
    all
}

fn warn_of_files(
    volume: &Place<'_, '_>,
    kind: &str,
    files: &[File<'_>],
    pairs: &mut usize,
    warnings: &Warnings,
) {
    for (at, file) in files.iter().enumerate() {
        let Some(left) = pairs.checked_sub(at) else {
            return;
        };
        *pairs = left;
        for before in files[..at].iter().filter(|before| file.hides(before)) {
            let name = quote(volume.field("name").text());
            let (file, before) = (file.shown(), before.shown());
            warnings.add(format!(
                "volume {name} ({kind}): overlapping paths: {file} with {before}"
            ));
        }
    }
}
