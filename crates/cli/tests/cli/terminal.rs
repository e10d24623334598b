//! What a person at a terminal sees, on a pseudo-terminal: colours, the live view, and a bar for long lists.
#![cfg(target_os = "linux")]

use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::process::{Command, Stdio};

use crate::process::{Harbour, PROGRAM};
use rustix::fs::OFlags;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use serde_json::json;
use watchkeeper_wire::schema::resources;

/// Moves to the beginning of the line and wipes it.
const WIPE: &str = "\r\x1b[K";

/// A terminal: whatever is written to `device` can be read from `screen`.
struct Terminal {
    screen: File,
    device: File,
}

impl Terminal {
    fn new() -> Self {
        let screen = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&screen).unwrap();
        unlockpt(&screen).unwrap();
        let name = ptsname(&screen, Vec::new()).unwrap().into_string().unwrap();
        // Not as the terminal that controls this test.
        let flags = i32::try_from(OFlags::NOCTTY.bits()).unwrap();
        let device = File::options()
            .read(true)
            .write(true)
            .custom_flags(flags)
            .open(name);
        Self {
            screen: screen.into(),
            device: device.unwrap(),
        }
    }

    fn stdio(&self) -> Stdio {
        self.device.try_clone().unwrap().into()
    }

    /// Everything written until nobody can write any more.
    fn read(self) -> String {
        let Self { mut screen, device } = self;
        drop(device);
        let (mut bytes, mut buffer) = (Vec::new(), [0; 4096]);
        // The end of a terminal is an error: nobody holds the other side.
        while let Ok(count @ 1..) = screen.read(&mut buffer) {
            bytes.extend_from_slice(&buffer[..count]);
        }
        String::from_utf8(bytes).unwrap().replace("\r\n", "\n")
    }
}

/// Runs the program with everything on a terminal.
fn run(mut command: Command) -> String {
    let terminal = Terminal::new();
    command
        .stdin(terminal.stdio())
        .stdout(terminal.stdio())
        .stderr(terminal.stdio());
    let mut child = command.spawn().unwrap();
    drop(command);
    let screen = terminal.read();
    assert!(child.wait().unwrap().success(), "{screen}");
    screen
}

fn demo() -> Command {
    let mut demo = Command::new(PROGRAM);
    demo.args(["demo", "--pace", "0s", "--for", "5m"])
        .env_remove("NO_COLOR");
    demo
}

#[test]
fn the_live_view_has_colours() {
    let screen = run(demo());
    for line in [
        "\x1b[36m>\x1b[0m \x1b[1m",
        "\x1b[32mADDED\x1b[0m      demo          deployment.apps/web ",
        "\x1b[33mMODIFIED\x1b[0m   demo          pod/web-",
        "\x1b[31mDELETED\x1b[0m    demo          service/web ",
        "\nWhat to type next:\n",
    ] {
        assert!(screen.contains(line), "{line:?} is not in\n{screen}");
    }
}

#[test]
fn who_wants_no_colours_gets_none() {
    let mut demo = demo();
    demo.env("NO_COLOR", "1");
    let screen = run(demo);
    assert!(
        screen.contains("\nADDED      demo          deployment.apps/web "),
        "{screen}"
    );
    assert!(!screen.contains('\x1b'), "{screen}");
}

/// More than the rate limit lets through at once, so that reading them one by one takes its time.
const MANY: usize = 340;

fn with_many_config_maps() -> Harbour {
    let harbour = Harbour::new();
    let maps = resources::by_plural("", "v1", "configmaps")
        .unwrap()
        .resource
        .clone();
    harbour.wait(async {
        let client =
            watchkeeper_testing::client_of(&harbour.server, watchkeeper_testing::unlimited()).unwrap();
        let maps = client.dynamic(maps).namespace("default");
        for number in 0..MANY {
            let name = format!("map-{number:03}");
            let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
            maps.create(&map).await.unwrap();
        }
    });
    harbour
}

#[test]
fn a_long_list_shows_how_far_it_is_and_leaves_nothing_behind() {
    let harbour = with_many_config_maps();
    let list = || harbour.command("get cm --no-headers --chunk-size 1");

    let screen = run(list());
    let bars = screen.matches(&format!("of {MANY}")).count();
    assert!(bars > 1, "{screen}");
    let left: Vec<_> = screen
        .lines()
        .map(|line| line.rsplit(WIPE).next().unwrap_or(line))
        .collect();
    assert_eq!(left.len(), MANY, "one line per object: {screen}");
    assert!(left.iter().all(|line| line.starts_with("map-")), "{screen}");

    // The list goes to a file, and the bar is on the screen none the less.
    let terminal = Terminal::new();
    let mut command = list();
    let child = command
        .stdout(Stdio::piped())
        .stderr(terminal.stdio())
        .spawn()
        .unwrap();
    drop(command);
    let output = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap().lines().count(), MANY);
    let screen = terminal.read();
    assert!(
        screen.contains(&format!("of {MANY}")) && screen.ends_with(WIPE),
        "{screen:?}"
    );

    // Where nobody looks there is none.
    let output = list().output().unwrap();
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "");
}
