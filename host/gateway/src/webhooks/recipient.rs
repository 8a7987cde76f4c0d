//! An endpoint in the form that attempts need.

use std::sync::{Arc, Weak};

use kassette_domain::webhook::{Endpoint, EndpointSecrets};
use parking_lot::Mutex;

use super::destination::{self, Destination, NotADestination};
use crate::configured::Configured;

/// A cached endpoint with its secrets.
#[derive(Debug)]
pub(crate) struct Recipient {
    pub(super) endpoint: Endpoint,
    pub(super) secrets: EndpointSecrets,
    judged: Mutex<Option<AddressVerdict>>,
}

/// The verdict about an address, and the configuration that it is based on.
#[derive(Debug)]
struct AddressVerdict {
    under: Weak<Configured>,
    verdict: Result<Destination, NotADestination>,
}

impl Recipient {
    pub(crate) const fn new(endpoint: Endpoint, secrets: EndpointSecrets) -> Self {
        Self {
            endpoint,
            secrets,
            judged: Mutex::new(None),
        }
    }

    /// The address for events. Checked again for every new configuration, because own origins and provider
    /// hosts may have changed.
    ///
    /// # Errors
    /// The reason why events may not be sent there.
    pub(super) fn destination(
        &self,
        configured: &Arc<Configured>,
    ) -> Result<Destination, NotADestination> {
        let mut judged = self.judged.lock();
        if let Some(judged) = &*judged
            && Weak::as_ptr(&judged.under) == Arc::as_ptr(configured)
        {
            return judged.verdict.clone();
        }
        let Endpoint {
            url,
            owner,
            environment,
            ..
        } = &self.endpoint;
        let inner = configured
            .settings
            .webhooks
            .inner_hosts(*owner, *environment);
        let verdict = destination::judge(url, &inner, configured);
        *judged = Some(AddressVerdict {
            under: Arc::downgrade(configured),
            verdict: verdict.clone(),
        });
        verdict
    }
}
