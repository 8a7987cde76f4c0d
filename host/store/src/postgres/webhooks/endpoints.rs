//! Webhook endpoints.

use std::sync::Arc;
use std::time::Duration;

use kassette_domain::audit::Audited;
use kassette_domain::event::EventType;
use kassette_domain::id::EndpointId;
use kassette_domain::key::KeyOwner;
use kassette_domain::secret::Secret;
use kassette_domain::time::Time;
use kassette_domain::webhook::{Endpoint, EndpointSecrets};
use tokio_postgres::Row;

use crate::postgres::database::{Failure, TransactionWork, Tx, execute, row, rows};
use crate::postgres::directory::keys::environment;
use crate::postgres::directory::merchants;
use crate::postgres::resellers;
use crate::postgres::webhooks::{endings, outbox};
use crate::postgres::{audit, columns, millis, number, uuid};
use crate::rows::seal::{Sealer, Secrets};
use crate::rows::wants::Wants;
use crate::rows::{endpoints, schema};
use crate::{
    EndpointCreated, EndpointDeleted, EndpointReplaced, EndpointRotated, Fault, SwitchOff,
};

/// The columns `merchant` and `reseller` of an owner's endpoints; zero for the other kind.
pub(crate) fn owner(owner: KeyOwner) -> (i64, i64) {
    match owner {
        KeyOwner::Merchant(id) => (number(id.0), 0),
        KeyOwner::Reseller(id) => (0, number(id.0)),
    }
}

/// Selects an endpoint's body.
pub(crate) const ONE: &str = "/* endpoint */ SELECT body FROM endpoint WHERE id = $1";
/// Decodes an endpoint without its secrets.
pub(crate) fn plain(sealer: &Sealer, id: EndpointId, row: &Row) -> Result<Endpoint, Fault> {
    endpoints::decode(sealer, &schema::webhooks::endpoint(id), row.get(0))
}

/// Decodes an endpoint with its secrets.
pub(crate) fn whole(
    sealer: &Sealer,
    id: EndpointId,
    row: &Row,
) -> Result<(Endpoint, EndpointSecrets), Fault> {
    endpoints::open(sealer, &schema::webhooks::endpoint(id), row.get(0))
}

/// Whether the endpoint exists.
pub(crate) async fn is_there(tx: &Tx<'_>, id: EndpointId) -> Result<bool, Failure> {
    let sql = "/* endpoint: is there */ SELECT FROM endpoint WHERE id = $1";
    Ok(row(tx, sql, &[&uuid(id.as_bytes())]).await?.is_some())
}

async fn load(
    tx: &Tx<'_>,
    sealer: &Sealer,
    id: EndpointId,
) -> Result<Option<(Endpoint, EndpointSecrets)>, Failure> {
    let found = row(tx, ONE, &[&uuid(id.as_bytes())]).await?;
    Ok(found.map(|found| whole(sealer, id, &found)).transpose()?)
}

/// Other endpoints of the same owner and environment, except `leaving`. Call within a change of the directory.
pub(crate) async fn beside(
    tx: &Tx<'_>,
    endpoint: &Endpoint,
    leaving: Option<EndpointId>,
) -> Result<Vec<Endpoint>, Failure> {
    let sql = "/* endpoints: beside */ SELECT body, id FROM endpoint
        WHERE merchant = $1 AND reseller = $2 AND environment = $3 AND id <> $4 AND id IS DISTINCT FROM $5";
    let leaving = leaving.map(|id| uuid(id.as_bytes()));
    let ((merchant, reseller), id) = (owner(endpoint.owner), uuid(endpoint.id.as_bytes()));
    let world = environment(endpoint.environment);
    let found = rows(tx, sql, &[&merchant, &reseller, &world, &id, &leaving]).await?;
    let each = found.iter().map(|row| {
        plain(
            tx.sealer(),
            columns::id(row, 1, EndpointId::from_bytes),
            row,
        )
    });
    Ok(each.collect::<Result<_, Fault>>()?)
}

pub(super) struct CreateEndpoint {
    pub(super) endpoint: Endpoint,
    pub(super) endpoint_secrets: EndpointSecrets,
    pub(super) audited: Audited,
    pub(super) now: Time,
    pub(super) secrets: Arc<Secrets>,
}

impl TransactionWork for CreateEndpoint {
    type Outcome = EndpointCreated;

    async fn apply(&self, tx: &Tx<'_>) -> Result<EndpointCreated, Failure> {
        let endpoint = &self.endpoint;
        let is_there = match endpoint.owner {
            KeyOwner::Merchant(id) => merchants::load(tx, id).await?.is_some(),
            KeyOwner::Reseller(id) => resellers::load(tx, id).await?.is_some(),
        };
        if !is_there {
            return Ok(EndpointCreated::NoSuchOwner);
        }
        let others = beside(tx, endpoint, None).await?;
        if let Some(same) = Endpoint::at(&others, &endpoint.url) {
            return Ok(EndpointCreated::Taken(same.id));
        }
        if others.len() >= Endpoint::MAX_PER_OWNER {
            return Ok(EndpointCreated::TooMany);
        }
        write_new(tx, &self.secrets.sealer, endpoint, &self.endpoint_secrets).await?;
        audit::append(tx, self.audited.clone(), self.now).await?;
        Ok(EndpointCreated::Done(endpoint.clone()))
    }
}

/// Inserts an endpoint if its owner exists and is below its limit. Call within a change of the directory.
pub(crate) async fn write_new(
    tx: &Tx<'_>,
    sealer: &Sealer,
    endpoint: &Endpoint,
    secrets: &EndpointSecrets,
) -> Result<(), Failure> {
    let (_, body) = endpoints::encode(sealer, endpoint, secrets)?;
    let sql = "/* endpoint: insert */ INSERT INTO endpoint
        (id, merchant, reseller, environment, created_at, enabled, wants, body)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT DO NOTHING";
    let (merchant, reseller) = owner(endpoint.owner);
    let inserted = execute(
        tx,
        sql,
        &[
            &uuid(endpoint.id.as_bytes()),
            &merchant,
            &reseller,
            &environment(endpoint.environment),
            &millis(endpoint.created_at),
            &endpoint.enabled,
            &Wants::new(endpoint).bits(),
            &&body[..],
        ],
    )
    .await?;
    if inserted == 0 {
        return Err(Fault::Unavailable("the endpoint's id is in use".into()).into());
    }
    Ok(())
}

async fn update(
    tx: &Tx<'_>,
    sealer: &Sealer,
    endpoint: &Endpoint,
    secrets: &EndpointSecrets,
) -> Result<(), Failure> {
    let (_, body) = endpoints::encode(sealer, endpoint, secrets)?;
    let sql = "/* endpoint: update */ UPDATE endpoint SET enabled = $2, wants = $3, body = $4
        WHERE id = $1";
    let (id, wants) = (uuid(endpoint.id.as_bytes()), Wants::new(endpoint).bits());
    execute(tx, sql, &[&id, &endpoint.enabled, &wants, &&body[..]]).await?;
    Ok(())
}

/// Changes an endpoint's URL, filter or switch.
pub(super) struct ReplaceEndpoint {
    pub(super) before: Endpoint,
    pub(super) after: Endpoint,
    pub(super) audited: Audited,
    pub(super) now: Time,
    pub(super) secrets: Arc<Secrets>,
}

impl TransactionWork for ReplaceEndpoint {
    type Outcome = EndpointReplaced;

    async fn apply(&self, tx: &Tx<'_>) -> Result<Self::Outcome, Failure> {
        let sealer = &self.secrets.sealer;
        let Some((stored, secrets)) = load(tx, sealer, self.before.id).await? else {
            return Ok(EndpointReplaced::Unknown);
        };
        // The caller's copy of `off` is not compared: only the store changes it.
        let seen = Endpoint {
            off: stored.off.clone(),
            ..self.before.clone()
        };
        if stored != seen {
            return Ok(EndpointReplaced::Stale);
        }
        if stored.url != self.after.url {
            let others = beside(tx, &stored, None).await?;
            if let Some(same) = Endpoint::at(&others, &self.after.url) {
                return Ok(EndpointReplaced::Taken(same.id));
            }
        }
        let mut after = Endpoint {
            url: self.after.url.clone(),
            event_types: self.after.event_types.clone(),
            ..stored
        };
        after.switch(self.after.enabled, self.now);
        update(tx, sealer, &after, &secrets).await?;
        audit::append(tx, self.audited.clone(), self.now).await?;
        Ok(EndpointReplaced::Done(after))
    }
}

/// Switches an endpoint off and notifies the owner's other endpoints. Does nothing if it is already off, deleted, or at
/// another address. Part of a change of the directory.
pub(crate) async fn disable(
    tx: &Tx<'_>,
    sealer: &Sealer,
    id: EndpointId,
    off: &SwitchOff,
    now: Time,
) -> Result<(), Failure> {
    let Some((mut endpoint, secrets)) = load(tx, sealer, id).await? else {
        return Ok(());
    };
    if !endpoint.enabled || endpoint.url != off.url {
        return Ok(());
    }
    endpoint.switch(false, now);
    update(tx, sealer, &endpoint, &secrets).await?;
    let others = beside(tx, &endpoint, None).await?.into_iter();
    let told = others.filter(|other| other.wants(EventType::WebhookDisabled));
    let told: Vec<_> = told.map(|other| other.id).collect();
    outbox::tell_disabled(tx, &endpoint, &told, now).await?;
    audit::append(tx, off.audited.clone(), now).await?;
    Ok(())
}

/// Rotates an endpoint's secret.
pub(super) struct RotateEndpoint {
    pub(super) id: EndpointId,
    pub(super) secret: Secret,
    pub(super) overlap: Duration,
    pub(super) audited: Audited,
    pub(super) now: Time,
    pub(super) secrets: Arc<Secrets>,
}

impl TransactionWork for RotateEndpoint {
    type Outcome = EndpointRotated;

    async fn apply(&self, tx: &Tx<'_>) -> Result<EndpointRotated, Failure> {
        let sealer = &self.secrets.sealer;
        let Some((endpoint, mut secrets)) = load(tx, sealer, self.id).await? else {
            return Ok(EndpointRotated::Unknown);
        };
        let Ok(active_from) = secrets.rotate(self.secret.clone(), self.overlap, self.now) else {
            return Ok(EndpointRotated::OverlapTooLong);
        };
        update(tx, sealer, &endpoint, &secrets).await?;
        audit::append(tx, self.audited.clone(), self.now).await?;
        Ok(EndpointRotated::Done {
            endpoint,
            active_from,
        })
    }
}

/// Deletes an endpoint.
pub(super) struct DeleteEndpoint {
    pub(super) id: EndpointId,
    pub(super) audited: Audited,
    pub(super) now: Time,
}

impl TransactionWork for DeleteEndpoint {
    type Outcome = Option<EndpointDeleted>;

    async fn apply(&self, tx: &Tx<'_>) -> Result<Self::Outcome, Failure> {
        let deleted = delete(tx, self.id).await?;
        if deleted.is_some() {
            audit::append(tx, self.audited.clone(), self.now).await?;
        }
        Ok(deleted)
    }
}

/// Deletes an endpoint and cancels the first page of deliveries that wait for it. `None` if the endpoint does
/// not exist. Call within a change of the directory.
pub(crate) async fn delete(
    tx: &Tx<'_>,
    id: EndpointId,
) -> Result<Option<EndpointDeleted>, Failure> {
    let sql = "/* endpoint: delete */ DELETE FROM endpoint WHERE id = $1 RETURNING body";
    let Some(found) = row(tx, sql, &[&uuid(id.as_bytes())]).await? else {
        return Ok(None);
    };
    Ok(Some(EndpointDeleted {
        endpoint: plain(tx.sealer(), id, &found)?,
        cancelled: endings::cancel(tx, id).await?,
    }))
}
