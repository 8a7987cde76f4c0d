//! sled's log, written from its beginning.

use std::io::{self, Write};

use crate::sled::segment::SEGMENT_BYTES;
use crate::sled::segment::{Head, Kind, MESSAGE_HEAD, SEGMENT_HEAD, message};

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
        log.write(&segment_head(0)?)?;
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
        self.write(&segment_head(self.segment)?)
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.used += bytes.len();
        self.out.write_all(bytes)
    }
}

/// The position up to which the log was whole is the last one before the segment.
fn segment_head(segment: u64) -> io::Result<[u8; SEGMENT_HEAD]> {
    let position = segment.checked_mul(SEGMENT_BYTES as u64);
    let position = position.and_then(|position| i64::try_from(position).ok());
    let position = position.ok_or_else(|| io::Error::other("the log is too long"))?;
    let whole_to = position - 1;
    Ok(Head { position, whole_to }.write())
}
