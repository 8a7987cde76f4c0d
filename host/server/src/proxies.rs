//! The address of a request's client, possibly behind proxies.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use http::{HeaderMap, HeaderName};
use ipnet::{IpNet, Ipv4Net};
pub(crate) use kassette_http::subscriber;
use serde::Deserialize;

pub(crate) const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// Trusted proxies. Clones share the list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Vec<String>")]
pub(crate) struct Proxies(Arc<[IpNet]>);

/// Reason why a text is not an acceptable proxy.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotAProxy {
    #[error("`{0}` is no address and no network: write 192.0.2.1, 10.0.0.0/8 or 2001:db8::/32")]
    Unreadable(String),
    #[error("`{given}` names one address and a network: write `{network}` for all of it")]
    InBetween { given: String, network: IpNet },
    #[error("`{0}` is every address, so any client could name another's: name your proxies")]
    EveryAddress(String),
}

impl TryFrom<Vec<String>> for Proxies {
    type Error = NotAProxy;

    fn try_from(written: Vec<String>) -> Result<Self, NotAProxy> {
        let proxies = written.into_iter().map(network);
        proxies.collect::<Result<_, _>>().map(Self)
    }
}

/// Parses an address or a network.
fn network(written: String) -> Result<IpNet, NotAProxy> {
    if let Ok(address) = written.parse::<IpAddr>() {
        return Ok(address.to_canonical().into());
    }
    let Ok(given) = written.parse::<IpNet>() else {
        return Err(NotAProxy::Unreadable(written));
    };
    let given = canonical(given);
    let network = given.trunc();
    if network.prefix_len() == 0 {
        return Err(NotAProxy::EveryAddress(written));
    }
    if network != given {
        return Err(NotAProxy::InBetween {
            given: written,
            network,
        });
    }
    Ok(network)
}

/// Converts a network of IPv4-mapped addresses to IPv4, the form in which addresses are compared.
fn canonical(network: IpNet) -> IpNet {
    if let IpAddr::V4(address) = network.addr().to_canonical()
        && let Some(length) = network
            .prefix_len()
            .checked_sub(network.max_prefix_len() - 32)
        && let Ok(mapped) = Ipv4Net::new(address, length)
    {
        return mapped.into();
    }
    network
}

impl Proxies {
    /// A single trusted address.
    pub(crate) fn trusting(address: IpAddr) -> Self {
        Self(Arc::new([address.into()]))
    }

    /// Whether an address belongs to a trusted proxy.
    pub(crate) fn trust(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.0.iter().any(|proxies| proxies.contains(&address))
    }

    /// Returns the address of the client behind trusted proxies.
    ///
    /// `X-Forwarded-For` is used only as far as trusted proxies wrote it: from the right, the first address that
    /// does not belong to a trusted proxy is the client. Any client may have written the entries to the left of
    /// it, or of an invalid entry.
    pub(crate) fn client(&self, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
        let mut client = peer.to_canonical();
        if !self.trust(client) {
            return client;
        }
        let lines: Vec<&[u8]> = headers
            .get_all(X_FORWARDED_FOR)
            .iter()
            .map(http::HeaderValue::as_bytes)
            .collect();
        let entries = lines
            .iter()
            .rev()
            .flat_map(|line| line.rsplit(|byte| *byte == b','));
        for entry in entries {
            let Some(address) = entry_address(entry) else {
                return client;
            };
            client = address;
            if !self.trust(client) {
                return client;
            }
        }
        client
    }
}

/// Address of an entry, with or without a port.
fn entry_address(entry: &[u8]) -> Option<IpAddr> {
    let text = std::str::from_utf8(entry).ok()?.trim_matches([' ', '\t']);
    let bare = text.strip_prefix('[').and_then(|t| t.strip_suffix(']'));
    let address = bare
        .unwrap_or(text)
        .parse()
        .or_else(|_| text.parse::<SocketAddr>().map(|address| address.ip()))
        .ok()?;
    Some(address.to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::net::Ipv4Addr;

    fn client(peer: &str, lines: &[&str], trusted: &[&str]) -> String {
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(X_FORWARDED_FOR, line.parse().unwrap());
        }
        let client = proxies(trusted).unwrap();
        let client = client.client(peer.parse().unwrap(), &headers);
        client.to_string()
    }

    fn proxies(written: &[&str]) -> Result<Proxies, NotAProxy> {
        let written = written.iter().map(|&text| text.to_owned());
        Proxies::try_from(written.collect::<Vec<_>>())
    }

    #[test]
    fn a_network_of_proxies_is_believed_and_nobody_beside_it() {
        let trusted = &[
            "10.1.0.0/16",
            "2001:db8:1::/48",
            "::ffff:192.0.2.9",
            "::ffff:203.0.113.0/120",
        ];
        let behind = |peer: &str| client(peer, &["198.51.100.1"], trusted);
        for peer in ["10.1.0.0", "10.1.255.255", "::ffff:10.1.2.3", "192.0.2.9"] {
            assert_eq!(behind(peer), "198.51.100.1", "{peer}");
        }
        for peer in ["203.0.113.255", "::ffff:203.0.113.1"] {
            assert_eq!(behind(peer), "198.51.100.1", "{peer}");
        }
        assert_eq!(behind("203.0.112.255"), "203.0.112.255");
        assert_eq!(behind("2001:db8:1:ffff::1"), "198.51.100.1");
        for peer in ["10.0.255.255", "10.2.0.0", "2001:db8:2::1", "192.0.2.8"] {
            assert_eq!(behind(peer), peer);
        }
    }

    #[test]
    fn what_names_no_proxy_is_refused_with_what_to_write() {
        let refused = |written: &str| proxies(&[written]).unwrap_err().to_string();
        assert!(refused("10.1.2.3/16").contains("`10.1.0.0/16`"));
        for every in ["0.0.0.0/0", "::/0", "10.0.0.1/0", "::ffff:0.0.0.0/96"] {
            assert!(refused(every).contains("is every address"), "{every}");
        }
        for unreadable in [
            "",
            "proxy.example",
            "10.1",
            "10.0.0.0/33",
            "10.0.0.0/",
            "10.0.0.1 ",
        ] {
            assert!(refused(unreadable).contains("write"), "{unreadable}");
        }
    }

    #[test]
    fn nobody_but_a_trusted_proxy_can_name_another_address() {
        assert_eq!(client("192.0.2.1", &["198.51.100.1"], &[]), "192.0.2.1");
        let trusted = &["10.0.0.1"];
        assert_eq!(client("192.0.2.1", &["10.1.1.1"], trusted), "192.0.2.1");
        assert_eq!(client("10.0.0.1", &[], trusted), "10.0.0.1");
        assert_eq!(client("10.0.0.1", &["192.0.2.7"], trusted), "192.0.2.7");
    }

    #[test]
    fn what_the_client_wrote_itself_does_not_count() {
        let trusted = &["10.0.0.1", "10.0.0.2", "10.0.0.3", "fd00::5"];
        let forged = &["203.0.113.9, 192.0.2.7, 10.0.0.2"];
        assert_eq!(client("10.0.0.1", forged, trusted), "192.0.2.7");
        let lines = &["203.0.113.9", "192.0.2.7", "fd00::5"];
        assert_eq!(client("10.0.0.1", lines, trusted), "192.0.2.7");
        assert_eq!(
            client("10.0.0.1", &["192.0.2.7, junk, 10.0.0.2"], trusted),
            "10.0.0.2"
        );
        assert_eq!(
            client("10.0.0.1", &["10.0.0.3, 10.0.0.2"], trusted),
            "10.0.0.3"
        );
    }

    #[test]
    fn ports_brackets_and_mapped_addresses_are_understood() {
        let trusted = &["10.0.0.1"];
        assert_eq!(
            client("::ffff:10.0.0.1", &["192.0.2.7:443"], trusted),
            "192.0.2.7"
        );
        assert_eq!(
            client("10.0.0.1", &["[2001:db8::1]:9"], trusted),
            "2001:db8::1"
        );
        assert_eq!(
            client("10.0.0.1", &["[2001:db8::1]"], trusted),
            "2001:db8::1"
        );
        assert_eq!(
            client("10.0.0.1", &["::ffff:192.0.2.7"], trusted),
            "192.0.2.7"
        );
    }

    proptest! {
        #[test]
        fn a_header_of_an_untrusted_peer_changes_nothing(header in "[ -~]{0,60}") {
            prop_assert_eq!(client("192.0.2.1", &[&header], &["10.0.0.1"]), "192.0.2.1");
        }

        #[test]
        fn no_header_panics(header in proptest::collection::vec(0x20_u8..=0xff, 0..60)) {
            let mut headers = HeaderMap::new();
            if let Ok(value) = http::HeaderValue::from_bytes(&header) {
                headers.insert(X_FORWARDED_FOR, value);
            }
            let trusted = proxies(&["127.0.0.1"]).unwrap();
            let _ = trusted.client(IpAddr::V4(Ipv4Addr::LOCALHOST), &headers);
        }
    }
}
