//! The mark of a store that must not be served, because it is being copied or was copied.

/// State of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CopyState {
    /// The store is the target of a running copy and is incomplete.
    Copying,
    /// The store is the source of a running copy.
    Moving,
    /// The store has been copied completely.
    Moved,
}

impl CopyState {
    /// Text of the mark.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Copying => "copying",
            Self::Moving => "moving",
            Self::Moved => "moved",
        }
    }

    /// Parses a mark. An unknown text counts as `Moved`, so that the store is not served.
    pub(crate) fn read(text: &str) -> Self {
        let all = [Self::Copying, Self::Moving];
        let found = all.into_iter().find(|mark| mark.as_str() == text.trim());
        found.unwrap_or(Self::Moved)
    }
}
