//! Encodings that providers use: percent-encoding, forms, hex, base64.

const HEX: &[u8; 16] = b"0123456789abcdef";
const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Percent-encodes all characters except the unreserved ones of RFC 3986. Valid as a path segment, a query value
/// and a form field.
#[must_use]
pub fn percent(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            out.push(char::from(byte));
        } else {
            out.push('%');
            push_hex(&mut out, byte, char::to_ascii_uppercase);
        }
    }
    out
}

/// Encodes a form: `name=value&…`, in this order.
#[must_use]
pub fn form(fields: &[(&str, &str)]) -> String {
    let mut out = String::new();
    for (name, value) in fields {
        if !out.is_empty() {
            out.push('&');
        }
        out.push_str(&percent(name));
        out.push('=');
        out.push_str(&percent(value));
    }
    out
}

/// Parses the fields of a form or a query, in order. `None` for an invalid escape or invalid UTF-8.
#[must_use]
pub fn parse_form(text: &str) -> Option<Vec<(String, String)>> {
    text.split('&')
        .filter(|part| !part.is_empty())
        .map(|part| {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            Some((plain(name)?, plain(value)?))
        })
        .collect()
}

fn plain(text: &str) -> Option<String> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        out.push(match byte {
            b'+' => b' ',
            b'%' => digit(bytes.next()?)? << 4 | digit(bytes.next()?)?,
            other => other,
        });
    }
    String::from_utf8(out).ok()
}

/// Encodes each byte as two lower-case digits.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        push_hex(&mut out, *byte, |digit| *digit);
    }
    out
}

/// Decodes two digits per byte, in either case. `None` for any other text.
#[must_use]
pub fn unhex(text: &str) -> Option<Vec<u8>> {
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    if !rest.is_empty() {
        return None;
    }
    pairs
        .iter()
        .map(|[high, low]| Some(digit(*high)? << 4 | digit(*low)?))
        .collect()
}

fn push_hex(out: &mut String, byte: u8, letter: impl Fn(&char) -> char) {
    for digit in [byte >> 4, byte & 15] {
        let digit = HEX.get(usize::from(digit)).copied().unwrap_or_default();
        out.push(letter(&char::from(digit)));
    }
}

fn digit(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        b'A'..=b'F' => Some(byte - b'A' + 10),
        _ => None,
    }
}

/// Encodes with the standard alphabet and padding (RFC 4648, section 4).
#[must_use]
pub fn base64(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let byte = |at: usize| u32::from(chunk.get(at).copied().unwrap_or_default());
        let group = byte(0) << 16 | byte(1) << 8 | byte(2);
        for place in 0..4 {
            let index = (group >> (18 - 6 * place)) & 63;
            let letter = BASE64.get(index as usize).copied().unwrap_or_default();
            out.push(if place <= chunk.len() {
                char::from(letter)
            } else {
                '='
            });
        }
    }
    out
}

/// Decodes the standard alphabet with padding. `None` for any other text.
#[must_use]
pub fn unbase64(text: &str) -> Option<Vec<u8>> {
    let (groups, rest) = text.as_bytes().as_chunks::<4>();
    if !rest.is_empty() {
        return None;
    }
    let mut out = Vec::with_capacity(groups.len() * 3);
    for (at, group) in groups.iter().enumerate() {
        let padding = group.iter().rev().take_while(|byte| **byte == b'=').count();
        if padding > 2 || (padding > 0 && at + 1 < groups.len()) {
            return None;
        }
        let mut bits = 0_u32;
        for byte in group.get(..4 - padding)? {
            let value = BASE64.iter().position(|letter| letter == byte)?;
            bits = bits << 6 | u32::try_from(value).ok()?;
        }
        bits <<= 6 * padding;
        let [_, bytes @ ..] = bits.to_be_bytes();
        let (kept, cut) = bytes.split_at(3 - padding);
        if cut.iter().any(|byte| *byte != 0) {
            return None;
        }
        out.extend_from_slice(kept);
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_reads_back() {
        let fields = [("a b", "ü&="), ("empty", ""), ("plus", "1+1")];
        let text = form(&fields);
        assert_eq!(text, "a%20b=%C3%BC%26%3D&empty=&plus=1%2B1");
        let read = parse_form(&text).unwrap();
        let owned: Vec<(String, String)> = fields
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        assert_eq!(read, owned);
        assert_eq!(
            parse_form("a+b&c=%41"),
            Some(vec![
                ("a b".into(), String::new()),
                ("c".into(), "A".into())
            ])
        );
    }

    #[test]
    fn broken_escapes_and_bytes_that_are_no_text_are_no_form() {
        for wrong in ["a=%", "a=%4", "a=%zz", "%ff=1"] {
            assert_eq!(parse_form(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn hex_reads_either_case_and_nothing_else() {
        assert_eq!(hex(&[0, 171, 255]), "00abff");
        assert_eq!(unhex("00aBFf"), Some(vec![0, 171, 255]));
        for wrong in ["0", "0g", " 00", "+1"] {
            assert_eq!(unhex(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn base64_is_the_rfcs() {
        for (plain, text) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foobar", "Zm9vYmFy"),
        ] {
            assert_eq!(base64(plain.as_bytes()), text);
            assert_eq!(unbase64(text).as_deref(), Some(plain.as_bytes()));
        }
        for wrong in ["Zg", "Zg=", "Zh==", "Z===", "Zg==Zg==", "Zm9_", "Zm8 "] {
            assert_eq!(unbase64(wrong), None, "{wrong}");
        }
    }
}
