//! Webhook endpoints, and the roster that an event is looked up in.

use std::sync::Arc;
use std::time::Duration;

use kassette_domain::audit::Audited;
use kassette_domain::event::EventType;
use kassette_domain::id::EndpointId;
use kassette_domain::secret::Secret;
use kassette_domain::time::Time;
use kassette_domain::webhook::{Endpoint, EndpointSecrets, EventFilter};
use serde::{Deserialize, Serialize};

use super::operation::Operation;
use super::rows::Rows;
use super::seal::Sealer;
use super::source::Source;
use super::stored::closed;
use super::{Secrets, audits, outbox, records, schema};
use crate::{EndpointCreated, EndpointDeleted, EndpointRotated, Fault, Replaced, SwitchOff};

/// An endpoint's row.
#[derive(Serialize, Deserialize)]
struct EndpointRow {
    plain: Endpoint,
    /// [`EndpointSecrets`].
    sealed: Vec<u8>,
}

/// An endpoint without its secrets.
pub(super) fn load(source: &impl Source, id: EndpointId) -> Result<Option<Endpoint>, Fault> {
    let row: Option<EndpointRow> = source.load(&schema::webhooks::endpoint(id))?;
    Ok(row.map(|row| row.plain))
}

/// An endpoint with its secrets.
pub(super) fn load_with_secrets(
    source: &impl Source,
    sealer: &Sealer,
    id: EndpointId,
) -> Result<Option<(Endpoint, EndpointSecrets)>, Fault> {
    let key = schema::webhooks::endpoint(id);
    let Some(row) = source.load::<EndpointRow>(&key)? else {
        return Ok(None);
    };
    let secrets = sealer
        .open(&key, &row.sealed)
        .map_err(|unopened| closed(&key, unopened))?;
    Ok(Some((row.plain, secrets)))
}

fn save(
    rows: &mut Rows<'_>,
    sealer: &Sealer,
    endpoint: &Endpoint,
    secrets: &EndpointSecrets,
) -> Result<(), Fault> {
    let key = schema::webhooks::endpoint(endpoint.id);
    let row = EndpointRow {
        plain: endpoint.clone(),
        sealed: sealer.seal(&key, secrets)?,
    };
    rows.save(key, &row)
}

/// A merchant's endpoints in one environment.
#[derive(Default, Serialize, Deserialize)]
pub(super) struct Roster(Vec<(EndpointId, Wants)>);

/// A bit for each kind of event that is wanted, and one for all; none for a disabled endpoint.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct Wants(u32);

impl Wants {
    /// Every kind, those of later releases too: their bits are in no row that was written before them.
    const ALL: u32 = 1 << 31;
    /// What stood for every kind before there was a bit for all: the kinds that there were then. It
    /// stays what it is when kinds are added. An endpoint that wants all and whose row says this hears
    /// of a kind that comes later only once its row is written anew.
    const EVERY_ONE_ONCE: u32 = (1 << 11) - 1;

    fn of(endpoint: &Endpoint) -> Self {
        let wanted = EventType::ALL
            .into_iter()
            .filter(|kind| endpoint.wants(*kind));
        let all = match endpoint.event_types {
            EventFilter::All if endpoint.enabled => Self::ALL,
            EventFilter::All | EventFilter::Only(_) => 0,
        };
        // Each kind beside the bit for all: a release that does not know that one reads on.
        Self(wanted.fold(all, |bits, kind| bits | Self::bit(kind)))
    }

    /// The bit of a kind: never given to another kind, never changed, whatever the order in which
    /// kinds are declared.
    const fn bit(kind: EventType) -> u32 {
        let number = match kind {
            EventType::PaymentPending => 0,
            EventType::PaymentProcessing => 1,
            EventType::PaymentVerificationPending => 2,
            EventType::PaymentReview => 3,
            EventType::PaymentCompleted => 4,
            EventType::PaymentFailed => 5,
            EventType::PaymentCancelled => 6,
            EventType::PaymentExpired => 7,
            EventType::PaymentRefunded => 8,
            EventType::PaymentDisputed => 9,
            EventType::WebhookTest => 10,
        };
        1 << number
    }

    const fn wants(self, kind: EventType) -> bool {
        self.0 & (Self::ALL | Self::bit(kind)) != 0
    }

    const fn wants_all(self) -> bool {
        self.0 & Self::ALL != 0
    }

    /// For comparing: what wants all is the same however it was written.
    const fn told(self) -> [u8; 4] {
        let bits = match self.0 {
            Self::EVERY_ONE_ONCE => Self::ALL,
            bits if bits & Self::ALL != 0 => Self::ALL,
            bits => bits,
        };
        bits.to_be_bytes()
    }
}

impl Roster {
    /// What it says of each endpoint, as bytes. Those that name every kind there was once and those
    /// that want all are told alike; see [`Roster::wanting_all`].
    pub(super) fn told(&self) -> impl Iterator<Item = (EndpointId, [u8; 4])> {
        self.0.iter().map(|(id, wants)| (*id, wants.told()))
    }

    /// The endpoints that want all, those not counted whose rows were written before there was a bit
    /// for it.
    pub(super) fn wanting_all(&self) -> impl Iterator<Item = EndpointId> {
        let all = self.0.iter().filter(|(_, wants)| wants.wants_all());
        all.map(|(id, _)| *id)
    }

    /// The endpoints that want an event.
    pub(super) fn wanting(&self, kind: EventType) -> Vec<EndpointId> {
        let wanting = self.0.iter().filter(|(_, wants)| wants.wants(kind));
        wanting.map(|(id, _)| *id).collect()
    }
}

/// What a roster has to say of an endpoint, as bytes.
pub(super) fn wanted_by(endpoint: &Endpoint) -> [u8; 4] {
    Wants::of(endpoint).told()
}

/// Seals an endpoint's secrets under another key.
pub(super) fn reseal(
    old: &Sealer,
    new: &Sealer,
    key: &[u8],
    row: &[u8],
) -> Result<sled::IVec, Fault> {
    let EndpointRow { plain, sealed } = records::decode(key, row)?;
    let secrets: EndpointSecrets = old
        .open(key, &sealed)
        .map_err(|unopened| closed(key, unopened))?;
    let sealed = new.seal(key, &secrets)?;
    records::encode(key, &EndpointRow { plain, sealed })
}

/// The endpoints of an endpoint's merchant in its environment.
pub(super) fn beside(rows: &Rows<'_>, endpoint: &Endpoint) -> Result<Vec<EndpointId>, Fault> {
    let (_, roster) = load_roster(rows, endpoint)?;
    Ok(roster.0.into_iter().map(|(id, _)| id).collect())
}

fn load_roster(rows: &Rows<'_>, endpoint: &Endpoint) -> Result<(schema::Key, Roster), Fault> {
    let key = schema::webhooks::roster(endpoint.merchant, endpoint.environment);
    let roster = rows.load(&key)?.unwrap_or_default();
    Ok((key, roster))
}

/// Sets what an endpoint wants from now on.
fn enlist(rows: &mut Rows<'_>, endpoint: &Endpoint) -> Result<(), Fault> {
    let (key, mut roster) = load_roster(rows, endpoint)?;
    let wants = Wants::of(endpoint);
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

/// A new endpoint.
pub(super) struct CreateEndpoint {
    pub(super) endpoint: Endpoint,
    pub(super) endpoint_secrets: EndpointSecrets,
    pub(super) audited: Audited,
    pub(super) now: Time,
    pub(super) secrets: Arc<Secrets>,
}

impl Operation for CreateEndpoint {
    type Outcome = EndpointCreated;

    fn apply(self, rows: &mut Rows<'_>) -> Result<EndpointCreated, Fault> {
        let endpoint = self.endpoint;
        if rows.get(&schema::merchant(endpoint.merchant))?.is_none() {
            return Ok(EndpointCreated::NoSuchMerchant);
        }
        if load_roster(rows, &endpoint)?.1.0.len() >= Endpoint::MAX_PER_MERCHANT {
            return Ok(EndpointCreated::TooMany);
        }
        let sealer = &self.secrets.sealer;
        write_new(rows, sealer, &endpoint, &self.endpoint_secrets)?;
        audits::append(rows, self.audited, self.now)?;
        Ok(EndpointCreated::Done(endpoint))
    }
}

/// Writes an endpoint whose merchant exists and has room for it.
pub(super) fn write_new(
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
    let by_merchant =
        schema::webhooks::endpoint_of(endpoint.merchant, endpoint.created_at, endpoint.id);
    rows.save(by_merchant, &())?;
    enlist(rows, endpoint)
}

/// Another address, filter or switch.
pub(super) struct ReplaceEndpoint {
    pub(super) before: Endpoint,
    pub(super) after: Endpoint,
    pub(super) audited: Audited,
    pub(super) now: Time,
    pub(super) secrets: Arc<Secrets>,
}

impl Operation for ReplaceEndpoint {
    type Outcome = Replaced<Endpoint>;

    fn apply(self, rows: &mut Rows<'_>) -> Result<Self::Outcome, Fault> {
        let sealer = &self.secrets.sealer;
        let Some((stored, secrets)) = load_with_secrets(rows, sealer, self.before.id)? else {
            return Ok(Replaced::Unknown);
        };
        if stored != self.before {
            return Ok(Replaced::Stale);
        }
        let after = Endpoint {
            url: self.after.url,
            event_types: self.after.event_types,
            enabled: self.after.enabled,
            ..stored
        };
        save(rows, sealer, &after, &secrets)?;
        enlist(rows, &after)?;
        audits::append(rows, self.audited, self.now)?;
        Ok(Replaced::Done(after))
    }
}

/// Switches an endpoint off, unless it is off, gone, or at another address meanwhile.
pub(super) fn disable(
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
    endpoint.enabled = false;
    save(rows, sealer, &endpoint, &secrets)?;
    enlist(rows, &endpoint)?;
    audits::append(rows, off.audited, now).map(drop)
}

/// The end of an endpoint.
pub(super) struct DeleteEndpoint {
    pub(super) id: EndpointId,
    pub(super) audited: Audited,
    pub(super) now: Time,
}

impl Operation for DeleteEndpoint {
    type Outcome = Option<EndpointDeleted>;

    fn apply(self, rows: &mut Rows<'_>) -> Result<Self::Outcome, Fault> {
        let deleted = delete(rows, self.id)?;
        if deleted.is_some() {
            audits::append(rows, self.audited, self.now)?;
        }
        Ok(deleted)
    }
}

/// Removes an endpoint and cancels what waits for it; none where there is none.
pub(super) fn delete(
    rows: &mut Rows<'_>,
    id: EndpointId,
) -> Result<Option<EndpointDeleted>, Fault> {
    let Some(endpoint) = load(rows, id)? else {
        return Ok(None);
    };
    rows.remove(schema::webhooks::endpoint(id));
    rows.remove(schema::webhooks::endpoint_of(
        endpoint.merchant,
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

/// Another secret.
pub(super) struct RotateEndpoint {
    pub(super) id: EndpointId,
    pub(super) secret: Secret,
    pub(super) overlap: Duration,
    pub(super) audited: Audited,
    pub(super) now: Time,
    pub(super) secrets: Arc<Secrets>,
}

impl Operation for RotateEndpoint {
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
        audits::append(rows, self.audited, self.now)?;
        Ok(EndpointRotated::Done {
            endpoint,
            active_from,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::fixtures::{NOW, endpoint};

    /// Every kind with the number that stands for it in rows: a bit in rosters, and what the encoding
    /// writes in all else. A new kind gets the next number, at the end.
    const NUMBERS: [(EventType, u8); 11] = [
        (EventType::PaymentPending, 0),
        (EventType::PaymentProcessing, 1),
        (EventType::PaymentVerificationPending, 2),
        (EventType::PaymentReview, 3),
        (EventType::PaymentCompleted, 4),
        (EventType::PaymentFailed, 5),
        (EventType::PaymentCancelled, 6),
        (EventType::PaymentExpired, 7),
        (EventType::PaymentRefunded, 8),
        (EventType::PaymentDisputed, 9),
        (EventType::WebhookTest, 10),
    ];

    fn roster(wants: u32) -> (EndpointId, Roster) {
        let id = endpoint("a", NOW).id;
        (id, Roster(vec![(id, Wants(wants))]))
    }

    #[test]
    fn a_kind_of_event_keeps_its_number_in_rows() {
        assert_eq!(NUMBERS.map(|(kind, _)| kind), EventType::ALL);
        for (kind, number) in NUMBERS {
            assert_eq!(Wants::bit(kind), 1 << number, "{kind:?}");
            let row = postcard::to_allocvec(&kind).unwrap();
            assert_eq!(row, [number], "{kind:?}");
        }
        let bits = |event_types| {
            Wants::of(&Endpoint {
                event_types,
                ..endpoint("a", NOW)
            })
        };
        assert_eq!(bits(EventFilter::All), Wants(0x8000_07ff));
        assert_eq!(
            bits(EventFilter::Only(EventType::ALL.to_vec())),
            Wants(0x7ff)
        );
        let some = EventFilter::only(&[EventType::PaymentRefunded, EventType::PaymentProcessing]);
        assert_eq!(bits(some), Wants(0x102));
        let off = Endpoint {
            enabled: false,
            ..endpoint("a", NOW)
        };
        assert_eq!(Wants::of(&off), Wants(0));
    }

    #[test]
    fn who_wants_all_hears_of_kinds_that_its_row_does_not_name() {
        let (id, all) = roster(1 << 31);
        for kind in EventType::ALL {
            assert_eq!(all.wanting(kind), [id], "{kind:?}");
        }
        let (_, one) = roster(1 << 4);
        assert_eq!(one.wanting(EventType::PaymentCompleted), [id]);
        assert_eq!(one.wanting(EventType::PaymentPending), []);
    }

    #[test]
    fn a_roster_of_an_earlier_release_still_says_all() {
        let (id, before) = roster(0x7ff);
        for kind in EventType::ALL {
            assert_eq!(before.wanting(kind), [id], "{kind:?}");
        }
        let told: Vec<_> = before.told().collect();
        assert_eq!(told, [(id, wanted_by(&endpoint("a", NOW)))]);
    }
}
