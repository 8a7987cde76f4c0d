//! Consent codes. Issuing a code deletes expired ones.

use kassette_domain::audit::Audited;
use kassette_domain::consent::ConsentCode;
use kassette_domain::key::TokenHash;
use kassette_domain::time::Time;

use crate::Fault;
use crate::postgres::database::{Failure, TransactionWork, Tx, execute, row};
use crate::postgres::directory::merchants;
use crate::postgres::{audit, millis};
use crate::resellers::MAX_SWEPT;
use crate::rows::{records, schema};

/// Loads the code of a handle and locks it until the transaction ends.
pub(super) async fn lock(tx: &Tx<'_>, handle: TokenHash) -> Result<Option<ConsentCode>, Failure> {
    let sql = "/* consent code: lock */ SELECT body FROM consent_code WHERE handle = $1 FOR UPDATE";
    let found = row(tx, sql, &[&&handle.0[..]]).await?;
    let key = schema::resellers::consent(handle);
    Ok(found
        .map(|found| records::decode(tx.sealer(), &key, found.get(0)))
        .transpose()?)
}

/// Updates a code.
pub(super) async fn replace(tx: &Tx<'_>, code: &ConsentCode) -> Result<(), Failure> {
    let body = records::encode(tx.sealer(), &schema::resellers::consent(code.handle), code)?;
    let sql = "/* consent code: update */ UPDATE consent_code SET body = $2 WHERE handle = $1";
    execute(tx, sql, &[&&code.handle.0[..], &&body[..]]).await?;
    Ok(())
}

/// Issues a code.
pub(super) struct IssueConsentCode {
    pub(super) code: ConsentCode,
    pub(super) audited: Audited,
    pub(super) now: Time,
}

impl TransactionWork for IssueConsentCode {
    type Outcome = bool;
    const CHANGES_DIRECTORY: bool = false;

    async fn apply(&self, tx: &Tx<'_>) -> Result<bool, Failure> {
        let code = &self.code;
        if merchants::load(tx, code.merchant).await?.is_none() {
            return Ok(false);
        }
        let sql = "/* consent codes: sweep */ DELETE FROM consent_code WHERE handle IN (
            SELECT handle FROM consent_code WHERE expires_at <= $1 ORDER BY expires_at LIMIT $2
            FOR UPDATE SKIP LOCKED)";
        execute(tx, sql, &[&millis(self.now), &i64::from(MAX_SWEPT)]).await?;
        let body = records::encode(tx.sealer(), &schema::resellers::consent(code.handle), code)?;
        let sql = "/* consent code: insert */ INSERT INTO consent_code (handle, expires_at, body)
            VALUES ($1, $2, $3) ON CONFLICT DO NOTHING";
        let ends = millis(code.expires_at);
        if execute(tx, sql, &[&&code.handle.0[..], &ends, &&body[..]]).await? == 0 {
            return Err(Fault::Unavailable("the code is in use".into()).into());
        }
        audit::append(tx, self.audited.clone(), self.now).await?;
        Ok(true)
    }
}
