//! Reference rates of the European Central Bank: fetched, stored and applied.

mod fetcher;
mod file;

pub(super) use fetcher::Ecb;
