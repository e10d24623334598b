//! The meaning of a list's `resourceVersion`.
//!
//! Every list shows the objects at the version it states; the checks differ in which version that may be.

use std::time::Duration;

use futures_util::future::BoxFuture;
use watchkeeper_meta::{ListOptions, ResourceVersion, ResourceVersionMatch};

use super::{Options, Verdicts, kept};
use crate::check::Check;
use crate::objects::{Listed, Objects, Stop, text};
use crate::promises::Selection;

const WRITES: usize = 8;
const COLOURS: [&str; 2] = ["red", "blue"];
/// A version no server reaches during a check.
const FAR: u64 = 1_000_000_000;
/// kube-apiserver waits three seconds for a version that is not reached yet.
const LONGEST_REFUSAL: Duration = Duration::from_secs(5);

pub(super) fn latest<'a>(objects: &'a mut Objects, _: &'a Options) -> BoxFuture<'a, Result<Verdicts, Stop>> {
    Box::pin(async move {
        for index in 0..WRITES {
            let written = some_write(objects, index).await?;
            let listed = list(objects, ListOptions::default()).await?;
            not_older(&listed, written)?;
        }
        objects.delete("a").await?;
        let written = objects.write("b", "red").await?;
        let listed = list(objects, ListOptions::default()).await?;
        not_older(&listed, written)?;
        kept(Check::ListLatest)
    })
}

pub(super) fn any<'a>(objects: &'a mut Objects, _: &'a Options) -> BoxFuture<'a, Result<Verdicts, Stop>> {
    Box::pin(async move {
        for index in 0..WRITES {
            some_write(objects, index).await?;
            let options = ListOptions {
                resource_version: ResourceVersion::any(),
                ..ListOptions::default()
            };
            list(objects, options).await?;
        }
        kept(Check::ListAny)
    })
}

pub(super) fn not_older_than<'a>(
    objects: &'a mut Objects,
    _: &'a Options,
) -> BoxFuture<'a, Result<Verdicts, Stop>> {
    Box::pin(async move {
        for index in 0..WRITES {
            let written = some_write(objects, index).await?;
            let options = at(written, ResourceVersionMatch::NotOlderThan);
            not_older(&list(objects, options).await?, written)?;
        }
        kept(Check::ListNotOlderThan)
    })
}

pub(super) fn exact<'a>(objects: &'a mut Objects, _: &'a Options) -> BoxFuture<'a, Result<Verdicts, Stop>> {
    Box::pin(async move {
        let mut versions = Vec::new();
        for index in 0..WRITES {
            versions.push(some_write(objects, index).await?);
        }
        let mut answered = 0;
        for version in versions.into_iter().rev() {
            let options = at(version, ResourceVersionMatch::Exact);
            let listed = match objects.list(&Selection::default(), options).await {
                // The server may compact at any time.
                Err(error) if error.is_expired() => continue,
                listed => listed?,
            };
            if listed.version != version {
                return Err(Stop::Broken(format!(
                    "asked for exactly {version}, the list is of {}",
                    listed.version
                )));
            }
            objects.judge(&Selection::default(), &listed)?;
            answered += 1;
        }
        match answered {
            0 => Err(Stop::Skipped(
                "every version of the last seconds has expired".to_owned(),
            )),
            _ => kept(Check::ListExact),
        }
    })
}

pub(super) fn future<'a>(
    objects: &'a mut Objects,
    options: &'a Options,
) -> BoxFuture<'a, Result<Verdicts, Stop>> {
    Box::pin(async move {
        let newest = objects.write("a", "red").await?;
        let wanted = at(newest + FAR, ResourceVersionMatch::NotOlderThan);
        // Servers answer "try again later", and clients retry. No answer at all is not a violation.
        let enough = options.patience.min(LONGEST_REFUSAL);
        objects.api = objects.api.clone().timeout(enough);
        match objects.list(&Selection::default(), wanted).await {
            Err(_) => kept(Check::ListFuture),
            Ok(listed) => Err(Stop::Broken(format!(
                "asked for nothing older than {}, the list is of {}",
                newest + FAR,
                listed.version
            ))),
        }
    })
}

async fn some_write(objects: &mut Objects, index: usize) -> Result<u64, Stop> {
    let name = ["a", "b", "c"][index % 3];
    objects.write(name, COLOURS[index % 2]).await
}

/// A list, after checking that it shows its version.
async fn list(objects: &Objects, options: ListOptions) -> Result<Listed, Stop> {
    let listed = objects.list(&Selection::default(), options).await?;
    objects.judge(&Selection::default(), &listed)?;
    Ok(listed)
}

fn at(version: u64, resource_version_match: ResourceVersionMatch) -> ListOptions {
    ListOptions {
        resource_version: text(version),
        resource_version_match: Some(resource_version_match),
        ..ListOptions::default()
    }
}

fn not_older(listed: &Listed, version: u64) -> Result<(), Stop> {
    match listed.version < version {
        true => Err(Stop::Broken(format!(
            "the list is of {}, after a write at {version}",
            listed.version
        ))),
        false => Ok(()),
    }
}
