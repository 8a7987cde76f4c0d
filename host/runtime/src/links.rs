//! Destinations that a module may send a payer to.

use kassette_http::{Guard, HostList, HostPattern};
use url::Url;

use crate::text;

/// Maximum length of a URL, in bytes. Browsers and proxies refuse longer ones.
const MAX_URL_BYTES: usize = 8 * 1024;

/// Maximum length of the description of a refused URL, in bytes.
const MAX_SHOWN: usize = 100;

/// Schemes that open a wallet or a banking app. `https` is checked like a redirect. All others are refused, for
/// example `javascript`, `data` and `intent`.
const APP_SCHEMES: [&str; 8] = [
    "bitcoin",
    "bitcoincash",
    "dogecoin",
    "ethereum",
    "lightning",
    "litecoin",
    "monero",
    "upi",
];

/// A refused destination, described for the operator by its host or its fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PageRefused(pub(crate) String);

/// The pages that an account may send a payer to.
#[derive(Clone, Copy)]
pub(crate) struct AllowedPages<'a> {
    pub(crate) hosts: &'a HostList,
    pub(crate) plain_loopback: bool,
}

impl AllowedPages<'_> {
    /// Checks the target of a redirect or a form: https, no user information, on an allowed host. A fragment is
    /// allowed, because hosted checkouts keep state there.
    ///
    /// The account's settings and the provider's response decide this, so a refusal is not a fault of the module.
    pub(crate) fn check_page(self, text: &str) -> Result<String, PageRefused> {
        let url = parse(text)?;
        let mut target = url.clone();
        target.set_fragment(None);
        let guard = Guard {
            allow_loopback: self.plain_loopback,
        };
        if guard.judge_url(&target).is_err() {
            return Err(not_https(&url));
        }
        if !self.hosts.iter().any(|host| host.matches(&target)) {
            let host = HostPattern::from_url(&target).map(|host| host.to_string());
            return Err(host.map_or_else(|| not_https(&url), PageRefused));
        }
        Ok(url.into())
    }

    /// Checks a link that opens an app or a page.
    pub(crate) fn check_link(self, text: &str) -> Result<String, PageRefused> {
        let url = parse(text)?;
        if APP_SCHEMES.contains(&url.scheme()) {
            Ok(url.into())
        } else {
            self.check_page(text)
        }
    }
}

/// Names only the scheme and the host: the rest of the URL may contain a token.
fn not_https(url: &Url) -> PageRefused {
    let host = url.host_str().unwrap_or_default();
    PageRefused(text::cut(
        &format!("{}://{host} (no plain https address)", url.scheme()),
        MAX_SHOWN,
    ))
}

fn parse(text: &str) -> Result<Url, PageRefused> {
    let wrong = |why: &str| PageRefused(why.to_owned());
    if text.len() > MAX_URL_BYTES {
        return Err(wrong("an address that is too long"));
    }
    // The parser silently removes tabs and line breaks, but a browser may not.
    if text.chars().any(char::is_control) {
        return Err(wrong("an address with control characters"));
    }
    Url::parse(text).map_err(|_| wrong("what is no address"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts() -> Vec<HostPattern> {
        ["pay.vendor.example", "127.0.0.1:4010"]
            .map(|host| host.parse().unwrap())
            .to_vec()
    }

    #[test]
    fn a_payer_is_only_led_to_configured_https_pages() {
        let hosts = hosts();
        let pages = AllowedPages {
            hosts: &hosts,
            plain_loopback: false,
        };
        let fine = "https://pay.vendor.example/c/1?x=y#state";
        assert_eq!(pages.check_page(fine).unwrap(), fine);
        for wrong in [
            "http://pay.vendor.example/",
            "https://evil.example/",
            "https://pay.vendor.example@evil.example/",
            "https://user@pay.vendor.example/",
            "https://pay.vendor.example:8443/",
            "https://pay.vendor.example.evil.example/",
            "javascript:alert(1)",
            "java\nscript:alert(1)",
            "data:text/html,x",
            "//pay.vendor.example/",
            "/relative",
            "",
            "http://127.0.0.1:4010/",
        ] {
            assert!(pages.check_page(wrong).is_err(), "{wrong}");
            assert!(pages.check_link(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_refused_page_is_named_by_its_host_alone() {
        let hosts = hosts();
        let pages = AllowedPages {
            hosts: &hosts,
            plain_loopback: false,
        };
        let named = |text: &str| pages.check_page(text).unwrap_err().0;
        let shown = "https://checkout.vendor.example/session/s3cret";
        assert_eq!(named(shown), "checkout.vendor.example");
        let plain = "http://pay.vendor.example/session/s3cret";
        let expected = "http://pay.vendor.example (no plain https address)";
        assert_eq!(named(plain), expected);
    }

    #[test]
    fn a_simulated_account_may_lead_to_loopback() {
        let hosts = hosts();
        let pages = AllowedPages {
            hosts: &hosts,
            plain_loopback: true,
        };
        assert!(pages.check_page("http://127.0.0.1:4010/pay/1").is_ok());
        assert!(pages.check_page("http://127.0.0.1:4011/pay/1").is_err());
        assert!(pages.check_page("http://pay.vendor.example/").is_err());
    }

    #[test]
    fn a_link_may_open_a_wallet() {
        let hosts = hosts();
        let pages = AllowedPages {
            hosts: &hosts,
            plain_loopback: false,
        };
        for link in [
            "bitcoin:bc1qxyz?amount=0.1",
            "upi://pay?pa=x@y",
            "https://pay.vendor.example/x",
        ] {
            assert_eq!(pages.check_link(link).unwrap(), link);
        }
        assert!(pages.check_link("intent://x#Intent;end").is_err());
        assert!(pages.check_link("file:///etc/passwd").is_err());
        assert!(pages.check_page("bitcoin:bc1qxyz").is_err());
    }
}
