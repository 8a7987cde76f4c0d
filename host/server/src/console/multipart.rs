//! Reading `multipart/form-data`, as browsers send it.

use axum::body::Bytes;

/// Maximum length of a boundary (RFC 2046).
const MAX_BOUNDARY: usize = 70;
/// Maximum number of parts.
const MAX_PARTS: usize = 100;

/// Texts by name, and the file.
pub(super) type Parts = (Vec<(String, String)>, Option<Bytes>);

/// The boundary in a `Content-Type`. `None` for another media type.
pub(super) fn boundary(media_type: &str) -> Option<String> {
    let (essence, parameters) = media_type.split_once(';')?;
    if !essence.trim().eq_ignore_ascii_case("multipart/form-data") {
        return None;
    }
    let mut parameters = parameters
        .split(';')
        .filter_map(|each| each.split_once('='));
    let (_, boundary) =
        parameters.find(|(name, _)| name.trim().eq_ignore_ascii_case("boundary"))?;
    let boundary = boundary.trim().trim_matches('"');
    let has_length = (1..=MAX_BOUNDARY).contains(&boundary.len());
    has_length.then(|| boundary.to_owned())
}

/// Reads a whole body. `None` if it is not well-formed, has more than one file, or a text that is not UTF-8.
pub(super) fn read(body: &Bytes, boundary: &str) -> Option<Parts> {
    let (mut texts, mut file) = (Vec::new(), None);
    let delimiter = format!("\r\n--{boundary}");
    let mut rest = body.strip_prefix(&delimiter.as_bytes()[2..])?;
    for _ in 0..=MAX_PARTS {
        if rest.starts_with(b"--") {
            return Some((texts, file));
        }
        rest = rest.strip_prefix(b"\r\n")?;
        let head_end = find(rest, b"\r\n\r\n")?;
        let (head, content) = (rest.get(..head_end)?, rest.get(head_end + 4..)?);
        let end = find(content, delimiter.as_bytes())?;
        let value = content.get(..end)?;
        rest = content.get(end + delimiter.len()..)?;
        let (name, is_file) = disposition(std::str::from_utf8(head).ok()?)?;
        match is_file {
            // A field for a file that was left empty.
            true if value.is_empty() => {}
            true if file.is_some() => return None,
            true => file = Some(body.slice_ref(value)),
            false => texts.push((name, std::str::from_utf8(value).ok()?.to_owned())),
        }
    }
    None
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    let first = *wanted.first()?;
    let mut from = 0;
    loop {
        let found = bytes.get(from..)?.iter().position(|byte| *byte == first)?;
        if bytes.get(from + found..)?.starts_with(wanted) {
            return Some(from + found);
        }
        from += found + 1;
    }
}

/// Name of a part, and whether it is a file.
fn disposition(head: &str) -> Option<(String, bool)> {
    let mut lines = head.split("\r\n").filter_map(|line| line.split_once(':'));
    let (_, value) = lines.find(|(name, _)| name.eq_ignore_ascii_case("content-disposition"))?;
    let parameter = |wanted: &str| {
        let begin = value.find(&format!("; {wanted}=\""))? + wanted.len() + 4;
        let rest = value.get(begin..)?;
        Some(rest.get(..rest.find('"')?)?.to_owned())
    };
    Some((parameter("name")?, parameter("filename").is_some()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TYPE: &str = "multipart/form-data; boundary=----x1";

    fn body(parts: &[(&str, &[u8])]) -> Bytes {
        let mut body = Vec::new();
        for (head, value) in parts {
            body.extend_from_slice(b"------x1\r\nContent-Disposition: form-data; ");
            body.extend_from_slice(head.as_bytes());
            body.extend_from_slice(b"\r\n\r\n");
            body.extend_from_slice(value);
            body.extend_from_slice(b"\r\n");
        }
        body.extend_from_slice(b"------x1--\r\n");
        body.into()
    }

    #[test]
    fn texts_and_the_file_are_read_as_they_were_sent() {
        let boundary = boundary(TYPE).unwrap();
        let wasm = b"\0asm\r\n--\r\n\xff";
        let file = "name=\"file\"; filename=\"a.wasm\"\r\nContent-Type: application/wasm";
        let sent = body(&[("name=\"mode\"", b"shadow"), (file, wasm)]);
        let (texts, read) = read(&sent, &boundary).unwrap();
        assert_eq!(texts, [("mode".to_owned(), "shadow".to_owned())]);
        assert_eq!(read.unwrap(), &wasm[..]);
    }

    #[test]
    fn other_bodies_are_refused() {
        let file = ("name=\"f\"; filename=\"a\"", &b"x"[..]);
        for refused in [
            Bytes::new(),
            Bytes::from("------x1\r\n"),
            Bytes::from("------x1\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\nb"),
            body(&[file, file]),
            body(&[("name=\"a\"", &b"\xff"[..])]),
            body(&[("", &b"a"[..])]),
        ] {
            assert!(read(&refused, "----x1").is_none(), "{refused:?}");
        }
        assert_eq!(boundary("application/x-www-form-urlencoded"), None);
        assert_eq!(boundary("multipart/form-data; boundary="), None);
    }
}
