//! Merchants.

use kassette_domain::audit::Audited;
use kassette_domain::id::MerchantId;
use kassette_domain::merchant::Merchant;
use kassette_domain::time::Time;

use crate::postgres::columns::merchant_id;
use crate::postgres::database::{Failure, TransactionWork, Tx, execute, row};
use crate::postgres::{PostgresStore, audit, number};
use crate::rows::seal::Sealer;
use crate::rows::{merchants, schema};
use crate::{Fault, Listed, Paging, Replaced};

const LOAD: &str = "SELECT body FROM merchant WHERE id = $1";

/// Decodes a merchant's body.
pub(crate) fn decode(sealer: &Sealer, id: MerchantId, body: &[u8]) -> Result<Merchant, Fault> {
    merchants::decode(sealer, &schema::merchant(id), body)
}

/// Loads a merchant.
pub(crate) async fn load(tx: &Tx<'_>, id: MerchantId) -> Result<Option<Merchant>, Failure> {
    let found = row(tx, LOAD, &[&number(id.0)]).await?;
    Ok(found
        .map(|row| decode(tx.sealer(), id, row.get(0)))
        .transpose()?)
}

/// Inserts or updates a merchant. Call within a change of the directory.
pub(crate) async fn save(tx: &Tx<'_>, merchant: &Merchant) -> Result<(), Failure> {
    let (_, body) = merchants::encode(tx.sealer(), merchant)?;
    let sql = "INSERT INTO merchant (id, live_approved, body) VALUES ($1, $2, $3)
        ON CONFLICT (id) DO UPDATE SET live_approved = $2, body = $3";
    execute(
        tx,
        sql,
        &[&number(merchant.id.0), &merchant.live_approved, &&body[..]],
    )
    .await?;
    Ok(())
}

/// The next number of an owner. `kind` names the counter and the table. Call within a change of the directory.
pub(crate) async fn next_number(tx: &Tx<'_>, kind: &str) -> Result<u64, Failure> {
    let sql = "UPDATE counter SET value = value + 1 WHERE name = $1 RETURNING value";
    let counted = row(tx, sql, &[&kind]).await?;
    let counted = counted.and_then(|row| u64::try_from(row.get::<_, i64>(0)).ok());
    let counted = counted.ok_or_else(|| Fault::Corrupt("a counter is missing".into()))?;
    // A counter that was set back must not let one owner overwrite another.
    let sql = format!("SELECT FROM {kind} WHERE id = $1");
    match row(tx, &sql, &[&number(counted)]).await? {
        None => Ok(counted),
        Some(_) => Err(Fault::Corrupt(format!("the counter of {kind}s is behind")).into()),
    }
}

pub(super) struct CreateMerchant {
    pub(super) merchant: Merchant,
    pub(super) audited: Audited,
    pub(super) now: Time,
}

impl TransactionWork for CreateMerchant {
    type Outcome = Merchant;

    async fn apply(&self, tx: &Tx<'_>) -> Result<Merchant, Failure> {
        let id = MerchantId(next_number(tx, "merchant").await?);
        let merchant = Merchant {
            id,
            ..self.merchant.clone()
        };
        save(tx, &merchant).await?;
        let audited = Audited {
            object: format!("merchant/{id}"),
            ..self.audited.clone()
        };
        audit::append(tx, audited, self.now).await?;
        Ok(merchant)
    }
}

/// Replaces a merchant if it is unchanged since it was read.
pub(super) struct ReplaceMerchant {
    pub(super) before: Merchant,
    pub(super) after: Merchant,
    pub(super) audited: Audited,
    pub(super) now: Time,
}

impl TransactionWork for ReplaceMerchant {
    type Outcome = Replaced<Merchant>;

    async fn apply(&self, tx: &Tx<'_>) -> Result<Self::Outcome, Failure> {
        let Some(stored) = load(tx, self.before.id).await? else {
            return Ok(Replaced::Unknown);
        };
        if stored != self.before {
            return Ok(Replaced::Stale);
        }
        let after = Merchant {
            id: stored.id,
            ..self.after.clone()
        };
        save(tx, &after).await?;
        audit::append(tx, self.audited.clone(), self.now).await?;
        Ok(Replaced::Done(after))
    }
}

impl PostgresStore {
    pub(super) async fn merchant_read(&self, id: MerchantId) -> Result<Option<Merchant>, Fault> {
        let found = self.requests.read_one(LOAD, &[&number(id.0)]).await?;
        found
            .map(|row| decode(&self.secrets.sealer, id, row.get(0)))
            .transpose()
    }

    pub(super) async fn merchants_listed(&self, paging: Paging) -> Result<Listed<Merchant>, Fault> {
        let sql = "SELECT id, body FROM merchant WHERE id < $1 ORDER BY id DESC LIMIT $2";
        self.list_by_number(b"mer/", paging, sql, |sealer, row| {
            decode(sealer, merchant_id(row, 0), row.get(1))
        })
        .await
    }
}
