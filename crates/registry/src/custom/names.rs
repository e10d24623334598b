//! The names of custom kinds: which definition requests each name, and which has it.
//!
//! A changed definition is compared only with those that request a name it got or lost, so installing a kind costs the
//! same however many there are.

use std::collections::{BTreeSet, HashMap, HashSet};

use serde_json::Value;
use watchkeeper_storage::Key;

/// Every name that a definition asks for or was granted.
#[derive(Default)]
pub(super) struct Names(HashMap<Name, Claims>);

/// A name within a group. Kinds and resources may have the same.
type Name = (String, Sort, String);

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Sort {
    Resource,
    Kind,
}

/// The definitions that ask for a name, and those that were granted it: one, but for definitions of other clusters.
#[derive(Default)]
struct Claims {
    wanted_by: BTreeSet<Key>,
    held_by: BTreeSet<Key>,
}

/// A conflict with another kind: a word for it and a sentence.
pub(super) type Conflict = (&'static str, String);

impl Names {
    /// Follows a definition that came, changed or went. Returns the definitions that asked for a name it was granted or has
    /// lost.
    pub(super) fn follow(&mut self, key: &Key, before: Option<&Value>, now: Option<&Value>) -> BTreeSet<Key> {
        let (wanted_before, held_before) = before.map(claimed).unwrap_or_default();
        let (wanted_now, held_now) = now.map(claimed).unwrap_or_default();
        for name in wanted_before.difference(&wanted_now) {
            self.0.entry(name.clone()).or_default().wanted_by.remove(key);
        }
        for name in wanted_now.difference(&wanted_before) {
            let claims = self.0.entry(name.clone()).or_default();
            claims.wanted_by.insert(key.clone());
        }
        let mut concerned = BTreeSet::new();
        for name in held_before.symmetric_difference(&held_now) {
            let claims = self.0.entry(name.clone()).or_default();
            if !claims.held_by.remove(key) {
                claims.held_by.insert(key.clone());
            }
            concerned.extend(claims.wanted_by.iter().cloned());
        }
        for name in wanted_before.union(&held_before) {
            self.forget_unclaimed(name);
        }
        concerned
    }

    fn forget_unclaimed(&mut self, name: &Name) {
        let claims = self.0.get(name);
        if claims.is_some_and(|claims| claims.wanted_by.is_empty() && claims.held_by.is_empty()) {
            self.0.remove(name);
        }
    }

    /// The names that a definition may have, and its last conflict with another kind.
    pub(super) fn accepted(&self, key: &Key, definition: &Value) -> (Value, Option<Conflict>) {
        let wanted = &definition["spec"]["names"];
        let group = text(&definition["spec"], "group");
        let mut granted = definition["status"]["acceptedNames"].clone();
        let mut conflict = None;
        for (field, word, sort) in [
            ("plural", "PluralConflict", Sort::Resource),
            ("singular", "SingularConflict", Sort::Resource),
            ("shortNames", "ShortNamesConflict", Sort::Resource),
            ("kind", "KindConflict", Sort::Kind),
            ("listKind", "ListKindConflict", Sort::Kind),
        ] {
            let taken = texts(wanted, field).filter(|name| self.is_held_by_another(key, group, sort, name));
            let told: Vec<String> = taken.map(|name| format!("{name:?} is already in use")).collect();
            match &told[..] {
                [] => set_or_remove(&mut granted, field, wanted),
                [one] => conflict = Some((word, one.clone())),
                several => conflict = Some((word, format!("[{}]", several.join(", ")))),
            }
        }
        set_or_remove(&mut granted, "categories", wanted);
        (granted, conflict)
    }

    fn is_held_by_another(&self, key: &Key, group: &str, sort: Sort, name: &str) -> bool {
        let claims = self.0.get(&(group.to_owned(), sort, name.to_owned()));
        claims.is_some_and(|claims| claims.held_by.iter().any(|holder| holder != key))
    }
}

/// The names that a definition asks for, and those it was granted.
fn claimed(definition: &Value) -> (HashSet<Name>, HashSet<Name>) {
    let group = text(&definition["spec"], "group");
    let all = |names: &Value| {
        let resources = ["plural", "singular", "shortNames"].map(|field| (field, Sort::Resource));
        let kinds = ["kind", "listKind"].map(|field| (field, Sort::Kind));
        let fields = resources.into_iter().chain(kinds);
        let named = fields.flat_map(|(field, sort)| texts(names, field).map(move |name| (sort, name)));
        named
            .map(|(sort, name)| (group.to_owned(), sort, name.to_owned()))
            .collect()
    };
    (
        all(&definition["spec"]["names"]),
        all(&definition["status"]["acceptedNames"]),
    )
}

fn text<'v>(names: &'v Value, field: &str) -> &'v str {
    names[field].as_str().unwrap_or_default()
}

/// The names in a field, which has one or a list of them.
fn texts<'v>(names: &'v Value, field: &str) -> impl Iterator<Item = &'v str> + use<'v> {
    let one = Some(text(names, field)).filter(|name| !name.is_empty());
    let list = names[field].as_array().into_iter().flatten();
    one.into_iter().chain(list.filter_map(Value::as_str))
}

fn set_or_remove(names: &mut Value, field: &str, wanted: &Value) {
    match (wanted.get(field), names.as_object_mut()) {
        (Some(value), _) => names[field] = value.clone(),
        (None, Some(names)) => drop(names.remove(field)),
        (None, None) => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn definition(kind: &str, is_accepted: bool) -> Value {
        let names = json!({"plural": kind.to_lowercase(), "kind": kind});
        let accepted = match is_accepted {
            true => names.clone(),
            false => json!({"plural": "", "kind": ""}),
        };
        json!({"spec": {"group": "a.b", "names": names}, "status": {"acceptedNames": accepted}})
    }

    #[test]
    fn only_those_who_ask_for_a_name_hear_of_it() {
        let mut names = Names::default();
        let keys: [Key; 3] = ["first", "second", "other"].map(Key::from);
        let [first, second, other] = &keys;
        let follow = |names: &mut Names, key: &Key, before: Option<&Value>, now: Option<&Value>| {
            let concerned = names.follow(key, before, now);
            concerned.iter().map(|key| key.to_string()).collect::<Vec<_>>()
        };
        let (asked, accepted) = (definition("Widget", false), definition("Widget", true));
        let gadget = definition("Gadget", true);
        assert!(follow(&mut names, first, None, Some(&asked)).is_empty());
        assert!(follow(&mut names, second, None, Some(&asked)).is_empty());
        assert_eq!(follow(&mut names, other, None, Some(&gadget)), ["other"]);
        let heard = follow(&mut names, first, Some(&asked), Some(&accepted));
        assert_eq!(heard, ["first", "second"]);
        assert!(names.accepted(first, &accepted).1.is_none());
        let (_, conflict) = names.accepted(second, &asked);
        assert_eq!(conflict.unwrap().0, "KindConflict");
        assert_eq!(follow(&mut names, first, Some(&accepted), None), ["second"]);
        assert!(names.accepted(second, &asked).1.is_none());
        follow(&mut names, second, Some(&asked), None);
        follow(&mut names, other, Some(&gadget), None);
        assert!(names.0.is_empty());
    }
}
