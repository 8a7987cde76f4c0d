//! Messages of the database, and reasons why a store does not open.

/// The database's message in one line. Details are omitted because they can contain values.
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

/// Reason why a store does not open, and what to do.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The URL is invalid or cannot be used.
    #[error("the address of the database cannot be used: {0}")]
    Address(String),
    /// The database cannot be reached, or refused a statement.
    #[error("{0}")]
    Database(String),
    /// The database has no tables yet.
    #[error("the database has no tables of Kassette: run `kassette migrate`")]
    Empty,
    /// The tables belong to an earlier release.
    #[error("the database has schema {found}, this program needs {known}: run `kassette migrate`")]
    Older {
        /// The database's version.
        found: i32,
        /// This program's version.
        known: i32,
    },
    /// The rows were written by a build from before the first release and carry no MAC.
    #[error(
        "the database has schema {0}, which no release has written: run `kassette migrate` on an empty database"
    )]
    Unauthenticated(i32),
    /// The tables belong to a later release.
    #[error(
        "the database has schema {found}, this program knows up to {known}: run a later release"
    )]
    Newer {
        /// The database's version.
        found: i32,
        /// The latest version that this program knows.
        known: i32,
    },
    /// The database was created with another master key.
    #[error("the database was sealed under another master key: set the key that it was made with")]
    WrongMasterKey,
    /// A row that every database has cannot be decoded.
    #[error("the database is damaged ({0}): bring its latest backup back")]
    Damaged(String),
    /// The database contains a partial copy of a store.
    #[error(
        "a store is being copied into the database, or that was interrupted: run `kassette copy` again, which begins anew"
    )]
    Copying,
    /// The store was copied to a data directory.
    #[error(
        "the database was moved to a data directory by `kassette copy`, or is being moved: serve that one. Where the copy was interrupted, run it again. To serve this database after all: DELETE FROM kassette.copy_mark"
    )]
    Moved,
    /// Another node has the name.
    #[error(
        "another node serves the database under the name `{0}`: give each a name of its own. One that was killed is given up after 3 s"
    )]
    InUse(String),
    /// A node of an earlier release serves the database and does not know about other nodes.
    #[error("a node of an earlier release serves the database: stop that one first")]
    EarlierNode,
    /// The database could lose acknowledged data.
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
