//! What the database said, and why a store does not open.

/// What the database said, in one line. Its details can hold values, and are left out.
pub(crate) fn said(error: &tokio_postgres::Error) -> String {
    match error.as_db_error() {
        Some(error) => format!(
            "the database said: {} ({})",
            error.message(),
            error.code().code()
        ),
        None => {
            let source = std::error::Error::source(error);
            let source = source
                .map(|source| format!(": {source}"))
                .unwrap_or_default();
            format!("the database cannot be reached: {error}{source}")
        }
    }
}

/// Why a store does not open, and what to do.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The address cannot be used.
    #[error("the address of the database cannot be used: {0}")]
    Address(String),
    /// The database cannot be reached, or refused something.
    #[error("{0}")]
    Database(String),
    /// It has no tables yet.
    #[error("the database has no tables of Kassette: run `kassette migrate`")]
    Empty,
    /// Its tables are those of an earlier release.
    #[error("the database has schema {found}, this program needs {known}: run `kassette migrate`")]
    Older {
        /// Its version.
        found: i32,
        /// This program's.
        known: i32,
    },
    /// Its tables are those of a later release.
    #[error(
        "the database has schema {found}, this program knows up to {known}: run a later release"
    )]
    Newer {
        /// Its version.
        found: i32,
        /// This program's.
        known: i32,
    },
    /// It was made under another master key.
    #[error("the database was sealed under another master key: set the key that it was made with")]
    WrongMasterKey,
    /// What every database has does not read back.
    #[error("the database is damaged ({0}): bring its latest backup back")]
    Damaged(String),
    /// It holds half of a store.
    #[error(
        "a store is being copied into the database, or that was interrupted: run `kassette copy` again, which begins anew"
    )]
    Copying,
    /// It was copied to a folder.
    #[error(
        "the database was moved to a data directory by `kassette copy`, or is being moved: serve that one. Where the copy was interrupted, run it again. To serve this database after all: DELETE FROM kassette.copy_mark"
    )]
    Moved,
    /// Another node has the name.
    #[error(
        "another node serves the database under the name `{0}`: give each a name of its own. One that was killed is given up after 3 s"
    )]
    InUse(String),
    /// A node of an earlier release serves it, which knows of no others.
    #[error("a node of an earlier release serves the database: stop that one first")]
    EarlierNode,
    /// It would lose what it acknowledged.
    #[error(
        "the database runs with `{0} = off`, and would lose payments that it acknowledged: switch it on"
    )]
    NotDurable(&'static str),
}

impl From<tokio_postgres::Error> for OpenError {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Database(said(&error))
    }
}
