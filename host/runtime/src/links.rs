//! Where a module may lead a payer.

use kassette_http::{Guard, HostList};
use url::Url;

use crate::error::CallError;

/// Longest address, in bytes; browsers and proxies refuse more.
const MAX_URL_BYTES: usize = 8 * 1024;

/// Schemes that open a wallet or a bank's app. `https` is judged like a redirect; everything else,
/// `javascript`, `data` and `intent` among it, is refused.
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

/// Which pages an account may send a payer to.
#[derive(Clone, Copy)]
pub(crate) struct AllowedPages<'a> {
    pub(crate) hosts: &'a HostList,
    pub(crate) plain_loopback: bool,
}

impl AllowedPages<'_> {
    /// A redirect or a form's target: https, no userinfo, on one of the hosts. A fragment is the
    /// page's own business (hosted checkouts keep state there).
    pub(crate) fn check_page(self, text: &str) -> Result<String, CallError> {
        let url = parse(text)?;
        let mut target = url.clone();
        target.set_fragment(None);
        let guard = Guard {
            allow_loopback: self.plain_loopback,
        };
        if guard.judge_url(&target).is_err() {
            return Err(CallError::BadReply(
                "a link for the payer is not a plain https address",
            ));
        }
        if !self.hosts.iter().any(|host| host.matches(&target)) {
            return Err(CallError::BadReply(
                "a link for the payer leads to a host not configured",
            ));
        }
        Ok(url.into())
    }

    /// What opens an app, or a page.
    pub(crate) fn check_link(self, text: &str) -> Result<String, CallError> {
        let url = parse(text)?;
        if APP_SCHEMES.contains(&url.scheme()) {
            Ok(url.into())
        } else {
            self.check_page(text)
        }
    }
}

fn parse(text: &str) -> Result<Url, CallError> {
    if text.len() > MAX_URL_BYTES {
        return Err(CallError::BadReply("a link for the payer is too long"));
    }
    // The parser would drop tabs and line breaks silently; a browser may see something else.
    if text.chars().any(char::is_control) {
        return Err(CallError::BadReply(
            "a link for the payer holds control characters",
        ));
    }
    Url::parse(text).map_err(|_| CallError::BadReply("a link for the payer is not an address"))
}

#[cfg(test)]
mod tests {
    use kassette_http::HostPattern;

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
