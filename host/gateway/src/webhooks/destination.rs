//! Addresses to which events may be sent.

use kassette_http::{HostList, Refused};
use url::{Host, Url};

use crate::configured::Configured;

/// Maximum length of an address in bytes.
const MAX_URL: usize = 2048;

/// Reason why events may not be sent to an address. Checked when an endpoint is created or changed, and again
/// at each attempt, which also checks the addresses that the name resolves to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotADestination {
    /// Longer than 2,048 bytes.
    #[error("the address is longer than 2048 characters")]
    TooLong,
    /// Not a valid address, or against a rule for all outgoing requests.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// The gateway's own public or admin origin.
    #[error("the address is this service's own: events go to your own server")]
    OurOwn,
    /// A payment provider's host.
    #[error("the address is a payment provider's: events go to your own server")]
    Provider,
}

#[derive(Clone, Debug)]
pub(super) struct Destination {
    pub(super) url: Url,
    /// Whether it is an internal host that the settings allow for the endpoint's owner.
    pub(super) is_inner: bool,
}

/// Parses and checks an address by its text. It may also be one of the `inner` hosts, see
/// [`crate::settings::Webhooks::inner_hosts`].
pub(super) fn judge(
    address: &str,
    inner: &HostList,
    configured: &Configured,
) -> Result<Destination, NotADestination> {
    if address.len() > MAX_URL {
        return Err(NotADestination::TooLong);
    }
    let webhooks = &configured.settings.webhooks;
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
    let is_inner = inner.iter().any(|host| host.matches(&url));
    Ok(Destination { url, is_inner })
}

/// Whether host and port are equal, regardless of the scheme.
fn same_place(a: &Url, b: &Url) -> bool {
    a.host() == b.host() && a.port_or_known_default() == b.port_or_known_default()
}

/// A URL and, if it leads to this machine, its other names.
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

#[cfg(test)]
mod tests {
    use kassette_http::Guard;

    use super::*;

    #[test]
    fn what_no_shop_can_verify_is_no_destination_either() {
        for name in kassette_domain::site::INNER_NAMES {
            let judged = Guard::default().judge(&format!("https://a.{name}/"));
            assert_eq!(judged, Err(Refused::InnerName), "{name}");
        }
    }
}
