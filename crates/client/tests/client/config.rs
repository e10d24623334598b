//! Configuration from real files.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use watchkeeper_client::config::{Credentials, Environment, Kubeconfig, Material, Overrides};
use watchkeeper_client::{Client, ClientOptions, Config, ConfigError, LoadOptions, Secret};

/// A directory with files, and an environment of only what the test sets.
struct Home(tempfile::TempDir);

impl Home {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path
    }

    fn options(&self, variables: &[(&str, &str)]) -> LoadOptions {
        let mut all = BTreeMap::from([("HOME".to_owned(), self.0.path().display().to_string())]);
        all.extend(
            variables
                .iter()
                .map(|&(name, value)| (name.to_owned(), value.to_owned())),
        );
        LoadOptions {
            environment: Environment {
                variables: all,
                service_account: self.path("serviceaccount"),
            },
            ..Default::default()
        }
    }

    fn load(&self, variables: &[(&str, &str)]) -> Result<Config, ConfigError> {
        Config::load(&self.options(variables))
    }
}

/// A kubeconfig with one cluster, user and context, all called `name`.
fn kubeconfig(name: &str, cluster: Value, user: Value) -> String {
    json!({
        "apiVersion": "v1", "kind": "Config", "current-context": name,
        "clusters": [{"name": name, "cluster": cluster}],
        "users": [{"name": name, "user": user}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name, "namespace": format!("ns-{name}")}}],
    })
    .to_string()
}

fn with(overrides: Overrides, options: LoadOptions) -> LoadOptions {
    LoadOptions { overrides, ..options }
}

#[test]
fn an_explicit_file_must_exist() {
    let home = Home::new();
    let path = home.path("missing");
    let options = LoadOptions {
        path: Some(path.clone()),
        ..home.options(&[])
    };
    let error = Config::load(&options).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("kube config file not found: {}", path.display())
    );
}

#[test]
fn kubeconfig_files_take_precedence_over_the_home_directory_in_order() {
    let home = Home::new();
    home.write(
        ".kube/config",
        &kubeconfig("home", json!({"server": "https://home"}), json!({})),
    );
    assert_eq!(home.load(&[]).unwrap().server, "https://home/");

    let a = home.write(
        "a",
        &kubeconfig("a", json!({"server": "https://a"}), json!({"token": "one"})),
    );
    let b = home.write(
        "b",
        &kubeconfig("b", json!({"server": "https://b"}), json!({"token": "two"})),
    );
    let list = format!(
        "{}:{}:{}::{}",
        home.path("none").display(),
        a.display(),
        b.display(),
        a.display()
    );
    let config = home.load(&[("KUBECONFIG", &list)]).unwrap();
    assert_eq!(
        (config.server.host(), config.namespace.as_str()),
        (Some("a"), "ns-a")
    );

    let options = home.options(&[("KUBECONFIG", &list)]);
    let overrides = Overrides {
        context: Some("b".to_owned()),
        ..Default::default()
    };
    assert_eq!(
        Config::load(&with(overrides, options.clone()))
            .unwrap()
            .server
            .host(),
        Some("b")
    );
    let overrides = Overrides {
        context: Some("c".to_owned()),
        ..Default::default()
    };
    assert_eq!(
        Config::load(&with(overrides, options)).unwrap_err().to_string(),
        "context \"c\" is in no kubeconfig file; there are: a, b"
    );
}

/// A context whose cluster and user are in no file.
#[test]
fn a_context_without_entries_is_completed_by_the_command_line() {
    let home = Home::new();
    let context = json!({"cluster": "gone", "user": "gone", "namespace": "n"});
    let there = json!({"name": "there", "cluster": {"server": "https://a"}});
    let file = json!({
        "current-context": "x", "clusters": [there], "contexts": [{"name": "x", "context": context}],
    });
    home.write(".kube/config", &file.to_string());
    let load = |overrides| Config::load(&with(overrides, home.options(&[])));
    let unknown =
        |what: &str, known: &str| format!("{what} \"gone\" is in no kubeconfig file; there are: {known}");
    assert_eq!(
        load(Overrides::default()).unwrap_err().to_string(),
        unknown("cluster", "there")
    );
    let there = || Overrides {
        cluster: Some("there".to_owned()),
        ..Default::default()
    };
    let nobody = load(there()).unwrap();
    assert!(matches!(nobody.credentials, Credentials::Anonymous));
    assert_eq!(nobody.namespace, "n");
    let somebody = load(Overrides {
        token: Some(Secret::new("typed")),
        ..there()
    });
    assert!(matches!(somebody.unwrap().credentials, Credentials::Token(_)));
    let server = load(Overrides {
        server: Some("https://b".to_owned()),
        ..Default::default()
    });
    assert_eq!(server.unwrap().server.host(), Some("b"));
    let error = load(Overrides {
        user: Some("gone".to_owned()),
        ..there()
    });
    assert_eq!(
        error.unwrap_err().to_string(),
        unknown("user", "none"),
        "an entry requested by name must exist"
    );
}

#[test]
fn a_key_without_a_certificate_is_ignored() {
    let home = Home::new();
    let user = json!({"client-key": "key", "token": "t"});
    home.write(
        ".kube/config",
        &kubeconfig("x", json!({"server": "https://a"}), user),
    );
    let config = home.load(&[]).unwrap();
    assert!(config.tls.identity.is_none());
    assert!(matches!(config.credentials, Credentials::Token(_)));
}

#[test]
fn files_are_yaml_as_kubectl_writes_it() {
    let home = Home::new();
    home.write(
        ".kube/config",
        "apiVersion: v1
clusters:
- cluster:
    certificate-authority-data: aGVs
      bG8=
    server: https://kube:6443
  name: minikube
contexts:
- context: {cluster: minikube, user: minikube}
  name: minikube
current-context: minikube
kind: Config
preferences: {}
users:
- name: minikube
  user:
    username: 'yes'
    password: \"0644\"
",
    );
    let config = home.load(&[]).unwrap();
    assert_eq!(
        (config.server.port_u16(), config.namespace.as_str()),
        (Some(6443), "default")
    );
    assert_eq!(
        config.tls.authority,
        Some(Material::Inline(b"hello".as_slice().into()))
    );
    assert!(matches!(config.credentials, Credentials::Basic { username, .. } if username == "yes"));
}

#[test]
fn errors_name_file_and_field() {
    fn check(cluster: Value, user: Value, expected: &str) {
        let home = Home::new();
        let path = home.write(".kube/config", &kubeconfig("x", cluster, user));
        let error = home.load(&[]).unwrap_err().to_string();
        assert_eq!(error, format!("{}: {expected}", path.display()));
    }
    let server = || json!({"server": "https://a"});
    check(json!({}), json!({}), "clusters[x].cluster.server: is empty");
    check(
        json!({"server": [1]}),
        json!({}),
        "clusters[0].cluster.server: invalid type: sequence, expected a string",
    );
    check(
        json!({"server": "ftp://a"}),
        json!({}),
        "clusters[x].cluster.server: \"ftp://a\" must begin with https:// or http://",
    );
    check(
        server(),
        json!({"client-key-data": "!", "client-certificate": "a"}),
        "users[x].user.client-key-data: is not base64: Invalid symbol 33, offset 0.",
    );
    check(
        server(),
        json!({"client-certificate": "a"}),
        "users[x].user.client-key: is missing, and there is a client-certificate",
    );
    check(
        server(),
        json!({"token": "a", "username": "b"}),
        "users[x].user.username: a user name and a token exclude each other",
    );
    check(
        server(),
        json!({"auth-provider": {"name": "gcp"}}),
        "users[x].user.auth-provider: provider \"gcp\" is not supported; use an exec plugin",
    );
    check(
        server(),
        json!({"exec": {"command": "aws", "apiVersion": "client.authentication.k8s.io/v1alpha1"}}),
        "users[x].user.exec.apiVersion: \"client.authentication.k8s.io/v1alpha1\" is not supported, must be one of \
         client.authentication.k8s.io/v1, client.authentication.k8s.io/v1beta1",
    );
    check(
        server(),
        json!({"exec": {"command": "aws", "apiVersion": "client.authentication.k8s.io/v1"}}),
        "users[x].user.exec.interactiveMode: is required: Never, IfAvailable or Always",
    );
    let plugin = |more: Value| {
        let mut user =
            json!({"exec": {"command": "aws", "apiVersion": "client.authentication.k8s.io/v1beta1"}});
        user["exec"]["env"] = more["env"].clone();
        user["auth-provider"] = more["auth-provider"].clone();
        user
    };
    check(
        server(),
        plugin(json!({"env": [{"name": "A", "value": "b"}, {"name": "", "value": "c"}]})),
        "users[x].user.exec.env[1].name: is empty",
    );
    check(
        server(),
        plugin(json!({"auth-provider": {"name": "gcp"}})),
        "users[x].user.auth-provider: an exec plugin and an auth provider exclude each other",
    );
    check(
        json!({"server": "https://a", "certificate-authority": "ca", "insecure-skip-tls-verify": true}),
        json!({}),
        "clusters[x].cluster.insecure-skip-tls-verify: a certificate authority and no verification exclude each other",
    );
}

#[test]
fn a_file_that_is_not_yaml_is_named() {
    let home = Home::new();
    let path = home.write(".kube/config", "clusters: [");
    let error = home.load(&[]).unwrap_err().to_string();
    assert!(error.starts_with(&format!("{}: ", path.display())), "{error}");
}

#[test]
fn relative_paths_start_at_their_file() {
    let home = Home::new();
    home.write(
        ".kube/config",
        &kubeconfig(
            "x",
            json!({"server": "https://a", "certificate-authority": "pki/ca.crt"}),
            json!({"client-certificate": "/abs/c", "client-key": "../key", "tokenFile": "token"}),
        ),
    );
    let config = home.load(&[]).unwrap();
    let file = |path: &str| Material::File(home.path(path));
    assert_eq!(config.tls.authority, Some(file(".kube/pki/ca.crt")));
    let identity = config.tls.identity.unwrap();
    assert_eq!(identity.certificate, Material::File("/abs/c".into()));
    assert_eq!(identity.key, file(".kube/../key"));
    assert!(
        matches!(config.credentials, Credentials::TokenFile { path, fallback: None } if path == home.path(".kube/token"))
    );
}

#[test]
fn a_token_beside_a_token_file_is_the_fallback() {
    let home = Home::new();
    let user = json!({"token": "fallback", "tokenFile": "/no/such/token"});
    home.write(
        ".kube/config",
        &kubeconfig("x", json!({"server": "https://a"}), user),
    );
    let Credentials::TokenFile { path, fallback } = home.load(&[]).unwrap().credentials else {
        panic!("the file comes first");
    };
    assert_eq!(path.to_str(), Some("/no/such/token"));
    assert_eq!(fallback.unwrap().expose(), "fallback");
}

#[test]
fn inline_data_wins_over_files() {
    let home = Home::new();
    let cluster =
        json!({"server": "https://a", "certificate-authority": "ca", "certificate-authority-data": "aGk="});
    home.write(".kube/config", &kubeconfig("x", cluster, json!({})));
    assert_eq!(
        home.load(&[]).unwrap().tls.authority,
        Some(Material::Inline(b"hi".as_slice().into()))
    );
}

#[test]
fn the_command_line_replaces_what_it_names() {
    let home = Home::new();
    let cluster = json!({"server": "https://a", "certificate-authority": "ca", "tls-server-name": "n"});
    home.write(
        ".kube/config",
        &kubeconfig("x", cluster, json!({"tokenFile": "t"})),
    );
    let overrides = Overrides {
        server: Some("https://b:6443".to_owned()),
        insecure_skip_tls_verify: Some(true),
        token: Some(Secret::new("typed")),
        namespace: Some("typed".to_owned()),
        ..Default::default()
    };
    let config = Config::load(&with(overrides, home.options(&[]))).unwrap();
    assert_eq!(
        (config.server.host(), config.namespace.as_str()),
        (Some("b"), "typed")
    );
    assert!(
        config.tls.insecure_skip_verify && config.tls.authority.is_none() && config.tls.server_name.is_none()
    );
    assert!(matches!(config.credentials, Credentials::Token(token) if token.expose() == "typed"));
}

#[test]
fn a_server_alone_needs_no_file() {
    let home = Home::new();
    let overrides = Overrides {
        server: Some("127.0.0.1:8080".to_owned()),
        ..Default::default()
    };
    let config = Config::load(&with(overrides, home.options(&[]))).unwrap();
    assert_eq!(config.server, "http://127.0.0.1:8080/");
}

#[test]
fn a_server_without_a_scheme_uses_tls_if_certificates_are_configured() {
    let check = |more: Value, expected: &str| {
        let home = Home::new();
        let mut cluster = json!({"server": "kube:6443"});
        cluster
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        home.write(".kube/config", &kubeconfig("x", cluster, json!({})));
        assert_eq!(home.load(&[]).unwrap().server, expected);
    };
    check(json!({}), "http://kube:6443/");
    check(json!({"insecure-skip-tls-verify": true}), "https://kube:6443/");
    check(json!({"certificate-authority": "ca.crt"}), "https://kube:6443/");
}

#[test]
fn the_environment_does_not_print_values() {
    let options = Home::new().options(&[("AWS_SECRET_ACCESS_KEY", "hunter2")]);
    let shown = format!("{options:?}");
    assert!(shown.contains("AWS_SECRET_ACCESS_KEY"), "{shown}");
    assert!(!shown.contains("hunter2"), "{shown}");
}

#[test]
fn a_pod_uses_its_service_account() {
    let home = Home::new();
    let variables = [
        ("KUBERNETES_SERVICE_HOST", "fd00::1"),
        ("KUBERNETES_SERVICE_PORT", "443"),
    ];
    assert!(
        matches!(home.load(&variables), Err(ConfigError::Nothing { .. })),
        "there is no token"
    );
    let token = home.write("serviceaccount/token", "t");
    home.write("serviceaccount/ca.crt", "ca");
    home.write("serviceaccount/namespace", "prod\n");
    let config = home.load(&variables).unwrap();
    assert_eq!(
        (config.server.to_string().as_str(), config.namespace.as_str()),
        ("https://[fd00::1]:443/", "prod")
    );
    assert!(matches!(config.credentials, Credentials::TokenFile { path, fallback: None } if path == token));
    assert_eq!(
        config.tls.authority,
        Some(Material::File(home.path("serviceaccount/ca.crt")))
    );

    let overrides = Overrides {
        token: Some(Secret::new("typed")),
        certificate_authority: Some("/typed/ca".into()),
        namespace: Some("typed".to_owned()),
        ..Default::default()
    };
    let typed = Config::load(&with(overrides, home.options(&variables))).unwrap();
    assert_eq!(
        (typed.server.port_u16(), typed.namespace.as_str()),
        (Some(443), "typed")
    );
    assert_eq!(typed.tls.authority, Some(Material::File("/typed/ca".into())));
    assert!(matches!(typed.credentials, Credentials::Token(token) if token.expose() == "typed"));

    let file = kubeconfig("x", json!({"server": "https://a"}), json!({}));
    home.write(".kube/config", &file.replace("\"current-context\":\"x\",", ""));
    assert_eq!(
        home.load(&variables).unwrap().namespace,
        "prod",
        "a file without a current context is ignored"
    );
    let error = home.load(&[]).unwrap_err().to_string();
    assert_eq!(error, "no current context is set; there are: x");
    home.write(".kube/config", &file);
    assert_eq!(
        home.load(&variables).unwrap().server.host(),
        Some("a"),
        "a file takes precedence"
    );
}

#[test]
fn a_missing_configuration_names_the_tried_paths() {
    let home = Home::new();
    assert_eq!(
        home.load(&[]).unwrap_err().to_string(),
        format!(
            "no configuration: no kubeconfig file ({}) and no service account",
            home.path(".kube/config").display()
        )
    );
}

#[test]
fn plugins_receive_the_cluster_information_on_request() {
    let home = Home::new();
    home.write(".kube/ca", "pem");
    home.write(
        ".kube/config",
        &kubeconfig(
            "x",
            json!({"server": "https://a", "certificate-authority": "ca", "extensions": [{"name": "client.authentication.k8s.io/exec", "extension": {"audience": "b"}}]}),
            json!({"exec": {"command": "./bin/plugin", "apiVersion": "client.authentication.k8s.io/v1beta1", "provideClusterInfo": true}}),
        ),
    );
    let Credentials::Exec(exec) = home.load(&[]).unwrap().credentials else {
        panic!("no plugin")
    };
    assert_eq!(Path::new(&exec.plugin.command), home.path(".kube/bin/plugin"));
    assert_eq!(
        exec.cluster.unwrap(),
        json!({
            "server": "https://a", "certificate-authority-data": "cGVt", "config": {"audience": "b"},
        })
    );
}

#[cfg(unix)]
#[test]
fn written_files_are_private_and_read_back() {
    use std::os::unix::fs::PermissionsExt;
    let home = Home::new();
    let path = home.write(
        "in",
        &kubeconfig("x", json!({"server": "https://a"}), json!({"token": "secret"})),
    );
    let config = Kubeconfig::read(&path).unwrap();
    let out = home.write("deep/out", "old");
    std::fs::set_permissions(&out, PermissionsExt::from_mode(0o644)).unwrap();
    config.write(&out).unwrap();
    assert_eq!(
        std::fs::metadata(&out).unwrap().permissions().mode() & 0o777,
        0o600
    );
    let text = std::fs::read_to_string(&out).unwrap();
    assert!(
        text.starts_with("apiVersion: v1\nclusters:\n- cluster:\n    server: https://a\n"),
        "{text}"
    );
    let again = Kubeconfig::read(&out).unwrap();
    assert_eq!(again.users[0].user, config.users[0].user);
    assert_eq!(
        std::fs::read_dir(home.path("deep")).unwrap().count(),
        1,
        "nothing is left beside it"
    );
}

#[test]
fn bad_certificates_are_found_when_the_client_is_made() {
    let mut config = Config::new("https://a".parse().unwrap());
    config.tls.authority = Some(Material::File("/no/such/ca".into()));
    let error = Client::new(&config, ClientOptions::default()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "certificate authority /no/such/ca: No such file or directory (os error 2)"
    );
    config.tls.authority = Some(Material::Inline(b"hello".as_slice().into()));
    let error = Client::new(&config, ClientOptions::default()).unwrap_err();
    assert_eq!(error.to_string(), "certificate authority: has no PEM certificate");
}

/// Not a test of its own: the process of the next one, which has its own environment.
#[test]
#[ignore = "the next test runs it"]
fn in_its_own_environment() {
    let client = Client::from_environment().unwrap();
    assert_eq!(client.server_url(), "https://a.example:6443");
    assert_eq!(client.default_namespace(), "ns-a");
}

#[test]
fn a_client_from_the_environment_is_that_of_kubectl() {
    let home = Home::new();
    let cluster = json!({"server": "https://a.example:6443"});
    let file = home.write("config", &kubeconfig("a", cluster, json!({"token": "t"})));
    let child = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "config::in_its_own_environment", "--ignored"])
        .env("KUBECONFIG", file)
        .output()
        .unwrap();
    let printed = String::from_utf8(child.stdout).unwrap();
    assert!(printed.contains("1 passed"), "{printed}");
}
