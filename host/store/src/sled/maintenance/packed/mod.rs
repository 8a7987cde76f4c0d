//! A database of sled's, written at once: every page once, none of them dead.
//!
//! sled grows a database by splitting its pages. A row is written as a change of its leaf, up to ten of
//! them until the leaf is written whole, and an index page is written whole each time that a leaf below
//! it splits. What is replaced stays in its segment until half of that is dead, so that a database which
//! was just filled by way of sled is two to three and a half times what is alive in it, in whatever
//! order the rows come. Here they come in the order of their keys, so that each page is known whole
//! before it is written.
//!
//! What stands here is what sled 0.34 itself writes and reads (`logger.rs`, `segment.rs`, `node.rs` and
//! `serialization.rs` of its source); `log` has the file, `node` a page, the store's `segment` what heads
//! and messages look like. sled opens what was written, finds its pages in the log as after a crash, and
//! the caller reads all of it back through sled before it takes the place of another: where
//! any of this were wrong, the old one would stay.

mod log;
mod node;
#[cfg(test)]
mod tests;

use std::fs::File;
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};

use ::sled::IVec;

use self::log::Log;
use super::MaintenanceError;
use crate::sled::segment::Kind;

/// Rows of a leaf. sled splits one that has more than sixteen: with all of them a leaf would split at
/// the first row that comes between, with fewer there are more pages.
const ROWS: usize = 14;
/// The most that sled leaves together.
const MOST_ROWS: usize = 16;
/// Pages below an index page, for the same reason fewer than the most.
const CHILDREN: usize = 224;
/// The most that sled leaves together.
const MOST_CHILDREN: usize = 256;

/// sled's page with the roots of its trees.
const META: u64 = 0;
/// sled's page with the last number that it gave out; we ask it for none.
const COUNTER: u64 = 1;
/// The root of the one tree that we use.
const ROOT: u64 = 2;
/// The first page that is free for anything else.
const FIRST_FREE: u64 = 3;
/// sled's name for the tree that is there without being asked for.
const TREE: &[u8] = b"__sled__default";
/// Bytes that are written together.
const BUFFER: usize = 1 << 20;

/// A database that is being written.
pub(super) struct Packed {
    /// Where; errors name it.
    path: PathBuf,
    log: Log<BufWriter<File>>,
    pages: Pages,
    /// Rows that stand in no page yet.
    rows: Vec<(IVec, IVec)>,
    /// Where the next leaf begins: nothing below belongs to it.
    from: IVec,
    /// Its number, once the leaf on its left has been written, which names it.
    leaf: Option<u64>,
    /// Index pages, the lowest level first.
    levels: Vec<Level>,
}

/// Numbers of pages, without gaps: sled takes a gap for damage.
struct Pages(u64);

impl Pages {
    const fn allocate(&mut self) -> u64 {
        let page = self.0;
        self.0 += 1;
        page
    }
}

/// A level of index pages.
#[derive(Default)]
struct Level {
    /// The pages below that stand in none of them yet: where each begins, and its number.
    children: Vec<(IVec, u64)>,
    /// The number of the next one, once the one on its left has been written.
    page: Option<u64>,
}

impl Packed {
    /// Begins a database in a folder that has none.
    pub(super) fn create(folder: &Path) -> Result<Self, MaintenanceError> {
        let path = folder.join("db");
        let begin = || {
            let file = File::create_new(&path)?;
            let mut log = Log::begin(BufWriter::with_capacity(BUFFER, file))?;
            log.append(Kind::Meta, META, &node::roots(TREE, ROOT))?;
            log.append(Kind::Counter, COUNTER, &node::counter(0))?;
            Ok(log)
        };
        Ok(Self {
            log: begin().map_err(MaintenanceError::io(&path))?,
            path,
            pages: Pages(FIRST_FREE),
            rows: Vec::new(),
            from: IVec::default(),
            leaf: None,
            levels: Vec::new(),
        })
    }

    /// The next row, whose key has to be above the last one's.
    pub(super) fn push(&mut self, key: IVec, row: IVec) -> Result<(), MaintenanceError> {
        if self.rows.last().is_some_and(|(last, _)| *last >= key) {
            return Err(MaintenanceError::NotTheSame);
        }
        self.rows.push((key, row));
        // As many again are held back: the last leaf must not be nearly empty, sled would merge it.
        if self.rows.len() == 2 * ROWS {
            self.write_leaf(ROWS)
                .map_err(MaintenanceError::io(&self.path))?;
        }
        Ok(())
    }

    /// Writes what is left. A caller that needs it on the disk syncs the file.
    pub(super) fn finish(mut self) -> Result<(), MaintenanceError> {
        self.write_rest().map_err(MaintenanceError::io(&self.path))
    }

    fn write_rest(&mut self) -> io::Result<()> {
        let rows = self.rows.len();
        if rows > MOST_ROWS {
            self.write_leaf(rows.div_ceil(2))?;
        }
        self.write_leaf(self.rows.len())?;
        let mut level = 0;
        while let Some(Level { children, page }) = self.levels.get_mut(level) {
            let count = children.len();
            let is_root = page.is_none() && count <= MOST_CHILDREN;
            if is_root {
                *page = Some(ROOT);
            } else if count > MOST_CHILDREN {
                self.write_index(level, count.div_ceil(2))?;
            }
            self.write_index(level, self.levels[level].children.len())?;
            level += 1;
        }
        self.log.finish()
    }

    /// Writes a leaf of the first rows, the last one where there are no more.
    fn write_leaf(&mut self, count: usize) -> io::Result<()> {
        let page = self.leaf.take();
        let page = page.unwrap_or_else(|| self.pages.allocate());
        let (rows, after) = self.rows.split_at(count);
        let to = match (rows.last(), after.first()) {
            (Some((left, _)), Some((right, _))) => {
                self.leaf = Some(self.pages.allocate());
                node::separator(left, right)
            }
            _ => IVec::default(),
        };
        let from = std::mem::replace(&mut self.from, to);
        let leaf = node::leaf((&from, &self.from), self.leaf, rows);
        self.log.append(Kind::Node, page, &leaf)?;
        self.rows.drain(..count);
        self.enter(0, from, page)
    }

    /// Enters a page into the level above it.
    fn enter(&mut self, level: usize, from: IVec, page: u64) -> io::Result<()> {
        if self.levels.len() == level {
            self.levels.push(Level::default());
        }
        let children = &mut self.levels[level].children;
        children.push((from, page));
        match children.len() == 2 * CHILDREN {
            true => self.write_index(level, CHILDREN),
            false => Ok(()),
        }
    }

    /// Writes an index page of the first children of a level, the last one where there are no more, and
    /// enters it into the next level, unless it is the root.
    fn write_index(&mut self, level: usize, count: usize) -> io::Result<()> {
        let Level { children, page } = &mut self.levels[level];
        let number = page.take().unwrap_or_else(|| self.pages.allocate());
        let (below, after) = children.split_at(count);
        let start = |children: &[(IVec, u64)]| children.first().map(|(from, _)| from.clone());
        let from = start(below).unwrap_or_default();
        let to = start(after);
        *page = to.is_some().then(|| self.pages.allocate());
        let index = node::index((&from, &to.unwrap_or_default()), *page, below);
        self.log.append(Kind::Node, number, &index)?;
        children.drain(..count);
        match number {
            ROOT => Ok(()),
            number => self.enter(level + 1, from, number),
        }
    }
}
