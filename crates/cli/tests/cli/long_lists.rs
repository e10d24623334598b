//! The cost of a long list: no more than what is printed, and no longer than it is read.

use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::Arc;

use crate::support::World;
use watchkeeper_cli::Output;
use watchkeeper_client::{ClientOptions, RequestMetrics};
use watchkeeper_meta::{Collect as _, MetricsText};

/// Far more than everything else the command requests.
const LARGE: usize = 400_000;

/// A cluster with three large config maps, and a client with metrics.
async fn with_large_maps() -> (World, Arc<RequestMetrics>) {
    let mut world = World::new().await;
    for name in ["a", "b", "c"] {
        let manifest = format!(
            "{{apiVersion: v1, kind: ConfigMap, metadata: {{name: {name}}}, data: {{noise: \"{}\"}}}}",
            noise()
        );
        world.write("map.yaml", &manifest);
        world.run("create -f @map.yaml").await;
    }
    let metrics = Arc::new(RequestMetrics::default());
    let options = ClientOptions {
        metrics: Some(metrics.clone()),
        ..watchkeeper_testing::unlimited()
    };
    world.client = watchkeeper_testing::client_of(&world.server, options).unwrap();
    (world, metrics)
}

/// Text that does not compress well.
fn noise() -> String {
    let mut state = 1_u32;
    let letter = |_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        char::from(b'a' + (state >> 24) as u8 % 26)
    };
    (0..LARGE).map(letter).collect()
}

/// The sum of a metric over all requests.
fn sum(metrics: &RequestMetrics, name: &str) -> usize {
    let mut text = MetricsText::default();
    metrics.collect(&mut text);
    let text = text.into_string();
    let lines = text.lines().filter(|line| line.starts_with(&format!("{name}{{")));
    let values = lines.map(|line| line.rsplit(' ').next().unwrap().parse::<usize>().unwrap());
    values.sum()
}

#[tokio::test]
async fn names_cost_no_more_than_metadata() {
    let received = |metrics: &RequestMetrics| sum(metrics, "rest_client_response_size_bytes_sum");
    let names = "configmap/a\nconfigmap/b\nconfigmap/c\n";
    for line in ["get cm -o name", "get cm a b c -o name"] {
        let (world, metrics) = with_large_maps().await;
        assert_eq!(world.run(line).await, names);
        let bytes = received(&metrics);
        assert!(
            0 < bytes && bytes < LARGE,
            "{line}: {bytes} bytes for three names"
        );
    }
    let (world, metrics) = with_large_maps().await;
    world.run("get cm -o json").await;
    let bytes = received(&metrics);
    assert!(bytes > LARGE, "{bytes} bytes for three objects");
}

/// A reader that closes early.
struct Closed;

impl Write for Closed {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        Err(io::ErrorKind::BrokenPipe.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn nothing_more_is_asked_for_when_nobody_reads_on() {
    let (world, metrics) = with_large_maps().await;
    let requests = || sum(&metrics, "rest_client_requests_total");
    world.run("get cm -o name --chunk-size=0").await;
    let of_one_page = requests();
    for format in ["name", "json", "yaml"] {
        let before = requests();
        let (err, errors) = Output::kept();
        let mut session = world.session(Output::new(Closed), err, "");
        let words = world.words(&format!("get cm,svc -o {format} --chunk-size=1"));
        let code = watchkeeper_cli::run(words, &mut session).await;
        assert_eq!(code, ExitCode::from(141), "as the shell says of SIGPIPE");
        assert_eq!(errors.lock().unwrap().len(), 0);
        assert_eq!(
            requests() - before,
            of_one_page,
            "{format} asked for what nobody reads"
        );
    }
}
