//! Where events may be sent.

use kassette_domain::key::Environment;
use kassette_http::{HostList, Refused};
use url::{Host, Url};

use crate::configured::Configured;

/// Longest address, in bytes.
const MAX_URL: usize = 2048;

/// Why an address is no destination. The server judges it when an endpoint is made or changed, and
/// again at each attempt, when its name is resolved too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotADestination {
    /// Over 2,048 bytes.
    #[error("the address is longer than 2048 characters")]
    TooLong,
    /// It does not read as an address, or breaks a rule for every outgoing request.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// Our own public or admin origin.
    #[error("the address is this service's own: events go to your own server")]
    OurOwn,
    /// A payment provider's host.
    #[error("the address is a payment provider's: events go to your own server")]
    Provider,
}

/// Reads and judges an address by its text: events of test payments may go to inner hosts that the settings
/// name, those of live ones never.
pub(super) fn judge(
    address: &str,
    environment: Environment,
    configured: &Configured,
) -> Result<Url, NotADestination> {
    if address.len() > MAX_URL {
        return Err(NotADestination::TooLong);
    }
    let webhooks = &configured.settings.webhooks;
    let inner: &HostList = match environment {
        Environment::Test => &webhooks.test_hosts,
        Environment::Live => &[],
    };
    let url = webhooks.guard().judge_beside(address, inner)?;
    let forms = forms(&url);
    let own = webhooks.own_origins.iter();
    let own = own.filter_map(|own| Url::parse(own).ok());
    if own
        .flat_map(|own| self::forms(&own))
        .any(|own| forms.iter().any(|form| same_place(&own, form)))
    {
        return Err(NotADestination::OurOwn);
    }
    if forms.iter().any(|form| configured.is_providers(form)) {
        return Err(NotADestination::Provider);
    }
    Ok(url)
}

/// Host and port; what a port speaks plays no part.
fn same_place(a: &Url, b: &Url) -> bool {
    a.host() == b.host() && a.port_or_known_default() == b.port_or_known_default()
}

/// An address, and where it leads to this machine its other names.
fn forms(url: &Url) -> Vec<Url> {
    let is_loopback = match url.host() {
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        Some(Host::Domain(name)) => name == "localhost",
        None => false,
    };
    let mut forms = vec![url.clone()];
    if is_loopback {
        forms.extend(
            ["127.0.0.1", "localhost", "[::1]"]
                .into_iter()
                .filter_map(|name| {
                    let mut form = url.clone();
                    form.set_host(Some(name)).ok().map(|()| form)
                }),
        );
    }
    forms
}
