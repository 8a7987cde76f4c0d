//! WASI state of one call.

use kassette_domain::routing::Context;
use kassette_domain::time::Time;

use super::seeded_random::SeededRandom;

/// Maximum number of bytes kept of an incomplete line. The log cuts lines to less.
const LINE: usize = 4096;

pub(crate) struct Wasi {
    pub(super) now: Time,
    pub(super) random: SeededRandom,
    pub(super) out: LineBuffer,
    pub(super) err: LineBuffer,
}

impl Wasi {
    /// State for `describe`, which is not about a payment, and for modules that do not import WASI.
    pub(crate) fn without_question() -> Self {
        Self {
            now: Time::from_millis(0),
            random: SeededRandom::fixed(),
            out: LineBuffer::default(),
            err: LineBuffer::default(),
        }
    }

    /// State for `rank`.
    pub(crate) fn for_question(context: &Context) -> Self {
        Self {
            now: context.now,
            random: SeededRandom::new(context),
            ..Self::without_question()
        }
    }
}

/// Splits output into log lines.
#[derive(Default)]
pub(super) struct LineBuffer(Vec<u8>);

impl LineBuffer {
    pub(super) fn write(&mut self, bytes: &[u8], mut say: impl FnMut(&str)) {
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            let text = part.strip_suffix(b"\n").unwrap_or(part);
            let room = LINE.saturating_sub(self.0.len());
            self.0.extend(text.iter().take(room));
            if part.ends_with(b"\n") {
                self.end(&mut say);
            }
        }
    }

    pub(super) fn end(&mut self, mut say: impl FnMut(&str)) {
        if !self.0.is_empty() {
            say(&String::from_utf8_lossy(&self.0));
            self.0.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_printed_becomes_lines_however_it_is_cut() {
        let mut said = Vec::new();
        let mut buffer = LineBuffer::default();
        for piece in ["on", "e\n\ntw", "o\nthree"] {
            buffer.write(piece.as_bytes(), |line| said.push(line.to_owned()));
        }
        assert_eq!(said, ["one", "two"]);
        buffer.end(|line| said.push(line.to_owned()));
        buffer.end(|line| said.push(line.to_owned()));
        assert_eq!(said, ["one", "two", "three"]);
    }

    #[test]
    fn a_line_without_end_keeps_no_more_than_its_share() {
        let mut buffer = LineBuffer::default();
        for _ in 0..100 {
            buffer.write(&[b'x'; 1000], |_| {});
        }
        assert_eq!(buffer.0.len(), LINE);
    }
}
