//! A field mask: the paths of an object to keep.
//!
//! Paths are checked against the schema when the mask is made, and applied to bytes: unwanted fields are skipped in
//! JSON and in protobuf, without decoding. A path leads through lists to the fields of their items; maps and other
//! values are kept as a whole. Always kept are `apiVersion`, `kind` and all of `metadata` but `annotations` and
//! `managedFields`, which have to be named.

use std::fmt;
use std::sync::Arc;

use serde_json::Value;

use crate::json;
use crate::protobuf::primitive::{ProtobufError, Reader, WireType, put_bytes};
use crate::schema::structural::Compiler;
use crate::schema::{Schema, SchemaError, Shape, Text, TypeId, UnknownFields};
use crate::{Encoding, WireError};

/// The most paths of a mask.
pub const MOST_PATHS: usize = 256;

/// The fields of `metadata` that are kept only if they are named.
const LARGE_METADATA: [&str; 2] = ["annotations", "managedFields"];

/// The paths of one kind to keep. Clones are cheap.
///
/// ```
/// use watchkeeper_wire::{FieldMask, Object, ObjectOptions};
///
/// let mask = FieldMask::new("v1", "Pod", ["spec.nodeName", "spec.containers.image"])?;
/// let json = br#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a"},
///     "spec":{"nodeName":"n","hostNetwork":true,"containers":[{"name":"c","image":"i"}]}}"#;
/// let pod = Object::from_json(json, &ObjectOptions::default())?.masked(&mask);
/// let kept = serde_json::json!({"nodeName": "n", "containers": [{"image": "i"}]});
/// assert_eq!(pod.to_value()?["spec"], kept);
///
/// let error = FieldMask::new("v1", "Pod", ["spec.nodename"]).unwrap_err();
/// assert_eq!(error.to_string(), r#"Pod has no field "spec.nodename": did you mean "spec.nodeName"?"#);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct FieldMask(Arc<Mask>);

struct Mask {
    api_version: String,
    kind: String,
    /// Sorted, without duplicates.
    paths: Vec<String>,
    json: Tree<Text>,
    protobuf: Tree<u32>,
}

/// The kept part of a value.
#[derive(Debug, PartialEq, Eq)]
enum Tree<K> {
    Whole,
    Part(Vec<(K, Tree<K>)>),
}

/// A path, or a kind, that cannot be kept.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FieldMaskError {
    /// The kind is not in the schema.
    #[error("there is no schema of {api_version} {kind}")]
    UnknownKind {
        /// Its `apiVersion`.
        api_version: String,
        /// Its name.
        kind: String,
    },
    /// The kind has no such field.
    #[error("{kind} has no field {path:?}{}", .nearest.as_ref().map(|nearest| format!(": did you mean {nearest:?}?")).unwrap_or_default())]
    UnknownField {
        /// The kind.
        kind: String,
        /// The path up to the unknown field.
        path: String,
        /// The path of the field with the most similar name.
        nearest: Option<String>,
    },
    /// The path leads into a map or a single value.
    #[error("{path:?} has no fields of its own: keep it as a whole")]
    NoFields {
        /// The path of the value.
        path: String,
    },
    /// The schema of a custom kind is invalid.
    #[error(transparent)]
    Schema(#[from] SchemaError),
    /// More than [`MOST_PATHS`] paths.
    #[error("a mask has at most {MOST_PATHS} paths")]
    TooManyPaths,
}

impl FieldMask {
    /// A mask of a built-in kind, with paths such as `spec.containers.image`.
    pub fn new<P: Into<String>>(
        api_version: &str,
        kind: &str,
        paths: impl IntoIterator<Item = P>,
    ) -> Result<Self, FieldMaskError> {
        Self::in_schema(Schema::builtin(), (api_version, kind), paths)
    }

    /// A mask of a custom kind, whose `openAPIV3Schema` is given.
    pub fn custom<P: Into<String>>(
        (api_version, kind): (&str, &str),
        open_api_v3_schema: &Value,
        paths: impl IntoIterator<Item = P>,
    ) -> Result<Self, FieldMaskError> {
        let mut compiler = Compiler::new();
        compiler.version(api_version, kind, open_api_v3_schema)?;
        Self::in_schema(&compiler.finish()?, (api_version, kind), paths)
    }

    fn in_schema<P: Into<String>>(
        schema: &Schema,
        (api_version, kind): (&str, &str),
        paths: impl IntoIterator<Item = P>,
    ) -> Result<Self, FieldMaskError> {
        let mut paths: Vec<String> = paths.into_iter().take(MOST_PATHS + 1).map(Into::into).collect();
        if paths.len() > MOST_PATHS {
            return Err(FieldMaskError::TooManyPaths);
        }
        paths.sort();
        paths.dedup();
        let id = schema
            .kind(api_version, kind)
            .ok_or_else(|| FieldMaskError::UnknownKind {
                api_version: api_version.to_owned(),
                kind: kind.to_owned(),
            })?;
        let mut mask = Mask {
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
            json: Tree::Part(Vec::new()),
            protobuf: Tree::Part(Vec::new()),
            paths,
        };
        for path in identity(schema, id).iter().chain(&mask.paths.clone()) {
            mask.keep(&Steps::of(schema, id, kind, path)?);
        }
        Ok(Self(Arc::new(mask)))
    }

    /// The kind of the objects, with its `apiVersion`.
    pub fn kind(&self) -> (&str, &str) {
        (&self.0.api_version, &self.0.kind)
    }

    /// The paths, sorted.
    pub fn paths(&self) -> &[String] {
        &self.0.paths
    }

    /// The kept part of an object's bytes.
    pub(crate) fn copy(&self, encoding: Encoding, bytes: &[u8]) -> Result<Vec<u8>, WireError> {
        let mut out = Vec::with_capacity(bytes.len() / 4);
        match encoding {
            Encoding::Json => self.0.json.copy_json(&mut json::Reader::new(bytes), &mut out)?,
            Encoding::Protobuf => self
                .0
                .protobuf
                .copy_protobuf(Reader::new(bytes), bytes, &mut out)?,
        }
        Ok(out)
    }
}

/// The paths every mask keeps.
fn identity(schema: &Schema, id: TypeId) -> Vec<String> {
    let mut paths = vec!["apiVersion".to_owned(), "kind".to_owned()];
    if let Some(Shape::Struct(metadata)) = schema.field(id, "metadata").map(|field| &field.shape) {
        let small = schema.fields(*metadata).into_iter().map(|field| &*field.name);
        let small = small.filter(|name| !LARGE_METADATA.contains(name));
        paths.extend(small.map(|name| format!("metadata.{name}")));
    }
    paths
}

impl Mask {
    fn keep(&mut self, steps: &Steps) {
        self.json.insert(&steps.names);
        if let Some(numbers) = &steps.numbers {
            self.protobuf.insert(numbers);
        }
    }
}

/// A path in both encodings.
struct Steps {
    names: Vec<Text>,
    /// `None` if the field is not in protobuf.
    numbers: Option<Vec<u32>>,
}

/// The fields below a value.
enum Below {
    Fields(TypeId),
    /// Any fields, unknown to the schema.
    Any,
    None,
}

impl Steps {
    fn of(schema: &Schema, id: TypeId, kind: &str, path: &str) -> Result<Self, FieldMaskError> {
        let mut steps = Self {
            names: Vec::new(),
            numbers: Some(Vec::new()),
        };
        let mut below = Below::Fields(id);
        let mut end = 0;
        for name in path.split('.') {
            let parent = path[..end].trim_end_matches('.');
            end += name.len() + 1;
            below = match below {
                Below::Fields(id) => match steps.enter(schema, id, name) {
                    Some(below) => below,
                    None => return Err(unknown_field(schema, id, kind, parent, name)),
                },
                Below::Any => {
                    steps.names.push(name.to_owned().into());
                    Below::Any
                }
                Below::None => {
                    return Err(FieldMaskError::NoFields {
                        path: parent.to_owned(),
                    });
                }
            };
        }
        Ok(steps)
    }

    /// Adds a field of a type; returns what is below it, or `None` if there is no such field.
    fn enter(&mut self, schema: &Schema, id: TypeId, name: &str) -> Option<Below> {
        let field = schema[id].own_or_embedding(name).filter(|_| !name.is_empty());
        let Some(field) = field else {
            let is_open = schema[id].unknown_fields == UnknownFields::Keep && !name.is_empty();
            return is_open.then(|| {
                self.names.push(name.to_owned().into());
                Below::Any
            });
        };
        match (&mut self.numbers, field.number) {
            (numbers, 0) => *numbers = None,
            (Some(numbers), number) => numbers.push(number),
            (None, _) => {}
        }
        match (&field.shape, field.embedded) {
            (Shape::Struct(inner), true) => self.enter(schema, *inner, name),
            (shape, _) => {
                self.names.push(field.name.clone());
                Some(below(shape))
            }
        }
    }
}

fn below(shape: &Shape) -> Below {
    match shape {
        Shape::Struct(id) => Below::Fields(*id),
        Shape::List(item) => below(item),
        Shape::Any => Below::Any,
        _ => Below::None,
    }
}

fn unknown_field(schema: &Schema, id: TypeId, kind: &str, parent: &str, name: &str) -> FieldMaskError {
    let path = |name: &str| match parent {
        "" => name.to_owned(),
        parent => format!("{parent}.{name}"),
    };
    let fields = schema.fields(id).into_iter().map(|field| &*field.name);
    let distance = |field: &&str| strsim::levenshtein(&name.to_lowercase(), &field.to_lowercase());
    let nearest = fields.filter(|field| !field.is_empty()).min_by_key(distance);
    FieldMaskError::UnknownField {
        kind: kind.to_owned(),
        path: path(name),
        nearest: nearest.map(path),
    }
}

impl<K: PartialEq + Clone> Tree<K> {
    fn insert(&mut self, path: &[K]) {
        let Some((first, rest)) = path.split_first() else {
            *self = Self::Whole;
            return;
        };
        let Self::Part(children) = self else { return };
        let known = children.iter().position(|(key, _)| key == first);
        let index = known.unwrap_or_else(|| {
            children.push((first.clone(), Self::Part(Vec::new())));
            children.len() - 1
        });
        children[index].1.insert(rest);
    }
}

impl Tree<Text> {
    fn copy_json(&self, reader: &mut json::Reader<'_>, out: &mut Vec<u8>) -> Result<(), json::JsonError> {
        match (self, reader.peek()?) {
            (Self::Part(children), b'{') => copy_object(children, reader, out),
            (Self::Part(_), b'[') => self.copy_list(reader, out),
            _ => {
                out.extend_from_slice(reader.skip()?);
                Ok(())
            }
        }
    }

    fn copy_list(&self, reader: &mut json::Reader<'_>, out: &mut Vec<u8>) -> Result<(), json::JsonError> {
        out.push(b'[');
        let mut first = true;
        if let Some(mut items) = reader.list()? {
            while items.next(reader)? {
                separate(&mut first, out);
                self.copy_json(reader, out)?;
            }
        }
        out.push(b']');
        Ok(())
    }
}

fn copy_object(
    children: &[(Text, Tree<Text>)],
    reader: &mut json::Reader<'_>,
    out: &mut Vec<u8>,
) -> Result<(), json::JsonError> {
    out.push(b'{');
    let mut first = true;
    if let Some(mut members) = reader.object()? {
        while let Some(key) = members.next_key(reader)? {
            let Some((_, child)) = children.iter().find(|(name, _)| *name == key) else {
                reader.skip()?;
                continue;
            };
            separate(&mut first, out);
            out.extend_from_slice(Value::from(&*key).to_string().as_bytes());
            out.push(b':');
            child.copy_json(reader, out)?;
        }
    }
    out.push(b'}');
    Ok(())
}

fn separate(first: &mut bool, out: &mut Vec<u8>) {
    if !std::mem::take(first) {
        out.push(b',');
    }
}

impl Tree<u32> {
    /// `bytes` is the outermost message, to which the reader's offsets refer.
    fn copy_protobuf(
        &self,
        mut reader: Reader<'_>,
        bytes: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), ProtobufError> {
        let Self::Part(children) = self else { return Ok(()) };
        loop {
            let start = reader.offset();
            let Some((number, wire_type)) = reader.tag()? else {
                return Ok(());
            };
            match children.iter().find(|(known, _)| *known == number) {
                Some((_, child @ Self::Part(_))) if wire_type == WireType::Bytes => {
                    let mut inner = Vec::new();
                    child.copy_protobuf(reader.message()?, bytes, &mut inner)?;
                    put_bytes(out, number, &inner);
                }
                Some(_) => {
                    reader.skip(wire_type)?;
                    out.extend_from_slice(&bytes[start..reader.offset()]);
                }
                None => reader.skip(wire_type)?,
            }
        }
    }
}

impl PartialEq for FieldMask {
    fn eq(&self, other: &Self) -> bool {
        self.kind() == other.kind() && self.paths() == other.paths()
    }
}

impl Eq for FieldMask {}

impl fmt::Display for FieldMask {
    /// The paths, separated by commas.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.paths().join(","))
    }
}

impl fmt::Debug for FieldMask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FieldMask")
            .field("kind", &self.kind())
            .field("paths", &self.paths())
            .finish()
    }
}

#[cfg(test)]
mod tests;
