//! A small `kubectl apply -f` and `delete -f`: any kind, several documents, errors reported at the end.
//!
//! `apply_tool apply -f demo.yaml` uses the cluster of `KUBECONFIG`. Without arguments it demonstrates itself in a
//! sandbox.
#![allow(clippy::print_stdout, clippy::print_stderr)]

use std::process::ExitCode;

use watchkeeper::client::{Client, DiscoveryClient, Error, Manifest};
use watchkeeper::meta::ApplyOptions;
use watchkeeper_testing::Sandbox;

type Failure = Box<dyn std::error::Error>;

#[tokio::main]
async fn main() -> Result<ExitCode, Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let errors = match arguments[..] {
        [] => show().await?,
        [command @ ("apply" | "delete"), "-f" | "--filename", file] => {
            let client = Client::from_environment()?;
            run(&client, command, file, &std::fs::read(file)?).await?
        }
        ["apply" | "delete", ..] => vec![r#"error: required flag(s) "filename" not set"#.to_owned()],
        [other, ..] => vec![format!("error: unknown command {other:?} for \"kubectl\"")],
    };
    errors.iter().for_each(|error| eprintln!("{error}"));
    Ok(ExitCode::from(u8::from(!errors.is_empty())))
}

/// Applies or deletes each object of a text. Returns the errors.
async fn run(client: &Client, command: &str, file: &str, text: &[u8]) -> Result<Vec<String>, Failure> {
    let discovery = DiscoveryClient::new(client.clone(), Default::default());
    let options = ApplyOptions {
        field_manager: "example".to_owned(),
        ..Default::default()
    };
    let mut errors = Vec::new();
    for manifest in Manifest::parse(text) {
        let manifest = manifest?;
        let api = manifest.api(&discovery, client.default_namespace()).await?;
        let name = api.resource().display_name(&manifest.name);
        let done = match command {
            "apply" => manifest
                .apply(&api, &options)
                .await
                .map(|applied| applied.to_string()),
            _ => {
                let deleted = api.delete(&manifest.name).await;
                deleted.map(|_| format!("{name} deleted"))
            }
        };
        match done {
            Ok(line) => println!("{line}"),
            Err(error) => errors.push(told(&error, file)),
        }
    }
    Ok(errors)
}

/// As kubectl prints it.
fn told(error: &Error, file: &str) -> String {
    match error.is_not_found() {
        true => format!(
            "Error from server (NotFound): error when deleting {file:?}: {}",
            error.kind()
        ),
        false => format!("The {}", error.kind()),
    }
}

/// The output of the commands, one after the other.
async fn show() -> Result<Vec<String>, Failure> {
    let sandbox = Sandbox::open(Default::default()).await?;
    let demo = include_str!("demo.yaml");
    let labelled = demo.replacen("  name: demo\n", "  name: demo\n  labels: {a: b}\n", 1);
    let invalid = demo.replacen("ClusterIP", "ClusterIP1", 1);
    for (command, text) in [
        ("apply", demo),
        ("apply", demo),
        ("apply", &labelled),
        ("delete", demo),
        ("delete", demo),
        ("apply", &invalid),
        ("delete", &invalid),
    ] {
        println!("$ apply_tool {command} -f demo.yaml");
        for error in run(sandbox.client(), command, "demo.yaml", text.as_bytes()).await? {
            println!("{error}");
        }
    }
    sandbox.close().await?;
    Ok(Vec::new())
}
