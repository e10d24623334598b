//! A cluster in this process: the server's handle and a client that needs no port.

use watchkeeper_client::config::Credentials;
use watchkeeper_client::{Client, ClientOptions, Config, InProcess, Secret};
use watchkeeper_server::Handle;

use crate::failure::Failure;

/// A client of a server in this process, as its administrator.
pub(crate) fn client(server: &Handle, options: ClientOptions) -> Result<Client, Failure> {
    let connector = server.connector();
    let connect = InProcess::new(move || {
        let connector = connector.clone();
        async move { connector.connect().await }
    });
    let mut config = Config::new(http::Uri::from_static("http://localhost"));
    config.credentials = Credentials::Token(Secret::new(server.admin_token().reveal()));
    Ok(Client::in_process_as(connect, &config, options)?)
}
