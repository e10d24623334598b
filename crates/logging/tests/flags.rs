//! klog's flags on a command line.
#![cfg(feature = "clap")]

use clap::Parser;
use watchkeeper_logging::{Format, LevelStyle, Options, Severity};

#[derive(Debug, Parser)]
struct Program {
    #[command(flatten)]
    logging: Options,
}

fn parse(line: &str) -> Result<Options, String> {
    let words = std::iter::once("program").chain(line.split_whitespace());
    Program::try_parse_from(words)
        .map(|program| program.logging)
        .map_err(|error| error.to_string())
}

#[test]
fn no_flags_are_the_defaults() {
    assert_eq!(parse("").unwrap(), Options::default());
}

#[test]
fn flags_are_written_as_klog_users_write_them() {
    let check = |line: &str, expected: Options| assert_eq!(parse(line), Ok(expected), "{line}");
    for line in ["-v=4", "-v4", "-v 4", "--v=4", "--v 4"] {
        check(
            line,
            Options {
                v: 4,
                ..Options::default()
            },
        );
    }
    check(
        "-v=-1",
        Options {
            v: -1,
            ..Options::default()
        },
    );
    check(
        "--vmodule=informer=5,watch*=9",
        Options {
            vmodule: "informer=5,watch*=9".parse().unwrap(),
            ..Options::default()
        },
    );
    for line in ["--log-backtrace-at=main.rs:7", "--log_backtrace_at=main.rs:7"] {
        check(
            line,
            Options {
                log_backtrace_at: "main.rs:7".parse().unwrap(),
                ..Options::default()
            },
        );
    }
    check("--logtostderr", Options::default());
    check(
        "--logtostderr=false --alsologtostderr --stderrthreshold=WARNING",
        Options {
            logtostderr: false,
            alsologtostderr: true,
            stderrthreshold: Severity::Warning,
            ..Options::default()
        },
    );
    for line in [
        "--log-dir=/var/log --log-file=a.log --log-file-max-size=5 --skip-headers --skip-log-headers --add-dir-header --one-output",
        "--log_dir=/var/log --log_file=a.log --log_file_max_size=5 --skip_headers --skip_log_headers --add_dir_header --one_output",
    ] {
        check(
            line,
            Options {
                log_dir: Some("/var/log".into()),
                log_file: Some("a.log".into()),
                log_file_max_size: 5,
                skip_headers: true,
                skip_log_headers: true,
                add_dir_header: true,
                one_output: true,
                ..Options::default()
            },
        );
    }
    check(
        "--log-format=json --log-time-format=%T --log-level-style=upper",
        Options {
            log_format: Format::Json,
            log_time_format: Some("%T".to_owned()),
            log_level_style: LevelStyle::Upper,
            ..Options::default()
        },
    );
}

#[test]
fn bad_flags_are_named() {
    let check = |line: &str, part: &str| {
        let error = parse(line).unwrap_err();
        assert!(error.contains(part), "{error}");
    };
    check("-v=x", "invalid value 'x' for '--v <LEVEL>'");
    check("--vmodule=a", "expect comma-separated list of filename=N");
    check("--stderrthreshold=LOUD", "is not a severity");
    check("--log-format=xml", "possible values: text, json, console");
}
