//! Keys and certificates of one's own, as the flags of kube-apiserver say it.

use std::path::PathBuf;

use clap::Args;
use watchkeeper_server::{Builder, FrontProxy, IdentityFiles, ServingFiles};

/// Which keys and certificates are given; the server makes the others.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Keys and certificates")]
pub(crate) struct IdentityFlags {
    /// The certificate to show, with those that signed it; read again when it changes
    #[arg(long, value_name = "FILE", requires = "tls_private_key_file")]
    tls_cert_file: Option<PathBuf>,

    /// The key of that certificate
    #[arg(long, value_name = "FILE", requires = "tls_cert_file")]
    tls_private_key_file: Option<PathBuf>,

    /// Who signs client certificates: their common name is the user, their organizations are the groups
    #[arg(long, value_name = "FILE")]
    client_ca_file: Option<PathBuf>,

    /// Who issues the tokens of service accounts; those of further issuers are accepted
    #[arg(long, value_name = "NAME")]
    service_account_issuer: Vec<String>,

    /// The key that signs the tokens of service accounts
    #[arg(long, value_name = "FILE")]
    service_account_signing_key_file: Option<PathBuf>,

    /// A further key that tokens of service accounts are known by; may be repeated
    #[arg(long, value_name = "FILE")]
    service_account_key_file: Vec<PathBuf>,

    /// Who signs the certificates of proxies that name users in headers
    #[arg(long, value_name = "FILE")]
    requestheader_client_ca_file: Option<PathBuf>,

    /// The common names of proxies that are believed; all if not given
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    requestheader_allowed_names: Vec<String>,

    /// Where proxies put the name of the user: X-Remote-User
    #[arg(long, value_name = "HEADER,...", value_delimiter = ',')]
    requestheader_username_headers: Vec<String>,

    /// Where proxies put the groups of the user: X-Remote-Group
    #[arg(long, value_name = "HEADER,...", value_delimiter = ',')]
    requestheader_group_headers: Vec<String>,

    /// Where proxies put the uid of the user: X-Remote-Uid
    #[arg(long, value_name = "HEADER,...", value_delimiter = ',')]
    requestheader_uid_headers: Vec<String>,

    /// How headers begin in which proxies say more of the user: X-Remote-Extra-
    #[arg(long, value_name = "PREFIX,...", value_delimiter = ',')]
    requestheader_extra_headers_prefix: Vec<String>,
}

impl IdentityFlags {
    /// True if a certificate to show is given.
    pub(crate) fn serves(&self) -> bool {
        self.tls_cert_file.is_some()
    }

    /// Tells a server what the flags say. `serving` is shown if no flag names a certificate.
    pub(crate) fn tell(&self, server: Builder, serving: Option<ServingFiles>) -> Builder {
        let given = self.tls_cert_file.clone().zip(self.tls_private_key_file.clone());
        let given = given.map(|(certificate, key)| ServingFiles { certificate, key });
        server
            .service_account_issuers(&self.service_account_issuer)
            .identity_files(IdentityFiles {
                serving: given.or(serving),
                client_ca: self.client_ca_file.clone(),
                front_proxy: self.front_proxy(),
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
