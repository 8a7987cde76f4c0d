//! sled's log: whether sled assumes data to be durable that is not, and how much is not durable at each event.

use std::collections::BTreeMap;

use crate::disk::{Disk, Event, Node, Op};
use crate::random::Random;
use crate::record::SEGMENT;

/// A write that no sync has made durable.
struct Write {
    file: Node,
    call: u64,
    returned: bool,
    /// Position in the log.
    position: i64,
    bytes: usize,
}

/// State of the log, updated with each call.
pub(crate) struct Log {
    database: Vec<Node>,
    /// Log positions of the segments, by file and offset.
    segments: BTreeMap<(Node, u64), i64>,
    pending: Vec<Write>,
    /// Syncs in flight, and the calls that they make durable.
    syncs: BTreeMap<u64, Vec<u64>>,
    /// Number of bytes that were not durable after each event.
    unsynced: Vec<usize>,
    /// Maximum of `unsynced`.
    pub(crate) most: usize,
    /// Segments that sled started on the assumption that the log was durable up to some position, although it was
    /// not.
    pub(crate) broken: Vec<String>,
}

impl Log {
    pub(crate) fn new(database: Vec<Node>, base: &Disk) -> Self {
        let mut segments = BTreeMap::new();
        for (file, bytes) in base.named("db") {
            for (at, segment) in (0..).step_by(8 << 20).zip(bytes.chunks(8 << 20)) {
                segments.extend(head(segment).map(|(position, _)| ((file, at), position)));
            }
        }
        Self {
            database,
            segments,
            pending: Vec::new(),
            syncs: BTreeMap::new(),
            unsynced: Vec::new(),
            most: 0,
            broken: Vec::new(),
        }
    }

    pub(crate) fn happen(&mut self, event: &Event) {
        match event {
            Event::Began(call, op) if self.database.contains(&op.node()) => match op {
                Op::Write { at, data, .. } if !op.is_zeros(0) => {
                    self.write(op.node(), *call, *at, data);
                }
                Op::Sync { node, .. } => {
                    let of_it = |write: &&Write| write.returned && write.file == *node;
                    let returned = self.pending.iter().filter(of_it);
                    let covered = returned.map(|write| write.call).collect();
                    self.syncs.insert(*call, covered);
                }
                _ => {}
            },
            Event::Returned(call, done) => {
                if let Some(covered) = self.syncs.remove(call).filter(|_| done.is_some()) {
                    self.pending.retain(|write| !covered.contains(&write.call));
                }
                let written = self.pending.iter_mut().find(|write| write.call == *call);
                written.into_iter().for_each(|write| write.returned = true);
            }
            _ => {}
        }
        let unsynced = self.pending.iter().map(|write| write.bytes).sum();
        self.unsynced.push(unsynced);
        self.most = self.most.max(unsynced);
    }

    fn write(&mut self, file: Node, call: u64, at: u64, data: &[u8]) {
        let (segment, within) = ((file, at - at % SEGMENT), at % SEGMENT);
        if let Some((position, whole_to)) = head(data).filter(|_| within == 0) {
            self.segments.insert(segment, position);
            let pending = self.pending.iter().filter(|write| write.file == file);
            let unsafe_from = pending.map(|write| write.position).min();
            if let Some(from) = unsafe_from.filter(|from| *from <= whole_to) {
                self.broken.push(format!(
                    "segment {position} is begun where all up to {whole_to} is taken for safe, \
                     and it is not from {from} on"
                ));
            }
        }
        // A separate header is rewritten at a start, and was first written to another file.
        if data.len() > HEAD {
            let begin = self.segments.get(&segment).copied().unwrap_or_default();
            let position = begin + i64::try_from(within).unwrap();
            let (returned, bytes) = (false, data.len());
            self.pending.push(Write {
                file,
                call,
                returned,
                position,
                bytes,
            });
        }
    }

    /// Random events, with a probability proportional to the number of bytes that were not durable.
    pub(crate) fn late(&self, count: usize, random: &mut Random) -> Vec<usize> {
        let mut all = 0;
        let sums: Vec<usize> = self
            .unsynced
            .iter()
            .map(|bytes| {
                all += bytes >> 10;
                all
            })
            .collect();
        let mut draw = |_| {
            let drawn = random.below(all);
            sums.partition_point(|sum| *sum <= drawn)
        };
        (0..count).map(&mut draw).collect()
    }
}

/// Size of a segment's header, in bytes.
const HEAD: usize = 20;

/// Log position of a segment, and the position up to which its header declares the log complete. `None` if the
/// header is invalid.
fn head(segment: &[u8]) -> Option<(i64, i64)> {
    let (sum, rest) = segment.get(..HEAD)?.split_first_chunk()?;
    if u32::from_le_bytes(*sum) != !crc32fast::hash(rest) {
        return None;
    }
    let (position, whole_to) = rest.split_first_chunk()?;
    let read = |number: &[u8; 8]| i64::from_le_bytes(*number) ^ i64::MAX;
    Some((read(position), read(whole_to.first_chunk()?)))
}
