//! Who a request comes from, where proxies stand in between.

use std::net::{IpAddr, SocketAddr};

use http::{HeaderMap, HeaderName};

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// The address of the client behind trusted proxies.
///
/// `X-Forwarded-For` counts only as far as trusted proxies wrote it: from the right, the first
/// address that is no trusted proxy's is the client. Whatever stands left of it, or of an entry that
/// is no address, anybody may have written.
pub(crate) fn client_ip(peer: IpAddr, headers: &HeaderMap, trusted: &[IpAddr]) -> IpAddr {
    let is_trusted = |address| trusted.iter().any(|proxy| proxy.to_canonical() == address);
    let mut client = peer.to_canonical();
    if !is_trusted(client) {
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
        if !is_trusted(client) {
            return client;
        }
    }
    client
}

/// An entry's address, with or without a port.
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
        let trusted: Vec<IpAddr> = trusted.iter().map(|text| text.parse().unwrap()).collect();
        client_ip(peer.parse().unwrap(), &headers, &trusted).to_string()
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
            let trusted = [IpAddr::V4(Ipv4Addr::LOCALHOST)];
            let _ = client_ip(IpAddr::V4(Ipv4Addr::LOCALHOST), &headers, &trusted);
        }
    }
}
