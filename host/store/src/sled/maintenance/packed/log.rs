//! sled's log: segments of one size, each with a head that says which one it is, and in them messages.
//!
//! A segment's head is its check sum, the position of its first byte in the log, and the position up to
//! which the log was whole when it was begun. A message is its check sum, kind, length, segment and page,
//! then what it says. None stands in two segments: what is left of one is filled by a message that says
//! nothing.

use std::io::{self, Write};

use super::node::put_number;
use crate::sled::open::SEGMENT_BYTES;

/// Bytes of a segment's head.
const SEGMENT_HEAD: usize = 20;
/// Most bytes of a message's head. No message begins where fewer are left.
const MESSAGE_HEAD: usize = 32;

/// What a message says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Kind {
    /// Nothing: the rest of the segment.
    Cap = 2,
    /// A counter, whole.
    Counter = 5,
    /// The roots of the trees, whole.
    Meta = 6,
    /// A page of a tree, whole.
    Node = 8,
}

/// A log that is being written from its beginning.
pub(super) struct Log<W> {
    out: W,
    /// The number of the segment at its end.
    segment: u64,
    /// Bytes of that segment that are written.
    used: usize,
}

impl<W: Write> Log<W> {
    pub(super) fn begin(out: W) -> io::Result<Self> {
        let mut log = Self {
            out,
            segment: 0,
            used: 0,
        };
        log.write(&segment_head(0))?;
        Ok(log)
    }

    /// Writes a page whole.
    pub(super) fn append(&mut self, kind: Kind, page: u64, says: &[u8]) -> io::Result<()> {
        if SEGMENT_HEAD + MESSAGE_HEAD + says.len() > SEGMENT_BYTES {
            return Err(io::Error::other("a page is longer than a segment"));
        }
        let mut written = message(kind, self.segment, page, says);
        if self.left() < written.len().max(MESSAGE_HEAD) {
            self.next_segment()?;
            written = message(kind, self.segment, page, says);
        }
        self.write(&written)
    }

    /// Hands everything to the file.
    pub(super) fn finish(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    const fn left(&self) -> usize {
        SEGMENT_BYTES - self.used
    }

    fn next_segment(&mut self) -> io::Result<()> {
        if let Some(padding) = self.left().checked_sub(MESSAGE_HEAD) {
            let cap = message(Kind::Cap, self.segment, u64::MAX, &vec![0; padding]);
            self.write(&cap)?;
        }
        self.write(&vec![0; self.left()])?;
        self.segment += 1;
        self.used = 0;
        self.write(&segment_head(self.segment))
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.used += bytes.len();
        self.out.write_all(bytes)
    }
}

fn segment_head(segment: u64) -> [u8; SEGMENT_HEAD] {
    // Positions are signed and stand with all other bits turned round: a file of zeros is no head. The
    // position up to which the log was whole is the last one before the segment, below zero at first.
    let turned = |position: u64| (position ^ (u64::MAX >> 1)).to_le_bytes();
    let position = segment * SEGMENT_BYTES as u64;
    let mut head = [0; SEGMENT_HEAD];
    head[4..12].copy_from_slice(&turned(position));
    head[12..].copy_from_slice(&turned(position.wrapping_sub(1)));
    let sum = !crc32fast::hash(&head[4..]);
    head[..4].copy_from_slice(&sum.to_le_bytes());
    head
}

fn message(kind: Kind, segment: u64, page: u64, says: &[u8]) -> Vec<u8> {
    let mut message = Vec::with_capacity(MESSAGE_HEAD + says.len());
    message.extend([0; 4]);
    message.push(kind as u8);
    put_number(&mut message, says.len() as u64);
    put_number(&mut message, segment);
    put_number(&mut message, page);
    // What it says goes before its head.
    let mut sum = crc32fast::Hasher::new();
    sum.update(says);
    sum.update(&message[4..]);
    message[..4].copy_from_slice(&(!sum.finalize()).to_le_bytes());
    message.extend_from_slice(says);
    message
}
