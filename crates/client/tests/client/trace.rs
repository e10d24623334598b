//! The request log at each verbosity.

use std::fmt::Write;
use std::sync::{Arc, Mutex};

use crate::support::{Server, answer, unlimited};
use expect_test::{Expect, expect};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};
use watchkeeper_client::config::{Config, Credentials};
use watchkeeper_client::{Client, ClientOptions, Secret};

/// Keeps `v=6 message` of each event that has a level.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<String>>);

impl Subscriber for Lines {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("watchkeeper_client")
    }

    fn event(&self, event: &Event<'_>) {
        let mut line = Line::default();
        event.record(&mut line);
        if let Some(level) = line.level {
            writeln!(self.0.lock().unwrap(), "v={level} {}", line.message).unwrap();
        }
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[derive(Default)]
struct Line {
    level: Option<i64>,
    message: String,
}

impl Visit for Line {
    fn record_i64(&mut self, field: &Field, value: i64) {
        if field.name() == "v" {
            self.level = Some(value);
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        if field.name() == "message" {
            self.message = format!("{value:?}");
        }
    }
}

fn check(verbosity: u8, expected: Expect) {
    expected.assert_eq(&logged(verbosity, "{\"a\":1}"));
}

/// The log of a request with that answer.
fn logged(verbosity: u8, body: &str) -> String {
    let lines = Lines::default();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .unwrap();
    tracing::subscriber::with_default(lines.clone(), || {
        runtime.block_on(async {
            let server = Server::new([answer(
                200,
                &[("content-type", "application/json"), ("date", "now")],
                body.to_owned(),
            )]);
            let mut config = Config::new("https://kube:6443".parse().unwrap());
            config.credentials = Credentials::Token(Secret::new("hunter2"));
            let options = ClientOptions {
                verbosity,
                ..unlimited()
            };
            let client = Client::in_process_as(server.connector(), &config, options).unwrap();
            client.get_raw("/version", 1 << 20).await.unwrap();
        });
    });
    let text = lines.0.lock().unwrap().clone();
    assert!(!text.contains("hunter2"), "{text}");
    text
}

#[test]
fn each_level_shows_more() {
    check(5, expect![[""]]);
    check(
        6,
        expect![[r#"
            v=6 GET https://kube:6443/version 200 OK in 0 milliseconds
        "#]],
    );
    check(
        7,
        expect![[r#"
            v=7 GET https://kube:6443/version
            v=7 Request Headers:
            v=7     Accept: application/json, */*
            v=7     User-Agent: test/1.0
            v=7     Authorization: Bearer <masked>
            v=6 GET https://kube:6443/version 200 OK in 0 milliseconds
        "#]],
    );
    check(
        8,
        expect![[r#"
            v=7 GET https://kube:6443/version
            v=7 Request Headers:
            v=7     Accept: application/json, */*
            v=7     User-Agent: test/1.0
            v=7     Authorization: Bearer <masked>
            v=6 GET https://kube:6443/version 200 OK in 0 milliseconds
            v=8 Response Headers:
            v=8     Content-Type: application/json
            v=8     Date: now
            v=8 Response Body: {"a":1}
        "#]],
    );
    check(
        9,
        expect![[r#"
            v=9 curl -v -XGET  -H "Accept: application/json, */*" -H "User-Agent: test/1.0" -H "Authorization: Bearer <masked>" 'https://kube:6443/version'
            v=6 GET https://kube:6443/version 200 OK in 0 milliseconds
            v=9 HTTP Statistics: DNSLookup 0 ms Dial 0 ms TLSHandshake 0 ms ServerProcessing 0 ms Duration 0 ms
            v=8 Response Headers:
            v=8     Content-Type: application/json
            v=8     Date: now
            v=8 Response Body: {"a":1}
        "#]],
    );
}

#[test]
fn more_of_a_body_is_shown_the_higher_the_level() {
    let body = "x".repeat(20_000);
    let check = |verbosity, shown: usize, ending: &str| {
        let text = logged(verbosity, &body);
        let (_, text) = text.split_once("Response Body: ").unwrap();
        assert_eq!(text, format!("{}{ending}\n", "x".repeat(shown)), "{verbosity}");
    };
    check(8, 1 << 10, " [truncated 18976 bytes]");
    check(9, 10 << 10, " [truncated 9760 bytes]");
    check(10, 20_000, "");
}
