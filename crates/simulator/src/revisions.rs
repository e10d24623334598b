//! Controller revisions: the templates a stateful set or daemon set has had, so that a rollout can be undone.
//!
//! Revisions are numbered by when their templates were last used:
//!
//! ```text
//! create a        a=1
//! change to b     a=1 b=2
//! back to a       b=2 a=3      the revision of a is reused as the latest
//! ```

use serde_json::{Value, json};
use watchkeeper_client::Error;

use crate::cluster::Cluster;
use crate::item::Item;
use crate::kinds::controller_revisions;

/// On pods: the template they were created from.
pub(crate) const HASH_LABEL: &str = "controller-revision-hash";

/// The default number of old revisions that are kept.
const KEPT: i64 = 10;

/// The revisions of an object, oldest first; the last one is its current template.
pub(crate) struct Revisions {
    all: Vec<Item>,
}

impl Revisions {
    /// Reads them, creating one for the current template if necessary.
    pub(crate) async fn of(cluster: &Cluster, owner: &Item) -> Result<Self, Error> {
        let mut all = cluster.claim(owner, &controller_revisions(), |_| true).await?;
        all.sort_by_key(|revision| (revision.number("/revision"), revision.name().to_owned()));
        let data = data(owner);
        let next = all.last().map_or(0, |latest| latest.number("/revision")) + 1;
        match all.iter().position(|revision| revision["data"] == data) {
            Some(latest) if latest + 1 == all.len() => {}
            Some(known) => {
                let known = all.remove(known);
                let renumbered = json!({"revision": next});
                let renumbered = cluster.merge(&controller_revisions(), &known, renumbered).await?;
                all.push(Item::read(&renumbered));
            }
            None => all.push(create(cluster, owner, data, next).await?),
        }
        Ok(Self { all })
    }

    /// The revision of the current template.
    pub(crate) fn latest(&self) -> &Item {
        // `of` always ends with one.
        &self.all[self.all.len() - 1]
    }

    /// The one of this name.
    pub(crate) fn named(&self, name: &str) -> Option<&Item> {
        self.all.iter().find(|revision| revision.name() == name)
    }

    /// Deletes the oldest revisions that are neither kept nor in use.
    pub(crate) async fn trim(
        &self,
        cluster: &Cluster,
        owner: &Item,
        is_used: impl Fn(&Item) -> bool,
    ) -> Result<(), Error> {
        let kept = owner.at("/spec/revisionHistoryLimit").as_i64().unwrap_or(KEPT);
        let old = self.all[..self.all.len() - 1].iter();
        let unused: Vec<&Item> = old.filter(|revision| !is_used(revision)).collect();
        let surplus = unused
            .len()
            .saturating_sub(usize::try_from(kept).unwrap_or_default());
        for revision in &unused[..surplus] {
            cluster.delete(&controller_revisions(), revision, None).await?;
        }
        Ok(())
    }
}

/// The template in a revision.
pub(crate) fn template(revision: &Item) -> Value {
    let mut template = revision["data"]["spec"]["template"].clone();
    if let Some(fields) = template.as_object_mut() {
        fields.remove("$patch");
    }
    template
}

/// The hash of a revision's template.
pub(crate) fn hash(revision: &Item) -> String {
    revision.label(HASH_LABEL).unwrap_or_default().into_owned()
}

/// A patch that restores the template.
fn data(owner: &Item) -> Value {
    let mut template = owner["spec"]["template"].clone();
    template["$patch"] = json!("replace");
    json!({"spec": {"template": template}})
}

async fn create(cluster: &Cluster, owner: &Item, data: Value, number: i64) -> Result<Item, Error> {
    let hash = short_hash(&data.to_string());
    let mut labels = owner["spec"]["template"]["metadata"]["labels"].clone();
    labels[HASH_LABEL] = json!(hash);
    let revision = json!({
        "metadata": {
            "name": format!("{}-{hash}", owner.name()),
            "labels": labels,
            "annotations": owner["metadata"]["annotations"],
            "ownerReferences": [owner.as_controller()],
        },
        "data": data,
        "revision": number,
    });
    let created = cluster
        .create(&controller_revisions(), owner.namespace(), revision)
        .await?;
    Ok(Item::read(&created))
}

/// Ten letters and digits without vowels: stable for the same text, also across upgrades.
pub(crate) fn short_hash(text: &str) -> String {
    const LETTERS: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
    // FNV-1a, 64 bits: collisions between templates of one object are negligible.
    let mut hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let letter = |_| {
        let letter = LETTERS[(hash % 27) as usize];
        hash /= 27;
        char::from(letter)
    };
    (0..10).map(letter).collect()
}

#[cfg(test)]
mod tests {
    use super::short_hash;

    #[test]
    fn the_same_text_has_the_same_hash_forever() {
        assert_eq!(short_hash("web:1").len(), 10);
        assert_eq!(short_hash("web:1"), short_hash("web:1"));
        assert_ne!(short_hash("web:1"), short_hash("web:2"));
    }
}
