//! Redacts secrets in responses of providers, so that a module never sees one.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use kassette_domain::secret::Secret;
use memchr::memmem;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use zeroize::Zeroizing;

const REDACTED: &[u8] = b"***";
/// Minimum number of characters of an account's secret that is searched for. A shorter one could match unrelated
/// text, such as an amount.
pub const MIN_SECRET: usize = 16;
/// Minimum length of a pattern, in bytes. Shorter ones would mostly match unrelated text.
const MIN_PATTERN: usize = 4;
/// Characters that `encodeURIComponent` escapes.
const COMPONENT: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'!')
    .remove(b'~')
    .remove(b'*')
    .remove(b'\'')
    .remove(b'(')
    .remove(b')');

/// The patterns of an account's secrets, in all encodings that are searched for.
pub(crate) struct Redactor {
    patterns: Vec<Zeroizing<Vec<u8>>>,
}

impl Redactor {
    /// Searches for the secrets raw, in base64 (both alphabets, at any position of the encoded text),
    /// percent-encoded, and escaped in JSON.
    pub(crate) fn new<'a>(secrets: impl IntoIterator<Item = &'a Secret>) -> Self {
        let mut patterns = Vec::new();
        for secret in secrets {
            forms(secret.expose(), &mut patterns);
        }
        patterns.retain(|pattern: &Zeroizing<Vec<u8>>| pattern.len() >= MIN_PATTERN);
        // The longest first, so that a secret that contains another is redacted as a whole.
        patterns.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        patterns.dedup();
        Self { patterns }
    }

    /// Replaces all secrets in bytes.
    pub(crate) fn bytes(&self, text: &[u8]) -> Vec<u8> {
        let mut text = text.to_vec();
        for pattern in &self.patterns {
            if memmem::find(&text, pattern).is_some() {
                text = replace(&text, pattern);
            }
        }
        text
    }

    /// Replaces all secrets in names and values.
    pub(crate) fn pairs(&self, pairs: &[(String, String)]) -> Vec<(String, String)> {
        let pairs = pairs.iter();
        let redacted = pairs.map(|(name, value)| (self.text(name), self.text(value)));
        redacted.collect()
    }

    /// Replaces all secrets in text. Patterns match only whole characters, so the result remains valid UTF-8.
    pub(crate) fn text(&self, text: &str) -> String {
        String::from_utf8_lossy(&self.bytes(text.as_bytes())).into_owned()
    }
}

fn replace(text: &[u8], pattern: &[u8]) -> Vec<u8> {
    let mut redacted = Vec::with_capacity(text.len());
    let mut rest = 0;
    for at in memmem::find_iter(text, pattern) {
        redacted.extend_from_slice(text.get(rest..at).unwrap_or_default());
        redacted.extend_from_slice(REDACTED);
        rest = at + pattern.len();
    }
    redacted.extend_from_slice(text.get(rest..).unwrap_or_default());
    redacted
}

fn forms(secret: &str, into: &mut Vec<Zeroizing<Vec<u8>>>) {
    let mut add = |form: Vec<u8>| into.push(Zeroizing::new(form));
    add(secret.as_bytes().to_vec());
    let encoded = utf8_percent_encode(secret, COMPONENT).to_string();
    let form: String = url::form_urlencoded::byte_serialize(secret.as_bytes()).collect();
    for text in [encoded, form] {
        add(lower_escapes(&text));
        add(text.into_bytes());
    }
    if let Ok(json) = serde_json::to_string(secret) {
        let inner = json.trim_matches('"');
        add(inner.replace('/', "\\/").into_bytes());
        add(inner.as_bytes().to_vec());
    }
    for skip in 0..3 {
        // Bytes before the secret shift its base64 by 0, 1 or 2 bytes. Leave out the characters that also encode a
        // neighboring byte.
        let mut shifted = Zeroizing::new(vec![0_u8; skip]);
        shifted.extend_from_slice(secret.as_bytes());
        let (first, bits) = ((skip * 8).div_ceil(6), shifted.len() * 8);
        for alphabet in [&STANDARD_NO_PAD, &URL_SAFE_NO_PAD] {
            let text = Zeroizing::new(alphabet.encode(&*shifted));
            add(text
                .as_bytes()
                .get(first..bits / 6)
                .unwrap_or_default()
                .to_vec());
        }
    }
}

/// Changes escapes to lower case: `%2F` to `%2f`.
fn lower_escapes(text: &str) -> Vec<u8> {
    let mut bytes = text.as_bytes().to_vec();
    let mut at = 0;
    while let Some(found) = bytes.get(at..).and_then(|rest| memchr::memchr(b'%', rest)) {
        at += found + 1;
        if let Some(escape) = bytes.get_mut(at..at + 2) {
            escape.make_ascii_lowercase();
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use base64::engine::general_purpose::STANDARD;

    use super::*;

    const SECRET: &str = "s3cr/et+K?y~4242";

    fn hidden(text: &str) -> bool {
        let redacted = Redactor::new([&Secret::new(SECRET)]).text(text);
        redacted.contains("***")
    }

    #[test]
    fn every_usual_form_of_a_secret_is_found() {
        assert!(hidden(SECRET));
        assert!(hidden(&format!("key={SECRET}&x=1")));
        assert!(hidden("k=s3cr%2Fet%2BK%3Fy~4242"));
        assert!(hidden("k=s3cr%2fet%2bK%3fy~4242"));
        assert!(hidden("k=s3cr%2Fet%2BK%3Fy%7E4242"));
        assert!(hidden(r#"{"k":"s3cr\/et+K?y~4242"}"#));
    }

    #[test]
    fn base64_is_found_wherever_the_secret_stands_in_it() {
        for before in ["", "u", "us", "use", "user:"] {
            for after in ["", ":", "::", ":::"] {
                let text = format!("{before}{SECRET}{after}");
                assert!(hidden(&STANDARD.encode(&text)), "{text}");
                assert!(hidden(&URL_SAFE_NO_PAD.encode(&text)), "{text}");
            }
        }
    }

    #[test]
    fn the_rest_of_an_answer_is_left_alone() {
        let redactor = Redactor::new([&Secret::new("hunter22"), &Secret::new("ab")]);
        assert_eq!(redactor.text("a hunter22 b hunter22"), "a *** b ***");
        assert_eq!(redactor.bytes(&[0xff, 0, 1]), vec![0xff, 0, 1]);
        assert_eq!(
            redactor.text("ab is too short to search for"),
            "ab is too short to search for"
        );
    }
}
