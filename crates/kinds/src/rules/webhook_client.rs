//! The client configuration of a webhook: a URL, or a service.

use watchkeeper_meta::validation::dns1123_subdomain;

use crate::rules::place::{Errors, Place};

/// The suffix of URL errors.
const FORM: &str = "; desired format: https://host[/path]";

/// Validates a `clientConfig`.
pub(crate) fn check(config: &Place<'_, '_>, errors: &mut Errors) {
    let (url, service) = (config.field("url"), config.field("service"));
    match (url.is_set(), service.is_set()) {
        (true, false) => check_url(&url, errors),
        (false, true) => check_service(&service, errors),
        _ => errors.push(config.required("exactly one of url or service is required")),
    }
}

fn check_url(url: &Place<'_, '_>, errors: &mut Errors) {
    let (rest, fragment) = split(url.text(), '#');
    let (rest, query) = split(rest, '?');
    let (scheme, rest) = rest.split_once(':').unwrap_or(("", rest));
    let authority = rest.strip_prefix("//").unwrap_or_default();
    let authority = authority.split('/').next().unwrap_or_default();
    let (user, host) = authority.rsplit_once('@').unwrap_or(("", authority));
    let mut refuse = |is_wrong: bool, shown: &str, why: String| {
        if is_wrong {
            errors.push(url.invalid_for(shown, why));
        }
    };
    let only_https = format!("'https' is the only allowed URL scheme{FORM}");
    refuse(scheme != "https", scheme, only_https);
    refuse(host.is_empty(), host, format!("host must be specified{FORM}"));
    let unwanted = |what: &str| format!("{what} not permitted in the URL");
    refuse(!user.is_empty(), user, unwanted("user information is"));
    refuse(!fragment.is_empty(), fragment, unwanted("fragments are"));
    refuse(!query.is_empty(), query, unwanted("query parameters are"));
}

fn split(text: &str, at: char) -> (&str, &str) {
    text.split_once(at).unwrap_or((text, ""))
}

fn check_service(service: &Place<'_, '_>, errors: &mut Errors) {
    // Kubernetes swaps the two names in these errors.
    for (name, called) in [("namespace", "name"), ("name", "namespace")] {
        service.field(name).known_as(called).must_be_set(errors);
    }
    let port = service.field("port");
    if !(1..=65535).contains(&port.number()) {
        let why = "port is not valid: must be between 1 and 65535, inclusive";
        errors.push(port.invalid_for(port.number(), why));
    }
    check_path(&service.field("path"), errors);
}

fn check_path(path: &Place<'_, '_>, errors: &mut Errors) {
    let text = path.text();
    if matches!(text, "" | "/") {
        return;
    }
    if text == "//" {
        return errors.push(path.invalid("segment[0] may not be empty"));
    }
    if !text.starts_with('/') {
        errors.push(path.invalid("must start with a '/'"));
    }
    let rest = text.chars().next().map_or("", |first| &text[first.len_utf8()..]);
    let steps = rest.strip_suffix('/').unwrap_or(rest).split('/');
    for (index, step) in steps.enumerate() {
        if step.is_empty() {
            errors.push(path.invalid(format!("segment[{index}] may not be empty")));
            continue;
        }
        let problems = dns1123_subdomain(step).into_iter();
        errors.extend(problems.map(|problem| path.invalid(format!("segment[{index}]: {problem}"))));
    }
}
