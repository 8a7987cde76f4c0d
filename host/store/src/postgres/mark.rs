//! The mark of a database whose store is being copied, or was.

use tokio_postgres::Client;

use crate::mark::CopyState;
use crate::postgres::errors::OpenError;

/// The mark. `None` if the store may be served.
pub(crate) async fn read(client: &Client) -> Result<Option<CopyState>, OpenError> {
    let row = client.query_opt("SELECT state FROM copy_mark", &[]).await?;
    Ok(row.map(|row| CopyState::read(row.get(0))))
}

/// Refuses a database with a mark.
pub(crate) async fn check(client: &Client) -> Result<(), OpenError> {
    match read(client).await? {
        None => Ok(()),
        Some(CopyState::Copying) => Err(OpenError::Copying),
        Some(CopyState::Moving | CopyState::Moved) => Err(OpenError::Moved),
    }
}

/// Sets or removes the mark.
pub(crate) async fn write(client: &Client, mark: Option<CopyState>) -> Result<(), OpenError> {
    match mark {
        None => client.execute("DELETE FROM copy_mark", &[]).await?,
        Some(mark) => {
            let sql = "INSERT INTO copy_mark (state) VALUES ($1) ON CONFLICT (single) DO UPDATE SET state = $1";
            client.execute(sql, &[&mark.as_str()]).await?
        }
    };
    Ok(())
}
