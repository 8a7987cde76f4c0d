//! URLs to which a page may send a payer. The runtime already rejects bad URLs of modules; this is the last
//! check before a page contains one.

use url::{Host, Url};

/// Schemes that run code or access the payer's machine instead of opening an app.
const NEVER: [&str; 8] = [
    "javascript",
    "data",
    "vbscript",
    "file",
    "blob",
    "filesystem",
    "about",
    "view-source",
];

/// Whether a provider's page may be opened: https without user name and password, or plain http on loopback if
/// that is allowed.
pub(crate) fn is_page(address: &str, plain_loopback: bool) -> bool {
    let Ok(url) = Url::parse(address) else {
        return false;
    };
    let plain = url.username().is_empty() && url.password().is_none();
    match url.scheme() {
        "https" => plain,
        "http" => plain && plain_loopback && is_loopback(&url),
        _ => false,
    }
}

/// Whether a link in instructions may be shown: a page, or a scheme that opens an app (`upi:`, `bitcoin:`).
pub(crate) fn is_opener(address: &str, plain_loopback: bool) -> bool {
    let Ok(url) = Url::parse(address) else {
        return false;
    };
    match url.scheme() {
        "https" | "http" => is_page(address, plain_loopback),
        scheme => !NEVER.contains(&scheme),
    }
}

fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        Some(Host::Domain(name)) => name == "localhost",
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payers_are_sent_to_https_pages_only() {
        assert!(is_page("https://pay.example/x?y=1", false));
        for wrong in [
            "http://pay.example/",
            "https://user@pay.example/",
            "javascript:alert(1)",
            "//pay.example/",
            "/relative",
        ] {
            assert!(!is_page(wrong, true), "{wrong}");
        }
    }

    #[test]
    fn plain_http_is_for_loopback_in_development() {
        for local in [
            "http://127.0.0.1:9/x",
            "http://localhost:9/",
            "http://[::1]:9/",
        ] {
            assert!(is_page(local, true), "{local}");
            assert!(!is_page(local, false), "{local}");
        }
    }

    #[test]
    fn links_open_apps_but_never_run_code() {
        assert!(is_opener("upi://pay?pa=a@b", false));
        assert!(is_opener("bitcoin:bc1q", false));
        for wrong in [
            "JavaScript:alert(1)",
            "\tjavascript:alert(1)",
            "data:text/html,x",
            "file:///etc/passwd",
            "http://pay.example/",
        ] {
            assert!(!is_opener(wrong, true), "{wrong}");
        }
    }
}
