//! The webhooks: defaulting and validation.

use watchkeeper::manager::webhook::{AdmissionRequest, Certificates, Denied, Webhooks};
use watchkeeper::prelude::*;

use crate::{NAME, Website};

pub(crate) fn webhooks(listen: Listen, websites: Store<Website>) -> Webhooks {
    let certificates = Certificates::self_made("website-webhooks", ["website-operator.web-system.svc"]);
    Webhooks::new(listen, certificates)
        .mutate("/mutate", async |mut site: Website, _| {
            site.spec.domain.make_ascii_lowercase();
            Ok::<_, Denied>(site)
        })
        .validate("/validate", move |request| {
            std::future::ready(refuse_taken_domain(&request, &websites))
        })
        .mutating_configuration(NAME)
        .validating_configuration(NAME)
}

/// Reports a taken domain early. Two websites created at once may both pass; the claim on the domain decides.
fn refuse_taken_domain(request: &AdmissionRequest<Website>, websites: &Store<Website>) -> Result<(), Denied> {
    let (Some(site), None) = (&request.object, &request.old_object) else {
        return Ok(());
    };
    let domain = &site.spec.domain;
    match websites.list().iter().find(|other| other.spec.domain == *domain) {
        Some(other) => Err(Denied::forbidden(format!("{domain} belongs to {}", other.key()))),
        None => Ok(()),
    }
}
