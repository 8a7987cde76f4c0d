//! Files: written whole or not at all, and judged by who else may read or write them.

mod access;
mod new_file;

pub use access::{Exposed, Holds, judge};
pub use new_file::{NewFile, write};
