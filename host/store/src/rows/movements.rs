//! Rows of movements, without the data in their keys.

use std::borrow::Cow;

use kassette_domain::id::{AccountId, AttemptId, MerchantId};
use kassette_domain::key::Environment;
use kassette_domain::money::Minor;
use kassette_domain::movement::{Bucket, Effect, Movement, MovementKind, Source};
use kassette_domain::time::Time;
use kassette_engine::IVec;
use serde::{Deserialize, Serialize};

use crate::Fault;
use crate::rows::records;
use crate::rows::schema::{self, Key};
use crate::rows::seal::Sealer;

#[derive(Serialize, Deserialize)]
struct MovementRow<'a> {
    account: Cow<'a, AccountId>,
    environment: Environment,
    merchant: Option<MerchantId>,
    attempt: Option<AttemptId>,
    kind: MovementKind,
    effect: Effect,
    bucket: Option<Bucket>,
    from_bucket: Option<Bucket>,
    amount: Minor,
    currency: Cow<'a, str>,
    provider_references: Cow<'a, [String]>,
    occurred_at: Time,
    booked_at: Time,
    source: Source,
}

/// Encodes a movement. Returns its key and row.
pub(crate) fn encode(sealer: &Sealer, movement: &Movement) -> Result<(Key, IVec), Fault> {
    let key = schema::movement(movement.payment, movement.id);
    let row = MovementRow {
        account: Cow::Borrowed(&movement.account),
        environment: movement.environment,
        merchant: movement.merchant,
        attempt: movement.attempt,
        kind: movement.kind,
        effect: movement.effect,
        bucket: movement.bucket,
        from_bucket: movement.from_bucket,
        amount: movement.amount,
        currency: Cow::Borrowed(&movement.currency),
        provider_references: Cow::Borrowed(&movement.provider_references),
        occurred_at: movement.occurred_at,
        booked_at: movement.booked_at,
        source: movement.source,
    };
    let row = records::encode(sealer, &key, &row)?;
    Ok((key, row))
}

/// Decodes a movement's row.
pub(crate) fn decode(sealer: &Sealer, key: &[u8], row: &[u8]) -> Result<Movement, Fault> {
    let (payment, id) =
        schema::movement_of(key).ok_or_else(|| records::damaged(key, "it names no movement"))?;
    let row: MovementRow<'_> = records::decode(sealer, key, row)?;
    Ok(Movement {
        id,
        account: row.account.into_owned(),
        environment: row.environment,
        merchant: row.merchant,
        payment,
        attempt: row.attempt,
        kind: row.kind,
        effect: row.effect,
        bucket: row.bucket,
        from_bucket: row.from_bucket,
        amount: row.amount,
        currency: row.currency.into_owned(),
        provider_references: row.provider_references.into_owned(),
        occurred_at: row.occurred_at,
        booked_at: row.booked_at,
        source: row.source,
    })
}
