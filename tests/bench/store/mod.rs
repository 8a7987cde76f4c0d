//! The embedded store without a server, compared with an append-only log and with redb.
//!
//! | file | contents |
//! |---|---|
//! | `work` | new payments, and concurrent writers |
//! | `group` | a thread that commits waiting items as a group, for raw log and redb |
//! | `raw` | the floor: one record per payment, appended, `fdatasync` |
//! | `other` | redb, with the rows that the store writes |
//! | `speed` | creates per second, alternately with floor and redb |
//! | `lives` | disk space of payments after a compaction |
//! | `size` | a thousand and a million payments: speed, memory, disk space, opening |

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

/// Creates per second, alternately with floor and redb.
pub(crate) fn speed(options: &Options) -> Vec<Figure> {
    let folder = tempfile::tempdir().unwrap();
    speed::measure(options, folder.path())
}

/// A thousand payments, and the number that the options set.
pub(crate) fn size(options: &Options) -> Vec<Figure> {
    let folder = tempfile::tempdir().unwrap();
    let mut figures = size::measure(options, folder.path());
    figures.extend(lives::measure(folder.path()));
    figures
}
