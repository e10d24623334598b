//! The key and certificate flags of kube-apiserver.

use std::path::PathBuf;

use clap::Args;
use watchkeeper_server::{Builder, FrontProxy, IdentityFiles, ServingFiles};

/// The given keys and certificates; the server makes the others.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Keys and certificates")]
pub(crate) struct IdentityFlags {
    /// File with the serving certificate and its chain; read again when it changes
    #[arg(long, value_name = "FILE", requires = "tls_private_key_file")]
    tls_cert_file: Option<PathBuf>,

    /// File with the key of that certificate
    #[arg(long, value_name = "FILE", requires = "tls_cert_file")]
    tls_private_key_file: Option<PathBuf>,

    /// File with the CA of client certificates: their common name is the user, their organizations are the groups
    #[arg(long, value_name = "FILE")]
    client_ca_file: Option<PathBuf>,

    /// Issuer of service account tokens; those of further issuers are accepted
    #[arg(long, value_name = "NAME")]
    service_account_issuer: Vec<String>,

    /// File with the key that signs service account tokens
    #[arg(long, value_name = "FILE")]
    service_account_signing_key_file: Option<PathBuf>,

    /// File with a further key that verifies service account tokens; may be repeated
    #[arg(long, value_name = "FILE")]
    service_account_key_file: Vec<PathBuf>,

    /// File with the client certificate shown to aggregated API servers
    #[arg(long, value_name = "FILE", requires = "proxy_client_key_file")]
    proxy_client_cert_file: Option<PathBuf>,

    /// File with the key of that certificate
    #[arg(long, value_name = "FILE", requires = "proxy_client_cert_file")]
    proxy_client_key_file: Option<PathBuf>,

    /// File with the CA of authenticating proxies, which name users in headers
    #[arg(long, value_name = "FILE")]
    requestheader_client_ca_file: Option<PathBuf>,

    /// Allowed common names of authenticating proxies; by default all
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    requestheader_allowed_names: Vec<String>,

    /// Headers with the user name: X-Remote-User
    #[arg(long, value_name = "HEADER,...", value_delimiter = ',')]
    requestheader_username_headers: Vec<String>,

    /// Headers with the groups: X-Remote-Group
    #[arg(long, value_name = "HEADER,...", value_delimiter = ',')]
    requestheader_group_headers: Vec<String>,

    /// Headers with the uid: X-Remote-Uid
    #[arg(long, value_name = "HEADER,...", value_delimiter = ',')]
    requestheader_uid_headers: Vec<String>,

    /// Prefixes of headers with extra attributes: X-Remote-Extra-
    #[arg(long, value_name = "PREFIX,...", value_delimiter = ',')]
    requestheader_extra_headers_prefix: Vec<String>,
}

impl IdentityFlags {
    /// True if a serving certificate is given.
    pub(crate) fn serves(&self) -> bool {
        self.tls_cert_file.is_some()
    }

    /// Applies the flags to a server. `serving` is used if no flag names a certificate.
    pub(crate) fn tell(&self, server: Builder, serving: Option<ServingFiles>) -> Builder {
        let given = self.tls_cert_file.clone().zip(self.tls_private_key_file.clone());
        let given = given.map(|(certificate, key)| ServingFiles { certificate, key });
        let proxy_client = self
            .proxy_client_cert_file
            .clone()
            .zip(self.proxy_client_key_file.clone());
        let proxy_client = proxy_client.map(|(certificate, key)| ServingFiles { certificate, key });
        server
            .service_account_issuers(&self.service_account_issuer)
            .identity_files(IdentityFiles {
                serving: given.or(serving),
                client_ca: self.client_ca_file.clone(),
                front_proxy: self.front_proxy(),
                proxy_client,
                service_account_signing_key: self.service_account_signing_key_file.clone(),
                service_account_keys: self.service_account_key_file.clone(),
            })
    }

    fn front_proxy(&self) -> Option<FrontProxy> {
        Some(FrontProxy {
            client_ca: self.requestheader_client_ca_file.clone()?,
            allowed_names: self.requestheader_allowed_names.clone(),
            username_headers: self.requestheader_username_headers.clone(),
            group_headers: self.requestheader_group_headers.clone(),
            uid_headers: self.requestheader_uid_headers.clone(),
            extra_headers_prefix: self.requestheader_extra_headers_prefix.clone(),
        })
    }
}
