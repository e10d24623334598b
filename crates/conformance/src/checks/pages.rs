//! A paginated list with writes between the pages: objects on later pages are created, changed and deleted.

use futures_util::future::BoxFuture;
use watchkeeper_meta::ListOptions;

use super::{Options, Verdicts, kept};
use crate::check::Check;
use crate::objects::{Objects, Stop};
use crate::promises::Selection;

const OBJECTS: usize = 11;
const PAGE: u64 = 3;
/// More pages than the list has.
const MAX_PAGES: usize = 12;

pub(super) fn run<'a>(objects: &'a mut Objects, _: &'a Options) -> BoxFuture<'a, Result<Verdicts, Stop>> {
    Box::pin(async move {
        for index in 0..OBJECTS {
            objects.write(&name(index), "red").await?;
        }
        let selection = Selection::default();
        let page = |objects: &Objects, continue_token: String| ListOptions {
            // Only our objects: there may be many others.
            label_selector: objects.ours(),
            limit: Some(PAGE),
            continue_token,
            ..ListOptions::default()
        };
        let mut whole = objects.list(&selection, page(objects, String::new())).await?;
        if whole.continue_token.is_empty() && whole.objects.len() == OBJECTS {
            return Err(Stop::Skipped(
                "the server does not cut lists into pages".to_owned(),
            ));
        }
        disturb(objects).await?;
        for _ in 1..MAX_PAGES {
            if whole.continue_token.is_empty() {
                break;
            }
            let next = page(objects, whole.continue_token.clone());
            let next = objects.list(&selection, next).await?;
            if next.version != whole.version {
                return Err(Stop::Broken(format!(
                    "the first page is of {}, another one of {}",
                    whole.version, next.version
                )));
            }
            if next.objects.len() as u64 > PAGE {
                let count = next.objects.len();
                return Err(Stop::Broken(format!(
                    "a page of {count} objects, where {PAGE} were asked for"
                )));
            }
            whole.extend(next);
        }
        objects.judge(&selection, &whole)?;
        kept(Check::Pagination)
    })
}

async fn disturb(objects: &mut Objects) -> Result<(), Stop> {
    objects.write("0-first", "blue").await?;
    objects.write(&name(OBJECTS - 1), "blue").await?;
    objects.delete(&name(OBJECTS - 2)).await?;
    objects.write("z-last", "blue").await?;
    Ok(())
}

fn name(index: usize) -> String {
    format!("object-{index:02}")
}
