//! Files: atomic writes, durable syncs, and checks who else may read or write a file.
#![deny(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod access;
pub mod durable_write;
mod new_file;

pub use access::{Exposed, Holds, ServiceUser, judge, judge_as};
pub use new_file::{NewFile, write};
