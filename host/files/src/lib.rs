//! Files: written whole or not at all, synced as promised, and judged by who else may read or write them.
#![deny(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod access;
pub mod durable_write;
mod new_file;

pub use access::{Exposed, Holds, judge};
pub use new_file::{NewFile, write};
