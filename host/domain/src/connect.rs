//! The connect exchange: a shop's plugin exchanges a one-time code for its own key.
//!
//! An operator issues a code for one merchant, one environment and one site. The plugin proves that it knows the
//! code, and its site's response proves that it runs there.

use std::fmt;
use std::time::Duration;

use hmac::{Hmac, KeyInit as _, Mac as _};
use serde::{Deserialize, Serialize};
use sha2::Sha256;
use subtle::ConstantTimeEq as _;
use url::{Host, Url};

use crate::id::{ConnectCodeId, EndpointId, KeyId, MerchantId};
use crate::key::{Environment, Scope, TokenHash};
use crate::secret::Secret;
use crate::site::{BadSite, authority, is_loopback, parse_domain};
use crate::time::Time;

/// Path below the site's origin at which the plugin publishes the proof.
const WELL_KNOWN: &str = "/.well-known/kassette-connect/";
/// Scheme, lower-case A-label and port of a site; a default port is omitted.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SiteOrigin(String);

impl SiteOrigin {
    /// The form in proofs: `https://shop.example`.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SiteOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// URL of a shop's site: `https://shop.example`, with a path if the shop is below one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SiteUrl {
    url: Url,
    origin: SiteOrigin,
    domain: String,
}

impl SiteUrl {
    /// Maximum length of a URL, in characters.
    pub const MAX: usize = 2048;

    /// Parses a site's URL. `allow_loopback` (development) accepts loopback and `localhost`, also over plain http.
    ///
    /// # Errors
    /// The reason for the rejection.
    pub fn parse(text: &str, allow_loopback: bool) -> Result<Self, BadSite> {
        let odd = |c: char| c.is_control() || c == '\\' || c.is_whitespace();
        if text.chars().count() > Self::MAX || text.contains(odd) {
            return Err(BadSite::Url);
        }
        let url = Url::parse(text).map_err(|_| BadSite::Url)?;
        let scheme = url.scheme();
        // WHATWG parsing accepts a missing slash; a person reading the text would not.
        let authority = authority(text, scheme).ok_or(BadSite::Url)?;
        if authority.contains('@') || !url.username().is_empty() || url.password().is_some() {
            return Err(BadSite::Userinfo);
        }
        if url.query().is_some() || url.fragment().is_some() {
            return Err(BadSite::Query);
        }
        let host = url.host().ok_or(BadSite::Url)?;
        let loopback = allow_loopback && is_loopback(&host);
        if scheme != "https" && !(loopback && scheme == "http") {
            return Err(BadSite::Url);
        }
        let domain = match host {
            Host::Domain(name) => parse_domain(name, allow_loopback)?,
            _ if loopback => host.to_string(),
            Host::Ipv4(_) | Host::Ipv6(_) => return Err(BadSite::IpAddress),
        };
        let origin = SiteOrigin(url.origin().ascii_serialization());
        Ok(Self {
            url,
            origin,
            domain,
        })
    }

    /// Its origin, without the path.
    pub const fn origin(&self) -> &SiteOrigin {
        &self.origin
    }

    /// Its host: the shop domain that an exchange verifies, without its subdomains.
    pub fn domain(&self) -> &str {
        &self.domain
    }

    /// URL at which the plugin receives events: `path` below the site's path.
    pub fn webhook_url(&self, path: &WebhookPath) -> String {
        let below = self.url.path().trim_end_matches('/');
        format!("{}{below}{}", self.origin, path.0)
    }
}

/// Path at which a plugin receives events, below its site's URL. It cannot lead outside of the site.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebhookPath(String);

/// The text is not such a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "must be a path such as /shop/webhook: at most 200 characters of A-Z, a-z, 0-9, / and -._~!$&'()*+,;=:@ \
     that begin with /, without empty, \".\" and \"..\" segments"
)]
pub struct NotAWebhookPath;

impl WebhookPath {
    /// Maximum length of a path, in characters.
    pub const MAX: usize = 200;
    /// The default: the path in WordPress shops.
    pub const WORDPRESS: &str = "/wp-json/kassette/v1/webhook";

    /// Parses a path. Percent signs are rejected: servers differ in how they decode an encoded slash or dot.
    ///
    /// # Errors
    /// [`NotAWebhookPath`] for any other text.
    pub fn parse(text: &str) -> Result<Self, NotAWebhookPath> {
        let plain =
            |byte: u8| byte.is_ascii_alphanumeric() || b"/-._~!$&'()*+,;=:@".contains(&byte);
        let below = text.strip_prefix('/').ok_or(NotAWebhookPath)?;
        // A path with a slash at the end is another path.
        let segments = below.strip_suffix('/').unwrap_or(below);
        let odd = |segment: &str| matches!(segment, "" | "." | "..");
        if text.len() > Self::MAX || !text.bytes().all(plain) || segments.split('/').any(odd) {
            return Err(NotAWebhookPath);
        }
        Ok(Self(text.to_owned()))
    }
}

impl Default for WebhookPath {
    fn default() -> Self {
        Self(Self::WORDPRESS.into())
    }
}

/// Random text that the plugin draws for one exchange: 32-128 of `A-Z a-z 0-9 _ -`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Challenge(String);

/// The text is not a challenge.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be 32-128 characters of A-Z, a-z, 0-9, _ and -")]
pub struct NotAChallenge;

impl Challenge {
    /// Parses a challenge.
    ///
    /// # Errors
    /// [`NotAChallenge`] for any other text.
    pub fn parse(text: &str) -> Result<Self, NotAChallenge> {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
        if (32..=128).contains(&text.len()) && text.bytes().all(plain) {
            Ok(Self(text.to_owned()))
        } else {
            Err(NotAChallenge)
        }
    }

    /// URL at which the site of that origin answers the challenge.
    pub fn claim_url(&self, origin: &SiteOrigin) -> String {
        format!("{origin}{WELL_KNOWN}{}", self.0)
    }
}

/// Proof that the plugin knows the code: 64 lower-case hexadecimal characters.
#[derive(Clone, Debug)]
pub struct Proof(Secret);

/// The text does not have the form of a proof.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be 64 lower-case hexadecimal characters")]
pub struct NotAProof;

impl Proof {
    /// Parses a proof.
    ///
    /// # Errors
    /// [`NotAProof`] for any other text.
    pub fn parse(text: &str) -> Result<Self, NotAProof> {
        let hex = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        if text.len() == 64 && text.bytes().all(hex) {
            Ok(Self(Secret::new(text)))
        } else {
            Err(NotAProof)
        }
    }

    /// HMAC-SHA256 over the challenge, a newline and the origin, keyed with the bytes of the shown code.
    pub fn make(code: &Secret, challenge: &Challenge, origin: &SiteOrigin) -> Self {
        // HMAC accepts keys of any length.
        let mac = Hmac::<Sha256>::new_from_slice(code.expose().as_bytes());
        let text = mac.map(|mut mac| {
            mac.update(challenge.0.as_bytes());
            mac.update(b"\n");
            mac.update(origin.0.as_bytes());
            hex::encode(mac.finalize().into_bytes())
        });
        Self(Secret::new(text.unwrap_or_default()))
    }

    /// Whether a site's answer equals this proof; compares in constant time.
    pub fn is(&self, answer: &[u8]) -> bool {
        self.0.expose().as_bytes().ct_eq(answer).into()
    }
}

/// Compares in constant time.
impl PartialEq for Proof {
    fn eq(&self, other: &Self) -> bool {
        self.is(other.0.expose().as_bytes())
    }
}

impl Eq for Proof {}

/// Stored form of a one-time code.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConnectCode {
    /// Id by which operators refer to the code.
    pub id: ConnectCodeId,
    /// SHA-256 of the whole code.
    pub hash: TokenHash,
    pub merchant: MerchantId,
    /// Environment of its payments.
    pub environment: Environment,
    /// The only site that may redeem it.
    pub origin: SiteOrigin,
    /// Scopes of the key to be issued.
    pub scopes: Vec<Scope>,
    pub created_at: Time,
    /// Time at which the code expires.
    pub expires_at: Time,
    /// Number of wrong sites and proofs.
    pub wrong: u8,
    /// Number of requests to the shop.
    pub fetches: u8,
    pub redeemed_at: Option<Time>,
}

/// State of a code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CodeState {
    /// It can be redeemed.
    Live,
    Redeemed,
    /// Too many wrong sites or proofs.
    Burned,
    Expired,
}

impl CodeState {
    /// The name for operators.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Live => "live",
            Self::Redeemed => "redeemed",
            Self::Burned => "burned",
            Self::Expired => "expired",
        }
    }
}

impl ConnectCode {
    /// Time from creation to expiry.
    pub const LIFE: Duration = Duration::from_secs(5 * 60);
    /// Number of wrong sites and proofs after which a code is unusable.
    pub const MAX_WRONG: u8 = 5;
    /// Maximum number of requests to its shop.
    pub const MAX_FETCHES: u8 = 20;

    /// State of the code at a time.
    pub fn state(&self, now: Time) -> CodeState {
        if self.redeemed_at.is_some() {
            CodeState::Redeemed
        } else if self.wrong >= Self::MAX_WRONG {
            CodeState::Burned
        } else if now >= self.expires_at {
            CodeState::Expired
        } else {
            CodeState::Live
        }
    }

    /// Whether it can be redeemed.
    pub fn is_live(&self, now: Time) -> bool {
        self.state(now) == CodeState::Live
    }

    /// Counts a use of the code that did not redeem it. Returns false if the maximum was already reached.
    pub fn note(&mut self, used: CodeUse) -> bool {
        let (count, most) = match used {
            CodeUse::Wrong => (&mut self.wrong, Self::MAX_WRONG),
            CodeUse::Fetch => (&mut self.fetches, Self::MAX_FETCHES),
        };
        let allowed = *count < most;
        if allowed {
            *count += 1;
        }
        allowed
    }
}

/// A use of a code that does not redeem it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CodeUse {
    /// Another site, or a wrong proof.
    Wrong,
    /// A request to the shop.
    Fetch,
}

/// Result of an exchange; the next one for the same merchant, environment and site replaces it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShopConnection {
    pub merchant: MerchantId,
    pub environment: Environment,
    pub origin: SiteOrigin,
    /// The redeemed code.
    pub code: ConnectCodeId,
    /// The issued key.
    pub key: KeyId,
    /// The endpoint that receives its events.
    pub endpoint: EndpointId,
    pub connected_at: Time,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site(text: &str) -> SiteUrl {
        SiteUrl::parse(text, false).unwrap()
    }

    #[test]
    fn an_origin_is_scheme_a_label_and_port_that_is_no_default() {
        for (text, origin, domain) in [
            (
                "https://shop.example",
                "https://shop.example",
                "shop.example",
            ),
            (
                "HTTPS://Shop.Example:443/",
                "https://shop.example",
                "shop.example",
            ),
            (
                "https://shop.example/store/",
                "https://shop.example",
                "shop.example",
            ),
            (
                "https://shop.example:8443",
                "https://shop.example:8443",
                "shop.example",
            ),
            (
                "https://Bücher.example/",
                "https://xn--bcher-kva.example",
                "xn--bcher-kva.example",
            ),
            (
                "https://shop%2eexample/",
                "https://shop.example",
                "shop.example",
            ),
        ] {
            let site = site(text);
            assert_eq!(
                (site.origin().as_str(), site.domain()),
                (origin, domain),
                "{text}"
            );
        }
    }

    #[test]
    fn events_go_below_the_site_s_path() {
        let below = "/wp-json/kassette/v1/webhook";
        for (text, start) in [
            ("https://shop.example", "https://shop.example"),
            ("https://shop.example/", "https://shop.example"),
            ("https://shop.example/a/b//", "https://shop.example/a/b"),
            ("https://shop.example/a%2Fb", "https://shop.example/a%2Fb"),
            ("https://shop.example/a/../b", "https://shop.example/b"),
        ] {
            assert_eq!(
                site(text).webhook_url(&WebhookPath::default()),
                format!("{start}{below}"),
                "{text}"
            );
        }
    }

    #[test]
    fn a_webhook_path_is_one_of_the_site_and_of_no_other() {
        let shop = site("https://shop.example/store/");
        for (path, url) in [
            ("/hook", "https://shop.example/store/hook"),
            ("/a/b.php/", "https://shop.example/store/a/b.php/"),
            (
                "/@evil.test/x:1",
                "https://shop.example/store/@evil.test/x:1",
            ),
            ("/...", "https://shop.example/store/..."),
        ] {
            let parsed = shop.webhook_url(&WebhookPath::parse(path).unwrap());
            assert_eq!(parsed, url);
            // Requests go to exactly this URL.
            assert_eq!(Url::parse(url).unwrap().as_str(), url);
        }
        let longest = format!("/{}", "a".repeat(199));
        assert!(WebhookPath::parse(&longest).is_ok());
        for wrong in [
            "",
            "/",
            "hook",
            "//evil.test/hook",
            "/a//b",
            "/a//",
            "/..",
            "/a/../b",
            "/./b",
            "/a/..",
            "/%2e%2e/b",
            "/a%2fb",
            "/hook?x=1",
            "/hook#x",
            "/a\\b",
            "\\hook",
            "/a b",
            "/a\n",
            "/a\u{0}",
            "/h\u{00f6}k",
            "https://evil.test/hook",
            &format!("{longest}a"),
        ] {
            assert_eq!(WebhookPath::parse(wrong), Err(NotAWebhookPath), "{wrong}");
        }
        assert!(WebhookPath::parse(WebhookPath::WORDPRESS).is_ok());
    }

    #[test]
    fn what_is_no_site_is_refused() {
        for (text, why) in [
            ("shop.example", BadSite::Url),
            ("http://shop.example", BadSite::Url),
            ("ftp://shop.example", BadSite::Url),
            ("https:/shop.example", BadSite::Url),
            ("https:///shop.example", BadSite::Url),
            ("https:\\\\shop.example", BadSite::Url),
            ("https://shop.example\\@evil.test", BadSite::Url),
            (" https://shop.example", BadSite::Url),
            ("https://shop.example/\n", BadSite::Url),
            ("https://me@shop.example", BadSite::Userinfo),
            ("https://@shop.example", BadSite::Userinfo),
            ("https://shop.example/?a", BadSite::Query),
            ("https://shop.example/#a", BadSite::Query),
            ("https://shop.example?", BadSite::Query),
            ("https://127.0.0.1", BadSite::IpAddress),
            ("https://0x7f.1", BadSite::IpAddress),
            ("https://[::1]", BadSite::IpAddress),
            ("https://shop.example.", BadSite::TrailingDot),
            ("https://localhost", BadSite::Name),
            ("https://co.uk", BadSite::PublicSuffix),
        ] {
            assert_eq!(SiteUrl::parse(text, false), Err(why), "{text}");
        }
        let long = format!("https://shop.example/{}", "a".repeat(2048));
        assert_eq!(SiteUrl::parse(&long, false), Err(BadSite::Url));
    }

    #[test]
    fn development_lets_loopback_be_a_site_and_nothing_else_more() {
        for (text, origin) in [
            ("http://127.0.0.1:8090/shop", "http://127.0.0.1:8090"),
            ("http://localhost:80", "http://localhost"),
            ("https://[::1]:8443", "https://[::1]:8443"),
        ] {
            let site = SiteUrl::parse(text, true).unwrap();
            assert_eq!(site.origin().as_str(), origin);
        }
        for (text, why) in [
            ("http://shop.example", BadSite::Url),
            ("https://10.0.0.1", BadSite::IpAddress),
            ("ws://localhost", BadSite::Url),
        ] {
            assert_eq!(SiteUrl::parse(text, true), Err(why), "{text}");
        }
    }

    #[test]
    fn a_challenge_can_stand_in_a_path_as_it_is() {
        for fine in ["a".repeat(32), "Z9_-".repeat(32)] {
            let challenge = Challenge::parse(&fine).unwrap();
            let expected = format!("https://shop.example/.well-known/kassette-connect/{fine}");
            assert_eq!(
                challenge.claim_url(site("https://shop.example/a").origin()),
                expected
            );
        }
        for wrong in [
            "a".repeat(31),
            "a".repeat(129),
            "a/".repeat(20),
            "é".repeat(20),
        ] {
            assert_eq!(Challenge::parse(&wrong), Err(NotAChallenge), "{wrong}");
        }
    }

    /// The worked example of config/connect.md; made with
    /// `printf 'CHALLENGE\nhttps://shop.example' | openssl dgst -sha256 -hmac CODE`.
    #[test]
    fn a_proof_is_the_documented_one() {
        let code = Secret::new("kc_0123456789abcdefghijklmnopqrstuvwxyzABCD");
        let challenge = Challenge::parse("4bc9e1d2f3a4051627384950a1b2c3d4").unwrap();
        let origin = site("https://shop.example/store").origin().clone();
        let proof = Proof::make(&code, &challenge, &origin);
        let expected = "dc3a3b256ff3b23d0badcf7131254d46ce0725c9049b69b9d56037f2bf3c6576";
        assert_eq!(proof, Proof::parse(expected).unwrap());
        assert!(proof.is(expected.as_bytes()));
        assert!(!proof.is(format!("{expected}\n").as_bytes()) && !proof.is(b""));
        for (code, challenge, origin) in [
            (
                "kc_0123456789abcdefghijklmnopqrstuvwxyzABCE",
                &challenge,
                &origin,
            ),
            (
                code.expose(),
                &Challenge::parse(&"a".repeat(32)).unwrap(),
                &origin,
            ),
            (
                code.expose(),
                &challenge,
                site("https://shop.example:8443").origin(),
            ),
        ] {
            assert_ne!(Proof::make(&Secret::new(code), challenge, origin), proof);
        }
        assert_eq!(Proof::parse(&expected.to_uppercase()), Err(NotAProof));
        assert_eq!(Proof::parse(&expected[1..]), Err(NotAProof));
    }

    #[test]
    fn a_code_ends_by_time_by_use_or_by_wrong_proofs() {
        let issued = Time::from_secs(1_800_000_000);
        let code = ConnectCode {
            id: ConnectCodeId::from_bytes([1; 16]),
            hash: TokenHash::hash("kc_"),
            merchant: MerchantId(1),
            environment: Environment::Test,
            origin: site("https://shop.example").origin().clone(),
            scopes: Scope::MERCHANT.to_vec(),
            created_at: issued,
            expires_at: issued.after(ConnectCode::LIFE),
            wrong: 0,
            fetches: 0,
            redeemed_at: None,
        };
        let end = Time::from_secs(issued.as_secs() + 300);
        assert!(code.is_live(end.before(Duration::from_millis(1))));
        assert_eq!(code.state(end), CodeState::Expired);
        let mut burned = code.clone();
        for _ in 0..5 {
            assert!(burned.is_live(issued) && burned.note(CodeUse::Wrong));
        }
        assert_eq!(burned.state(issued), CodeState::Burned);
        assert!(!burned.note(CodeUse::Wrong));
        let mut asked = code.clone();
        assert_eq!((0..30).filter(|_| asked.note(CodeUse::Fetch)).count(), 20);
        assert!(asked.is_live(issued), "asking often burns nothing");
        let redeemed = ConnectCode {
            redeemed_at: Some(issued),
            ..code
        };
        assert_eq!(redeemed.state(issued), CodeState::Redeemed);
    }
}
