//! A disk within the limits of POSIX: changes that were not synced may be present in any part, or not at all.
//!
//! * A file's contents, and the length needed to read them, are durable after an `fsync` or `fdatasync` of the
//!   file that started after the write had returned, and that has itself returned.
//! * Names in a folder are durable after an `fsync` of the folder, under the same conditions.
//! * `sync_file_range`, `close`, `rename` and time guarantee nothing.
//!
//! Each image keeps some part of the other changes: whole writes, some of their pages or sectors, a write torn at
//! any byte, the latest changes without earlier ones, a length with or without the contents, names without their
//! files' contents, and files without their names. A rename or an exchange of two names is atomic. Sectors outside
//! of a write never change.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::random::Random;

const SECTOR: usize = 512;
const PAGE: usize = 4096;

/// A file or folder that exists or has existed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Node {
    File(usize),
    Folder(usize),
}

/// An operation on the file system.
#[derive(Clone, Debug)]
pub(crate) enum Op {
    Write {
        file: usize,
        at: u64,
        data: Arc<[u8]>,
    },
    SetLength {
        file: usize,
        length: u64,
    },
    Add {
        folder: usize,
        name: String,
        node: Node,
    },
    Remove {
        folder: usize,
        name: String,
    },
    Rename {
        folder: usize,
        from: String,
        to: String,
        node: Node,
    },
    /// Exchanges two names atomically.
    Exchange {
        folder: usize,
        names: [String; 2],
        nodes: [Node; 2],
    },
    Sync {
        node: Node,
        /// Whether it is an `fdatasync`.
        data_only: bool,
    },
}

impl Op {
    /// The file that it changes, or the folder whose names it changes.
    pub(crate) const fn node(&self) -> Node {
        match self {
            Self::Write { file, .. } | Self::SetLength { file, .. } => Node::File(*file),
            Self::Add { folder, .. }
            | Self::Remove { folder, .. }
            | Self::Rename { folder, .. }
            | Self::Exchange { folder, .. } => Node::Folder(*folder),
            Self::Sync { node, .. } => *node,
        }
    }

    /// Offset of a write. `None` for other operations.
    const fn offset(&self) -> Option<u64> {
        match self {
            Self::Write { at, .. } => Some(*at),
            _ => None,
        }
    }

    /// Whether it writes only zeros, at least `length` of them.
    pub(crate) fn is_zeros(&self, length: u64) -> bool {
        matches!(self, Self::Write { data, .. }
            if data.len() as u64 >= length && data.iter().all(|byte| *byte == 0))
    }
}

#[derive(Clone, Debug)]
pub(crate) enum Event {
    /// A call started: it may have an effect from now on.
    Began(u64, Op),
    /// A call returned. For a write, with the number of bytes written; `None` if it failed.
    Returned(u64, Option<usize>),
    /// The process acknowledged something.
    Acknowledged(String),
}

#[derive(Clone, Debug)]
struct Pending {
    call: u64,
    returned: bool,
    op: Op,
}

#[derive(Clone, Debug, Default)]
struct File {
    durable: Vec<u8>,
    pending: Vec<Pending>,
}

#[derive(Clone, Debug, Default)]
struct Folder {
    durable: BTreeMap<String, Node>,
    pending: Vec<Pending>,
}

/// Everything below one folder, which itself is durable.
#[derive(Clone, Debug, Default)]
pub(crate) struct Disk {
    files: Vec<File>,
    folders: Vec<Folder>,
    /// Calls that a sync in flight makes durable, by the sync's call.
    covered: HashMap<u64, (Node, BTreeSet<u64>)>,
}

/// Index of the root folder.
pub(crate) const ROOT: usize = 0;

/// Files and folders after one power cut.
#[derive(Debug, Default)]
pub(crate) struct Image {
    pub(crate) folders: Vec<PathBuf>,
    pub(crate) files: Vec<(PathBuf, Vec<u8>)>,
    /// Description of how unsynced changes were chosen.
    pub(crate) manner: String,
}

impl Image {
    /// Writes the files and folders below a folder.
    pub(crate) fn write(&self, folder: &Path) -> std::io::Result<()> {
        std::fs::create_dir_all(folder)?;
        for path in &self.folders {
            std::fs::create_dir_all(folder.join(path))?;
        }
        for (path, bytes) in &self.files {
            std::fs::write(folder.join(path), bytes)?;
        }
        Ok(())
    }
}

impl Disk {
    /// Reads a folder, all of whose contents count as durable. Also returns the paths of all nodes.
    pub(crate) fn of_folder(root: &Path) -> std::io::Result<(Self, Vec<(PathBuf, Node)>)> {
        let mut disk = Self::default();
        disk.folders.push(Folder::default());
        let mut places = vec![(root.to_owned(), Node::Folder(ROOT))];
        let mut next = 0;
        while let Some((path, node)) = places.get(next).cloned() {
            next += 1;
            let Node::Folder(folder) = node else {
                continue;
            };
            for entry in std::fs::read_dir(&path)? {
                let entry = entry?;
                let node = if entry.file_type()?.is_dir() {
                    disk.folders.push(Folder::default());
                    Node::Folder(disk.folders.len() - 1)
                } else {
                    disk.files.push(File {
                        durable: std::fs::read(entry.path())?,
                        pending: Vec::new(),
                    });
                    Node::File(disk.files.len() - 1)
                };
                let name = entry.file_name().to_string_lossy().into_owned();
                disk.folders[folder].durable.insert(name, node);
                places.push((entry.path(), node));
            }
        }
        Ok((disk, places))
    }

    /// Files with this name, and their durable contents.
    pub(crate) fn named(&self, name: &str) -> impl Iterator<Item = (Node, &[u8])> {
        let named = self
            .folders
            .iter()
            .filter_map(|folder| folder.durable.get(name));
        named.filter_map(|node| match node {
            Node::File(file) => Some((*node, &self.files[*file].durable[..])),
            Node::Folder(_) => None,
        })
    }

    /// Adds entries for files and folders that the recorder has numbered.
    fn know(&mut self, node: Node) {
        match node {
            Node::File(file) => {
                let length = self.files.len().max(file + 1);
                self.files.resize_with(length, File::default);
            }
            Node::Folder(folder) => {
                let length = self.folders.len().max(folder + 1);
                self.folders.resize_with(length, Folder::default);
            }
        }
    }

    fn pending(&mut self, node: Node) -> &mut Vec<Pending> {
        self.know(node);
        match node {
            Node::File(file) => &mut self.files[file].pending,
            Node::Folder(folder) => &mut self.folders[folder].pending,
        }
    }

    /// Applies an event.
    pub(crate) fn happen(&mut self, event: &Event) {
        match event {
            Event::Began(call, Op::Sync { node, .. }) => {
                let returned = self.pending(*node).iter().filter(|each| each.returned);
                let calls = returned.map(|each| each.call).collect();
                self.covered.insert(*call, (*node, calls));
            }
            Event::Began(call, op) => {
                if let Op::Add { node, .. } | Op::Rename { node, .. } = op {
                    self.know(*node);
                }
                let pending = Pending {
                    call: *call,
                    returned: false,
                    op: op.clone(),
                };
                self.pending(op.node()).push(pending);
            }
            Event::Returned(call, done) => self.returned(*call, *done),
            Event::Acknowledged(_) => {}
        }
    }

    fn returned(&mut self, call: u64, done: Option<usize>) {
        if let Some((node, calls)) = self.covered.remove(&call) {
            if done.is_some() {
                self.make_durable(node, &calls);
            }
            return;
        }
        let files = self.files.iter_mut().map(|file| &mut file.pending);
        let folders = self.folders.iter_mut().map(|folder| &mut folder.pending);
        for pending in files.chain(folders) {
            // The latest calls are last.
            let Some(at) = pending.iter().rposition(|each| each.call == call) else {
                continue;
            };
            match (done, &mut pending[at].op) {
                (Some(took), Op::Write { data, .. }) if took < data.len() => {
                    *data = data[..took].into();
                    pending[at].returned = true;
                }
                (Some(_), _) => pending[at].returned = true,
                // A failed write may have left any part.
                (None, Op::Write { .. }) => {}
                (None, _) => {
                    pending.remove(at);
                }
            }
            return;
        }
    }

    fn make_durable(&mut self, node: Node, calls: &BTreeSet<u64>) {
        let (covered, rest) = std::mem::take(self.pending(node))
            .into_iter()
            .partition(|each| calls.contains(&each.call));
        *self.pending(node) = rest;
        for each in covered {
            match node {
                Node::File(file) => apply_whole(&mut self.files[file].durable, &each.op),
                Node::Folder(folder) => rename(&mut self.folders[folder].durable, &each.op),
            }
        }
    }

    /// A random image of a power cut at this point.
    pub(crate) fn cut(&self, random: &mut Random) -> Image {
        let names = Manner::random(random);
        let contents = Manner::random(random);
        let length = Length::random(random);
        let mut image = self.image(
            random,
            |folder, random| names.choose(folder, random),
            |file, random| file.cut(contents, length, random),
        );
        image.manner = format!("names {names:?}, contents {contents:?}, lengths {length:?}");
        image
    }

    /// An image with all writes, or with random sectors of them if `torn`, and with the unsynced name changes for
    /// which `is_there` returns true.
    pub(crate) fn cut_by(
        &self,
        torn: bool,
        random: &mut Random,
        is_there: impl Fn(&Op) -> bool,
    ) -> Image {
        let contents = if torn {
            Manner::Sectors
        } else {
            Manner::Everything
        };
        self.image(
            random,
            |folder, _| folder.iter().filter(|each| is_there(&each.op)).collect(),
            |file, random| file.cut(contents, Length::Written, random),
        )
    }

    fn image(
        &self,
        random: &mut Random,
        names: impl for<'a> Fn(&'a [Pending], &mut Random) -> Vec<&'a Pending>,
        contents: impl Fn(&File, &mut Random) -> Vec<u8>,
    ) -> Image {
        let mut image = Image::default();
        let mut open = vec![(PathBuf::new(), ROOT)];
        while let Some((path, folder)) = open.pop() {
            let folder = &self.folders[folder];
            let mut entries = folder.durable.clone();
            for each in names(&folder.pending, random) {
                rename(&mut entries, &each.op);
            }
            for (name, node) in entries {
                let path = path.join(name);
                match node {
                    Node::Folder(folder) => {
                        image.folders.push(path.clone());
                        open.push((path, folder));
                    }
                    Node::File(file) => {
                        let bytes = contents(&self.files[file], random);
                        image.files.push((path, bytes));
                    }
                }
            }
        }
        image
    }
}

fn rename(entries: &mut BTreeMap<String, Node>, op: &Op) {
    match op {
        Op::Add { name, node, .. } => {
            entries.insert(name.clone(), *node);
        }
        Op::Remove { name, .. } => {
            entries.remove(name);
        }
        Op::Rename { from, to, node, .. } => {
            if entries.get(from) == Some(node) {
                entries.remove(from);
            }
            entries.insert(to.clone(), *node);
        }
        Op::Exchange { names, nodes, .. } => {
            let [one, other] = names.clone();
            entries.extend([(one, nodes[1]), (other, nodes[0])]);
        }
        _ => {}
    }
}

/// Converts an offset or length.
fn offset(at: u64) -> usize {
    usize::try_from(at).unwrap_or(usize::MAX)
}

fn put(bytes: &mut Vec<u8>, at: usize, data: &[u8]) {
    let end = at + data.len();
    if bytes.len() < end {
        bytes.resize(end, 0);
    }
    bytes[at..end].copy_from_slice(data);
}

fn apply_whole(bytes: &mut Vec<u8>, op: &Op) {
    match op {
        Op::Write { at, data, .. } => put(bytes, offset(*at), data),
        Op::SetLength { length, .. } => bytes.resize(offset(*length), 0),
        _ => {}
    }
}

/// The part of the unsynced changes that is present.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Manner {
    Nothing,
    Everything,
    /// Any calls, completely.
    Calls,
    Pages,
    Sectors,
    /// The first calls, and a part of the next one.
    Torn,
    /// The last calls without earlier ones.
    Latest,
    AllButOne,
    /// Writes at lower offsets, as if the disk wrote in the order of offsets.
    Lower,
}

impl Manner {
    fn random(random: &mut Random) -> Self {
        match random.below(11) {
            0 => Self::Nothing,
            1 => Self::Everything,
            2 => Self::Calls,
            3 => Self::Pages,
            4 | 5 => Self::Sectors,
            6 => Self::Torn,
            7 => Self::Latest,
            8 => Self::AllButOne,
            _ => Self::Lower,
        }
    }

    /// The calls of which a part is present.
    fn choose<'a>(self, pending: &'a [Pending], random: &mut Random) -> Vec<&'a Pending> {
        let pivot = random.below(pending.len() + 1);
        let before = pending.get(pivot).and_then(|each| each.op.offset());
        let kept = pending.iter().enumerate().filter(|(at, each)| match self {
            Self::Nothing => false,
            Self::Everything | Self::Pages | Self::Sectors => true,
            Self::Calls => random.one_in(2),
            Self::Torn => *at <= pivot,
            Self::Latest => *at >= pivot,
            Self::AllButOne => *at != pivot,
            Self::Lower => each.op.offset() < before,
        });
        kept.map(|(_, each)| each).collect()
    }
}

/// Length of a file whose length was not synced.
#[derive(Clone, Copy, Debug)]
enum Length {
    /// Up to the last part that is present.
    Written,
    Before,
    /// The final length, with zeros for absent parts.
    After,
    /// The final length, with random bytes for absent parts.
    AfterWithRubbish,
    /// A random length between the two.
    Between,
}

impl Length {
    fn random(random: &mut Random) -> Self {
        match random.below(8) {
            0..=2 => Self::Written,
            3 => Self::Before,
            4 | 5 => Self::After,
            6 => Self::AfterWithRubbish,
            _ => Self::Between,
        }
    }
}

impl File {
    fn cut(&self, manner: Manner, length: Length, random: &mut Random) -> Vec<u8> {
        let mut bytes = self.durable.clone();
        if self.pending.is_empty() {
            return bytes;
        }
        let before = bytes.len();
        let mut after = before;
        for each in &self.pending {
            match &each.op {
                Op::Write { at, data, .. } => after = after.max(offset(*at) + data.len()),
                Op::SetLength { length, .. } => after = after.max(offset(*length)),
                _ => {}
            }
        }
        if let Length::AfterWithRubbish = length {
            let mut rubbish = Random::new(random.next());
            bytes.resize_with(after, || rubbish.next().to_le_bytes()[0]);
        }
        let chosen = manner.choose(&self.pending, random);
        let last = chosen.len().saturating_sub(1);
        let mut shrunk = false;
        for (number, each) in chosen.into_iter().enumerate() {
            match (&each.op, manner) {
                (Op::Write { at, data, .. }, Manner::Pages) => {
                    put_parts(&mut bytes, offset(*at), data, PAGE, random);
                }
                (Op::Write { at, data, .. }, Manner::Sectors) => {
                    put_parts(&mut bytes, offset(*at), data, SECTOR, random);
                }
                (Op::Write { at, data, .. }, Manner::Torn) if number == last => {
                    put(
                        &mut bytes,
                        offset(*at),
                        &data[..random.below(data.len() + 1)],
                    );
                }
                (op @ Op::Write { .. }, _) => apply_whole(&mut bytes, op),
                // A length change is either present or not.
                (op, _) => {
                    if random.one_in(2) || manner == Manner::Everything {
                        let length = bytes.len();
                        apply_whole(&mut bytes, op);
                        shrunk |= bytes.len() < length;
                    }
                }
            }
        }
        match length {
            // A truncated part does not return as zeros.
            _ if shrunk => {}
            Length::Written => {}
            Length::Before => bytes.truncate(before),
            Length::After | Length::AfterWithRubbish => {
                bytes.resize(after.max(bytes.len()), 0);
            }
            Length::Between => {
                bytes.resize(before + random.below(after - before + 1), 0);
            }
        }
        bytes
    }
}

/// Writes random parts of a write, which end at multiples of `size`.
fn put_parts(bytes: &mut Vec<u8>, at: usize, data: &[u8], size: usize, random: &mut Random) {
    let mut done = 0;
    while done < data.len() {
        let part = (size - (at + done) % size).min(data.len() - done);
        if random.one_in(2) {
            put(bytes, at + done, &data[done..done + part]);
        }
        done += part;
    }
}
