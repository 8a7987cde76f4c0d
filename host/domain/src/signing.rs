//! Signed requests of resellers (spec, "Authentication" 5; decisions, "Keys and signatures"): their signature, how
//! long a request is fresh, and how long its nonce is reserved.

use std::time::Duration;

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

use crate::time::Time;

/// Maximum difference of a request's timestamp from the server's time, in either direction.
pub const WINDOW: Duration = Duration::from_secs(5 * 60);
/// Minimum time for which a used nonce is reserved.
const RESERVED: Duration = Duration::from_secs(10 * 60);
/// Added to that: a timestamp is a whole second, and the last fresh one is valid for all of it.
const WHOLE_SECOND: Duration = Duration::from_secs(1);
/// Maximum time for which a used nonce is reserved, regardless of the timestamp: see [`Stamp::nonce_until`].
pub const NONCE_LIFE: Duration = Duration::from_secs(10 * 60 + 1);

/// Minimum length of a nonce.
const LEAST_NONCE: usize = 16;
/// Maximum length of a nonce.
const MOST_NONCE: usize = 80;
/// Maximum digits of a timestamp; longer ones are after the year 30000.
const MOST_DIGITS: usize = 12;

/// A nonce: 16-80 of `[A-Za-z0-9._:-]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nonce(String);

impl Nonce {
    /// Parses a nonce. `None` if it is too short, too long, or contains other characters.
    pub fn parse(text: &str) -> Option<Self> {
        let fits = (LEAST_NONCE..=MOST_NONCE).contains(&text.len());
        let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._:-".contains(&byte);
        (fits && text.bytes().all(is_allowed)).then(|| Self(text.to_owned()))
    }

    /// The text as sent.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A request's timestamp, in Unix seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp(u64);

impl Stamp {
    /// Parses a decimal number without sign or leading zero, so that each has one form. `None` for any other text.
    pub fn parse(text: &str) -> Option<Self> {
        let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
        let fits = (1..=MOST_DIGITS).contains(&text.len());
        if !is_number || !fits || (text.len() > 1 && text.starts_with('0')) {
            return None;
        }
        text.parse().ok().map(Self)
    }

    /// Whether a request with this timestamp is fresh.
    pub const fn is_fresh(self, now: Time) -> bool {
        self.0.abs_diff(now.as_secs()) <= WINDOW.as_secs()
    }

    /// Time until which a nonce that is used now with this timestamp is reserved: 10 minutes, and as long as the
    /// same request could be repeated.
    pub fn nonce_until(self, now: Time) -> Time {
        let fresh_until = Time::from_secs(self.0).after(WINDOW);
        now.after(RESERVED).max(fresh_until).after(WHOLE_SECOND)
    }
}

/// The signed parts of a request, unchanged.
#[derive(Clone, Copy, Debug)]
pub struct SignedRequest<'a> {
    /// The method, upper case.
    pub method: &'a str,
    /// Path and query, undecoded.
    pub target: &'a str,
    /// The timestamp's text.
    pub timestamp: &'a str,
    pub nonce: &'a str,
    pub body: &'a [u8],
}

impl SignedRequest<'_> {
    /// The signature: 64 lower-case hexadecimal characters of HMAC-SHA256, keyed with the bytes of the whole shown
    /// key, over the four parts before the body and the body's SHA-256 in hexadecimal, one per line.
    pub fn sign(&self, key: &str) -> String {
        // HMAC accepts keys of any length, so this cannot fail.
        let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(key.as_bytes()) else {
            return String::new();
        };
        for line in [self.method, self.target, self.timestamp, self.nonce] {
            mac.update(line.as_bytes());
            mac.update(b"\n");
        }
        let mut body = [0; 64];
        // Sixty-four characters hold thirty-two bytes.
        let _fits = hex::encode_to_slice(Sha256::digest(self.body), &mut body);
        mac.update(&body);
        hex::encode(mac.finalize().into_bytes())
    }

    /// Whether a signature is valid for this request and key; compares in constant time.
    pub fn is_signed(&self, key: &str, signature: &[u8]) -> bool {
        let expected = self.sign(key);
        !expected.is_empty() && bool::from(expected.as_bytes().ct_eq(signature))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const KEY: &str = "kr_live_0123456789ABCDEFGHIJKLMNOPQRSTUV000000";

    const REQUEST: SignedRequest<'_> = SignedRequest {
        method: "POST",
        target: "/api/v1/reseller/payments?x=%2F&y",
        timestamp: "1795251600",
        nonce: "0123456789abcdef",
        body: br#"{"merchant_id":1}"#,
    };

    #[test]
    fn the_signature_is_that_of_the_specification() {
        // printf 'POST\n/api/v1/reseller/payments?x=%%2F&y\n1795251600\n0123456789abcdef\n%s' \
        //   "$(printf '{"merchant_id":1}' | sha256sum | cut -d' ' -f1)" | openssl dgst -sha256 -hmac "$KEY"
        let expected = "dcabd5cec1ba990a162eccf804809a404b2b3a5d6ff29634e5e4a4d8634b1e28";
        assert_eq!(REQUEST.sign(KEY), expected);
        assert!(REQUEST.is_signed(KEY, expected.as_bytes()));
    }

    #[test]
    fn any_other_line_key_or_form_is_refused() {
        let signature = REQUEST.sign(KEY);
        let other = |change: fn(&mut SignedRequest<'static>)| {
            let mut request = REQUEST;
            change(&mut request);
            request.is_signed(KEY, signature.as_bytes())
        };
        assert!(other(|_| {}));
        assert!(!other(|request| request.method = "post"));
        assert!(!other(
            |request| request.target = "/api/v1/reseller/payments?x=/&y"
        ));
        assert!(!other(|request| request.timestamp = "1795251601"));
        assert!(!other(|request| request.nonce = "0123456789abcdeF"));
        assert!(!other(|request| request.body = br#"{"merchant_id": 1}"#));
        let upper = signature.to_uppercase();
        for wrong in [
            upper.as_str(),
            &signature[..63],
            "",
            &format!("v1={signature}"),
        ] {
            assert!(!REQUEST.is_signed(KEY, wrong.as_bytes()), "{wrong}");
        }
        assert!(!REQUEST.is_signed(&KEY[1..], signature.as_bytes()));
    }

    #[test]
    fn a_nonce_is_of_the_decided_characters_and_length() {
        for fine in ["0123456789abcdef", "AZaz09._:-AZaz09", &"n".repeat(80)] {
            assert_eq!(Nonce::parse(fine).unwrap().as_str(), fine);
        }
        for wrong in [
            "",
            "0123456789abcde",
            "0123456789abcde ",
            "0123456789abcde/",
            "0123456789abcdé",
            "0123456789abcde\n",
            &"n".repeat(81),
        ] {
            assert_eq!(Nonce::parse(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn a_timestamp_has_one_form_and_five_minutes_either_way() {
        let now = Time::from_millis(1_795_251_600_999);
        let fresh = |text: &str| Stamp::parse(text).is_some_and(|stamp| stamp.is_fresh(now));
        for fine in ["1795251600", "1795251300", "1795251900"] {
            assert!(fresh(fine), "{fine}");
        }
        for wrong in [
            "1795251299",
            "1795251901",
            "01795251600",
            "+1795251600",
            "-1795251600",
            "1795251600.0",
            "1795251600000",
            "0",
            "",
            " 1795251600",
            "99999999999999999999",
        ] {
            assert!(!fresh(wrong), "{wrong:?}");
        }
    }

    proptest! {
        #[test]
        fn a_nonce_is_taken_for_as_long_as_its_request_could_be_repeated(
            now in 1_000_000_u64..4_000_000_000_000,
            ahead in -300_i64..=300,
            later in 0_u64..=700_000,
        ) {
            let now = Time::from_millis(now);
            let stamp = Stamp(now.as_secs().saturating_add_signed(ahead));
            prop_assert!(stamp.is_fresh(now));
            let until = stamp.nonce_until(now);
            prop_assert!(until >= now.after(RESERVED) && until <= now.after(NONCE_LIFE));
            let again = now.after(Duration::from_millis(later));
            if stamp.is_fresh(again) {
                prop_assert!(again < until);
            }
        }
    }
}
