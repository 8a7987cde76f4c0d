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
    /// The host's name.
    pub domain: String,
    /// Whether names below it count too; an operator's choice.
    pub include_subdomains: bool,
}

/// Reads a host's name into lower-case A-labels.
///
/// # Errors
/// What stands in the way; public suffixes cannot be verified.
pub fn parse_domain(text: &str) -> Result<String, BadSite> {
    if text.len() > 253 || text.ends_with('.') {
        return Err(if text.ends_with('.') {
            BadSite::TrailingDot
        } else {
            BadSite::Name
        });
    }
    let host = match Host::parse(text).map_err(|_| BadSite::Name)? {
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
    ///
    /// # Errors
    /// What stands in the way.
    pub fn parse(text: &str) -> Result<Self, BadSite> {
        let odd = |c: char| c.is_control() || c == '\\' || c.is_whitespace();
        if text.chars().count() > Self::MAX || text.chars().any(odd) {
            return Err(BadSite::Url);
        }
        let url = Url::parse(text).map_err(|_| BadSite::Url)?;
        // WHATWG parsing forgives a missing slash; a person reading the text would not.
        if url.scheme() != "https"
            || !text
                .get(..8)
                .is_some_and(|s| s.eq_ignore_ascii_case("https://"))
        {
            return Err(BadSite::Url);
        }
        let authority = text[8..].split(['/', '?', '#']).next().unwrap_or_default();
        // It forgives one too many as well.
        if authority.is_empty() {
            return Err(BadSite::Url);
        }
        if authority.contains('@') || !url.username().is_empty() || url.password().is_some() {
            return Err(BadSite::Userinfo);
        }
        if url.port().is_some() {
            return Err(BadSite::Port);
        }
        match url.host() {
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

    /// Whether the host is a verified domain, or lies below one that includes its subdomains.
    pub fn lies_under(&self, domains: &[VerifiedDomain]) -> bool {
        let Some(host) = Url::parse(&self.0)
            .ok()
            .and_then(|url| url.host_str().map(str::to_owned))
        else {
            return false;
        };
        domains.iter().any(|verified| {
            host == verified.domain
                || (verified.include_subdomains
                    && host
                        .strip_suffix(verified.domain.as_str())
                        .is_some_and(|below| below.ends_with('.')))
        })
    }
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
        let url = ReturnUrl::parse(text).unwrap();
        assert_eq!(url.as_str(), text);
        assert!(url.lies_under(&shop(false)));
    }

    #[test]
    fn only_the_verified_host_counts_unless_subdomains_are_included() {
        let below = ReturnUrl::parse("https://eu.shop.example/done").unwrap();
        assert!(!below.lies_under(&shop(false)));
        assert!(below.lies_under(&shop(true)));
        for other in [
            "https://evilshop.example/",
            "https://shop.example.evil.test/",
            "https://example/",
        ] {
            assert!(
                !ReturnUrl::parse(other).unwrap().lies_under(&shop(true)),
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
            assert_eq!(ReturnUrl::parse(text), Err(why), "{text}");
        }
        let long = format!("https://shop.example/{}", "a".repeat(2048));
        assert_eq!(ReturnUrl::parse(&long), Err(BadSite::Url));
    }

    #[test]
    fn an_international_name_is_compared_by_its_a_labels() {
        assert_eq!(
            parse_domain("Bücher.example").unwrap(),
            "xn--bcher-kva.example"
        );
        let domains = [VerifiedDomain {
            domain: "xn--bcher-kva.example".into(),
            include_subdomains: false,
        }];
        assert!(
            ReturnUrl::parse("https://bücher.example/")
                .unwrap()
                .lies_under(&domains)
        );
    }

    #[test]
    fn public_suffixes_and_addresses_cannot_be_verified() {
        assert_eq!(parse_domain("co.uk"), Err(BadSite::PublicSuffix));
        assert_eq!(parse_domain("github.io"), Err(BadSite::PublicSuffix));
        assert_eq!(parse_domain("10.0.0.1"), Err(BadSite::IpAddress));
        assert_eq!(parse_domain("shop.example."), Err(BadSite::TrailingDot));
        assert_eq!(parse_domain("localhost"), Err(BadSite::Name));
        assert_eq!(parse_domain("a b.example"), Err(BadSite::Name));
    }
}
