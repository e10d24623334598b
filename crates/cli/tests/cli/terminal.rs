//! Output on a pseudo-terminal: colours, the live view, and a progress bar for long lists.
#![cfg(target_os = "linux")]

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::process::{Command, Stdio};

use crate::process::{Harbour, PROGRAM};
use rustix::fs::OFlags;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use serde_json::json;
use watchkeeper_wire::schema::resources;

/// Moves to the beginning of the line and erases it.
const WIPE: &str = "\r\x1b[K";

/// A terminal: data written to `device` can be read from `screen`.
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
        // Not as the controlling terminal of this test.
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

    /// Everything written until the other side is closed.
    fn read(self) -> String {
        let Self { mut screen, device } = self;
        drop(device);
        let (mut bytes, mut buffer) = (Vec::new(), [0; 4096]);
        // The end of a terminal is an error: the other side is closed.
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

/// More than the rate limit allows at once, so that reading them one by one takes time.
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

    // The list goes to a file; the bar is still on the screen.
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

    // Without a terminal there is no bar.
    let output = list().output().unwrap();
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "");
}

/// Reads the screen until it shows a text. Fails if the program ends before.
fn read_until(mut screen: &File, text: &str) -> String {
    let (mut shown, mut buffer) = (Vec::new(), [0; 4096]);
    loop {
        let count = screen.read(&mut buffer).expect("the program runs");
        shown.extend_from_slice(&buffer[..count]);
        let shown = String::from_utf8_lossy(&shown);
        if shown.contains(text) {
            return shown.into_owned();
        }
    }
}

#[test]
fn the_full_screen_view_follows_keys_and_leaves_the_terminal_as_it_was() {
    let harbour = Harbour::new();
    let terminal = Terminal::new();
    let size = Winsize {
        ws_row: 20,
        ws_col: 100,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    tcsetwinsize(&terminal.device, size).unwrap();
    let mut command = harbour.command("view namespaces,configmaps");
    command
        .stdin(terminal.stdio())
        .stdout(terminal.stdio())
        .stderr(terminal.stdio());
    let mut child = command.spawn().unwrap();
    // Only the program has the terminal now.
    let Terminal { screen, device } = terminal;
    drop((command, device));
    let shown = read_until(&screen, "kube-system");
    assert!(shown.contains("\x1b[?1049h"), "the alternate screen is entered");
    (&screen).write_all(b"?").unwrap();
    // One word: blanks that were there already are not written again.
    read_until(&screen, "history");
    (&screen).write_all(b"qq").unwrap();
    read_until(&screen, "\x1b[?1049l");
    assert!(child.wait().unwrap().success());
}

#[test]
fn the_full_screen_view_needs_a_terminal() {
    let output = Harbour::new().command("view").output().unwrap();
    assert_eq!(
        String::from_utf8(output.stderr).unwrap(),
        "error: view needs a terminal; `watchkeeper watch` prints lines\n"
    );
}
