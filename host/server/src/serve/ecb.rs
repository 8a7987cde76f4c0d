//! The European Central Bank's reference rates: fetched, kept, taken over.

mod fetcher;
mod file;

pub(super) use fetcher::Ecb;
