//! Hosts that an account may communicate with.

use std::fmt;
use std::net::Ipv4Addr;
use std::str::FromStr;

use url::Url;

/// A list of allowed hosts. An empty list allows none.
pub type HostList = [HostPattern];

/// An entry of a host list: `api.vendor.example`, or `*.vendor.example` for all names below but not the name
/// itself. Both may have a port: `localhost:4010`.
///
/// Without a port, it matches only the default port of the scheme (443, or 80 for plain http).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct HostPattern {
    /// Lower-case A-label, or an address in the URL standard's notation.
    host: String,
    below: bool,
    port: Option<u16>,
}

/// The text is not a host pattern.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a host: {0:?}; write \"api.vendor.example\", \"*.vendor.example\" or \"host:port\"")]
pub struct NotAHost(String);

impl HostPattern {
    /// A pattern that matches only the host and port of a URL. `None` if the URL does not have a host.
    pub fn from_url(url: &Url) -> Option<Self> {
        Some(Self {
            host: url.host_str()?.to_owned(),
            below: false,
            port: url.port(),
        })
    }

    /// Whether the pattern is a single name: not an IP address, and without `*.`.
    pub fn is_name(&self) -> bool {
        let is_address = self.host.starts_with('[') || self.host.parse::<Ipv4Addr>().is_ok();
        !self.below && !is_address
    }

    /// Whether the pattern is `localhost` or a name below it.
    pub fn is_loopback(&self) -> bool {
        self.host == "localhost" || self.host.ends_with(".localhost")
    }

    /// Whether the pattern matches the host and port of a URL. Does not check the scheme.
    pub fn matches(&self, url: &Url) -> bool {
        let Some(host) = url.host_str() else {
            return false;
        };
        let named = if self.below {
            host.strip_suffix(&self.host)
                .is_some_and(|rest| rest.ends_with('.') && rest.len() > 1)
        } else {
            host == self.host
        };
        // `Url::port` is `None` for the default port of the scheme, as is `self.port`.
        named && self.port == url.port()
    }
}

impl FromStr for HostPattern {
    type Err = NotAHost;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || NotAHost(text.to_owned());
        let (below, rest) = text
            .strip_prefix("*.")
            .map_or((false, text), |rest| (true, rest));
        // Use the URL parser, so that patterns and requests agree on what a host is.
        let url = Url::parse(&format!("https://{rest}/")).map_err(|_| wrong())?;
        let plain = url.path() == "/"
            && url.query().is_none()
            && url.fragment().is_none()
            && url.username().is_empty()
            && url.password().is_none()
            && !rest.contains(['/', '\\', '?', '#', '@', '*'])
            && (!below || matches!(url.host(), Some(url::Host::Domain(_))));
        let host = url.host_str().filter(|_| plain).ok_or_else(wrong)?;
        Ok(Self {
            host: host.to_owned(),
            below,
            port: url.port(),
        })
    }
}

impl fmt::Display for HostPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let star = if self.below { "*." } else { "" };
        write!(f, "{star}{}", self.host)?;
        self.port.map_or(Ok(()), |port| write!(f, ":{port}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, url: &str) -> bool {
        pattern
            .parse::<HostPattern>()
            .unwrap()
            .matches(&Url::parse(url).unwrap())
    }

    #[test]
    fn a_pattern_names_a_host_and_a_port() {
        assert!(matches(
            "api.vendor.example",
            "https://api.vendor.example/v1"
        ));
        assert!(matches(
            "API.Vendor.example",
            "https://api.vendor.example:443/v1"
        ));
        assert!(!matches(
            "api.vendor.example",
            "https://api.vendor.example:8443/"
        ));
        assert!(!matches(
            "api.vendor.example",
            "https://xapi.vendor.example/"
        ));
        assert!(!matches(
            "api.vendor.example",
            "https://api.vendor.example.evil.example/"
        ));
        assert!(matches("127.0.0.1:4010", "http://127.0.0.1:4010/x"));
        assert!(!matches("127.0.0.1:4010", "http://127.0.0.1:4011/x"));
    }

    #[test]
    fn a_star_means_names_below_and_not_the_name_itself() {
        assert!(matches("*.vendor.example", "https://a.b.vendor.example/"));
        assert!(!matches("*.vendor.example", "https://vendor.example/"));
        assert!(!matches("*.vendor.example", "https://evilvendor.example/"));
    }

    #[test]
    fn a_name_is_neither_an_address_nor_all_below_one() {
        let is_name = |text: &str| text.parse::<HostPattern>().unwrap().is_name();
        assert!(is_name("staging.internal") && is_name("hooks:8443"));
        assert!(!is_name("*.internal") && !is_name("10.0.0.1:8443") && !is_name("[fd00::1]"));
    }

    #[test]
    fn what_is_no_host_is_refused() {
        for wrong in [
            "",
            "*",
            "*.",
            "*.*.x",
            "https://x",
            "a/b",
            "a b",
            "u@h",
            "*.127.0.0.1",
            "h:99999",
        ] {
            assert!(wrong.parse::<HostPattern>().is_err(), "{wrong}");
        }
    }
}
