//! Other backends: messages go to any subscriber of `tracing` events, those of the client included. Here they become
//! JSON, columns, and the output of a custom layer.
#![allow(clippy::print_stdout)]

use tracing::instrument::WithSubscriber as _;
use tracing::{Event, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};
use watchkeeper::client::{Client, ClientOptions, Config};
use watchkeeper_logging::{Format, Formatter, KlogLayer, LevelStyle, TimeStyle, Writer};
use watchkeeper_testing::Sandbox;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let sandbox = Sandbox::open(Default::default()).await?;
    for format in [Format::Json, Format::Console] {
        let formatter = Formatter {
            format,
            time: TimeStyle::Custom("%Y-%m-%d %H:%M:%S.%2f".to_owned()),
            level: LevelStyle::Upper,
            ..Default::default()
        };
        let layer = KlogLayer::new(formatter, Writer::new(std::io::stdout()));
        let backend = tracing_subscriber::registry().with(layer);
        ask(sandbox.config()).with_subscriber(backend).await?;
    }
    let backend = tracing_subscriber::registry().with(Names);
    ask(sandbox.config()).with_subscriber(backend).await?;
    sandbox.close().await?;
    Ok(())
}

/// Sends a request with a client that logs it.
async fn ask(config: &Config) -> Result<(), Box<dyn std::error::Error>> {
    let options = ClientOptions {
        verbosity: 6,
        ..Default::default()
    };
    let version = Client::new(config, options)?.server_version().await?;
    tracing::info!(version = %version.git_version, platform = %version.platform, "Kubernetes server info");
    Ok(())
}

/// A custom backend: prints only the source of each message.
struct Names;

impl<S: Subscriber> Layer<S> for Names {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        println!("{} {}", event.metadata().level(), event.metadata().target());
    }
}
