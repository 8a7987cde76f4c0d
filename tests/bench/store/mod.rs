//! The embedded store by itself, against a log that is only appended to, and against redb with the same
//! rows.
//!
//! | file | holds |
//! |---|---|
//! | `work` | the payments that are made, and as many writers as are asked for |
//! | `group` | one thread that takes all that waits, makes it durable, answers all: for raw and redb |
//! | `raw` | the floor: one record a payment, appended, `fdatasync` |
//! | `other` | redb, with the rows that the store writes |
//! | `speed` | creates a second, in turn with floor and redb |
//! | `lives` | what payments take on the disk, compacted |
//! | `size` | a thousand and a million payments: speed, memory, disk, opening |

pub(crate) mod group;
mod lives;
mod other;
pub(crate) mod raw;
mod size;
mod speed;
pub(crate) mod work;

use super::figure::Figure;
use super::options::Options;

pub(crate) use size::{ARGUMENT, fill};

/// Creates a second, in turn with floor and redb.
pub(crate) fn speed(options: &Options) -> Vec<Figure> {
    let folder = tempfile::tempdir().unwrap();
    speed::measure(options, folder.path())
}

/// A thousand and as many payments as a million is.
pub(crate) fn size(options: &Options) -> Vec<Figure> {
    let folder = tempfile::tempdir().unwrap();
    let mut figures = size::measure(options, folder.path());
    figures.extend(lives::measure(folder.path()));
    figures
}
