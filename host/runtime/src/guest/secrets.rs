//! Signatures with secrets that modules never see.

use hmac::{Hmac, KeyInit as _, Mac as _};
use kassette_domain::provider::Encoding;
use sha2::{Sha256, Sha512};
use zeroize::Zeroizing;

use crate::access::AccountAccess;
use crate::v0_2::bindings::provider::kassette::plugin::secrets::Algorithm;

/// A key that is erased after use.
type Key = Zeroizing<Vec<u8>>;

/// Whether a secret or an unexpired token exists.
pub(crate) fn ready(access: &AccountAccess, name: &str) -> bool {
    !keys(access, name).is_empty()
}

/// Signs with the current value. `None` if the secret does not exist.
pub(crate) fn sign(
    access: &AccountAccess,
    name: &str,
    algorithm: Algorithm,
    message: &[u8],
) -> Option<Vec<u8>> {
    let keys = keys(access, name);
    code(keys.first()?, algorithm, message)
}

/// Whether a code is valid for the current value or for an earlier one during a rotation.
pub(crate) fn verify(
    access: &AccountAccess,
    name: &str,
    algorithm: Algorithm,
    message: &[u8],
    presented: &[u8],
) -> bool {
    // Try every key, so that the duration does not reveal which one matched.
    keys(access, name)
        .iter()
        .map(|key| check(key, algorithm, message, presented))
        .fold(false, |found, right| found | right)
}

/// The keys of a secret or token, the current one first. Empty and malformed keys are left out.
fn keys(access: &AccountAccess, name: &str) -> Vec<Key> {
    if let Some(entry) = access.secrets.iter().find(|entry| entry.name == name) {
        return entry
            .values
            .iter()
            .filter_map(|value| entry.encoding.key(value))
            .collect();
    }
    let token = access.tokens.get(name, access.account.now);
    token
        .into_iter()
        .filter_map(|token| Encoding::Text.key(&token.value))
        .collect()
}

fn code(key: &[u8], algorithm: Algorithm, message: &[u8]) -> Option<Vec<u8>> {
    Some(match algorithm {
        Algorithm::HmacSha256 => Hmac::<Sha256>::new_from_slice(key)
            .ok()?
            .chain_update(message)
            .finalize()
            .into_bytes()
            .to_vec(),
        Algorithm::HmacSha512 => Hmac::<Sha512>::new_from_slice(key)
            .ok()?
            .chain_update(message)
            .finalize()
            .into_bytes()
            .to_vec(),
    })
}

fn check(key: &[u8], algorithm: Algorithm, message: &[u8], presented: &[u8]) -> bool {
    use subtle::ConstantTimeEq as _;
    code(key, algorithm, message).is_some_and(|right| right.ct_eq(presented).into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{access, secret};

    const SHA256: Algorithm = Algorithm::HmacSha256;

    fn with(values: &[&str], encoding: Encoding) -> AccountAccess {
        let mut access = access();
        access.secrets = vec![secret("key", values, encoding, &[])];
        access
    }

    #[test]
    fn the_encodings_of_one_key_sign_alike() {
        let text = with(&["hello"], Encoding::Text);
        let right = sign(&text, "key", SHA256, b"m").unwrap();
        for (written, encoding) in [
            ("68656c6c6f", Encoding::Hex),
            ("68656C6C6F", Encoding::Hex),
            ("aGVsbG8=", Encoding::Base64),
            ("aGVsbG8", Encoding::Base64),
            ("whsec_aGVsbG8=", Encoding::Base64),
        ] {
            let access = with(&[written], encoding);
            assert_eq!(
                sign(&access, "key", SHA256, b"m").unwrap(),
                right,
                "{written}"
            );
        }
        let either = ["-_-_", "+/+/"].map(|key| with(&[key], Encoding::Base64));
        assert_eq!(
            sign(&either[0], "key", SHA256, b"m"),
            sign(&either[1], "key", SHA256, b"m")
        );
    }

    #[test]
    fn a_known_answer() {
        // RFC 4231, test case 2.
        let access = with(&["Jefe"], Encoding::Text);
        let message = b"what do ya want for nothing?";
        assert_eq!(
            hex::encode(sign(&access, "key", SHA256, message).unwrap()),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
        );
        let long = sign(&access, "key", Algorithm::HmacSha512, message).unwrap();
        assert!(hex::encode(long).starts_with("164b7a7bfcf819e2e395fbe73b56e0a3"));
    }

    #[test]
    fn a_rotated_secret_still_verifies_and_the_current_one_signs() {
        let (old, both) = (
            with(&["old"], Encoding::Text),
            with(&["new", "old"], Encoding::Text),
        );
        let code = sign(&old, "key", SHA256, b"m").unwrap();
        assert!(verify(&both, "key", SHA256, b"m", &code));
        assert_ne!(sign(&both, "key", SHA256, b"m").unwrap(), code);
        assert!(!verify(&both, "key", SHA256, b"other", &code));
        assert!(!verify(&both, "key", SHA256, b"m", &code[..31]));
        assert!(!verify(&both, "key", SHA256, b"m", &[]));
    }

    #[test]
    fn a_secret_that_is_missing_empty_or_unreadable_signs_and_verifies_nothing() {
        let forged = sign(&with(&["x"], Encoding::Text), "key", SHA256, b"m").unwrap();
        let empty = code(b"", SHA256, b"m").unwrap();
        for access in [
            access(),
            with(&[], Encoding::Text),
            with(&[""], Encoding::Text),
            with(&["zz"], Encoding::Hex),
            with(&["whsec_"], Encoding::Base64),
        ] {
            assert!(!ready(&access, "key"));
            assert_eq!(sign(&access, "key", SHA256, b"m"), None);
            assert!(!verify(&access, "key", SHA256, b"m", &empty));
            assert!(!verify(&access, "key", SHA256, b"m", &forged));
        }
    }
}
