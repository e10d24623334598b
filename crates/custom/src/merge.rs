//! Several versions of a kind, each from its own struct, in one CustomResourceDefinition.

use serde_json::Value;

/// Definitions that cannot be merged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MergeError {
    /// No definitions were given.
    #[error("no definitions were given")]
    Nothing,
    /// They are of different kinds, or differ in fields that all versions share.
    #[error("the definitions disagree about {field}: {first} and {other}")]
    Different {
        /// `spec.names.shortNames`.
        field: String,
        /// The value in the first one.
        first: String,
        /// The value in another one.
        other: String,
    },
    /// Two definitions of one version.
    #[error("version {0} is defined twice")]
    Twice(String),
    /// No definition has the storage version.
    #[error("no definition has the version {0}, in which objects are to be stored")]
    NoStorage(String),
    /// The definition of the storage version says `storage: false`.
    #[error(
        "objects are to be stored in version {0}, whose definition says `storage = false`: remove that, or name another version"
    )]
    NotStored(String),
}

/// Merges the definitions of several versions of a kind. Objects are stored in the version `storage`.
///
/// The versions stay in the order given. `storage` decides: a definition need not say `storage = false`, and the one of
/// the storage version must not. Conversion between them changes only `apiVersion`, unless a conversion
/// webhook is configured: add it to `spec.conversion`.
///
/// ```
/// use watchkeeper_custom::merge_crds;
///
/// mod v1 {
///     # use schemars::JsonSchema;
///     # use serde::{Deserialize, Serialize};
///     # use watchkeeper_custom::Resource;
///     #[derive(Resource, Clone, Debug, Serialize, Deserialize, JsonSchema)]
///     #[resource(group = "example.com", version = "v1", kind = "Site", crate = watchkeeper_custom)]
///     pub struct SiteSpec { pub domain: String }
/// }
/// mod v2 {
///     # use schemars::JsonSchema;
///     # use serde::{Deserialize, Serialize};
///     # use watchkeeper_custom::Resource;
///     #[derive(Resource, Clone, Debug, Serialize, Deserialize, JsonSchema)]
///     #[resource(group = "example.com", version = "v2", kind = "Site", crate = watchkeeper_custom)]
///     pub struct SiteSpec { pub domain: String, pub aliases: Option<Vec<String>> }
/// }
/// let crd = merge_crds(&[v2::Site::crd(), v1::Site::crd()], "v2")?;
/// assert_eq!(crd["spec"]["versions"][0]["storage"], true);
/// assert_eq!(crd["spec"]["versions"][1]["storage"], false);
/// # Ok::<(), watchkeeper_custom::MergeError>(())
/// ```
pub fn merge_crds(crds: &[Value], storage: &str) -> Result<Value, MergeError> {
    let (first, others) = crds.split_first().ok_or(MergeError::Nothing)?;
    let mut merged = first.clone();
    let mut versions: Vec<Value> = versions(first).to_vec();
    for other in others {
        agree(first, other)?;
        versions.extend_from_slice(self::versions(other));
    }
    for (index, version) in versions.iter().enumerate() {
        if versions[..index]
            .iter()
            .any(|earlier| earlier["name"] == version["name"])
        {
            return Err(MergeError::Twice(text(&version["name"])));
        }
    }
    match versions.iter().find(|version| version["name"] == storage) {
        None => return Err(MergeError::NoStorage(storage.to_owned())),
        Some(version) if version["storage"] == false => {
            return Err(MergeError::NotStored(storage.to_owned()));
        }
        Some(_) => {}
    }
    for version in &mut versions {
        version["storage"] = (version["name"] == storage).into();
    }
    merged["spec"]["versions"] = versions.into();
    Ok(merged)
}

/// Everything but the versions must be equal.
fn agree(first: &Value, other: &Value) -> Result<(), MergeError> {
    let names = [
        "kind",
        "listKind",
        "plural",
        "singular",
        "shortNames",
        "categories",
    ]
    .map(|name| format!("/spec/names/{name}"));
    let fields = ["/metadata/name", "/spec/group", "/spec/scope"].map(str::to_owned);
    for field in fields.iter().chain(&names) {
        let (first, other) = (first.pointer(field), other.pointer(field));
        if first != other {
            return Err(MergeError::Different {
                field: field.trim_start_matches('/').replace('/', "."),
                first: first.map_or("nothing".to_owned(), text),
                other: other.map_or("nothing".to_owned(), text),
            });
        }
    }
    Ok(())
}

fn versions(crd: &Value) -> &[Value] {
    crd["spec"]["versions"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default()
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
