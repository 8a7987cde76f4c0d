//! An endpoint as attempts see it.

use std::sync::{Arc, Weak};

use kassette_domain::webhook::{Endpoint, EndpointSecrets};
use parking_lot::Mutex;
use url::Url;

use super::destination::{self, NotADestination};
use crate::configured::Configured;

/// An endpoint with its secrets, as they were last read.
#[derive(Debug)]
pub(crate) struct Recipient {
    pub(super) endpoint: Endpoint,
    pub(super) secrets: EndpointSecrets,
    judged: Mutex<Option<AddressVerdict>>,
}

/// What was said of an address, and under which configuration.
#[derive(Debug)]
struct AddressVerdict {
    under: Weak<Configured>,
    verdict: Result<Url, NotADestination>,
}

impl Recipient {
    pub(crate) const fn new(endpoint: Endpoint, secrets: EndpointSecrets) -> Self {
        Self {
            endpoint,
            secrets,
            judged: Mutex::new(None),
        }
    }

    /// Where events are sent to. Judged anew under every configuration: what is ours and who is a
    /// vendor may have changed.
    ///
    /// # Errors
    /// Why they are not.
    pub(super) fn destination(&self, configured: &Arc<Configured>) -> Result<Url, NotADestination> {
        let mut judged = self.judged.lock();
        if let Some(judged) = &*judged
            && Weak::as_ptr(&judged.under) == Arc::as_ptr(configured)
        {
            return judged.verdict.clone();
        }
        let environment = self.endpoint.environment;
        let verdict = destination::judge(&self.endpoint.url, environment, configured);
        *judged = Some(AddressVerdict {
            under: Arc::downgrade(configured),
            verdict: verdict.clone(),
        });
        verdict
    }
}
