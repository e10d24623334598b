//! `init` succeeds once; a second call is refused. Its own process, because the subscriber is global.

use watchkeeper_logging::{InitError, Options, init, vlog};

#[test]
fn init_sets_up_the_process_once() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("log");
    let options = Options {
        logtostderr: false,
        log_file: Some(path.clone()),
        skip_headers: true,
        skip_log_headers: true,
        ..Options::default()
    };
    let verbosity = init(&options).unwrap();
    std::thread::spawn(|| tracing::info!("from any thread"))
        .join()
        .unwrap();
    vlog!(2, "not yet");
    verbosity.set_v(2);
    vlog!(2, "now");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "from any thread\nnow\n");
    assert!(matches!(init(&options), Err(InitError::AlreadySet)));
}
