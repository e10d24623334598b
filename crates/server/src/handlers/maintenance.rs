//! Maintenance of the store of a running server. Allowed only for administrators and users whose role names these
//! paths in `nonResourceURLs`: a backup contains every secret.
//!
//! ```text
//! GET  /maintenance/v1/backup       a backup of one revision, for `watchkeeper restore`
//! GET  /maintenance/v1/status       revisions, and the size of the store
//! POST /maintenance/v1/compact      compact all history
//! POST /maintenance/v1/defragment   return free space to the file system; blocks writes meanwhile
//! ```

use http::header::CONTENT_TYPE;
use http::{HeaderValue, Method, Response};
use serde_json::json;
use watchkeeper_meta::Status;
use watchkeeper_storage::{Store, WriteError};

use crate::body::{ResponseBody, StreamCut};
use crate::filter::Call;
use crate::respond::{self, Answer, Failure};

pub(super) async fn maintenance(call: &Call, what: &str) -> Result<Answer, Failure> {
    let store = call.server.registry.store();
    let method = &call.head.method;
    match what {
        "backup" if method == Method::GET => backup(store).await,
        "status" if method == Method::GET => Ok(status(store)),
        "compact" if method == Method::POST => done(store, store.compact(store.current_revision()).await),
        "defragment" if method == Method::POST => {
            if store.is_shared() {
                let why = "the store is in etcd: defragment its members with etcdctl";
                return Err(Status::bad_request(why).into());
            }
            done(store, store.defragment().await)
        }
        "backup" | "status" | "compact" | "defragment" => Err(Status::method_not_allowed().into()),
        _ => Err(Failure::NoSuchPage),
    }
}

/// Streamed in pieces: a slow reader costs the keys and values that have changed since.
async fn backup(store: &Store) -> Result<Answer, Failure> {
    store.refresh().await.map_err(Status::internal_error)?;
    let pieces = store.backup().map(|piece| {
        piece.map_err(|error| {
            tracing::error!(%error, "a backup is cut off");
            StreamCut
        })
    });
    let mut answer = Response::new(ResponseBody::Pieces(Box::new(pieces)));
    let media_type = HeaderValue::from_static("application/octet-stream");
    answer.headers_mut().insert(CONTENT_TYPE, media_type);
    Ok(answer)
}

fn done(store: &Store, result: Result<(), WriteError>) -> Result<Answer, Failure> {
    result.map_err(Status::internal_error)?;
    Ok(status(store))
}

fn status(store: &Store) -> Answer {
    let usage = store.usage();
    let document = json!({
        "revision": store.current_revision().get(),
        "compactedRevision": store.compacted_revision().get(),
        "usedBytes": usage.used_bytes,
        "fileBytes": usage.file_bytes,
        "quotaBytes": usage.quota_bytes,
        "alarms": if usage.is_full { vec!["NOSPACE"] } else { Vec::new() },
    });
    respond::json(&document, true)
}
