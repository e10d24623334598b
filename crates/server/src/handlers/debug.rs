//! Fault injection over HTTP, for clients in other processes: only for administrators, and only on servers started
//! with debug endpoints.
//!
//! ```text
//! POST /debug/compact?revision=N       compact the history before revision N
//! POST /debug/streams?flow=cut         cut, end, stall or run open streams (&resource=, &namespace=, &name=)
//! POST /debug/connections?refuse=true  refuse new connections, or stop doing so
//! ```

use http::{Method, StatusCode};
use watchkeeper_meta::{QueryParams, Status};
use watchkeeper_storage::Revision;

use crate::faults::{Flow, RequestMatch};
use crate::filter::Call;
use crate::respond::{Answer, Failure, text};

pub(super) async fn debug(call: &Call, what: &str) -> Result<Answer, Failure> {
    if !call.server.debug_endpoints {
        return Err(Failure::NoSuchPage);
    }
    if call.head.method != Method::POST {
        return Err(Status::method_not_allowed().into());
    }
    let query = QueryParams::parse(call.query());
    match what {
        "compact" => compact(call, &query).await,
        "streams" => streams(call, &query),
        "connections" => {
            call.server.faults.refuse_connections(query.flag("refuse"));
            Ok(text(StatusCode::OK, "ok\n"))
        }
        _ => Err(Failure::NoSuchPage),
    }
}

async fn compact(call: &Call, query: &QueryParams<'_>) -> Result<Answer, Failure> {
    let revision = query
        .number("revision")?
        .and_then(|number| u64::try_from(number).ok());
    let revision = revision.ok_or_else(|| Status::bad_request("revision must be a number"))?;
    let compacted = call
        .server
        .registry
        .store()
        .compact(Revision::new(revision))
        .await;
    compacted.map_err(|error| Status::bad_request(error.to_string()))?;
    Ok(text(StatusCode::OK, "ok\n"))
}

fn streams(call: &Call, query: &QueryParams<'_>) -> Result<Answer, Failure> {
    let flow = match query.text("flow") {
        "cut" => Flow::Cut,
        "end" => Flow::Ended,
        "stall" => Flow::Stalled,
        "run" => Flow::Running,
        _ => return Err(Status::bad_request("flow must be cut, end, stall or run").into()),
    };
    let wish = |name: &str| query.first(name).map(str::to_owned);
    let request = RequestMatch {
        resource: wish("resource"),
        namespace: wish("namespace"),
        name: wish("name"),
        ..RequestMatch::default()
    };
    let count = call.server.faults.set_flow(&request, flow);
    Ok(text(StatusCode::OK, format!("{count}\n")))
}
