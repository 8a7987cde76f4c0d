//! The mark of a store that nothing may be served from, because it is being copied or was.

/// What a copy has made of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CopyState {
    /// The copy goes there: it holds half of a store.
    Copying,
    /// The copy comes from there.
    Moving,
    /// It is whole elsewhere by now.
    Moved,
}

impl CopyState {
    /// How it is written down.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Copying => "copying",
            Self::Moving => "moving",
            Self::Moved => "moved",
        }
    }

    /// Reads it back. One that is not known has the store served as little as any other.
    pub(crate) fn read(text: &str) -> Self {
        let all = [Self::Copying, Self::Moving];
        let found = all.into_iter().find(|mark| mark.as_str() == text.trim());
        found.unwrap_or(Self::Moved)
    }
}
