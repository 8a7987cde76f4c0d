//! Ordered rows that survive a crash of the machine: one writing thread, a write-ahead log that makes groups of
//! operations durable, and sled as the database behind the log.
//!
//! An [`Operation`] reads and writes rows by key, and takes effect completely or not at all. The writing thread
//! applies all waiting operations as one group and answers their callers once the group is on disk. Reads see only
//! groups that are on disk, and each group completely. The [`Embedder`] gives the rows their meaning and can keep
//! [`State`] in memory in addition to them.
//!
//! | file | contents |
//! |---|---|
//! | `engine` | public interface of the engine |
//! | `embedder`, `state` | traits that the user of the engine implements |
//! | `operation`, `rows`, `view` | the rows as operations and reads see them |
//! | `applier`, `inbox`, `waiting`, `stats` | the writing thread: one write and one sync for each group |
//! | `journal` | the write-ahead log |
//! | `memtable`, `checkpoint` | rows that only the log has so far, and the thread that writes them to the database |
//! | `database`, `flush_watchdog` | the open database, and recovery after a disk error |
//! | `folder`, `open`, `durable` | lock for one process; opening; durability of sled's files |
//! | `tail`, `segment` | protects the end of sled's log from a power cut during a start; format of that log |
//! | `unreadable` | finds damaged bytes of a database |
//! | `rebuild` | builds a new database and exchanges it with the old one |
//! | `commit_stream` | committed groups, for a running backup |
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
pub use number::{GROUP, PROBE, decode as number_in};
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
