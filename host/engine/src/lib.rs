//! Ordered rows that survive a crash of the machine: one writing thread, a log that makes groups of
//! operations durable, and sled behind it.
//!
//! An [`Operation`] reads and writes rows by their keys, and each is done whole or not at all. The writing
//! thread takes what waits as one group, and its callers are answered when the group is on the disk. Reads
//! see what is on the disk, and no group in part. What rows mean is for the [`Embedder`] to know, and so is
//! what it keeps in memory beside them ([`State`]).
//!
//! | file | holds |
//! |---|---|
//! | `engine` | the engine as its user has it |
//! | `embedder`, `state` | what a user brings |
//! | `operation`, `rows`, `view` | rows as an operation and as a read sees them |
//! | `applier`, `inbox`, `waiting`, `stats` | the writing thread: groups of operations, one write and one sync each |
//! | `journal` | the write-ahead log, which makes a group durable |
//! | `memtable`, `checkpoint` | what so far the log alone has; bringing it into the database behind that |
//! | `database`, `flush_watchdog` | the open database, and how the engine goes on after a disk that failed |
//! | `folder`, `open`, `durable` | one process at a time; opening; what makes a write survive a crash |
//! | `tail`, `segment` | where sled's log ends, so that no cut at a start costs any of it; how it is written |
//! | `unreadable` | which bytes of a damaged database do not read back |
//! | `rebuild` | a new database beside the old one, and the exchange of the two |
//! | `commit_stream` | the groups that are committed, for a backup under way |
//! | `span`, `number`, `fault` | ranges of keys; the engine's own rows; errors |
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod applier;
mod checkpoint;
mod commit_stream;
mod database;
mod durable;
mod embedder;
mod engine;
mod fault;
mod flush_watchdog;
mod folder;
mod inbox;
mod journal;
mod memtable;
mod number;
mod open;
mod operation;
mod rebuild;
mod rows;
mod segment;
mod span;
mod state;
mod stats;
mod tail;
mod unreadable;
mod view;
mod waiting;

pub use sled::{Db, IVec};

pub use applier::Ended;
pub use commit_stream::{Commit, Subscription};
pub use database::{BeforeSync, DiskHooks, Syncing};
pub use durable::{ACKNOWLEDGED, CHECKPOINTED};
pub use embedder::Embedder;
pub use engine::{Counters, Disk, Engine, Reader};
pub use fault::{Fault, OpenError};
pub use folder::{Folder, remove_leftovers};
pub use journal::NAMES as LOG_FILES;
pub use memtable::Memtable;
pub use number::{GROUP, PROBE};
pub use open::{Opened, Opening};
pub use operation::Operation;
pub use rebuild::{Bulk, GoOn, Rebuild, RebuildError, Stage, always, disk_bytes, holds_a_database};
pub use rows::{Made, Rows, Touched};
pub use segment::SEGMENT_BYTES;
pub use span::{Key, Order, Span, Written};
pub use state::State;
pub use stats::Took;
pub use unreadable::{Unreadable, unreadable};
pub use view::View;
