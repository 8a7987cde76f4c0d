//! Format of the signature section. Lengths and counts are unsigned LEB128. A slice is a length followed by its
//! bytes.
//!
//! ```text
//! section    01 (specification) 01 (a module) 01 (SHA-256), number of lists, a slice for each:
//! list       number of hashes, 32 bytes each; number of signatures, a slice for each:
//! signature  a slice (id of the key, may be empty), 01 (ed25519), a slice (the signature)
//! ```
//!
//! The hashes of a list cover the sections after this one, up to each section `signature_delimiter` and up to the
//! end. Further bytes of a signature come from newer tools, such as the certificates of wsc.

use kassette_domain::id::Digest;

/// First bytes of a component. The signature section follows and does not cover them.
const PREAMBLE: &[u8] = b"\0asm\x0d\0\x01\0";
/// Id of a custom section.
const CUSTOM: u8 = 0;
const NAME: &[u8] = b"signature";
const HEAD: &[u8] = &[1, 1, 1];
/// Prefix of the hashes in signed messages. It ends with [`HEAD`].
const DOMAIN: &[u8] = b"wasmsig\x01\x01\x01";
const ED25519: u8 = 1;
const HASH: usize = 32;
/// Maximum number of lists in a file and of hashes in a list, as in the tools.
const MOST_HASHES: u32 = 64;
/// Maximum number of signatures in a file, because each is tried with each key.
const MOST_SIGNATURES: u32 = 256;

pub(super) struct Parts<'a> {
    /// Content of the signature section. `None` if the component does not start with one.
    pub(super) signatures: Option<&'a [u8]>,
    /// All following sections.
    pub(super) content: &'a [u8],
}

impl<'a> Parts<'a> {
    /// `None` if the file does not start like a component.
    pub(super) fn split(file: &'a [u8]) -> Option<Self> {
        let all = file.strip_prefix(PREAMBLE)?;
        let first = || {
            let mut rest = Bytes(all);
            (rest.byte()? == CUSTOM).then_some(())?;
            let mut section = Bytes(rest.slice()?);
            (section.slice()? == NAME).then_some((section.0, rest.0))
        };
        Some(match first() {
            Some((signatures, content)) => Self {
                signatures: Some(signatures),
                content,
            },
            None => Self {
                signatures: None,
                content: all,
            },
        })
    }
}

/// Hashes and their common signatures.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Hashes<'a> {
    /// Concatenated hashes.
    pub(super) hashes: Vec<u8>,
    /// Signature entries as in the file.
    pub(super) signatures: Vec<&'a [u8]>,
}

impl<'a> Hashes<'a> {
    /// The hash of the whole file, without signatures.
    pub(super) fn only(whole: &Digest) -> Self {
        Self {
            hashes: whole.0.to_vec(),
            signatures: Vec::new(),
        }
    }

    /// Whether the last hash covers the whole file. The others cover only a part, up to a delimiter.
    pub(super) fn is_of(&self, whole: &Digest) -> bool {
        self.hashes.last_chunk() == Some(&whole.0)
    }

    /// The message that signatures cover.
    pub(super) fn message(&self) -> Vec<u8> {
        [DOMAIN, &self.hashes].concat()
    }

    fn read(slice: &'a [u8]) -> Option<Self> {
        let mut bytes = Bytes(slice);
        let hashes = bytes.number().filter(|count| *count <= MOST_HASHES)?;
        let hashes = bytes.take(hashes as usize * HASH)?.to_vec();
        let signatures = bytes.slices(MOST_SIGNATURES)?;
        bytes.0.is_empty().then_some(Self { hashes, signatures })
    }

    fn write(&self, to: &mut Vec<u8>) {
        let mut list = Vec::new();
        put_number(&mut list, self.hashes.len() / HASH);
        list.extend_from_slice(&self.hashes);
        put_number(&mut list, self.signatures.len());
        for signature in &self.signatures {
            put_slice(&mut list, signature);
        }
        put_slice(to, &list);
    }
}

/// Parses the content of the section. `None` if it is malformed or exceeds a limit.
pub(super) fn read(data: &[u8]) -> Option<Vec<Hashes<'_>>> {
    let mut bytes = Bytes(data);
    (bytes.take(HEAD.len())? == HEAD).then_some(())?;
    let lists = bytes.slices(MOST_HASHES)?.into_iter();
    bytes.0.is_empty().then_some(())?;
    let lists: Vec<_> = lists.map(Hashes::read).collect::<Option<_>>()?;
    let signatures: usize = lists.iter().map(|list| list.signatures.len()).sum();
    (signatures <= MOST_SIGNATURES as usize).then_some(lists)
}

/// The signature in an entry. `None` for other algorithms.
pub(super) fn of_entry(entry: &[u8]) -> Option<&[u8]> {
    let mut bytes = Bytes(entry);
    let _key_id = bytes.slice()?;
    (bytes.byte()? == ED25519).then_some(())?;
    bytes.slice()
}

/// Encodes an entry without a key id, because verifiers know the key.
pub(super) fn entry(signature: &[u8]) -> Vec<u8> {
    let mut entry = vec![0, ED25519];
    put_slice(&mut entry, signature);
    entry
}

/// Encodes a component from signatures and sections.
pub(super) fn write(lists: &[Hashes<'_>], content: &[u8]) -> Vec<u8> {
    let mut section = Vec::new();
    put_slice(&mut section, NAME);
    section.extend_from_slice(HEAD);
    put_number(&mut section, lists.len());
    for list in lists {
        list.write(&mut section);
    }
    let mut file = PREAMBLE.to_vec();
    file.push(CUSTOM);
    put_slice(&mut file, &section);
    file.extend_from_slice(content);
    file
}

fn put_slice(to: &mut Vec<u8>, slice: &[u8]) {
    put_number(to, slice.len());
    to.extend_from_slice(slice);
}

fn put_number(to: &mut Vec<u8>, mut number: usize) {
    while number >= 0x80 {
        to.push((number & 0x7f) as u8 | 0x80);
        number >>= 7;
    }
    to.push(number as u8);
}

/// The remaining input. Reads return `None` at its end.
struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn byte(&mut self) -> Option<u8> {
        self.take(1)?.first().copied()
    }

    /// A number of 32 bits, in at most five bytes.
    fn number(&mut self) -> Option<u32> {
        let mut number = 0;
        for shift in (0..35).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return u32::try_from(number).ok();
            }
        }
        None
    }

    fn slice(&mut self) -> Option<&'a [u8]> {
        let length = self.number()?;
        self.take(length as usize)
    }

    /// As many slices as a count specifies, at most `most`.
    fn slices(&mut self, most: u32) -> Option<Vec<&'a [u8]>> {
        let count = self.number().filter(|count| *count <= most)?;
        (0..count).map(|_| self.slice()).collect()
    }
}
