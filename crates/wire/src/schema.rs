//! The schema of every kind: one structure for codecs, patches, apply, checks and OpenAPI.
//!
//! A [`Schema`] is an arena of [`Type`]s that refer to each other by [`TypeId`], so recursive types are no special
//! case and a look-up is an index. [`Schema::builtin`] holds every built-in kind; it is read once, from a compact
//! file generated from `schema/types.tsv`. The schema of a custom resource is built at run time with a [`Builder`],
//! see [`structural`], and has the same structure; its texts are owned instead of borrowed.
//!
//! A schema says how things look on the wire and how lists and maps merge. It does not validate values.

use std::borrow::Cow;
use std::ops::Index;
use std::sync::LazyLock;

mod builder;
pub mod compiled;
mod names;
pub mod resources;
mod slots;
pub mod structural;

use crate::protobuf::LazyZeros;
pub use builder::Builder;
use names::{Name, Names};
pub(crate) use slots::{NONE, Shown, Slot, Slots};

/// A text of the schema: borrowed for built-in kinds, owned for kinds built at run time.
pub type Text = Cow<'static, str>;

/// Types that refer to each other, with look-up by name and by kind.
#[derive(Clone, Debug, PartialEq)]
pub struct Schema {
    types: Box<[Type]>,
    enums: Box<[Enum]>,
    kinds: Box<[Kind]>,
    /// Index of the first kind of each name.
    kind_names: Names,
    /// Types sorted by name.
    by_name: Box<[TypeId]>,
}

/// A type within its schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TypeId(u32);

/// An enumeration within its schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EnumId(u32);

/// A type with its own `apiVersion` and `kind`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kind {
    /// `v1`, `apps/v1`. Empty for the option kinds that every group and version has.
    pub api_version: Text,
    /// `Pod`.
    pub kind: Text,
    /// Its type.
    pub id: TypeId,
}

/// An enumeration of texts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Enum {
    /// `core/v1.Protocol`.
    pub name: Text,
    /// The allowed texts, in the order of declaration.
    pub values: Box<[Text]>,
}

/// A message: an ordered set of fields.
#[derive(Clone, Debug, PartialEq)]
pub struct Type {
    /// `core/v1.PodSpec`.
    pub name: Text,
    /// The fields in the order of declaration, the order in which JSON prints them.
    pub fields: Box<[Field]>,
    /// True if apply treats the value as a unit (`structType=atomic`).
    pub atomic: bool,
    /// The treatment of unknown fields.
    pub unknown_fields: UnknownFields,
    /// True if the type has `apiVersion` and `kind`.
    pub is_object: bool,
    /// True for types of custom kinds, which have no Go struct: unknown fields are pruned, everything else is left to
    /// the kind's validation.
    pub structural: bool,
    /// The same fields in the form the protobuf readers use.
    pub(crate) slots: Slots,
    /// Positions of the fields JSON shows without a value, and of embedded ones.
    shown: Box<[u16]>,
    /// The protobuf bytes of absent fields.
    pub(crate) zeros: LazyZeros,
    /// The same fields by their JSON names.
    names: Names,
}

/// The treatment of undeclared fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UnknownFields {
    /// They are dropped, and reported in strict field validation.
    #[default]
    Drop,
    /// They are kept as they are (`x-kubernetes-preserve-unknown-fields`).
    Keep,
}

/// One field of a [`Type`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Field {
    /// The name in JSON; empty for an embedded type, whose fields belong to the outer object.
    pub name: Text,
    /// The shape of the value on the wire.
    pub shape: Shape,
    /// The protobuf number; 0 if the field is not in protobuf.
    pub number: u32,
    /// True if absent and zero differ.
    pub pointer: bool,
    /// True if the fields of this field's type belong to the outer object in JSON.
    pub embedded: bool,
    /// True if JSON omits an empty value. A non-pointer struct is never empty.
    pub omit_empty: bool,
    /// True if JSON omits a zero value, structs included.
    pub omit_zero: bool,
    /// Marked as required.
    pub required: bool,
    /// Marked as optional.
    pub optional: bool,
    /// True if null is a value of its own.
    pub nullable: bool,
    /// The items of a list kind, printed as `[]` if empty, never as null.
    pub list_items: bool,
    /// The type as declared, `[]core/v1.Container`, for error texts.
    pub declared: Text,
    /// The treatment in a strategic merge patch.
    pub patch: PatchStrategy,
    /// The merge key of the items of a merged list.
    pub patch_merge_key: Option<Text>,
    /// The list type for apply.
    pub list_type: Option<ListType>,
    /// The keys of the items of a `map` list.
    pub list_map_keys: Box<[Text]>,
    /// The treatment of a map in apply.
    pub map_type: Option<Granularity>,
    /// The treatment of a struct in apply; overrides the type's own marker.
    pub struct_type: Option<Granularity>,
    /// The treatment of the items of a list, or of the values of a map, that are lists or maps themselves. Only custom
    /// kinds have such markers.
    pub item: Option<Box<Field>>,
    /// The default as JSON text.
    pub default: Option<Text>,
}

/// The shape of a value in JSON and in protobuf.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Shape {
    /// A text; if an enumeration is named, one of its values.
    String(Option<EnumId>),
    /// A boolean; a varint in protobuf.
    Bool,
    /// A 32-bit number; a varint in protobuf.
    Int32,
    /// A 64-bit number; a varint in protobuf.
    Int64,
    /// A floating-point number; eight bytes in protobuf.
    Float64,
    /// Bytes; base64 in JSON.
    Bytes,
    /// An object.
    Struct(TypeId),
    /// A list; a repeated field in protobuf.
    List(Box<Shape>),
    /// A map with text keys; repeated `{1: key, 2: value}` in protobuf, sorted by key.
    Map(Box<Shape>),
    /// A list in JSON; a message `{1: repeated item}` in protobuf.
    ListMessage(Box<Shape>),
    /// Whole seconds as RFC 3339; `{1: seconds, 2: nanos}` in protobuf.
    Time,
    /// Microseconds as RFC 3339; `{1: seconds, 2: nanos}` in protobuf.
    MicroTime,
    /// `1h30m0s`; `{1: nanoseconds}` in protobuf.
    Duration,
    /// `100m`; `{1: text}` in protobuf.
    Quantity,
    /// A number or a text; `{1: type, 2: number, 3: text}` in protobuf.
    IntOrString,
    /// A set of fields as JSON; `{1: JSON text}` in protobuf.
    FieldsV1,
    /// Any object; `{1: bytes}` in protobuf.
    RawExtension,
    /// Any JSON value; `{1: JSON text}` in protobuf.
    Json,
    /// Any JSON value; absent from protobuf.
    #[default]
    Any,
    /// A JSON schema or a boolean; `{1: boolean, 2: schema}` in protobuf.
    SchemaOrBool(TypeId),
    /// A JSON schema or a list of them; `{1: schema, 2: repeated schema}` in protobuf.
    SchemaOrArray(TypeId),
    /// A JSON schema or a list of texts; `{1: schema, 2: repeated text}` in protobuf.
    SchemaOrStrings(TypeId),
}

/// The treatment of a field in a strategic merge patch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PatchStrategy {
    /// Lists are merged item by item instead of replaced.
    pub merge: bool,
    /// Keys the patch does not name are dropped.
    pub retain_keys: bool,
    /// Maps are replaced instead of merged.
    pub replace: bool,
}

/// The identity of list items in apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListType {
    /// The list is a unit with one owner.
    Atomic,
    /// Items are identified by their value.
    Set,
    /// Items are objects identified by their keys.
    Map,
}

/// The granularity of a value in apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Granularity {
    /// The value is a unit with one owner.
    Atomic,
    /// Every field has its own owner.
    Granular,
}

/// An inconsistent schema.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid schema: {0}")]
pub struct SchemaError(pub String);

/// Every built-in kind, as written by the generator.
static BUILTIN: &[u8] = include_bytes!("../schema/builtin.schema");

impl Schema {
    /// The schema of every built-in kind.
    pub fn builtin() -> &'static Schema {
        static SCHEMA: LazyLock<Schema> = LazyLock::new(|| {
            // The file is part of the program and tested: an error here is a broken build.
            compiled::read(BUILTIN).expect("the built-in schema is readable")
        });
        &SCHEMA
    }

    /// Builds a schema. A [`TypeId`] is the position of a type in `types`, an [`EnumId`] that of an enumeration in
    /// `enums`; every id used in a shape must exist.
    pub fn new(mut types: Vec<Type>, enums: Vec<Enum>, mut kinds: Vec<Kind>) -> Result<Self, SchemaError> {
        for declared in &types {
            for field in &declared.fields {
                check_references(&field.shape, types.len(), enums.len())
                    .and_then(|()| check_slot(field))
                    .map_err(|error| SchemaError(format!("{}.{}: {}", declared.name, field.name, error.0)))?;
            }
        }
        for index in 0..types.len() {
            types[index].names = Names::new(json_names(&types, index, 0)?);
            types[index].zeros = LazyZeros::default();
        }
        let mut by_name: Vec<TypeId> = (0..types.len()).map(TypeId::new).collect();
        by_name.sort_by(|left, right| types[left.index()].name.cmp(&types[right.index()].name));
        kinds.sort_by(|left, right| (&left.kind, &left.api_version).cmp(&(&right.kind, &right.api_version)));
        if let Some(kind) = kinds.iter().find(|kind| kind.id.index() >= types.len()) {
            return Err(SchemaError(format!("kind {} names no type", kind.kind)));
        }
        let named = kinds
            .iter()
            .zip(0..)
            .map(|(kind, at)| Name::new(kind.kind.clone(), at));
        Ok(Self {
            types: types.into(),
            enums: enums.into(),
            kind_names: Names::new(named.collect()),
            kinds: kinds.into(),
            by_name: by_name.into(),
        })
    }

    /// The type of that name, `core/v1.PodSpec`.
    pub fn type_named(&self, name: &str) -> Option<TypeId> {
        let found = self
            .by_name
            .binary_search_by(|id| (*self[*id].name).cmp(name))
            .ok()?;
        Some(self.by_name[found])
    }

    /// The type of an object with this `apiVersion` and `kind`.
    ///
    /// `DeleteOptions`, `WatchEvent` and the other option kinds exist in every group and version.
    pub fn kind(&self, api_version: &str, kind: &str) -> Option<TypeId> {
        let first = self.kind_names.find(kind)?;
        let mut of_all = None;
        for have in self.kinds[first..].iter().take_while(|have| *have.kind == *kind) {
            match &*have.api_version {
                "" => of_all = Some(have.id),
                found if found == api_version => return Some(have.id),
                _ => {}
            }
        }
        of_all
    }

    /// Every kind, sorted by name.
    pub fn kinds(&self) -> &[Kind] {
        &self.kinds
    }

    /// Every type, by ascending id.
    pub fn types(&self) -> impl ExactSizeIterator<Item = (TypeId, &Type)> {
        self.types
            .iter()
            .enumerate()
            .map(|(index, it)| (TypeId::new(index), it))
    }

    /// Every enumeration.
    pub fn enums(&self) -> &[Enum] {
        &self.enums
    }

    /// The field with this JSON name, the type's own or an embedded one.
    pub fn field(&self, id: TypeId, name: &str) -> Option<&Field> {
        let field = self[id].own_or_embedding(name)?;
        match field.shape {
            Shape::Struct(embedded) if field.embedded => self.field(embedded, name),
            _ => Some(field),
        }
    }

    /// The fields JSON shows, in print order; embedded types are resolved.
    pub fn fields(&self, id: TypeId) -> Vec<&Field> {
        let mut found = Vec::new();
        self.collect_fields(id, &mut found);
        found
    }

    fn collect_fields<'a>(&'a self, id: TypeId, found: &mut Vec<&'a Field>) {
        for field in &self[id].fields {
            match field.shape {
                Shape::Struct(embedded) if field.embedded => self.collect_fields(embedded, found),
                _ => found.push(field),
            }
        }
    }
}

impl Index<TypeId> for Schema {
    type Output = Type;

    fn index(&self, id: TypeId) -> &Type {
        &self.types[id.index()]
    }
}

impl Index<EnumId> for Schema {
    type Output = Enum;

    fn index(&self, id: EnumId) -> &Enum {
        &self.enums[id.index()]
    }
}

impl TypeId {
    /// The type at a position of [`Schema::new`]'s list.
    pub fn new(index: usize) -> Self {
        Self(index as u32)
    }

    fn index(self) -> usize {
        self.0 as usize
    }
}

impl EnumId {
    /// The enumeration at a position of [`Schema::new`]'s list.
    pub fn new(index: usize) -> Self {
        Self(index as u32)
    }

    fn index(self) -> usize {
        self.0 as usize
    }
}

impl Type {
    /// A type with these fields; numbers must be unique.
    pub fn new(name: impl Into<Text>, fields: Vec<Field>) -> Self {
        let numbered = fields.iter().zip(0..);
        let shown = numbered.filter(|(field, _)| field.embedded || field.shown_when_absent());
        Self {
            name: name.into(),
            shown: shown.map(|(_, position)| position).collect(),
            is_object: fields.iter().any(|field| field.embedded && field.number == 0),
            slots: Slots::new(&fields),
            fields: fields.into(),
            atomic: false,
            unknown_fields: UnknownFields::Drop,
            structural: false,
            zeros: LazyZeros::default(),
            names: Names::default(),
        }
    }

    /// The name without its package: `PodSpec`.
    pub fn short_name(&self) -> &str {
        self.name.rsplit('.').next().unwrap_or(&self.name)
    }

    /// True if the type has a protobuf form. Tables do not.
    pub fn has_protobuf(&self) -> bool {
        self.fields.iter().all(|field| field.embedded || field.number > 0)
    }

    /// The field with that protobuf number, and its position in [`Type::fields`].
    #[inline]
    pub fn field_numbered(&self, number: u32) -> Option<(usize, &Field)> {
        let index = self.slots.find(number)?.field as usize;
        Some((index, &self.fields[index]))
    }

    /// The fields in protobuf, in the order they are written.
    pub fn wire_fields(&self) -> impl Iterator<Item = &Field> {
        self.slots.fields().map(|index| &self.fields[index])
    }

    /// The fields JSON shows without a value, and embedded ones, whose fields it may show.
    pub(crate) fn shown_when_absent(&self) -> impl Iterator<Item = &Field> {
        self.shown
            .iter()
            .map(|position| &self.fields[usize::from(*position)])
    }

    /// The type's own field of that JSON name, or the embedded field that contains it.
    #[inline]
    pub fn own_or_embedding(&self, name: &str) -> Option<&Field> {
        self.position_of(name).map(|index| &self.fields[index])
    }

    /// The position of [`Type::own_or_embedding`].
    #[inline]
    pub fn position_of(&self, name: &str) -> Option<usize> {
        self.names.find(name)
    }
}

impl Field {
    /// True if OpenAPI lists the field as required.
    pub fn is_required(&self) -> bool {
        !self.optional && (self.required || !self.omit_empty)
    }
}

/// Built-in kinds embed two levels deep; the limit breaks cycles.
const EMBEDDING_DEPTH: usize = 8;

/// The type's own names, then those of embedded types: an outer field hides an inner one of the same name, as in Go.
fn json_names(types: &[Type], index: usize, depth: usize) -> Result<Vec<Name>, SchemaError> {
    let own = &types[index];
    if depth > EMBEDDING_DEPTH {
        return Err(SchemaError(format!("{} embeds itself", own.name)));
    }
    let (mut names, mut embedded) = (Vec::with_capacity(own.fields.len()), Vec::new());
    for (field, position) in own.fields.iter().zip(0..) {
        match field.shape {
            Shape::Struct(inner) if field.embedded => {
                let inner = json_names(types, inner.index(), depth + 1)?;
                embedded.extend(inner.into_iter().map(|name| name.within(position)));
            }
            _ => names.push(Name::new(field.name.clone(), position)),
        }
    }
    names.append(&mut embedded);
    Ok(names)
}

fn check_references(shape: &Shape, types: usize, enums: usize) -> Result<(), SchemaError> {
    match shape {
        Shape::Struct(id)
        | Shape::SchemaOrBool(id)
        | Shape::SchemaOrArray(id)
        | Shape::SchemaOrStrings(id)
            if id.index() >= types =>
        {
            Err(SchemaError(format!("type {} does not exist", id.0)))
        }
        Shape::String(Some(id)) if id.index() >= enums => {
            Err(SchemaError(format!("enumeration {} does not exist", id.0)))
        }
        Shape::List(item) | Shape::Map(item) | Shape::ListMessage(item) => {
            check_references(item, types, enums)
        }
        _ => Ok(()),
    }
}

fn check_slot(field: &Field) -> Result<(), SchemaError> {
    let (number, longest, highest) = (field.number, slots::MAX_NAME, slots::MAX_NUMBER);
    match number == 0 || field.has_slot() {
        true => Ok(()),
        false => Err(SchemaError(format!(
            "number {number} is above {highest}, or the name longer than {longest} bytes"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn builtin_field(type_name: &str, field: &str) -> &'static Field {
        let schema = Schema::builtin();
        let id = schema.type_named(type_name).unwrap();
        schema.field(id, field).unwrap()
    }

    #[test]
    fn kinds_are_found_by_api_version_and_kind() {
        let schema = Schema::builtin();
        let check = |api_version, kind, name: Option<&str>| {
            let found = schema.kind(api_version, kind).map(|id| &*schema[id].name);
            assert_eq!(found, name, "{api_version} {kind}");
        };
        check("v1", "Pod", Some("core/v1.Pod"));
        check("apps/v1", "Deployment", Some("apps/v1.Deployment"));
        check(
            "rbac.authorization.k8s.io/v1",
            "RoleList",
            Some("rbac/v1.RoleList"),
        );
        check("autoscaling/v1", "Scale", Some("autoscaling/v1.Scale"));
        check("v1", "Status", Some("meta/v1.Status"));
        check("v1", "List", Some("meta/v1.List"));
        check("meta.k8s.io/v1", "Table", Some("meta/v1.Table"));
        check("policy/v1", "DeleteOptions", Some("meta/v1.DeleteOptions"));
        check("example.com/v1", "WatchEvent", Some("meta/v1.WatchEvent"));
        check("apps/v1", "Pod", None);
        check("v1", "PodSpec", None);
    }

    #[test]
    fn fields_are_found_by_name_and_by_number() {
        let schema = Schema::builtin();
        let spec = &schema[schema.type_named("core/v1.PodSpec").unwrap()];
        let (_, by_number) = spec.field_numbered(2).unwrap();
        assert_eq!(by_number.name, "containers");
        assert_eq!(spec.own_or_embedding("containers"), Some(by_number));
        assert_eq!(by_number.patch_merge_key.as_deref(), Some("name"));
        assert_eq!(by_number.list_type, Some(ListType::Map));
        assert!(by_number.patch.merge && by_number.is_required());
        assert!(spec.field_numbered(0).is_none() && spec.field_numbered(4000).is_none());
        assert!(spec.own_or_embedding("nonsense").is_none());
    }

    #[test]
    fn embedded_fields_belong_to_the_outer_object() {
        let http_get = builtin_field("core/v1.Probe", "httpGet");
        assert_eq!(http_get.declared, "*core/v1.HTTPGetAction");
        let groups = builtin_field("admissionregistration/v1.NamedRuleWithOperations", "apiGroups");
        assert_eq!(groups.shape, Shape::List(Box::new(Shape::String(None))));
        let schema = Schema::builtin();
        let names: Vec<_> = schema
            .fields(schema.type_named("core/v1.ConfigMapKeySelector").unwrap())
            .iter()
            .map(|field| &*field.name)
            .collect();
        assert_eq!(names, ["name", "key", "optional"]);
    }

    #[test]
    fn markers_are_carried() {
        let Shape::String(Some(id)) = builtin_field("core/v1.ContainerPort", "protocol").shape else {
            panic!("protocol is an enumeration");
        };
        assert_eq!(
            Schema::builtin()[id].values,
            ["TCP", "UDP", "SCTP"].map(Text::from).into()
        );
        assert_eq!(
            builtin_field("core/v1.ContainerPort", "protocol")
                .default
                .as_deref(),
            Some("\"TCP\"")
        );
        let selector = builtin_field("core/v1.ServiceSpec", "selector");
        assert_eq!(selector.map_type, Some(Granularity::Atomic));
        let created = builtin_field("meta/v1.ObjectMeta", "creationTimestamp");
        assert!(created.omit_zero && created.shape == Shape::Time);
        assert!(builtin_field("core/v1.PodList", "items").list_items);
    }

    #[test]
    fn a_schema_can_be_made_at_run_time() {
        let name = |name: &str| Field {
            name: name.to_owned().into(),
            shape: Shape::Struct(TypeId::new(0)),
            ..Field::default()
        };
        let kind = Kind {
            api_version: "example.com/v1".into(),
            kind: "Tree".into(),
            id: TypeId::new(0),
        };
        let tree = Type::new("Tree".to_owned(), vec![name("left"), name("right")]);
        let schema = Schema::new(vec![tree], Vec::new(), vec![kind]).unwrap();
        let id = schema.kind("example.com/v1", "Tree").unwrap();
        assert_eq!(schema.field(id, "right").unwrap().name, "right");

        let mut lost = name("lost");
        lost.shape = Shape::Struct(TypeId::new(7));
        let error = Schema::new(vec![Type::new("Leaf", vec![lost])], Vec::new(), Vec::new()).unwrap_err();
        assert_eq!(
            error.to_string(),
            "invalid schema: Leaf.lost: type 7 does not exist"
        );

        let mut far = name("far");
        far.number = 1 << 28;
        let error = Schema::new(vec![Type::new("Leaf", vec![far])], Vec::new(), Vec::new()).unwrap_err();
        assert_eq!(
            error.to_string(),
            "invalid schema: Leaf.far: number 268435456 is above 4095, or the name longer than 255 bytes"
        );
    }
}
