//! Decides from the text of a URL, before any name is resolved, whether it may be a destination.

use url::{Host, Url};

use crate::hosts::HostList;

/// Rules for the destinations of an outgoing client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Guard {
    /// For development: also allows loopback addresses and `localhost`, over https or plain http. Plain http to
    /// other hosts remains refused.
    pub allow_loopback: bool,
}

/// Maximum length of a URL, in bytes. Many servers refuse longer ones anyway.
const MAX_URL: usize = 8 * 1024;

/// Last labels of names that are not public: registered for special use (RFC 6761, 6762, 7686, 8375, 9476), for
/// infrastructure (`arpa`), or common on private networks.
const INNER_NAMES: [&str; 12] = [
    "localhost",
    "local",
    "localdomain",
    "internal",
    "intranet",
    "private",
    "lan",
    "home",
    "corp",
    "arpa",
    "onion",
    "alt",
];

/// Reason why a URL is refused as a destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// Not an absolute URL, or a URL with characters that two readers may interpret differently.
    #[error("this is no absolute address, such as \"https://shop.example/webhook\"")]
    NotAUrl,
    /// Neither https, nor http to an allowed loopback host.
    #[error("the address must use https")]
    Scheme,
    /// No host, or a name that DNS cannot represent.
    #[error("the address has no usable host")]
    NoHost,
    /// `user:password@`.
    #[error("the address must not contain a user name or password")]
    Userinfo,
    /// `#…`.
    #[error("the address must not contain a fragment")]
    Fragment,
    /// An IP address instead of a name, in any form that browsers accept.
    #[error("the host must be a name, not an IP address")]
    IpAddress,
    /// A name that has a meaning only inside a network.
    #[error("the host is not a public name")]
    InnerName,
    /// Port 0.
    #[error("the port cannot be connected to")]
    Port,
    /// Longer than 8 KiB.
    #[error("the address is too long")]
    TooLong,
}

impl Guard {
    /// Parses and checks a destination that another party wrote.
    ///
    /// Stricter than the URL standard, which removes line breaks and tabs, trims blanks, reads a backslash as a
    /// slash, adds and removes slashes before the host, and drops an empty user name: the called URL must be the
    /// one that people and other programs read in the text.
    ///
    /// # Errors The first rule that the URL violates.
    pub fn judge(self, text: &str) -> Result<Url, Refused> {
        self.judge_beside(text, &[])
    }

    /// Like [`Guard::judge`], but hosts in `inner` may have names that are not public.
    ///
    /// # Errors The first rule that the URL violates.
    pub fn judge_beside(self, text: &str, inner: &HostList) -> Result<Url, Refused> {
        let misleading =
            |c: char| c == '\\' || c.is_whitespace() || c.is_control() || is_invisible(c);
        if text.len() > MAX_URL {
            return Err(Refused::TooLong);
        }
        if text.contains(misleading) {
            return Err(Refused::NotAUrl);
        }
        let url = Url::parse(text).map_err(|_| Refused::NotAUrl)?;
        let authority = written_authority(text, &url);
        if authority.is_some_and(|authority| authority.contains('@')) {
            return Err(Refused::Userinfo);
        }
        self.judge_url_beside(&url, inner)?;
        if authority.is_none_or(str::is_empty) {
            return Err(Refused::NotAUrl);
        }
        Ok(url)
    }

    /// Checks a parsed URL by its text, as when a webhook endpoint is created.
    ///
    /// An accepted URL can still be refused when its name is resolved.
    ///
    /// # Errors The first rule that the URL violates.
    pub fn judge_url(self, url: &Url) -> Result<(), Refused> {
        self.judge_url_beside(url, &[])
    }

    /// Like [`Guard::judge_url`], but hosts in `inner` may have names that are not public.
    pub(crate) fn judge_url_beside(self, url: &Url, inner: &HostList) -> Result<(), Refused> {
        if url.as_str().len() > MAX_URL {
            return Err(Refused::TooLong);
        }
        let host = url.host().ok_or(Refused::NoHost)?;
        if !url.username().is_empty() || url.password().is_some() {
            return Err(Refused::Userinfo);
        }
        if url.fragment().is_some() {
            return Err(Refused::Fragment);
        }
        if url.port() == Some(0) {
            return Err(Refused::Port);
        }
        if is_loopback(&host) && self.allow_loopback {
            return if matches!(url.scheme(), "http" | "https") {
                Ok(())
            } else {
                Err(Refused::Scheme)
            };
        }
        if url.scheme() != "https" {
            return Err(Refused::Scheme);
        }
        match host {
            Host::Ipv4(_) | Host::Ipv6(_) => Err(Refused::IpAddress),
            Host::Domain(name) if inner.iter().any(|host| host.matches(url)) => judge_form(name),
            Host::Domain(name) => judge_name(name),
        }
    }
}

/// The text between `scheme://` and the path. `None` if the text does not start with the scheme of `url` and
/// `://`.
fn written_authority<'a>(text: &'a str, url: &Url) -> Option<&'a str> {
    let (scheme, rest) = text.split_once("://")?;
    if !scheme.eq_ignore_ascii_case(url.scheme()) {
        return None;
    }
    rest.split(['/', '?', '#']).next()
}

/// Characters without width, and characters that change the direction of text.
const fn is_invisible(c: char) -> bool {
    matches!(c, '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fe00}'..='\u{fe0f}')
}

/// Whether a host is a loopback literal or the name `localhost`.
pub(crate) fn is_loopback(host: &Host<&str>) -> bool {
    match host {
        Host::Ipv4(address) => address.is_loopback(),
        Host::Ipv6(address) => address.is_loopback(),
        Host::Domain(name) => *name == "localhost",
    }
}

/// Checks that a name is public: it has at least two labels, and the last is not in [`INNER_NAMES`].
fn judge_name(name: &str) -> Result<(), Refused> {
    let (_, last) = name.rsplit_once('.').ok_or(Refused::InnerName)?;
    judge_form(name)?;
    if INNER_NAMES.contains(&last) {
        Err(Refused::InnerName)
    } else {
        Ok(())
    }
}

/// Checks that DNS can represent a name.
fn judge_form(name: &str) -> Result<(), Refused> {
    let mut labels = name.split('.');
    if name.len() > 253 || labels.any(|label| label.is_empty() || label.len() > 63) {
        Err(Refused::NoHost)
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Hostile and unusual destinations, each with the rule that refuses it.
    const HOSTILE: &[(&str, Refused)] = &[
        ("http://shop.example/", Refused::Scheme),
        ("ftp://shop.example/", Refused::Scheme),
        ("ws://shop.example/", Refused::Scheme),
        ("gopher://127.0.0.1:6379/_x", Refused::Scheme),
        ("https://user@shop.example/", Refused::Userinfo),
        ("https://user:pass@shop.example/", Refused::Userinfo),
        ("https://:pass@shop.example/", Refused::Userinfo),
        ("https://shop.example@10.0.0.1/", Refused::Userinfo),
        ("https://shop.example/#x", Refused::Fragment),
        ("https://shop.example/#", Refused::Fragment),
        ("https://shop.example:0/", Refused::Port),
        ("https://127.0.0.1/", Refused::IpAddress),
        ("https://127.1/", Refused::IpAddress),
        ("https://2130706433/", Refused::IpAddress),
        ("https://0x7f000001/", Refused::IpAddress),
        ("https://0x7f.0.0.1/", Refused::IpAddress),
        ("https://0177.0.0.1/", Refused::IpAddress),
        ("https://127.0.0.1./", Refused::IpAddress),
        ("https://0/", Refused::IpAddress),
        ("https://8.8.8.8/", Refused::IpAddress),
        ("https://１２７.０.０.１/", Refused::IpAddress),
        ("https://127。0。0。1/", Refused::IpAddress),
        ("https://%31%32%37.0.0.1/", Refused::IpAddress),
        ("https://①②⑦.⓪.⓪.①/", Refused::IpAddress),
        ("https://[::1]/", Refused::IpAddress),
        ("https://[::ffff:127.0.0.1]/", Refused::IpAddress),
        ("https://[2606:4700::1]/", Refused::IpAddress),
        ("https://localhost/", Refused::InnerName),
        ("https://LOCALHOST/", Refused::InnerName),
        ("https://localhost./", Refused::NoHost),
        ("https://x.localhost/", Refused::InnerName),
        ("https://ｌｏｃａｌｈｏｓｔ/", Refused::InnerName),
        ("https://metadata/", Refused::InnerName),
        ("https://metadata.google.internal/", Refused::InnerName),
        ("https://printer.local/", Refused::InnerName),
        ("https://router.home.arpa/", Refused::InnerName),
        ("https://shop.example./", Refused::NoHost),
        ("https://a..example/", Refused::NoHost),
    ];

    #[test]
    fn hostile_destinations_are_refused_by_their_text() {
        for (text, why) in HOSTILE {
            let url = Url::parse(text).unwrap_or_else(|e| panic!("{text}: {e}"));
            assert_eq!(Guard::default().judge_url(&url), Err(*why), "{text}");
        }
    }

    #[test]
    fn public_names_pass() {
        for text in [
            "https://shop.example/hook?x=1",
            "https://shop.example:8443/",
            "https://xn--bcher-kva.example/",
            "https://bücher.example/",
            "https://\\shop.example/",
        ] {
            assert_eq!(
                Guard::default().judge_url(&Url::parse(text).unwrap()),
                Ok(()),
                "{text}"
            );
        }
    }

    #[test]
    fn development_adds_loopback_and_nothing_else() {
        let guard = Guard {
            allow_loopback: true,
        };
        let judge = |text: &str| guard.judge_url(&Url::parse(text).unwrap());
        for text in [
            "http://127.0.0.1:8080/",
            "http://localhost/",
            "https://[::1]:4000/",
            "http://127.1/",
        ] {
            assert_eq!(judge(text), Ok(()), "{text}");
        }
        assert_eq!(judge("http://shop.example/"), Err(Refused::Scheme));
        assert_eq!(judge("http://192.168.0.1/"), Err(Refused::Scheme));
        assert_eq!(judge("https://192.168.0.1/"), Err(Refused::IpAddress));
        assert_eq!(judge("http://user@localhost/"), Err(Refused::Userinfo));
        assert_eq!(judge("http://x.localhost/"), Err(Refused::Scheme));
        assert_eq!(judge("file://localhost/etc/passwd"), Err(Refused::NoHost));
    }

    #[test]
    fn an_inner_name_passes_where_it_is_named_and_no_other_rule_is_lifted() {
        let inner = ["staging.internal", "hooks:8443"].map(|host| host.parse().unwrap());
        let judge = |text: &str| Guard::default().judge_beside(text, &inner).map(drop);
        for text in [
            "https://staging.internal/x",
            "https://hooks:8443/",
            "https://shop.example/",
        ] {
            assert_eq!(judge(text), Ok(()), "{text}");
        }
        for (text, why) in [
            ("https://other.internal/", Refused::InnerName),
            ("https://x.staging.internal/", Refused::InnerName),
            ("https://staging.internal:8443/", Refused::InnerName),
            ("https://hooks/", Refused::InnerName),
            ("http://staging.internal/", Refused::Scheme),
            ("https://user@staging.internal/", Refused::Userinfo),
            ("https://10.0.0.1/", Refused::IpAddress),
        ] {
            assert_eq!(judge(text), Err(why), "{text}");
        }
        let alone = Guard::default().judge("https://staging.internal/x");
        assert_eq!(alone, Err(Refused::InnerName));
    }

    #[test]
    fn what_is_not_written_as_it_is_called_is_refused() {
        for (text, why) in [
            ("https://@shop.example/", Refused::Userinfo),
            ("https://:@shop.example/", Refused::Userinfo),
            ("https://@shop.example:443", Refused::Userinfo),
            ("https://@127.0.0.1/", Refused::Userinfo),
            ("https:shop.example/x", Refused::NotAUrl),
            ("https:/shop.example/", Refused::NotAUrl),
            ("https:///shop.example/", Refused::NotAUrl),
            ("https:////shop.example/", Refused::NotAUrl),
            ("https:/@shop.example/", Refused::NotAUrl),
            ("https:///@shop.example/", Refused::NotAUrl),
            ("https:shop.example/://shop.example/", Refused::NotAUrl),
            ("https:shop.example?https://shop.example/", Refused::NotAUrl),
            ("https:\\\\shop.example", Refused::NotAUrl),
            ("https:/\\shop.example", Refused::NotAUrl),
        ] {
            assert_eq!(Guard::default().judge(text), Err(why), "{text}");
            // The parser of the URL standard accepts all of them.
            assert!(Url::parse(text).is_ok(), "{text}");
        }
        for text in [
            "https://shop.example",
            "HTTPS://Shop.Example:443/a@b?c@d",
            "https://shop.example?to=https://other.example/",
            "https://shop.example//double",
        ] {
            assert!(Guard::default().judge(text).is_ok(), "{text}");
        }
    }

    #[test]
    fn a_long_address_is_refused() {
        let url = Url::parse(&format!("https://shop.example/{}", "a".repeat(MAX_URL))).unwrap();
        assert_eq!(Guard::default().judge_url(&url), Err(Refused::TooLong));
    }
}
