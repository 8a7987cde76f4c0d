//! The file of a backup.
//!
//! ```text
//! file   = "KASSBKUP" version:u32 frame…
//! frame  = tag:u8 length:u32 body crc:u32        crc-32 (IEEE) over tag, length and body
//! ```
//!
//! Numbers are big-endian. The frames are one `head`, any number of `rows` and `group` in the order of their
//! replay, one `end` and one `code`, which is the last. A `failed` frame in place of the end contains the
//! reason.
//!
//! | tag | frame | body |
//! |---|---|---|
//! | 1 | head | [`Head`] in postcard |
//! | 2 | rows | any number of: kind:u8 key-length:u16 value-length:u32 key value |
//! | 3 | group | number:u64, then any number of: kind:u8 written:u8 key-length:u16 value-length:u32 key value |
//! | 4 | end | SHA-256 of all bytes of the file before this frame, [`Totals`] in postcard |
//! | 5 | failed | a sentence |
//! | 6 | code | HMAC-SHA256 of the SHA-256 of all bytes of the file before this frame |
//!
//! The end's digest detects accidental damage, also without a key. A file that someone has rewritten has a
//! correct digest; only the code detects that. Its key is derived from the master key whose id is in the
//! head, before the sealed part of `canary`. Version 1 has no code and is otherwise the same.
//!
//! A kind is a number of the table in `kinds`, whose names are in the head. The key is the part after the
//! kind's prefix. The value is the row as `records` writes it: version, crc-32 over key and payload, payload
//! in postcard. Sealed parts stay sealed.
//!
//! `rows` are read in the order of their keys while the store is written, so each has its own time; a `group`
//! contains the changes of one commit during that. Replayed in order, they result in the store after the last
//! group: a row that was read early is written again by the groups that changed it since.

use std::io::{self, Read};

use hmac::{Hmac, Mac as _};
use kassette_domain::time::Time;
use kassette_engine::Written;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::Fault;
use crate::rows::schema::Key;
use crate::rows::seal::{KEY_ID, Sealer};
use crate::sled::maintenance::kinds::KINDS;

pub(crate) const MAGIC: &[u8; 8] = b"KASSBKUP";
/// The version of the file that this program writes, and the highest that it reads.
pub(crate) const VERSION: u32 = 2;
/// The last version without an authentication code.
const WITHOUT_CODE: u32 = 1;

const HEAD: u8 = 1;
const ROWS: u8 = 2;
const GROUP: u8 = 3;
const END: u8 = 4;
const FAILED: u8 = 5;
const CODE: u8 = 6;

/// Maximum size of a frame, in bytes. A group of 1,024 rows of 96 KiB would be larger, and is written in
/// several frames.
const MAX_FRAME: usize = 8 << 20;
/// Size in bytes after which a group continues in another frame.
const SPLIT: usize = 1 << 20;

/// The first frame of a backup.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Head {
    /// Release that wrote it.
    pub(crate) release: String,
    /// Layout of the rows.
    pub(crate) format: u32,
    /// Time at which the backup started.
    pub(crate) at: Time,
    /// Number of payments at that time.
    pub(crate) payments: u64,
    /// The row that proves and names the master key, as stored.
    pub(crate) canary: Vec<u8>,
    /// Numbers and names of the kinds that may follow.
    pub(crate) kinds: Vec<(u8, String)>,
}

impl Head {
    /// Id of the master key under which the file was made.
    pub(crate) fn key_id(&self) -> Result<[u8; KEY_ID], FileError> {
        self.canary.first_chunk().copied().ok_or(FileError::NoProof)
    }
}

/// Totals of a backup, in its end.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Totals {
    /// Rows of each kind in `rows` frames.
    pub(crate) rows: Vec<(u8, u64)>,
    /// Groups that were committed during the backup.
    pub(crate) groups: u64,
    /// Rows that these groups wrote or removed.
    pub(crate) changes: u64,
}

/// Encodes the bytes of a file, piece by piece, in order.
pub(crate) struct Encoder {
    digest: Sha256,
    counts: [u64; 256],
    groups: u64,
    changes: u64,
}

impl Encoder {
    /// The start of the file.
    pub(crate) fn begin(head: &Head) -> Result<(Self, Vec<u8>), Fault> {
        let mut encoder = Self {
            digest: Sha256::new(),
            counts: [0; 256],
            groups: 0,
            changes: 0,
        };
        let mut bytes = MAGIC.to_vec();
        bytes.extend_from_slice(&VERSION.to_be_bytes());
        encoder.digest.update(&bytes);
        let body = postcard::to_stdvec(head).map_err(|error| unwritable(&error))?;
        bytes.extend(encoder.frame(HEAD, &body)?);
        Ok((encoder, bytes))
    }

    /// Rows in the order of their keys.
    pub(crate) fn rows<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &mut self,
        rows: &[(K, V)],
    ) -> Result<Vec<u8>, Fault> {
        let mut body = Vec::new();
        for (key, value) in rows {
            let (kind, rest) = KINDS.split(key.as_ref())?;
            body.push(kind.tag);
            put(&mut body, rest, value.as_ref())?;
            self.counts[usize::from(kind.tag)] += 1;
        }
        self.frame(ROWS, &body)
    }

    /// The changes of a commit.
    pub(crate) fn group(&mut self, number: u64, written: &Written) -> Result<Vec<u8>, Fault> {
        let mut bytes = Vec::new();
        let mut body = number.to_be_bytes().to_vec();
        for (key, value) in written {
            let (kind, rest) = KINDS.split(key)?;
            body.extend([kind.tag, u8::from(value.is_some())]);
            put(&mut body, rest, value.as_deref().unwrap_or_default())?;
            self.changes += 1;
            if body.len() > SPLIT {
                bytes.extend(self.frame(GROUP, &body)?);
                body.truncate(8);
            }
        }
        bytes.extend(self.frame(GROUP, &body)?);
        self.groups += 1;
        Ok(bytes)
    }

    /// The end of the file, with its code.
    pub(crate) fn end(mut self, sealer: &Sealer) -> Result<(Totals, Vec<u8>), Fault> {
        let rows = (0_u8..=u8::MAX).zip(self.counts);
        let totals = Totals {
            rows: rows.filter(|(_, count)| *count > 0).collect(),
            groups: self.groups,
            changes: self.changes,
        };
        let mut body = self.digest.clone().finalize().to_vec();
        body.extend(postcard::to_stdvec(&totals).map_err(|error| unwritable(&error))?);
        let mut bytes = self.frame(END, &body)?;
        let code = code_of(sealer.backup_code()?, &self.digest)
            .finalize()
            .into_bytes();
        bytes.extend(self.frame(CODE, &code)?);
        Ok((totals, bytes))
    }

    /// Replaces the end if the backup failed.
    pub(crate) fn failed(mut self, why: &str) -> Result<Vec<u8>, Fault> {
        self.frame(FAILED, why.as_bytes())
    }

    fn frame(&mut self, tag: u8, body: &[u8]) -> Result<Vec<u8>, Fault> {
        let length = u32::try_from(body.len())
            .ok()
            .filter(|_| body.len() <= MAX_FRAME)
            .ok_or_else(|| Fault::Unavailable("a piece of the backup is too large".into()))?;
        let mut frame = Vec::with_capacity(body.len() + 9);
        frame.push(tag);
        frame.extend_from_slice(&length.to_be_bytes());
        frame.extend_from_slice(body);
        let sum = crc32fast::hash(&frame);
        frame.extend_from_slice(&sum.to_be_bytes());
        self.digest.update(&frame);
        Ok(frame)
    }
}

/// The code over all bytes of the file so far.
fn code_of(mut code: Hmac<Sha256>, digest: &Sha256) -> Hmac<Sha256> {
    code.update(&digest.clone().finalize());
    code
}

fn unwritable(error: &postcard::Error) -> Fault {
    Fault::Unavailable(format!("a piece of the backup cannot be encoded: {error}"))
}

fn put(body: &mut Vec<u8>, key: &[u8], value: &[u8]) -> Result<(), Fault> {
    let too_long = || Fault::Unavailable("a row is too long for a backup".into());
    let key_length = u16::try_from(key.len()).map_err(|_| too_long())?;
    let value_length = u32::try_from(value.len()).map_err(|_| too_long())?;
    body.extend_from_slice(&key_length.to_be_bytes());
    body.extend_from_slice(&value_length.to_be_bytes());
    body.extend_from_slice(key);
    body.extend_from_slice(value);
    Ok(())
}

/// Reason why a file is not a usable backup.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The file cannot be read.
    #[error("the backup cannot be read: {0}")]
    Io(#[from] io::Error),
    /// The file is not a Kassette backup (wrong magic bytes).
    #[error("this is no backup of kassette: it does not begin like one")]
    NoBackup,
    /// A later release wrote the file.
    #[error(
        "the backup has version {found}, this program reads up to {VERSION}: use the release that made it ({release}), or a later one"
    )]
    Newer {
        /// Version of the file.
        found: u32,
        /// Release that wrote the file, if it is known.
        release: String,
    },
    /// The rows have another layout.
    #[error(
        "the backup was made by release {release}, whose rows have layout {found}; this program knows layout {known}: restore it with that release"
    )]
    OtherLayout {
        /// Release that wrote the file.
        release: String,
        /// Layout of the file.
        found: u32,
        /// Layout that this program reads.
        known: u32,
    },
    /// The file ends too early.
    #[error(
        "the backup is cut off after {read} bytes: it has no end; use another copy or an earlier backup"
    )]
    CutOff {
        /// Number of bytes in the file.
        read: u64,
    },
    /// The file is damaged.
    #[error("the backup is damaged near byte {at} ({what}); use another copy or an earlier backup")]
    Damaged {
        /// Position in bytes.
        at: u64,
        /// Description of the damage.
        what: &'static str,
    },
    /// The server that wrote the file gave up.
    #[error("the backup was not finished: {0}")]
    Failed(String),
    /// The head does not name the master key.
    #[error(
        "the backup is damaged: its proof of the master key is not as it was written; use another copy or an earlier backup"
    )]
    NoProof,
    /// The file was made under another master key.
    #[error(
        "the backup was made under another master key: it names the key {made_under}, and the one given is {given}. One from before a change of the master key opens with --old-key-file or KASSETTE_OLD_MASTER_KEY"
    )]
    WrongMasterKey {
        /// Id of the key that the file names.
        made_under: String,
        /// Id of the key that was tried.
        given: String,
    },
    /// An earlier release made the file, or someone removed the code.
    #[error(
        "the backup has no authentication code, so what it holds may have been changed where it was kept. If an earlier release made it and only you could write to it since, say --without-code"
    )]
    NoCode,
    /// Someone without the key has changed the file.
    #[error(
        "the backup's authentication code is wrong: the file was altered, or put together from others, after it was made. Use another copy or an earlier backup, and find out who can write where it was kept"
    )]
    WrongCode,
}

/// A row of the store.
pub(crate) type Row = (Key, Vec<u8>);
/// A row after a commit. `None` if the commit removed it.
pub(crate) type Changed = (Key, Option<Vec<u8>>);

/// A piece of a backup.
pub(crate) enum Piece {
    /// Rows in the order of their keys.
    Rows(Vec<Row>),
    /// The changes of a commit, or a part of them.
    Group(Vec<Changed>),
    /// The end. Everything before it is undamaged and, if the decoder [checks](Decoder::checking) the code,
    /// was written by a holder of the master key.
    End(Totals),
}

/// Reads a file piece by piece and checks each piece and the whole.
pub(crate) struct Decoder<R> {
    input: R,
    version: u32,
    /// State for checking the code. `None` without a key.
    code: Option<Hmac<Sha256>>,
    digest: Sha256,
    read: u64,
    counts: [u64; 256],
    last_group: Option<u64>,
    groups: u64,
    changes: u64,
}

impl<R: Read> Decoder<R> {
    /// Reads the head.
    pub(crate) fn open(input: R, layout: u32) -> Result<(Self, Head), FileError> {
        let mut decoder = Self {
            input,
            version: VERSION,
            code: None,
            digest: Sha256::new(),
            read: 0,
            counts: [0; 256],
            last_group: None,
            groups: 0,
            changes: 0,
        };
        let mut start = [0; 12];
        match decoder.fill(&mut start) {
            Err(FileError::CutOff { .. }) => return Err(FileError::NoBackup),
            other => other?,
        }
        let (magic, version) = start.split_at(MAGIC.len());
        if magic != MAGIC {
            return Err(FileError::NoBackup);
        }
        decoder.digest.update(start);
        let version = version
            .first_chunk()
            .map_or(0, |bytes| u32::from_be_bytes(*bytes));
        if version > VERSION {
            return Err(FileError::Newer {
                found: version,
                release: "unknown".into(),
            });
        }
        decoder.version = version;
        let (tag, body, _) = decoder.frame()?;
        let head: Head = match tag {
            HEAD => postcard::from_bytes(&body).map_err(|_| decoder.damaged("its head"))?,
            _ => return Err(decoder.damaged("it does not begin with a head")),
        };
        if head.format != layout {
            return Err(FileError::OtherLayout {
                release: head.release,
                found: head.format,
                known: layout,
            });
        }
        for (tag, name) in &head.kinds {
            if !KINDS
                .all()
                .iter()
                .any(|kind| kind.tag == *tag && kind.name == name)
            {
                return Err(FileError::OtherLayout {
                    release: head.release.clone(),
                    found: head.format,
                    known: layout,
                });
            }
        }
        Ok((decoder, head))
    }

    /// Enables the check of the code, with a key from [`Sealer::backup_code`].
    pub(crate) fn checking(self, code: Hmac<Sha256>) -> Self {
        Self {
            code: Some(code),
            ..self
        }
    }

    /// Whether a file of this version has a code.
    pub(crate) const fn has_code(&self) -> bool {
        self.version > WITHOUT_CODE
    }

    /// Bytes read so far.
    pub(crate) const fn read(&self) -> u64 {
        self.read
    }

    /// Returns the next piece. Must not be called after [`Piece::End`].
    pub(crate) fn next(&mut self) -> Result<Piece, FileError> {
        let before = self.digest.clone();
        let (tag, body, at) = self.frame()?;
        let damaged = |what| FileError::Damaged { at, what };
        match tag {
            ROWS => self.rows(&body, at).map(Piece::Rows),
            GROUP => self.group(&body, at).map(Piece::Group),
            END => {
                let (digest, totals) = body
                    .split_at_checked(32)
                    .ok_or_else(|| damaged("its end is too short"))?;
                if digest != before.finalize().as_slice() {
                    return Err(damaged("the digest over the whole is another"));
                }
                let totals: Totals =
                    postcard::from_bytes(totals).map_err(|_| damaged("its totals"))?;
                let rows = (0_u8..=u8::MAX).zip(self.counts);
                let counted = Totals {
                    rows: rows.filter(|(_, count)| *count > 0).collect(),
                    groups: self.groups,
                    changes: self.changes,
                };
                if counted != totals {
                    return Err(damaged("it holds other numbers of rows than it says"));
                }
                if self.has_code() {
                    self.read_code()?;
                }
                let mut more = [0];
                if self.input.read(&mut more)? != 0 {
                    return Err(damaged("something follows its end"));
                }
                Ok(Piece::End(totals))
            }
            FAILED => Err(FileError::Failed(
                String::from_utf8_lossy(&body).into_owned(),
            )),
            _ => Err(damaged("a piece of a kind that is not known")),
        }
    }

    /// Reads the frame after the end.
    fn read_code(&mut self) -> Result<(), FileError> {
        let written = self.digest.clone();
        let (tag, body, at) = self.frame()?;
        if tag != CODE {
            let what = "its end is not followed by its code";
            return Err(FileError::Damaged { at, what });
        }
        match self.code.take() {
            Some(code) => code_of(code, &written)
                .verify_slice(&body)
                .map_err(|_| FileError::WrongCode),
            None => Ok(()),
        }
    }

    fn rows(&mut self, mut body: &[u8], at: u64) -> Result<Vec<Row>, FileError> {
        let damaged = || FileError::Damaged {
            at,
            what: "rows that do not read back",
        };
        let mut rows = Vec::new();
        while let Some((tag, rest)) = body.split_first() {
            body = rest;
            let (key, value) = take(&mut body).ok_or_else(damaged)?;
            rows.push((KINDS.join(*tag, key).ok_or_else(damaged)?, value.to_vec()));
            self.counts[usize::from(*tag)] += 1;
        }
        Ok(rows)
    }

    fn group(&mut self, mut body: &[u8], at: u64) -> Result<Vec<Changed>, FileError> {
        let damaged = |what| FileError::Damaged { at, what };
        let bad = || damaged("changes that do not read back");
        let (number, rest) = body.split_first_chunk().ok_or_else(bad)?;
        let number = u64::from_be_bytes(*number);
        body = rest;
        if self.last_group != Some(number) {
            if self.last_group.is_some_and(|last| last + 1 != number) {
                return Err(damaged("a group of changes is missing"));
            }
            self.last_group = Some(number);
            self.groups += 1;
        }
        let mut changes = Vec::new();
        while let Some(([tag, written], rest)) = body.split_first_chunk() {
            body = rest;
            let (key, value) = take(&mut body).ok_or_else(bad)?;
            let key = KINDS.join(*tag, key).ok_or_else(bad)?;
            changes.push((key, (*written == 1).then(|| value.to_vec())));
            self.changes += 1;
        }
        match body {
            [] => Ok(changes),
            _ => Err(bad()),
        }
    }

    fn frame(&mut self) -> Result<(u8, Vec<u8>, u64), FileError> {
        let at = self.read;
        let mut head = [0; 5];
        self.fill(&mut head)?;
        let [tag, length @ ..] = head;
        let length = usize::try_from(u32::from_be_bytes(length)).unwrap_or(usize::MAX);
        if length > MAX_FRAME {
            return Err(FileError::Damaged {
                at,
                what: "a piece is longer than any can be",
            });
        }
        let mut body = vec![0; length];
        self.fill(&mut body)?;
        let mut sum = [0; 4];
        self.fill(&mut sum)?;
        let mut crc = crc32fast::Hasher::new();
        crc.update(&head);
        crc.update(&body);
        if crc.finalize().to_be_bytes() != sum {
            return Err(FileError::Damaged {
                at,
                what: "a checksum is wrong",
            });
        }
        self.digest.update(head);
        self.digest.update(&body);
        self.digest.update(sum);
        Ok((tag, body, at))
    }

    fn fill(&mut self, buffer: &mut [u8]) -> Result<(), FileError> {
        let mut filled = 0;
        while filled < buffer.len() {
            match self.input.read(&mut buffer[filled..]) {
                Ok(0) => return Err(FileError::CutOff { read: self.read }),
                Ok(read) => {
                    filled += read;
                    self.read += read as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    const fn damaged(&self, what: &'static str) -> FileError {
        FileError::Damaged {
            at: self.read,
            what,
        }
    }
}

/// Reads the rest of a key and a value, preceded by both lengths.
fn take<'a>(body: &mut &'a [u8]) -> Option<(&'a [u8], &'a [u8])> {
    let (key_length, rest) = body.split_first_chunk()?;
    let (value_length, rest) = rest.split_first_chunk()?;
    let key_length = usize::from(u16::from_be_bytes(*key_length));
    let value_length = usize::try_from(u32::from_be_bytes(*value_length)).ok()?;
    let (key, rest) = rest.split_at_checked(key_length)?;
    let (value, rest) = rest.split_at_checked(value_length)?;
    *body = rest;
    Some((key, value))
}
