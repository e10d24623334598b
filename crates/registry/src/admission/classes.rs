//! Storage and ingress classes: sets the default class on objects without one, and allows a claim to grow only if its
//! class does.

use serde_json::{Value, json};
use watchkeeper_kinds::{
    CLASS_ANNOTATION, INGRESS_CLASS_MARKS, Kind, Part, STORAGE_CLASS_MARKS, builtin, default_class,
};
use watchkeeper_meta::{ListOptions, Status};
use watchkeeper_wire::values::Quantity;

use crate::definition::Definition;
use crate::{Registry, metadata};

/// The error for a claim that cannot be resized.
const CANNOT_GROW: &str = "only dynamically provisioned pvc can be resized and the storageclass that provisions the \
                           pvc must support resize";

/// A kind whose objects have a class.
struct Classified {
    /// The field with the class name, and the legacy annotation.
    field: &'static str,
    old_annotation: &'static str,
    classes: &'static Kind,
    /// The annotations that mark the default class.
    marks: &'static [&'static str],
}

/// The name of the plugin that sets the default class of a kind, if the kind has classes.
pub(super) fn plugin(definition: &Definition) -> Option<&'static str> {
    match definition.kind {
        kind if *kind == builtin::PERSISTENT_VOLUME_CLAIM => Some("DefaultStorageClass"),
        kind if *kind == builtin::INGRESS => Some("DefaultIngressClass"),
        _ => None,
    }
}

impl Classified {
    fn of(definition: &Definition) -> Option<Self> {
        match definition.kind {
            kind if *kind == builtin::PERSISTENT_VOLUME_CLAIM => Some(Self {
                field: "storageClassName",
                old_annotation: CLASS_ANNOTATION,
                classes: &builtin::STORAGE_CLASS,
                marks: STORAGE_CLASS_MARKS,
            }),
            kind if *kind == builtin::INGRESS => Some(Self {
                field: "ingressClassName",
                old_annotation: "kubernetes.io/ingress.class",
                classes: &builtin::INGRESS_CLASS,
                marks: INGRESS_CLASS_MARKS,
            }),
            _ => None,
        }
    }

    fn is_named_in(&self, object: &Value) -> bool {
        !object["spec"][self.field].is_null()
            || object["metadata"]["annotations"]
                .get(self.old_annotation)
                .is_some()
    }
}

impl Registry {
    /// Sets the default class on a new object without one, if there is one.
    pub(super) async fn take_default_class(
        &self,
        definition: &Definition,
        object: &mut Value,
    ) -> Result<(), Status> {
        let Some(classified) = Classified::of(definition).filter(|known| !known.is_named_in(object)) else {
            return Ok(());
        };
        let classes = self.builtin(classified.classes)?;
        let list = self.list(&classes, "", &ListOptions::default()).await?;
        let known = list.objects().map(|class| class.to_value(&classes));
        let known = known.collect::<Result<Vec<Value>, Status>>()?;
        if let Some(index) = default_class(&known, classified.marks) {
            object["spec"][classified.field] = json!(metadata::text(&known[index], "name"));
        }
        Ok(())
    }

    /// Rejects the growth of a claim whose class does not allow expansion.
    pub(super) async fn check_growth(
        &self,
        definition: &Definition,
        part: Part,
        live: &Value,
        new: &Value,
    ) -> Result<(), Status> {
        let is_claim = definition.is(&builtin::PERSISTENT_VOLUME_CLAIM);
        if !is_claim || part != Part::Object || size(new) <= size(live) {
            return Ok(());
        }
        let (class, old) = (class_of(new), class_of(live));
        if !class.is_empty() && class == old && self.can_expand(class).await? {
            return Ok(());
        }
        let name = metadata::text(new, "name");
        Err(Status::forbidden(&definition.group_resource(), name, CANNOT_GROW))
    }

    async fn can_expand(&self, class: &str) -> Result<bool, Status> {
        let classes = self.builtin(&builtin::STORAGE_CLASS)?;
        let found = self.find(&classes, "", class).await?;
        let found = found.map(|found| found.to_value(&classes)).transpose()?;
        Ok(found.is_some_and(|class| class["allowVolumeExpansion"] == true))
    }
}

fn class_of(claim: &Value) -> &str {
    let named = claim["metadata"]["annotations"][CLASS_ANNOTATION].as_str();
    let named = named.or_else(|| claim["spec"]["storageClassName"].as_str());
    named.unwrap_or_default()
}

fn size(claim: &Value) -> Option<Quantity> {
    claim["spec"]["resources"]["requests"]["storage"]
        .as_str()?
        .parse()
        .ok()
}
