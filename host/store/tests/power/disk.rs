//! A disk as POSIX allows it to be: what was not synced may be there, in any part, or not.
//!
//! | promised | by |
//! |---|---|
//! | what a file holds, and the length needed to read it | `fsync`, `fdatasync` of the file that began after the write had returned, once it has returned itself |
//! | names in a folder | the same, `fsync` of the folder |
//! | nothing | `sync_file_range`, `close`, `rename`, time |
//!
//! Of the rest each image keeps some part: whole writes, pages or sectors of them, a write torn at any
//! byte, the latest but not those before, a length with or without what was written there, names
//! without their files' contents and files without their names. A rename, or an exchange
//! of two names, is whole or not at all. A
//! sector outside of a write is not touched by it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::random::Random;

const SECTOR: usize = 512;
const PAGE: usize = 4096;

/// A file or a folder that was ever there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Node {
    File(usize),
    Folder(usize),
}

/// What a call asks for.
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
    /// Two names in one step.
    Exchange {
        folder: usize,
        names: [String; 2],
        nodes: [Node; 2],
    },
    Sync {
        node: Node,
        /// `fdatasync`.
        data_only: bool,
    },
}

impl Op {
    /// The file that it writes, or the folder that it changes names in.
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

    /// Where it writes.
    const fn offset(&self) -> Option<u64> {
        match self {
            Self::Write { at, .. } => Some(*at),
            _ => None,
        }
    }

    /// Whether it writes zeros over as much as this, or more.
    pub(crate) fn is_zeros(&self, length: u64) -> bool {
        matches!(self, Self::Write { data, .. }
            if data.len() as u64 >= length && data.iter().all(|byte| *byte == 0))
    }
}

/// One thing that happened, in order.
#[derive(Clone, Debug)]
pub(crate) enum Event {
    /// A call began: from here on it may have an effect.
    Began(u64, Op),
    /// It returned; for a write, how many bytes it took.
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

/// Everything below one folder, which is itself durable.
#[derive(Clone, Debug, Default)]
pub(crate) struct Disk {
    files: Vec<File>,
    folders: Vec<Folder>,
    /// What a sync under way will have made durable.
    covered: HashMap<u64, (Node, BTreeSet<u64>)>,
}

/// The folder that everything is below.
pub(crate) const ROOT: usize = 0;

/// Files and folders, as one power cut left them.
#[derive(Debug, Default)]
pub(crate) struct Image {
    pub(crate) folders: Vec<PathBuf>,
    pub(crate) files: Vec<(PathBuf, Vec<u8>)>,
    /// How the rest was chosen.
    pub(crate) manner: String,
}

impl Image {
    /// Writes it out.
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
    /// A folder as it is, all durable. Returns where everything stands, too.
    pub(crate) fn of(root: &Path) -> std::io::Result<(Self, Vec<(PathBuf, Node)>)> {
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

    /// The files of a name, and what they hold.
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

    /// Makes room for files and folders that the recorder has numbered.
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

    /// Lets something happen.
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
            // The latest calls stand last.
            let Some(at) = pending.iter().rposition(|each| each.call == call) else {
                continue;
            };
            match (done, &mut pending[at].op) {
                (Some(took), Op::Write { data, .. }) if took < data.len() => {
                    *data = data[..took].into();
                    pending[at].returned = true;
                }
                (Some(_), _) => pending[at].returned = true,
                // A write that failed may have left anything of itself.
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

    /// What a power cut now could leave.
    pub(crate) fn cut(&self, random: &mut Random) -> Image {
        let names = Manner::of(random);
        let contents = Manner::of(random);
        let length = Length::of(random);
        let mut image = self.image(
            random,
            |folder, random| names.choose(folder, random),
            |file, random| file.cut(contents, length, random),
        );
        image.manner = format!("names {names:?}, contents {contents:?}, lengths {length:?}");
        image
    }

    /// What it leaves if all writes have reached the disk, or only some of their sectors where they are
    /// torn, and of the changes of names that were not synced these.
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

/// A place or a length of a file, as memory counts.
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

/// Which part of what was not synced is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Manner {
    Nothing,
    Everything,
    /// Any calls, whole.
    Calls,
    /// Any pages of any writes.
    Pages,
    /// Any sectors of any writes.
    Sectors,
    /// The first calls, and a part of the next.
    Torn,
    /// The last calls without those before.
    Latest,
    /// All calls but one.
    AllButOne,
    /// Writes at lower offsets, as a disk goes along.
    Lower,
}

impl Manner {
    fn of(random: &mut Random) -> Self {
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

    /// Calls of which anything is there.
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

/// How long a file is whose length was not synced.
#[derive(Clone, Copy, Debug)]
enum Length {
    /// As far as anything of it is there.
    Written,
    /// As before.
    Before,
    /// As it would have been; zeros where nothing is there.
    After,
    /// The same; what the blocks held before where nothing is there.
    AfterWithRubbish,
    /// Anything between.
    Between,
}

impl Length {
    fn of(random: &mut Random) -> Self {
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
                // A length is there or not.
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
            // What was cut off does not come back as zeros.
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

/// Puts any of the parts of a write, cut where the disk cuts.
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
