//! Shop domains and return URLs, to which a payer's browser may be sent.

use std::fmt;

use serde::{Deserialize, Serialize};
use url::{Host, Url};

/// Reason why a URL or domain is rejected; the messages are for the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadSite {
    /// Not a URL, too long, or with invalid characters.
    #[error("must be an absolute https URL of at most 2048 characters")]
    Url,
    /// Contains a user name or password.
    #[error("must not contain a user name or password")]
    Userinfo,
    /// A port other than 443.
    #[error("must use the default https port")]
    Port,
    /// An IP address in any form.
    #[error("must name a host, not an IP address")]
    IpAddress,
    /// A host that ends in a dot.
    #[error("must not end its host in a dot")]
    TrailingDot,
    /// Not a host name.
    #[error("must be a registrable host name such as shop.example")]
    Name,
    /// A name that is valid only inside a network.
    #[error("is a name inside a network, which no merchant can own; verify a public name")]
    InnerName,
    /// A public suffix, under which anyone can register names.
    #[error("is a public suffix, which no merchant can own; verify a domain below it")]
    PublicSuffix,
    /// A query or a fragment, which are not allowed here.
    #[error("must have no query and no fragment")]
    Query,
    /// Not under a verified shop domain.
    #[error("must lie under a verified shop domain of the merchant")]
    Unverified,
}

/// A verified shop domain: lower-case A-labels, no trailing dot.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct VerifiedDomain {
    pub domain: String,
    /// Whether its subdomains are included; an operator's choice.
    pub include_subdomains: bool,
}

/// Last labels of names that resolvers answer locally: registered for special use (RFC 6761, 6762, 7686, 8375,
/// 9476), for infrastructure (`arpa`), or common on private networks.
pub const INNER_NAMES: [&str; 12] = [
    "localhost",
    "local",
    "localdomain",
    "internal",
    "intranet",
    "private",
    "corp",
    "home",
    "lan",
    "arpa",
    "onion",
    "alt",
];

/// Whether a name of several labels is valid only inside a network.
fn is_inner(host: &str) -> bool {
    let last = host.rsplit_once('.').map(|(_, last)| last);
    last.is_some_and(|last| INNER_NAMES.contains(&last))
}

/// Whether a host is this machine: `localhost`, or a loopback address.
pub fn is_loopback(host: &Host<impl AsRef<str>>) -> bool {
    match host {
        Host::Ipv4(address) => address.is_loopback(),
        Host::Ipv6(address) => address.is_loopback(),
        Host::Domain(name) => name.as_ref() == "localhost",
    }
}

/// Parses a host name into lower-case A-labels. `allow_loopback` (development) also accepts loopback and
/// `localhost`.
///
/// # Errors
/// The reason for the rejection; public suffixes cannot be verified.
pub fn parse_domain(text: &str, allow_loopback: bool) -> Result<String, BadSite> {
    if text.len() > 253 || text.ends_with('.') {
        return Err(if text.ends_with('.') {
            BadSite::TrailingDot
        } else {
            BadSite::Name
        });
    }
    let host = match Host::parse(text).map_err(|_| BadSite::Name)? {
        host if allow_loopback && is_loopback(&host) => return Ok(host.to_string()),
        Host::Domain(host) => host,
        Host::Ipv4(_) | Host::Ipv6(_) => return Err(BadSite::IpAddress),
    };
    if host.ends_with('.') {
        return Err(BadSite::TrailingDot);
    }
    if !host.contains('.') || !host.split('.').all(crate::order::is_label) {
        return Err(BadSite::Name);
    }
    if is_inner(&host) {
        return Err(BadSite::InnerName);
    }
    match psl::suffix(host.as_bytes()) {
        Some(suffix) if suffix.as_bytes() == host.as_bytes() => Err(BadSite::PublicSuffix),
        _ => Ok(host),
    }
}

/// URL to which the payer's browser is sent at the end: stored and used exactly as received.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ReturnUrl(String);

impl ReturnUrl {
    /// Maximum length of a URL, in characters.
    pub const MAX: usize = 2048;

    /// Parses a return URL; [`ReturnUrl::lies_under`] checks whether its host is verified. `allow_loopback`
    /// (development) accepts loopback and `localhost`, also over plain http and with any port.
    ///
    /// # Errors
    /// The reason for the rejection.
    pub fn parse(text: &str, allow_loopback: bool) -> Result<Self, BadSite> {
        let odd = |c: char| c.is_control() || c == '\\' || c.is_whitespace();
        if text.chars().count() > Self::MAX || text.chars().any(odd) {
            return Err(BadSite::Url);
        }
        let url = Url::parse(text).map_err(|_| BadSite::Url)?;
        let loopback = allow_loopback && url.host().is_some_and(|host| is_loopback(&host));
        if url.scheme() != "https" && !(loopback && url.scheme() == "http") {
            return Err(BadSite::Url);
        }
        // WHATWG parsing accepts a missing slash; a person reading the text would not.
        let authority = authority(text, url.scheme()).ok_or(BadSite::Url)?;
        if authority.contains('@') || !url.username().is_empty() || url.password().is_some() {
            return Err(BadSite::Userinfo);
        }
        if url.port().is_some() && !loopback {
            return Err(BadSite::Port);
        }
        match url.host() {
            _ if loopback => Ok(Self(text.to_owned())),
            Some(Host::Domain(host)) if host.ends_with('.') => Err(BadSite::TrailingDot),
            Some(Host::Domain(host)) if host.split('.').all(crate::order::is_label) => {
                Ok(Self(text.to_owned()))
            }
            Some(Host::Domain(_)) | None => Err(BadSite::Name),
            Some(Host::Ipv4(_) | Host::Ipv6(_)) => Err(BadSite::IpAddress),
        }
    }

    /// The URL exactly as received.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether the host is a verified domain, or a subdomain of one that includes its subdomains. Loopback also
    /// needs `allow_loopback`, because a store from development may later be used by `serve`.
    pub fn lies_under(&self, domains: &[VerifiedDomain], allow_loopback: bool) -> bool {
        let url = Url::parse(&self.0).ok();
        let Some(host) = url.as_ref().and_then(Url::host) else {
            return false;
        };
        if is_loopback(&host) && !allow_loopback {
            return false;
        }
        let host = host.to_string();
        if is_inner(&host) {
            return false;
        }
        domains.iter().any(|verified| {
            host == verified.domain
                || (verified.include_subdomains
                    && host
                        .strip_suffix(verified.domain.as_str())
                        .is_some_and(|below| below.ends_with('.')))
        })
    }
}

/// The text between `scheme://` and the path. `None` if the text does not contain `://` after the scheme, or if
/// the authority is empty: WHATWG parsing accepts both.
pub(crate) fn authority<'a>(text: &'a str, scheme: &str) -> Option<&'a str> {
    let (written, rest) = text.split_once("://")?;
    let authority = rest.split(['/', '?', '#']).next()?;
    (written.eq_ignore_ascii_case(scheme) && !authority.is_empty()).then_some(authority)
}

impl fmt::Display for ReturnUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shop(include_subdomains: bool) -> Vec<VerifiedDomain> {
        vec![VerifiedDomain {
            domain: "shop.example".into(),
            include_subdomains,
        }]
    }

    #[test]
    fn a_return_url_is_kept_as_sent() {
        let text = "https://Shop.example:443/a%2Fb?x=1#y";
        let url = ReturnUrl::parse(text, false).unwrap();
        assert_eq!(url.as_str(), text);
        assert!(url.lies_under(&shop(false), false));
    }

    #[test]
    fn only_the_verified_host_counts_unless_subdomains_are_included() {
        let below = ReturnUrl::parse("https://eu.shop.example/done", false).unwrap();
        assert!(!below.lies_under(&shop(false), false));
        assert!(below.lies_under(&shop(true), false));
        for other in [
            "https://evilshop.example/",
            "https://shop.example.evil.test/",
            "https://example/",
        ] {
            assert!(
                !ReturnUrl::parse(other, false)
                    .unwrap()
                    .lies_under(&shop(true), false),
                "{other}"
            );
        }
    }

    #[test]
    fn tricks_are_refused() {
        for (text, why) in [
            ("http://shop.example/", BadSite::Url),
            ("https:shop.example", BadSite::Url),
            ("https:/\\shop.example", BadSite::Url),
            ("https:///shop.example/", BadSite::Url),
            ("https://shop.example\\@evil.test/", BadSite::Url),
            ("https://shop.example/\u{7}", BadSite::Url),
            (" https://shop.example/", BadSite::Url),
            ("https://user@shop.example/", BadSite::Userinfo),
            ("https://@shop.example/", BadSite::Userinfo),
            ("https://shop.example:8443/", BadSite::Port),
            ("https://127.0.0.1/", BadSite::IpAddress),
            ("https://0x7f.1/", BadSite::IpAddress),
            ("https://2130706433/", BadSite::IpAddress),
            ("https://[::1]/", BadSite::IpAddress),
            ("https://shop.example./", BadSite::TrailingDot),
            ("javascript:alert(1)", BadSite::Url),
            ("/relative", BadSite::Url),
        ] {
            assert_eq!(ReturnUrl::parse(text, false), Err(why), "{text}");
        }
        let long = format!("https://shop.example/{}", "a".repeat(2048));
        assert_eq!(ReturnUrl::parse(&long, false), Err(BadSite::Url));
    }

    #[test]
    fn only_development_sends_payers_to_loopback_over_any_port() {
        let shop: Vec<VerifiedDomain> = ["localhost", "127.0.0.1", "[::1]"]
            .map(|name| VerifiedDomain {
                domain: parse_domain(name, true).unwrap(),
                include_subdomains: true,
            })
            .into();
        for fine in [
            "http://localhost:3000/thanks?order=1",
            "http://localhost/",
            "https://LOCALHOST:8443/",
            "http://127.0.0.1:8090/done",
            "http://[::1]:8090/",
        ] {
            let url = ReturnUrl::parse(fine, true).unwrap();
            assert_eq!(url.as_str(), fine);
            assert!(url.lies_under(&shop, true), "{fine}");
            assert!(!url.lies_under(&shop, false), "{fine}");
            assert!(!url.lies_under(&[], true), "{fine}");
            assert!(ReturnUrl::parse(fine, false).is_err(), "{fine}");
        }
        // An https URL without a port parses in any profile, but is not verified under `serve`.
        let url = ReturnUrl::parse("https://localhost/", false).unwrap();
        assert!(!url.lies_under(&shop, false));
        for (wrong, why) in [
            ("http://shop.example/", BadSite::Url),
            ("https://shop.example:8443/", BadSite::Port),
            ("http://localhost.evil.test/", BadSite::Url),
            ("http://shop.localhost/", BadSite::Url),
            ("http://192.168.0.1/", BadSite::Url),
            ("https://10.0.0.1/", BadSite::IpAddress),
            ("http://localhost@evil.test/", BadSite::Url),
            ("http://user@localhost/", BadSite::Userinfo),
            ("http:/localhost/", BadSite::Url),
            ("http:///localhost/", BadSite::Url),
            ("ws://localhost/", BadSite::Url),
            ("javascript://localhost/", BadSite::Url),
        ] {
            assert_eq!(ReturnUrl::parse(wrong, true), Err(why), "{wrong}");
        }
        for wrong in [
            "localhost.",
            "192.168.0.1",
            "localhost:80",
            "shop.localhost.",
        ] {
            assert!(parse_domain(wrong, true).is_err(), "{wrong}");
        }
        assert_eq!(parse_domain("127.0.0.1", false), Err(BadSite::IpAddress));
    }

    #[test]
    fn an_international_name_is_compared_by_its_a_labels() {
        assert_eq!(
            parse_domain("Bücher.example", false).unwrap(),
            "xn--bcher-kva.example"
        );
        let domains = [VerifiedDomain {
            domain: "xn--bcher-kva.example".into(),
            include_subdomains: false,
        }];
        assert!(
            ReturnUrl::parse("https://bücher.example/", false)
                .unwrap()
                .lies_under(&domains, false)
        );
    }

    #[test]
    fn public_suffixes_and_addresses_cannot_be_verified() {
        assert_eq!(parse_domain("co.uk", false), Err(BadSite::PublicSuffix));
        assert_eq!(parse_domain("github.io", false), Err(BadSite::PublicSuffix));
        assert_eq!(parse_domain("10.0.0.1", false), Err(BadSite::IpAddress));
        assert_eq!(
            parse_domain("shop.example.", false),
            Err(BadSite::TrailingDot)
        );
        assert_eq!(parse_domain("localhost", false), Err(BadSite::Name));
        assert_eq!(parse_domain("a b.example", false), Err(BadSite::Name));
        for inner in [
            "sub.localhost",
            "foo.local",
            "a.internal",
            "A.Internal",
            "router.home.arpa",
        ] {
            assert_eq!(
                parse_domain(inner, false),
                Err(BadSite::InnerName),
                "{inner}"
            );
            let url = ReturnUrl::parse(&format!("https://{inner}/"), false).unwrap();
            let domain = inner.to_lowercase();
            let domains = [VerifiedDomain {
                domain,
                include_subdomains: false,
            }];
            assert!(!url.lies_under(&domains, false), "{inner}");
        }
    }
}
