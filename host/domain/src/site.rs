//! Shop domains and return URLs: where a payer's browser may be sent.

use std::fmt;

use serde::{Deserialize, Serialize};
use url::{Host, Url};

/// Why a URL or domain is refused; the words are for the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadSite {
    /// Not a URL, too long, or with characters that a URL cannot have.
    #[error("must be an absolute https URL of at most 2048 characters")]
    Url,
    /// User name or password in it.
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
    /// A public suffix, under which strangers register names.
    #[error("is a public suffix, which no merchant can own; verify a domain below it")]
    PublicSuffix,
    /// `?…` or `#…` where only a place is meant.
    #[error("must have no query and no fragment")]
    Query,
    /// Not below a verified shop domain.
    #[error("must lie under a verified shop domain of the merchant")]
    Unverified,
}

/// A verified shop domain: lower-case A-labels, no trailing dot.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct VerifiedDomain {
    pub domain: String,
    /// Whether names below it count too; an operator's choice.
    pub include_subdomains: bool,
}

/// Whether a host is this machine: `localhost`, or an address of loopback.
pub fn is_loopback(host: &Host<impl AsRef<str>>) -> bool {
    match host {
        Host::Ipv4(address) => address.is_loopback(),
        Host::Ipv6(address) => address.is_loopback(),
        Host::Domain(name) => name.as_ref() == "localhost",
    }
}

/// Reads a host's name into lower-case A-labels. `allow_loopback` (development) takes loopback and
/// `localhost` too.
///
/// # Errors
/// What stands in the way; public suffixes cannot be verified.
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
    match psl::suffix(host.as_bytes()) {
        Some(suffix) if suffix.as_bytes() == host.as_bytes() => Err(BadSite::PublicSuffix),
        _ => Ok(host),
    }
}

/// Where the payer's browser goes at the end: stored and used exactly as it was sent.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ReturnUrl(String);

impl ReturnUrl {
    /// Longest URL, in characters.
    pub const MAX: usize = 2048;

    /// Reads a return URL; whether its host is verified is asked apart ([`ReturnUrl::lies_under`]).
    /// `allow_loopback` (development) lets it lead to loopback or `localhost`, over plain http and to any
    /// port too.
    ///
    /// # Errors
    /// What stands in the way.
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
        // WHATWG parsing forgives a missing slash; a person reading the text would not.
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

    /// The URL exactly as it was sent.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether the host is a verified domain, or lies below one that includes its subdomains. One on
    /// loopback needs `allow_loopback` as well: a development's store may come to serve.
    pub fn lies_under(&self, domains: &[VerifiedDomain], allow_loopback: bool) -> bool {
        let url = Url::parse(&self.0).ok();
        let Some(host) = url.as_ref().and_then(Url::host) else {
            return false;
        };
        if is_loopback(&host) && !allow_loopback {
            return false;
        }
        let host = host.to_string();
        domains.iter().any(|verified| {
            host == verified.domain
                || (verified.include_subdomains
                    && host
                        .strip_suffix(verified.domain.as_str())
                        .is_some_and(|below| below.ends_with('.')))
        })
    }
}

/// What stands between `scheme://` and the path, as it was written; none where that is not what was written,
/// or nothing stands there: WHATWG parsing forgives both.
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
        // What names no port and no other scheme reads everywhere, and leads nowhere under serve.
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
    }
}
