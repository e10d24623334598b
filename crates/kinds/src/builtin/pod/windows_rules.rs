//! Validation of Windows options: the user, and host process containers.

use watchkeeper_meta::validation::dns1123_subdomain;

use crate::rules::place::{Errors, Place};

const MAX_SPEC_KIB: usize = 64;
/// The exclusive upper bound of a domain's length.
const MAX_DOMAIN: usize = 256;
const MAX_USER: usize = 104;
const MAX_NETBIOS: usize = 15;
const MAX_LABEL: usize = 63;

/// Checks the `windowsOptions` of a security context.
pub(crate) fn check_options(options: &Place<'_, '_>, errors: &mut Errors) {
    let [name, spec, user] =
        ["gmsaCredentialSpecName", "gmsaCredentialSpec", "runAsUserName"].map(|name| options.field(name));
    if name.is_set() {
        name.must_keep(dns1123_subdomain, errors);
    }
    if spec.is_set() {
        if spec.text().is_empty() {
            errors.push(spec.invalid("gmsaCredentialSpec cannot be an empty string"));
        } else if spec.text().len() > MAX_SPEC_KIB * 1024 {
            let why = format!("gmsaCredentialSpec size must be under {MAX_SPEC_KIB} KiB");
            errors.push(spec.invalid(why));
        }
    }
    if user.is_set() {
        check_user(&user, errors);
    }
}

/// `user`, or `domain\user`.
fn check_user(name: &Place<'_, '_>, errors: &mut Errors) {
    let text = name.text();
    let mut refuse = |is_wrong: bool, why: String| {
        if is_wrong {
            errors.push(name.invalid(why));
        }
        is_wrong
    };
    if refuse(
        text.is_empty(),
        "runAsUserName cannot be an empty string".to_owned(),
    ) || refuse(
        text.chars().any(|char| char.is_ascii_control()),
        "runAsUserName cannot contain control characters".to_owned(),
    ) || refuse(
        text.matches('\\').count() > 1,
        "runAsUserName cannot contain more than one backslash".to_owned(),
    ) {
        return;
    }
    let (domain, user) = text
        .split_once('\\')
        .map_or((None, text), |(domain, user)| (Some(domain), user));
    refuse(
        domain.is_some_and(|domain| domain.len() >= MAX_DOMAIN),
        format!("runAsUserName's Domain length must be under {MAX_DOMAIN} characters"),
    );
    refuse(
        domain.is_some_and(|domain| !is_netbios(domain) && !is_dns(domain)),
        "runAsUserName's Domain doesn't match the NetBios nor the DNS format".to_owned(),
    );
    refuse(user.is_empty(), "runAsUserName's User cannot be empty".to_owned());
    refuse(
        user.len() > MAX_USER,
        format!("runAsUserName's User length must not be longer than {MAX_USER} characters"),
    );
    refuse(
        !user.is_empty() && user.chars().all(|char| matches!(char, '.' | ' ')),
        "runAsUserName's User cannot contain only periods or spaces".to_owned(),
    );
    let unwanted = r#""/\:;|=,+*?<>@[]"#;
    refuse(
        user.contains(|char| unwanted.contains(char)),
        format!("runAsUserName's User cannot contain the following characters: {unwanted}"),
    );
}

fn is_netbios(domain: &str) -> bool {
    let unwanted = r#"\/:*?"<>|"#;
    (1..=MAX_NETBIOS).contains(&domain.chars().count())
        && !domain.starts_with('.')
        && !domain.contains(|char| unwanted.contains(char))
}

fn is_dns(domain: &str) -> bool {
    domain.split('.').all(|label| {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric();
        let ends = [label.bytes().next(), label.bytes().last()];
        label.len() <= MAX_LABEL
            && ends.iter().all(|end| end.is_some_and(is_plain))
            && label.bytes().all(|byte| is_plain(byte) || byte == b'-')
    })
}

/// Checks that either all containers are host processes, or none.
pub(crate) fn check_host_processes(spec: &Place<'_, '_>, errors: &mut Errors) {
    let context = spec.field("securityContext");
    let options = context.field("windowsOptions");
    let of_pod = options.field("hostProcess").value().as_bool();
    let (mut all, mut of_host) = (0, 0);
    for list in ["initContainers", "containers", "ephemeralContainers"] {
        let containers = spec.field(list);
        for container in containers.items() {
            let context = container.field("securityContext");
            let options = context.field("windowsOptions");
            let is_of_host = options.field("hostProcess");
            let stated = is_of_host.value().as_bool();
            if let (Some(pod), Some(own)) = (of_pod, stated)
                && pod != own
            {
                let why = format!("pod hostProcess value must be identical if both are specified, was {pod}");
                errors.push(is_of_host.invalid(why));
            }
            all += 1;
            of_host += usize::from(stated.or(of_pod) == Some(true));
        }
    }
    if of_host == 0 {
        return;
    }
    if of_host != all {
        let why =
            "If pod contains any hostProcess containers then all containers must be HostProcess containers";
        errors.push(spec.invalid_for("", why));
    }
    let network = spec.field("hostNetwork");
    if !network.is_true() {
        let why = "hostNetwork must be true if pod contains any hostProcess containers";
        errors.push(network.invalid_for(false, why));
    }
}
