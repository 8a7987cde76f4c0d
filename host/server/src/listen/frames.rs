//! Counts the HTTP/2 frames that arrive on a connection, except for large enough pieces of bodies.
//!
//! Pings, settings, window updates, priorities, resets, continuations and tiny pieces of a body cost this process
//! more than their sender. Each of them uses part of the connection's allowance. Heads do too, but each request
//! extends the allowance by the frames that it needs. Frames beyond the allowance are read slowly.
//!
//! Decided 2026-11-27: hyper and h2 limit resets, heads and continuations, and close the connection at the limit.
//! They do not have a setting for the number or rate of pings, settings, window updates and priorities.

const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const HEAD: usize = 9;
const DATA: u8 = 0;
const END_STREAM: u8 = 1;
/// Minimum size, in bytes, of a DATA frame that is not counted. A DATA frame that ends its stream is never
/// counted.
const PIECE: usize = 256;

/// Parser that follows the bytes read from a connection.
pub(super) struct Frames(State);

enum State {
    /// Number of bytes of the preface read.
    Preface(usize),
    /// Bytes of a frame header, and how many of them have been read.
    Head([u8; HEAD], usize),
    /// Remaining bytes of a frame's payload.
    Payload(usize),
    /// The connection does not use HTTP/2.
    Other,
}

impl Frames {
    pub(super) const fn new() -> Self {
        Self(State::Preface(0))
    }

    /// Counts the frames whose header ends in these bytes, except large enough pieces of bodies.
    pub(super) fn count(&mut self, mut bytes: &[u8]) -> i64 {
        let mut frames = 0;
        while !bytes.is_empty() {
            let taken = match &mut self.0 {
                State::Other => return 0,
                State::Preface(seen) => {
                    let taken = bytes.len().min(PREFACE.len() - *seen);
                    if bytes[..taken] != PREFACE[*seen..*seen + taken] {
                        self.0 = State::Other;
                        return 0;
                    }
                    *seen += taken;
                    if *seen == PREFACE.len() {
                        self.0 = State::Head([0; HEAD], 0);
                    }
                    taken
                }
                State::Head(head, seen) => {
                    let taken = bytes.len().min(HEAD - *seen);
                    head[*seen..*seen + taken].copy_from_slice(&bytes[..taken]);
                    *seen += taken;
                    if *seen == HEAD {
                        let [a, b, c, kind, flags, ..] = *head;
                        let length = u32::from_be_bytes([0, a, b, c]) as usize;
                        let body = kind == DATA && (length >= PIECE || flags & END_STREAM != 0);
                        frames += i64::from(!body);
                        self.0 = State::Payload(length);
                    }
                    taken
                }
                State::Payload(left) => {
                    let taken = bytes.len().min(*left);
                    *left -= taken;
                    if *left == 0 {
                        self.0 = State::Head([0; HEAD], 0);
                    }
                    taken
                }
            };
            bytes = &bytes[taken..];
        }
        frames
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, flags: u8, length: usize) -> Vec<u8> {
        let [_, _, _, _, _, a, b, c] = (length as u64).to_be_bytes();
        let head = [a, b, c, kind, flags, 0, 0, 0, 1];
        [&head[..], &vec![0; length]].concat()
    }

    #[test]
    fn frames_are_counted_wherever_reads_cut_them_and_bodies_are_not() {
        let parts = [
            PREFACE.to_vec(),
            frame(4, 0, 0),
            frame(6, 0, 8),
            frame(DATA, 0, PIECE),
            frame(DATA, END_STREAM, 0),
            frame(DATA, 0, 0),
            frame(DATA, 0, PIECE - 1),
            frame(1, 4, 300),
        ];
        let bytes = parts.concat();
        for size in 1..bytes.len() {
            let mut frames = Frames::new();
            let counted: i64 = bytes.chunks(size).map(|part| frames.count(part)).sum();
            assert_eq!(counted, 5, "in pieces of {size}");
        }
    }

    #[test]
    fn another_protocol_has_no_frames() {
        let mut frames = Frames::new();
        let bytes = [b"PRI * HTTP/1.1\r\nhost: x\r\n\r\n", &[0; 99][..]].concat();
        let counted: i64 = bytes.chunks(5).map(|part| frames.count(part)).sum();
        assert_eq!(counted, 0);
    }
}
