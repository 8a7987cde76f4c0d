//! Resellers.

use kassette_domain::audit::Audited;
use kassette_domain::id::ResellerId;
use kassette_domain::reseller::Reseller;
use kassette_domain::time::Time;

use crate::Fault;
use crate::postgres::database::{Failure, TransactionWork, Tx, execute, row};
use crate::postgres::directory::merchants::next_number;
use crate::postgres::{audit, number};
use crate::rows::seal::Sealer;
use crate::rows::{records, schema};

pub(super) const ONE: &str = "/* reseller */ SELECT body FROM reseller WHERE id = $1";

/// Decodes a reseller's body.
pub(super) fn decode(sealer: &Sealer, id: ResellerId, body: &[u8]) -> Result<Reseller, Fault> {
    records::decode(sealer, &schema::resellers::reseller(id), body)
}

/// Loads a reseller.
pub(crate) async fn load(tx: &Tx<'_>, id: ResellerId) -> Result<Option<Reseller>, Failure> {
    let found = row(tx, ONE, &[&number(id.0)]).await?;
    Ok(found
        .map(|found| decode(tx.sealer(), id, found.get(0)))
        .transpose()?)
}

async fn save(tx: &Tx<'_>, reseller: &Reseller) -> Result<(), Failure> {
    let body = records::encode(
        tx.sealer(),
        &schema::resellers::reseller(reseller.id),
        reseller,
    )?;
    let sql =
        "/* reseller: save */ INSERT INTO reseller (id, live_rollout, body) VALUES ($1, $2, $3)
        ON CONFLICT (id) DO UPDATE SET live_rollout = $2, body = $3";
    let id = number(reseller.id.0);
    execute(tx, sql, &[&id, &reseller.live_rollout, &&body[..]]).await?;
    Ok(())
}

pub(super) struct CreateReseller {
    pub(super) name: String,
    pub(super) audited: Audited,
    pub(super) now: Time,
}

impl TransactionWork for CreateReseller {
    type Outcome = Reseller;

    async fn apply(&self, tx: &Tx<'_>) -> Result<Reseller, Failure> {
        let reseller = Reseller {
            id: ResellerId(next_number(tx, "reseller").await?),
            name: self.name.clone(),
            live_rollout: false,
            created_at: self.now,
        };
        save(tx, &reseller).await?;
        let audited = Audited {
            object: format!("reseller/{}", reseller.id),
            ..self.audited.clone()
        };
        audit::append(tx, audited, self.now).await?;
        Ok(reseller)
    }
}

/// Enables or disables a reseller's live rollout.
pub(super) struct SetLiveRollout {
    pub(super) id: ResellerId,
    pub(super) enabled: bool,
    pub(super) audited: Audited,
    pub(super) now: Time,
}

impl TransactionWork for SetLiveRollout {
    type Outcome = Option<Reseller>;

    async fn apply(&self, tx: &Tx<'_>) -> Result<Self::Outcome, Failure> {
        let Some(mut reseller) = load(tx, self.id).await? else {
            return Ok(None);
        };
        let shown = |on: bool| Some(format!("{{\"live_rollout\":{on}}}"));
        let audited = Audited {
            before: shown(reseller.live_rollout),
            after: shown(self.enabled),
            ..self.audited.clone()
        };
        reseller.live_rollout = self.enabled;
        save(tx, &reseller).await?;
        audit::append(tx, audited, self.now).await?;
        Ok(Some(reseller))
    }
}
