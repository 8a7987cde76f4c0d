//! Which hosts an account may talk to.

use std::fmt;
use std::net::Ipv4Addr;
use std::str::FromStr;

use url::Url;

/// Hosts that something may reach: none means nowhere.
pub type HostList = [HostPattern];

/// One entry of a list of hosts: `api.vendor.example`, `*.vendor.example` (any name below, not
/// itself), either with a port: `localhost:4010`.
///
/// Without a port it means the scheme's own (443, or 80 for plain http).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct HostPattern {
    /// Lower-case A-label, or an address as the URL standard writes it.
    host: String,
    below: bool,
    port: Option<u16>,
}

/// The text is no pattern of hosts.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a host: {0:?}; write \"api.vendor.example\", \"*.vendor.example\" or \"host:port\"")]
pub struct NotAHost(String);

impl HostPattern {
    /// The host of a URL and its port, as a pattern that matches nothing else.
    ///
    /// None where the URL has no host.
    pub fn of(url: &Url) -> Option<Self> {
        Some(Self {
            host: url.host_str()?.to_owned(),
            below: false,
            port: url.port(),
        })
    }

    /// Whether it is one name, and neither an address nor all below a name.
    pub fn is_name(&self) -> bool {
        let is_address = self.host.starts_with('[') || self.host.parse::<Ipv4Addr>().is_ok();
        !self.below && !is_address
    }

    /// Whether it is this machine's own name, or one below that.
    pub fn is_loopback(&self) -> bool {
        self.host == "localhost" || self.host.ends_with(".localhost")
    }

    /// Whether a URL leads there. The scheme is judged elsewhere.
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
        // `Url::port` is none where the port is the scheme's own; so it is here.
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
        // The URL parser decides what a host is, so that pattern and request agree.
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
