//! Image references, parsed only as far as needed to find out whether the tag is `latest`.

/// The longest name of a repository, including its host.
const MAX_NAME_BYTES: usize = 255;

/// True if an image is tagged `latest`, or has neither tag nor digest. Such images are pulled every time.
pub(crate) fn is_latest(reference: &str) -> bool {
    let (name, digest) = match reference.split_once('@') {
        Some((name, digest)) => (name, Some(digest)),
        None => (reference, None),
    };
    match name.rsplit_once(':') {
        Some((_, tag)) if !tag.contains('/') => tag == "latest",
        _ => digest.is_none() && is_repository(name),
    }
}

/// True for the name of a repository. Other texts have no tag, not even an implied one.
fn is_repository(name: &str) -> bool {
    let path = match name.split_once('/') {
        Some((host, path)) if is_host(host) => path,
        _ => name,
    };
    name.len() <= MAX_NAME_BYTES && path.split('/').all(is_path_component)
}

fn is_host(first: &str) -> bool {
    first == "localhost" || first.contains(['.', ':']) || first.contains(char::is_uppercase)
}

fn is_path_component(component: &str) -> bool {
    let is_inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '.' | '_' | '-');
    let is_outer = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    component.chars().all(is_inner) && component.starts_with(is_outer) && component.ends_with(is_outer)
}

#[cfg(test)]
mod tests {
    use super::is_latest;

    #[test]
    fn an_image_is_latest_if_tagged_so_or_without_tag_and_digest() {
        for (reference, latest) in [
            ("nginx", true),
            ("nginx:latest", true),
            ("nginx:1.27", false),
            ("localhost:5000/nginx", true),
            ("localhost:5000/nginx:2", false),
            ("registry.example.com/team/app:latest", true),
            ("nginx@sha256:0123", false),
            ("nginx:latest@sha256:0123", true),
            ("Nginx", false),
            (" nginx", false),
            ("", false),
            (&"a".repeat(255), true),
            (&"a".repeat(256), false),
        ] {
            assert_eq!(is_latest(reference), latest, "{reference}");
        }
    }
}
