//! Operations on webhook endpoints.

use std::sync::Arc;
use std::time::Duration;

use kassette_domain::audit::Audited;
use kassette_domain::event::EventType;
use kassette_domain::id::EndpointId;
use kassette_domain::secret::Secret;
use kassette_domain::time::Time;
use kassette_domain::webhook::{Endpoint, EndpointSecrets};
use kassette_engine::Operation;

use crate::rows::seal::{Sealer, Secrets};
use crate::rows::source::{RowSource, Save as _};
use crate::rows::wants::Wants;
use crate::rows::{endpoints, schema};
use crate::sled::audit;
use crate::sled::memory::{Memory, Rows};
use crate::sled::webhooks::endpoint_index::EndpointIndex;
use crate::sled::webhooks::outbox;
use crate::{
    EndpointCreated, EndpointDeleted, EndpointReplaced, EndpointRotated, Fault, SwitchOff,
};

/// Returns an endpoint without its secrets.
pub(crate) fn load(source: &impl RowSource, id: EndpointId) -> Result<Option<Endpoint>, Fault> {
    let key = schema::webhooks::endpoint(id);
    let row = source.get(&key)?;
    row.map(|row| endpoints::decode(source.sealer(), &key, &row))
        .transpose()
}

/// Returns an endpoint with its secrets.
pub(crate) fn load_with_secrets(
    source: &impl RowSource,
    sealer: &Sealer,
    id: EndpointId,
) -> Result<Option<(Endpoint, EndpointSecrets)>, Fault> {
    let key = schema::webhooks::endpoint(id);
    let row = source.get(&key)?;
    row.map(|row| endpoints::open(sealer, &key, &row))
        .transpose()
}

fn save(
    rows: &mut Rows<'_>,
    sealer: &Sealer,
    endpoint: &Endpoint,
    secrets: &EndpointSecrets,
) -> Result<(), Fault> {
    let (key, row) = endpoints::encode(sealer, endpoint, secrets)?;
    rows.put(key, row);
    Ok(())
}

/// Endpoints of the same owner and environment, without the endpoint itself and without `leaving`.
pub(crate) fn beside(
    rows: &Rows<'_>,
    endpoint: &Endpoint,
    leaving: Option<EndpointId>,
) -> Result<Vec<Endpoint>, Fault> {
    let (_, roster) = load_roster(rows, endpoint)?;
    let ids = roster.0.into_iter().map(|(id, _)| id);
    let others = ids.filter(|id| *id != endpoint.id && Some(*id) != leaving);
    others.filter_map(|id| load(rows, id).transpose()).collect()
}

fn load_roster(
    rows: &Rows<'_>,
    endpoint: &Endpoint,
) -> Result<(schema::Key, EndpointIndex), Fault> {
    let key = schema::webhooks::roster(endpoint.owner, endpoint.environment);
    let roster = rows.load(&key)?.unwrap_or_default();
    Ok((key, roster))
}

/// Sets the events that an endpoint wants.
fn enlist(rows: &mut Rows<'_>, endpoint: &Endpoint) -> Result<(), Fault> {
    let (key, mut roster) = load_roster(rows, endpoint)?;
    let wants = Wants::new(endpoint);
    match roster.0.iter_mut().find(|(id, _)| *id == endpoint.id) {
        Some((_, before)) => *before = wants,
        None => roster.0.push((endpoint.id, wants)),
    }
    rows.save(key, &roster)
}

fn strike_out(rows: &mut Rows<'_>, endpoint: &Endpoint) -> Result<(), Fault> {
    let (key, mut roster) = load_roster(rows, endpoint)?;
    roster.0.retain(|(id, _)| *id != endpoint.id);
    if roster.0.is_empty() {
        rows.remove(key);
        return Ok(());
    }
    rows.save(key, &roster)
}

pub(crate) struct CreateEndpoint {
    pub(crate) endpoint: Endpoint,
    pub(crate) endpoint_secrets: EndpointSecrets,
    pub(crate) audited: Audited,
    pub(crate) now: Time,
    pub(crate) secrets: Arc<Secrets>,
}

impl Operation<Memory> for CreateEndpoint {
    type Outcome = EndpointCreated;

    fn apply(self, rows: &mut Rows<'_>) -> Result<EndpointCreated, Fault> {
        let endpoint = self.endpoint;
        if rows.get(&schema::owner(endpoint.owner))?.is_none() {
            return Ok(EndpointCreated::NoSuchOwner);
        }
        let others = beside(rows, &endpoint, None)?;
        if let Some(same) = Endpoint::at(&others, &endpoint.url) {
            return Ok(EndpointCreated::Taken(same.id));
        }
        if others.len() >= Endpoint::MAX_PER_OWNER {
            return Ok(EndpointCreated::TooMany);
        }
        let sealer = &self.secrets.sealer;
        write_new(rows, sealer, &endpoint, &self.endpoint_secrets)?;
        audit::append(rows, self.audited, self.now)?;
        Ok(EndpointCreated::Done(endpoint))
    }
}

/// Writes an endpoint whose owner exists and has not reached its limit.
pub(crate) fn write_new(
    rows: &mut Rows<'_>,
    sealer: &Sealer,
    endpoint: &Endpoint,
    secrets: &EndpointSecrets,
) -> Result<(), Fault> {
    if rows
        .get(&schema::webhooks::endpoint(endpoint.id))?
        .is_some()
    {
        return Err(Fault::Unavailable("the endpoint's id is in use".into()));
    }
    save(rows, sealer, endpoint, secrets)?;
    let by_owner = schema::webhooks::endpoint_of(endpoint.owner, endpoint.created_at, endpoint.id);
    rows.save(by_owner, &())?;
    enlist(rows, endpoint)
}

/// Changes address, filter or enabled state.
pub(crate) struct ReplaceEndpoint {
    pub(crate) before: Endpoint,
    pub(crate) after: Endpoint,
    pub(crate) audited: Audited,
    pub(crate) now: Time,
    pub(crate) secrets: Arc<Secrets>,
}

impl Operation<Memory> for ReplaceEndpoint {
    type Outcome = EndpointReplaced;

    fn apply(self, rows: &mut Rows<'_>) -> Result<Self::Outcome, Fault> {
        let sealer = &self.secrets.sealer;
        let Some((stored, secrets)) = load_with_secrets(rows, sealer, self.before.id)? else {
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
            let others = beside(rows, &stored, None)?;
            if let Some(same) = Endpoint::at(&others, &self.after.url) {
                return Ok(EndpointReplaced::Taken(same.id));
            }
        }
        let mut after = Endpoint {
            url: self.after.url,
            event_types: self.after.event_types,
            ..stored
        };
        after.switch(self.after.enabled, self.now);
        save(rows, sealer, &after, &secrets)?;
        enlist(rows, &after)?;
        audit::append(rows, self.audited, self.now)?;
        Ok(EndpointReplaced::Done(after))
    }
}

/// Switches an endpoint off and notifies the owner's other endpoints. Does nothing if it is already off, deleted, or at
/// another address.
pub(crate) fn disable(
    rows: &mut Rows<'_>,
    sealer: &Sealer,
    id: EndpointId,
    off: SwitchOff,
    now: Time,
) -> Result<(), Fault> {
    let Some((mut endpoint, secrets)) = load_with_secrets(rows, sealer, id)? else {
        return Ok(());
    };
    if !endpoint.enabled || endpoint.url != off.url {
        return Ok(());
    }
    endpoint.switch(false, now);
    save(rows, sealer, &endpoint, &secrets)?;
    enlist(rows, &endpoint)?;
    let others = beside(rows, &endpoint, None)?.into_iter();
    let told = others.filter(|other| other.wants(EventType::WebhookDisabled));
    let told: Vec<_> = told.map(|other| other.id).collect();
    outbox::tell_disabled(rows, &endpoint, &told, now)?;
    audit::append(rows, off.audited, now).map(drop)
}

/// Deletes an endpoint.
pub(crate) struct DeleteEndpoint {
    pub(crate) id: EndpointId,
    pub(crate) audited: Audited,
    pub(crate) now: Time,
}

impl Operation<Memory> for DeleteEndpoint {
    type Outcome = Option<EndpointDeleted>;

    fn apply(self, rows: &mut Rows<'_>) -> Result<Self::Outcome, Fault> {
        let deleted = delete(rows, self.id)?;
        if deleted.is_some() {
            audit::append(rows, self.audited, self.now)?;
        }
        Ok(deleted)
    }
}

/// Removes an endpoint and cancels its waiting deliveries. `None` if it does not exist.
pub(crate) fn delete(
    rows: &mut Rows<'_>,
    id: EndpointId,
) -> Result<Option<EndpointDeleted>, Fault> {
    let Some(endpoint) = load(rows, id)? else {
        return Ok(None);
    };
    rows.remove(schema::webhooks::endpoint(id));
    rows.remove(schema::webhooks::endpoint_of(
        endpoint.owner,
        endpoint.created_at,
        endpoint.id,
    ));
    strike_out(rows, &endpoint)?;
    let (cancelled, _more) = outbox::cancel_some(rows, id)?;
    Ok(Some(EndpointDeleted {
        endpoint,
        cancelled,
    }))
}

/// Adds a new secret.
pub(crate) struct RotateEndpoint {
    pub(crate) id: EndpointId,
    pub(crate) secret: Secret,
    pub(crate) overlap: Duration,
    pub(crate) audited: Audited,
    pub(crate) now: Time,
    pub(crate) secrets: Arc<Secrets>,
}

impl Operation<Memory> for RotateEndpoint {
    type Outcome = EndpointRotated;

    fn apply(self, rows: &mut Rows<'_>) -> Result<EndpointRotated, Fault> {
        let sealer = &self.secrets.sealer;
        let Some((endpoint, mut secrets)) = load_with_secrets(rows, sealer, self.id)? else {
            return Ok(EndpointRotated::Unknown);
        };
        let Ok(active_from) = secrets.rotate(self.secret, self.overlap, self.now) else {
            return Ok(EndpointRotated::OverlapTooLong);
        };
        save(rows, sealer, &endpoint, &secrets)?;
        audit::append(rows, self.audited, self.now)?;
        Ok(EndpointRotated::Done {
            endpoint,
            active_from,
        })
    }
}
