//! `kassette dev`: everything on one machine, from source.
