//! The embedded store by itself, against a log that is only appended to, and against redb with the same
//! rows. `cargo bench -p kassette-store`
//!
//! | file | holds |
//! |---|---|
//! | `work` | the payments that are made, and as many writers as are asked for |
//! | `group` | one thread that takes all that waits, makes it durable, answers all: for raw and redb |
//! | `raw` | the floor: one record a payment, appended, `fdatasync` |
//! | `other` | redb, with the rows that the store writes |
//! | `speed` | creates a second, in turn with floor and redb |
//! | `size` | a thousand and a million payments: speed, memory, disk, opening |

mod group;
mod other;
mod raw;
mod size;
mod speed;
mod work;

use std::path::Path;

use super::figure::Figure;

pub(crate) use size::{ARGUMENT, fill};

/// What to measure.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    /// How often each measurement is repeated.
    pub(crate) rounds: usize,
    /// How long each lasts, seconds.
    pub(crate) seconds: f64,
    /// How many payments are many; none leaves that part out.
    pub(crate) payments: Option<usize>,
}

/// Measures the store in a folder on the disk in question. Whoever calls it hands a process that is
/// started with [`ARGUMENT`] to [`fill`].
pub(crate) fn measure(plan: Plan, folder: &Path) -> Vec<Figure> {
    let mut figures = speed::measure(plan, folder);
    if let Some(payments) = plan.payments {
        figures.extend(size::measure(plan, folder, payments));
    }
    figures
}
