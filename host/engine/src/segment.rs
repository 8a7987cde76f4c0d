//! Format of sled's log: segments of equal size, each with a head and messages.
//!
//! The head contains its checksum, the position of the segment in the log, and the position up to which the log
//! was complete when the segment was started. A message contains its checksum, kind, payload length, segment and
//! page, followed by its payload. No message crosses a segment boundary; a message without content fills the rest
//! of a segment. See `logger.rs` and `serialization.rs` of sled 0.34.

/// Bytes of a segment of sled's log. sled puts pages larger than a quarter of it into separate files, which it
/// never syncs. A page with sixteen of our longest rows is smaller than that.
pub const SEGMENT_BYTES: usize = 8 << 20;
/// Bytes of a segment's head.
pub(crate) const SEGMENT_HEAD: usize = 20;
/// Bytes of a head that contain the position of its segment.
pub(crate) const POSITION: std::ops::Range<usize> = 4..12;
/// Maximum bytes of a message's head. No message starts if fewer bytes are left in the segment.
const MESSAGE_HEAD: usize = 32;

/// The head of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    /// Position of the segment in the log, in bytes.
    pub(crate) position: i64,
    /// Position up to which the log was complete. Negative if there was no log.
    pub(crate) whole_to: i64,
}

impl Head {
    /// Encodes the head.
    pub(crate) fn write(self) -> [u8; SEGMENT_HEAD] {
        let mut head = [0; SEGMENT_HEAD];
        head[POSITION].copy_from_slice(&turned(self.position).to_le_bytes());
        head[12..].copy_from_slice(&turned(self.whole_to).to_le_bytes());
        let sum = !crc32fast::hash(&head[4..]);
        head[..4].copy_from_slice(&sum.to_le_bytes());
        head
    }

    /// Decodes a head. `None` if its checksum is wrong.
    pub(crate) fn read(head: [u8; SEGMENT_HEAD]) -> Option<Self> {
        let (sum, rest) = head.split_first_chunk()?;
        let (position, whole_to) = rest.split_first_chunk()?;
        let whole_to = whole_to.first_chunk()?;
        (u32::from_le_bytes(*sum) == !crc32fast::hash(rest)).then(|| Self {
            position: turned(i64::from_le_bytes(*position)),
            whole_to: turned(i64::from_le_bytes(*whole_to)),
        })
    }
}

/// Inverts all bits of a position except its sign, as sled does, so that a block of zeros is not a valid head.
const fn turned(position: i64) -> i64 {
    position ^ i64::MAX
}

/// Kind of a message that only fills the rest of a segment.
const CAP: u8 = 2;
/// Kinds of messages that sled writes.
const KINDS: std::ops::RangeInclusive<u8> = 1..=11;

/// Checksum of a message, without the four bytes that contain it.
fn checksum(head: &[u8], says: &[u8]) -> u32 {
    let mut sum = crc32fast::Hasher::new();
    // sled hashes the payload first.
    sum.update(says);
    sum.update(head.get(4..).unwrap_or_default());
    !sum.finalize()
}

/// Whether a complete segment can be read, up to the point at which sled continues in the next one.
pub(crate) fn is_whole(segment: &[u8], number: u64) -> bool {
    let mut at = SEGMENT_HEAD;
    while at + MESSAGE_HEAD <= SEGMENT_BYTES {
        match segment.get(at..).and_then(|rest| first(rest, number)) {
            Some(message) if message.kind == CAP => return true,
            Some(message) => at += message.length,
            None => return false,
        }
    }
    true
}

/// The head of a message.
pub(crate) struct SegmentMessage {
    kind: u8,
    pub(crate) page: u64,
    /// Length of the message in bytes, with its head.
    pub(crate) length: usize,
}

/// Decodes the first message. `None` if it is damaged or belongs to another segment.
pub(crate) fn first(bytes: &[u8], segment: u64) -> Option<SegmentMessage> {
    let (sum, rest) = bytes.split_first_chunk()?;
    let (&kind, mut rest) = rest.split_first()?;
    let says = take_number(&mut rest)?;
    let number = take_number(&mut rest)?;
    let page = take_number(&mut rest)?;
    let head = bytes.len() - rest.len();
    let says = rest.get(..usize::try_from(says).ok()?)?;
    let is_right = KINDS.contains(&kind)
        && number == segment
        && u32::from_le_bytes(*sum) == checksum(bytes.get(..head)?, says);
    is_right.then(|| SegmentMessage {
        kind,
        page,
        length: head + says.len(),
    })
}

/// Takes a number off the front. Numbers up to 240 take one byte; for others the first byte determines the
/// encoding.
pub(crate) fn take_number(from: &mut &[u8]) -> Option<u64> {
    let (&head, rest) = from.split_first()?;
    let (number, rest) = match head {
        0..=240 => (u64::from(head), rest),
        241..=248 => {
            let (&low, rest) = rest.split_first()?;
            (240 + 256 * (u64::from(head) - 241) + u64::from(low), rest)
        }
        249 => {
            let (bytes, rest) = rest.split_first_chunk()?;
            (2288 + u64::from(u16::from_be_bytes(*bytes)), rest)
        }
        _ => {
            let (bytes, rest) = rest.split_at_checked(usize::from(head) - 247)?;
            let mut number = [0; 8];
            number[..bytes.len()].copy_from_slice(bytes);
            (u64::from_le_bytes(number), rest)
        }
    };
    *from = rest;
    Some(number)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Kind of a message with a complete page of a tree.
    const NODE: u8 = 8;

    fn message(kind: u8, segment: u64, page: u64, says: &[u8]) -> Vec<u8> {
        let mut message = Vec::with_capacity(MESSAGE_HEAD + says.len());
        message.extend([0; 4]);
        message.push(kind);
        put_number(&mut message, says.len() as u64);
        put_number(&mut message, segment);
        put_number(&mut message, page);
        let sum = checksum(&message, says);
        message[..4].copy_from_slice(&sum.to_le_bytes());
        message.extend_from_slice(says);
        message
    }

    /// Inverse of [`take_number`].
    fn put_number(into: &mut Vec<u8>, number: u64) {
        let split = |base: u64| {
            let [low, high, ..] = (number - base).to_le_bytes();
            (high, low)
        };
        match number {
            0..=240 => into.push(number.to_le_bytes()[0]),
            241..=2287 => {
                let (high, low) = split(240);
                into.extend([241 + high, low]);
            }
            2288..=67823 => {
                let (high, low) = split(2288);
                into.extend([249, high, low]);
            }
            _ => {
                let bytes = number.to_le_bytes();
                let zeros = bytes.iter().rev().take_while(|byte| **byte == 0);
                let (mut head, mut width) = (u8::MAX, bytes.len());
                for _ in zeros {
                    head -= 1;
                    width -= 1;
                }
                into.push(head);
                into.extend_from_slice(&bytes[..width]);
            }
        }
    }

    #[test]
    fn a_head_reads_back_and_a_torn_one_does_not() {
        let head = |whole_to| Head {
            position: 3 << 23,
            whole_to,
        };
        let (early, late) = (head((3 << 23) - 1), head(3 << 23));
        assert_eq!(Head::read(early.write()), Some(early));
        assert_eq!(Head::read(late.write()), Some(late));
        assert_eq!(Head::read([0; SEGMENT_HEAD]), None);
        let (before, after) = (early.write(), late.write());
        let (mut torn, mut unread) = (before, 0);
        for at in 0..SEGMENT_HEAD {
            torn[at] = after[at];
            unread += usize::from(torn != before && torn != after && Head::read(torn).is_none());
        }
        assert!(unread > 4, "{unread}");
    }

    #[test]
    fn a_segment_is_whole_up_to_the_message_that_fills_it() {
        let mut segment = Head {
            position: 0,
            whole_to: -1,
        }
        .write()
        .to_vec();
        for page in [1, 300, 70_000] {
            segment.extend(message(NODE, 0, page, &vec![7; 1_000]));
        }
        let end = segment.len();
        segment.resize(SEGMENT_BYTES, 0);
        assert!(!is_whole(&segment, 0), "nothing fills it");
        let cap = message(
            CAP,
            0,
            u64::MAX,
            &vec![0; SEGMENT_BYTES - end - MESSAGE_HEAD],
        );
        segment[end..end + cap.len()].copy_from_slice(&cap);
        assert!(is_whole(&segment, 0));
        assert!(!is_whole(&segment, 1), "its messages are of another");
        for at in [SEGMENT_HEAD, 1_500, end + 1] {
            let mut bad = segment.clone();
            bad[at] ^= 1;
            assert!(!is_whole(&bad, 0), "{at}");
        }
    }

    proptest! {
        #[test]
        fn a_number_reads_back(number: u64, zeros in 0..64_u32) {
            let number = number >> zeros;
            let mut bytes = Vec::new();
            put_number(&mut bytes, number);
            let mut rest = bytes.as_slice();
            prop_assert_eq!(take_number(&mut rest), Some(number));
            prop_assert!(rest.is_empty());
        }
    }
}
