//! Configuration files, read and checked.
