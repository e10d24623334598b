//! Prints what klog prints for the same program in Go.

use std::error::Error;
use std::fmt;
use std::io;
use std::sync::Arc;

use expect_test::{Expect, expect};
use jiff::civil;
use jiff::tz::TimeZone;
use parking_lot::Mutex;
use tracing_subscriber::prelude::*;
use watchkeeper_logging::{
    Clock, Format, Formatter, KlogLayer, LevelStyle, ObjectRef, Options, TimeStyle, Verbosity, Writer, bare,
    named, vlog,
};

/// A writer whose text can be read while it is in use.
#[derive(Clone, Default)]
struct Screen(Arc<Mutex<Vec<u8>>>);

impl io::Write for Screen {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Screen {
    /// The printed text, without the line numbers of this file.
    fn text(&self) -> String {
        let text = String::from_utf8(self.0.lock().clone()).unwrap();
        let mut out = String::new();
        let mut rest = text.as_str();
        while let Some((before, after)) = rest.split_once("klog.rs:") {
            out += before;
            out += "main.rs:_";
            rest = after.trim_start_matches(|c: char| c.is_ascii_digit());
        }
        out + rest
    }
}

/// The time of the first recorded line.
fn clock() -> Clock {
    Clock::new(|| {
        let time = civil::date(2022, 12, 23).at(15, 37, 39, 838_107_000);
        time.to_zoned(TimeZone::UTC).unwrap()
    })
}

fn run(formatter: Formatter, verbosity: &Verbosity, program: impl FnOnce()) -> String {
    let screen = Screen::default();
    let layer = KlogLayer::new(formatter, Writer::new(screen.clone()))
        .with_clock(clock())
        .with_process(8220);
    let subscriber = tracing_subscriber::registry().with(layer.with_filter(verbosity.clone()));
    tracing::subscriber::with_default(subscriber, program);
    screen.text()
}

fn check(program: impl FnOnce(), expect: Expect) {
    expect.assert_eq(&run(Formatter::default(), &Verbosity::default(), program));
}

#[test]
fn severities_are_letters() {
    check(
        || {
            tracing::info!("Info");
            tracing::warn!("Warning");
            tracing::error!("Error");
            tracing::error!(fatal = true, "Fatal");
        },
        expect![[r#"
            I1223 15:37:39.838107    8220 main.rs:_] Info
            W1223 15:37:39.838107    8220 main.rs:_] Warning
            E1223 15:37:39.838107    8220 main.rs:_] Error
            F1223 15:37:39.838107    8220 main.rs:_] Fatal
        "#]],
    );
}

struct Request;

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("GET")
    }
}

impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("{Method:GET Timeout:30 secret:pony}")
    }
}

#[test]
fn structured_messages() {
    check(
        || {
            let latency = std::time::Duration::from_secs(1);
            tracing::info!(method = "GET", URL = "/metrics", latency = %format_args!("{latency:?}"), "Received HTTP request");
            tracing::info!(request = %Request, "Request finished");
            tracing::info!(request = ?Request, "Request finished");
            tracing::info!(count = 3, ratio = 0.5, ready = true, "Numbers are not quoted");
        },
        expect![[r#"
            I1223 15:37:39.838107    8220 main.rs:_] "Received HTTP request" method="GET" URL="/metrics" latency="1s"
            I1223 15:37:39.838107    8220 main.rs:_] "Request finished" request="GET"
            I1223 15:37:39.838107    8220 main.rs:_] "Request finished" request={Method:GET Timeout:30 secret:pony}
            I1223 15:37:39.838107    8220 main.rs:_] "Numbers are not quoted" count=3 ratio=0.5 ready=true
        "#]],
    );
}

#[test]
fn objects_are_references() {
    check(
        || {
            tracing::info!(
                version = "v1.25.4",
                platform = "linux/amd64",
                goVersion = "go1.19.3",
                "Kubernetes server info"
            );
            let pod = ObjectRef::new("kube-system", "calico-kube-controllers-798cc86c47-gglzh");
            tracing::info!(pod = %pod, status = ?bare("Running"), "Random pod");
            tracing::info!(namespace = %ObjectRef::new("", "default"), "Random namespace");
            tracing::info!(namespace = "default", "Random namespace");
        },
        expect![[r#"
            I1223 15:37:39.838107    8220 main.rs:_] "Kubernetes server info" version="v1.25.4" platform="linux/amd64" goVersion="go1.19.3"
            I1223 15:37:39.838107    8220 main.rs:_] "Random pod" pod="kube-system/calico-kube-controllers-798cc86c47-gglzh" status=Running
            I1223 15:37:39.838107    8220 main.rs:_] "Random namespace" namespace="default"
            I1223 15:37:39.838107    8220 main.rs:_] "Random namespace" namespace="default"
        "#]],
    );
}

#[test]
fn errors_come_first_and_tell_their_causes() {
    check(
        || {
            let timeout: Box<dyn Error> = "timeout".into();
            tracing::error!(error = &*timeout, "Failed to update pod status");
            tracing::error!(pod = "a/b", err = %timeout, "Failed to update pod status");
            let open = watchkeeper_logging::layer::<tracing_subscriber::Registry>(
                &Options {
                    logtostderr: false,
                    log_file: Some("/nowhere/log".into()),
                    ..Options::default()
                },
                &Verbosity::default(),
            );
            let error = open.err().unwrap();
            tracing::error!(error = &error as &dyn Error, "No log");
        },
        expect![[r#"
            E1223 15:37:39.838107    8220 main.rs:_] "Failed to update pod status" err="timeout"
            E1223 15:37:39.838107    8220 main.rs:_] "Failed to update pod status" err="timeout" pod="a/b"
            E1223 15:37:39.838107    8220 main.rs:_] "No log" err="cannot open log file /nowhere/log: No such file or directory (os error 2)"
        "#]],
    );
}

#[test]
fn spans_carry_names_and_values() {
    check(
        || {
            let _foo = named("foo").entered();
            for (number, time) in ["10:50:12", "10:50:13"].into_iter().enumerate() {
                let _values = tracing::info_span!("values", time).entered();
                tracing::info!("{number}");
            }
            let _bar = named("bar").entered();
            let span = tracing::info_span!("values", pod = "a/b", count = 1, later = tracing::field::Empty);
            span.record("later", "now");
            let _span = span.entered();
            tracing::info!(count = 2, "inner values win");
        },
        expect![[r#"
            I1223 15:37:39.838107    8220 main.rs:_] "foo: 0" time="10:50:12"
            I1223 15:37:39.838107    8220 main.rs:_] "foo: 1" time="10:50:13"
            I1223 15:37:39.838107    8220 main.rs:_] "foo/bar: inner values win" pod="a/b" later="now" count=2
        "#]],
    );
}

#[test]
fn odd_values_stay_on_their_line_or_in_their_fence() {
    check(
        || {
            tracing::info!(text = "say \"hi\"\t日志", empty = "", "a \"quoted\" message");
            tracing::info!(body = "{\n  \"major\": \"1\"\n}\n", "Response");
            tracing::info!("several\nlines");
        },
        expect![[r#"
            I1223 15:37:39.838107    8220 main.rs:_] "a \"quoted\" message" text="say \"hi\"\t日志" empty=""
            I1223 15:37:39.838107    8220 main.rs:_] "Response" body=<
            	{
            	  "major": "1"
            	}
             >
            I1223 15:37:39.838107    8220 main.rs:_] several
            lines
        "#]],
    );
}

/// The recorded program: a message at each level from -3 to 5.
fn every_level() {
    for level in -3..6 {
        vlog!(level, Level = level.to_string(), "klog");
    }
}

fn levels_printed(verbosity: &Verbosity) -> Vec<i32> {
    let text = run(
        Formatter {
            skip_headers: true,
            ..Formatter::default()
        },
        verbosity,
        every_level,
    );
    let levels = text.lines().map(|line| {
        line.strip_prefix("\"klog\" Level=\"")
            .expect(line)
            .trim_end_matches('"')
    });
    levels.map(|level| level.parse().unwrap()).collect()
}

#[test]
fn levels_up_to_v_are_printed() {
    let check = |v: i32, last: i32| {
        let expected: Vec<_> = (-3..=last).collect();
        assert_eq!(
            levels_printed(&Verbosity::new(v, Default::default())),
            expected,
            "-v={v}"
        );
    };
    check(0, 0);
    check(2, 2);
    check(-1, -1);
    check(4, 4);
    check(10, 5);
}

#[test]
fn vmodule_raises_single_files() {
    let check = |vmodule: &str, last: i32| {
        let expected: Vec<_> = (-3..=last).collect();
        assert_eq!(
            levels_printed(&Verbosity::new(1, vmodule.parse().unwrap())),
            expected,
            "{vmodule}"
        );
    };
    check("klog=3", 3);
    check("k*=5,klog=2", 5);
    check("other=5", 1);
    check("klog=0", 1);
}

#[test]
fn levels_change_while_running() {
    let verbosity = Verbosity::default();
    let formatter = Formatter {
        skip_headers: true,
        ..Formatter::default()
    };
    let text = run(formatter, &verbosity, || {
        let speak = || {
            vlog!(3, "three");
            tracing::debug!("debug");
            tracing::info!("info");
        };
        speak();
        verbosity.set_v(4);
        speak();
        verbosity.set_v(-5);
        speak();
        verbosity.set_vmodule("klog=3".parse().unwrap());
        speak();
    });
    assert_eq!(text, "info\nthree\ndebug\ninfo\ninfo\nthree\ninfo\n");
}

#[test]
fn a_fixed_level_is_all_or_nothing() {
    let numbers = || (-3..6).for_each(|number| vlog!(1, Number = number.to_string(), "klog"));
    let lines = |v: i32| {
        let text = run(
            Formatter::default(),
            &Verbosity::new(v, Default::default()),
            numbers,
        );
        text.lines().count()
    };
    assert_eq!(lines(0), 0);
    assert_eq!(lines(1), 9);
}

#[test]
fn errors_are_printed_at_any_level() {
    let verbosity = Verbosity::new(-10, Default::default());
    let formatter = Formatter {
        skip_headers: true,
        ..Formatter::default()
    };
    let text = run(formatter, &verbosity, || tracing::error!(v = 5, "error log test"));
    assert_eq!(text, "error log test\n");
}

/// The recorded program for another backend.
fn server_info() {
    tracing::error!("error log test");
    vlog!(1, "我是V(1)日志");
    vlog!(
        2,
        version = "v1.25.4",
        platform = "linux/amd64",
        goVersion = "go1.19.3",
        "Kubernetes server info"
    );
    vlog!(3, "我是V(3)日志");
}

fn check_format(format: Format, time: TimeStyle, level: LevelStyle, expect: Expect) {
    let formatter = Formatter {
        format,
        time,
        level,
        ..Formatter::default()
    };
    expect.assert_eq(&run(
        formatter,
        &Verbosity::new(2, Default::default()),
        server_info,
    ));
}

#[test]
fn json() {
    check_format(
        Format::Json,
        TimeStyle::Seconds,
        LevelStyle::Lower,
        expect![[r#"
            {"level":"error","ts":1671809859.838107,"caller":"tests/main.rs:_","msg":"error log test"}
            {"level":"info","ts":1671809859.838107,"caller":"tests/main.rs:_","msg":"我是V(1)日志"}
            {"level":"info","ts":1671809859.838107,"caller":"tests/main.rs:_","msg":"Kubernetes server info","version":"v1.25.4","platform":"linux/amd64","goVersion":"go1.19.3"}
        "#]],
    );
}

#[test]
fn json_with_its_own_time_and_level() {
    check_format(
        Format::Json,
        TimeStyle::Custom("%Y-%m-%d %H:%M:%S.%2f".to_owned()),
        LevelStyle::Upper,
        expect![[r#"
            {"level":"ERROR","ts":"2022-12-23 15:37:39.83","caller":"tests/main.rs:_","msg":"error log test"}
            {"level":"INFO","ts":"2022-12-23 15:37:39.83","caller":"tests/main.rs:_","msg":"我是V(1)日志"}
            {"level":"INFO","ts":"2022-12-23 15:37:39.83","caller":"tests/main.rs:_","msg":"Kubernetes server info","version":"v1.25.4","platform":"linux/amd64","goVersion":"go1.19.3"}
        "#]],
    );
}

#[test]
fn console() {
    check_format(
        Format::Console,
        TimeStyle::Custom("%Y-%m-%d %H:%M:%S.%2f".to_owned()),
        LevelStyle::Lower,
        expect![[r#"
            2022-12-23 15:37:39.83	error	tests/main.rs:_	error log test
            2022-12-23 15:37:39.83	info	tests/main.rs:_	我是V(1)日志
            2022-12-23 15:37:39.83	info	tests/main.rs:_	Kubernetes server info	{"version": "v1.25.4", "platform": "linux/amd64", "goVersion": "go1.19.3"}
        "#]],
    );
}

#[test]
fn headers_can_be_shorter_or_longer() {
    let print = |formatter: Formatter| run(formatter, &Verbosity::default(), || tracing::info!("Info"));
    assert_eq!(
        print(Formatter {
            skip_headers: true,
            ..Formatter::default()
        }),
        "Info\n"
    );
    assert_eq!(
        print(Formatter {
            add_dir_header: true,
            ..Formatter::default()
        }),
        "I1223 15:37:39.838107    8220 tests/main.rs:_] Info\n"
    );
}

#[test]
fn an_extra_file_has_the_same_lines() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("demo.log");
    let options = Options {
        v: 2,
        logtostderr: false,
        alsologtostderr: true,
        log_file: Some(path.clone()),
        log_format: Format::Json,
        skip_log_headers: true,
        ..Options::default()
    };
    let layer = watchkeeper_logging::layer(&options, &options.verbosity()).unwrap();
    tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), server_info);
    let text = std::fs::read_to_string(path).unwrap();
    let messages: Vec<_> = text
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["msg"].clone())
        .collect();
    assert_eq!(
        messages,
        ["error log test", "我是V(1)日志", "Kubernetes server info"]
    );
}

#[test]
fn a_line_that_is_named_brings_a_stack_trace() {
    let screen = Screen::default();
    let named = line!() + 7;
    let layer = KlogLayer::new(Formatter::default(), Writer::new(screen.clone()))
        .with_clock(clock())
        .with_backtrace_at(format!("klog.rs:{named}").parse().unwrap());
    let subscriber = tracing_subscriber::registry().with(layer);
    tracing::subscriber::with_default(subscriber, || {
        tracing::info!("elsewhere");
        tracing::info!("here");
    });
    let text = screen.text();
    let (before, after) = text.split_once("] here\n").unwrap();
    assert!(before.ends_with('_') && before.lines().count() == 2, "{before}");
    assert!(
        after.contains("a_line_that_is_named_brings_a_stack_trace"),
        "{after}"
    );
}
