//! Creating, changing and testing endpoints.

use std::time::Duration;

use kassette_domain::audit::Audited;
use kassette_domain::event::Event;
use kassette_domain::id::{EndpointId, MerchantId};
use kassette_domain::key::{Environment, KeyOwner};
use kassette_domain::payment::{Origin, Payment};
use kassette_domain::secret::Secret;
use kassette_domain::time::Time;
use kassette_domain::webhook::{
    Delivery, DeliveryStatus, Endpoint, EndpointCreator, EndpointSecrets, EventFilter,
    generate_secret,
};
use kassette_store::{
    EndpointCreated, EndpointDeleted, EndpointReplaced, EndpointRotated, EventsAsked, Fault,
    Listed, MISSED_MOST, MadeDue, Paging, Recovered,
};

use super::attempt::count_ended;
use super::destination::{self, NotADestination};
use crate::Gateway;

/// Parameters of a new endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewEndpoint {
    pub owner: KeyOwner,
    pub environment: Environment,
    /// Address that events are posted to.
    pub url: String,
    pub event_types: EventFilter,
    pub created_by: EndpointCreator,
}

/// A new endpoint, with the secret that is shown only here.
#[derive(Clone, Debug)]
pub struct IssuedEndpoint {
    pub endpoint: Endpoint,
    /// `whsec_…`
    pub secret: Secret,
}

/// A rotation, with the secret that is shown only here.
#[derive(Clone, Debug)]
pub struct RotatedEndpoint {
    pub endpoint: Endpoint,
    /// `whsec_…`
    pub secret: Secret,
    /// Time from which the new secret signs. Until then the previous one does.
    pub active_from: Time,
}

/// Reason why an operation on an endpoint was refused.
#[derive(Debug, thiserror::Error)]
pub enum EndpointError {
    #[error("merchant or reseller not found")]
    NoSuchOwner,
    #[error("webhook endpoint not found")]
    NotFound,
    #[error("url: {0}")]
    Destination(#[from] NotADestination),
    #[error("overlap_hours: must be 0 to 72")]
    Overlap,
    #[error(
        "there are {} webhook endpoints in this environment, which is the most; delete one first",
        Endpoint::MAX_PER_OWNER
    )]
    TooMany,
    #[error("the webhook endpoint is disabled, so nothing is delivered to it; enable it first")]
    Disabled,
    #[error(
        "webhook endpoint {0} of this environment has the URL already; change that one, or delete it first"
    )]
    Taken(EndpointId),
    #[error("the webhook endpoint was changed meanwhile; read it again")]
    Stale,
    #[error(transparent)]
    Random(#[from] getrandom::Error),
    #[error(transparent)]
    Store(#[from] Fault),
}

/// Number of deliveries after which a slice of [`Gateway::deliver_waiting`] ends.
const SLICE: u64 = 10_000;
/// Maximum number of endpoints per slice.
const SLICE_ENDPOINTS: usize = 500;

/// Result of a slice of [`Gateway::deliver_waiting`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WaitingSlice {
    /// Deliveries that this slice made due.
    pub deliveries: u64,
    /// Endpoints whose waiting deliveries are now all due.
    pub endpoints: u64,
    /// Endpoints with waiting deliveries that were skipped because they are disabled.
    pub disabled: u64,
    /// First endpoint of the next slice. `None` at the end.
    pub next: Option<EndpointId>,
}

/// Result of an operation on an endpoint's deliveries.
#[derive(Clone, Copy)]
struct Walked {
    count: u64,
    /// Whether no delivery remains.
    is_whole: bool,
}

/// Applies an operation to an endpoint's deliveries page by page, until it was applied to at least `at_most`
/// of them. The audit line is written with the first page. `page` returns the number of deliveries and the
/// start of the next page, or `None` if the endpoint does not exist.
async fn pages<C, F>(
    audited: Audited,
    at_most: u64,
    mut page: impl FnMut(Option<C>, Option<Audited>) -> F,
) -> Result<Option<Walked>, Fault>
where
    F: Future<Output = Result<Option<(u64, Option<C>)>, Fault>>,
{
    let mut walked = None;
    let (mut after, mut audited) = (None, Some(audited));
    while let Some((count, next)) = page(after, audited.take()).await? {
        let so_far = walked.map_or(0, |walked: Walked| walked.count) + count;
        let is_whole = next.is_none();
        walked = Some(Walked {
            count: so_far,
            is_whole,
        });
        if is_whole || so_far >= at_most {
            break;
        }
        after = next;
    }
    Ok(walked)
}

impl Gateway {
    /// Creates an endpoint. The audit line's object is set to `endpoint/<id>`.
    ///
    /// # Errors
    /// See [`EndpointError`].
    pub async fn create_endpoint(
        &self,
        new: NewEndpoint,
        audited: Audited,
    ) -> Result<IssuedEndpoint, EndpointError> {
        self.judge_destination(&new.url, new.owner, new.environment)?;
        let secret = generate_secret(getrandom::fill)?;
        let now = self.now();
        let endpoint = Endpoint {
            id: EndpointId::from_bytes(crate::random()?),
            owner: new.owner,
            environment: new.environment,
            url: new.url,
            event_types: new.event_types,
            enabled: true,
            created_at: now,
            created_by: new.created_by,
            off: Vec::new(),
        };
        let audited = Audited {
            object: format!("endpoint/{}", endpoint.id),
            ..audited
        };
        let secrets = EndpointSecrets::new(secret.clone());
        let created = self
            .store()
            .create_endpoint(endpoint, secrets, audited, now)
            .await?;
        match created {
            EndpointCreated::Done(endpoint) => Ok(IssuedEndpoint { endpoint, secret }),
            EndpointCreated::Taken(id) => Err(EndpointError::Taken(id)),
            EndpointCreated::TooMany => Err(EndpointError::TooMany),
            EndpointCreated::NoSuchOwner => Err(EndpointError::NoSuchOwner),
        }
    }

    /// Returns an endpoint.
    ///
    /// # Errors
    /// [`EndpointError::NotFound`], or the store's.
    pub async fn endpoint(&self, id: EndpointId) -> Result<Endpoint, EndpointError> {
        let endpoint = self.store().endpoint(id).await?;
        endpoint.ok_or(EndpointError::NotFound)
    }

    /// Lists an owner's endpoints, in one environment or in both, newest first.
    ///
    /// # Errors
    /// The store's.
    pub async fn endpoints(
        &self,
        owner: KeyOwner,
        environment: Option<Environment>,
        paging: Paging,
    ) -> Result<Listed<Endpoint>, Fault> {
        self.store().endpoints(owner, environment, paging).await
    }

    /// Changes the address, filter or enabled state of an endpoint that still equals `before`. Waiting
    /// deliveries go to the new address.
    ///
    /// # Errors
    /// See [`EndpointError`].
    pub async fn change_endpoint(
        &self,
        before: Endpoint,
        after: Endpoint,
        audited: Audited,
    ) -> Result<Endpoint, EndpointError> {
        if before.url != after.url {
            self.judge_destination(&after.url, after.owner, after.environment)?;
        }
        let now = self.now();
        let replaced = self
            .store()
            .replace_endpoint(before, after, audited, now)
            .await?;
        match replaced {
            EndpointReplaced::Done(endpoint) => Ok(endpoint),
            EndpointReplaced::Taken(id) => Err(EndpointError::Taken(id)),
            EndpointReplaced::Stale => Err(EndpointError::Stale),
            EndpointReplaced::Unknown => Err(EndpointError::NotFound),
        }
    }

    /// Deletes an endpoint. Its waiting deliveries are cancelled.
    ///
    /// # Errors
    /// See [`EndpointError`].
    pub async fn delete_endpoint(
        &self,
        id: EndpointId,
        audited: Audited,
    ) -> Result<Endpoint, EndpointError> {
        let now = self.now();
        let deleted = self.store().delete_endpoint(id, audited, now).await?;
        let EndpointDeleted {
            endpoint,
            cancelled,
        } = deleted.ok_or(EndpointError::NotFound)?;
        let environment = endpoint.environment.as_str();
        count_ended(DeliveryStatus::Cancelled, environment, cancelled);
        Ok(endpoint)
    }

    /// Creates a new secret, which signs after an overlap of at most 72 hours.
    ///
    /// # Errors
    /// See [`EndpointError`].
    pub async fn rotate_endpoint(
        &self,
        id: EndpointId,
        overlap: Duration,
        audited: Audited,
    ) -> Result<RotatedEndpoint, EndpointError> {
        let secret = generate_secret(getrandom::fill)?;
        let now = self.now();
        let rotated = self
            .store()
            .rotate_endpoint(id, secret.clone(), overlap, audited, now)
            .await?;
        match rotated {
            EndpointRotated::Done {
                endpoint,
                active_from,
            } => Ok(RotatedEndpoint {
                endpoint,
                secret,
                active_from,
            }),
            EndpointRotated::OverlapTooLong => Err(EndpointError::Overlap),
            EndpointRotated::Unknown => Err(EndpointError::NotFound),
        }
    }

    /// Queues a `webhook.test` for an endpoint, regardless of its filter.
    ///
    /// # Errors
    /// See [`EndpointError`].
    pub async fn test_endpoint(
        &self,
        id: EndpointId,
        audited: Audited,
    ) -> Result<Delivery, EndpointError> {
        let now = self.now();
        let queued = self.store().queue_test(id, audited, now).await?;
        queued.ok_or(EndpointError::NotFound)
    }

    /// Queues exhausted deliveries again that were queued since a time, and events that the endpoint missed since then
    /// because it was off. Returns the number of deliveries.
    ///
    /// # Errors
    /// See [`EndpointError`].
    pub async fn recover_endpoint(
        &self,
        id: EndpointId,
        since: Time,
        audited: Audited,
    ) -> Result<u64, EndpointError> {
        let gateway = self.clone();
        // Runs to its end if the caller hangs up, because there may be many pages.
        self.run_to_end(async move {
            let gateway = &gateway;
            let walked = pages(audited, u64::MAX, |after, audited| async move {
                let now = gateway.now();
                let page = gateway.store().recover(id, since, after, audited, now);
                Ok(match page.await? {
                    Recovered::Unknown => None,
                    Recovered::Page { queued, next } => Some((queued, next)),
                })
            });
            let again = walked.await?.ok_or(EndpointError::NotFound)?.count;
            let missed = gateway.queue_missed(id, since).await?;
            Ok(again.saturating_add(missed))
        })
        .await?
    }

    /// Queues the events since a time that an endpoint missed because it was off. Returns their number.
    async fn queue_missed(&self, id: EndpointId, since: Time) -> Result<u64, EndpointError> {
        let (endpoint, now) = (self.endpoint(id).await?, self.now());
        let periods = endpoint.missed(since, now);
        if periods.is_empty() {
            return Ok(0);
        }
        let mut queued = 0_u64;
        for merchant in self.merchants_of(endpoint.owner).await? {
            for (since, until) in &periods {
                let asked = EventsAsked {
                    merchant,
                    environment: endpoint.environment,
                    kind: None,
                    since: Some(*since),
                    until: Some(*until),
                    payments: None,
                };
                queued += self.queue_asked(&endpoint, asked, now).await?;
            }
        }
        Ok(queued)
    }

    /// Merchants about whose payments an owner's endpoints get events.
    async fn merchants_of(&self, owner: KeyOwner) -> Result<Vec<MerchantId>, EndpointError> {
        let reseller = match owner {
            KeyOwner::Merchant(merchant) => return Ok(vec![merchant]),
            KeyOwner::Reseller(reseller) => reseller,
        };
        let (mut merchants, mut cursor) = (Vec::new(), None);
        loop {
            let paging = Paging { limit: 100, cursor };
            let listed = self
                .store()
                .delegated_merchants(reseller, paging, self.now());
            let Listed::Page(page) = listed.await? else {
                return Ok(merchants);
            };
            merchants.extend(page.items.into_iter().filter_map(|each| each.merchant));
            cursor = page.next;
            if cursor.is_none() {
                return Ok(merchants);
            }
        }
    }

    /// Queues the events of a list that the endpoint may get and subscribes to. Returns their number.
    async fn queue_asked(
        &self,
        endpoint: &Endpoint,
        asked: EventsAsked,
        now: Time,
    ) -> Result<u64, EndpointError> {
        let is_for = |event: &Event, payment: &Payment| {
            let hears = match (endpoint.owner, &payment.origin) {
                (KeyOwner::Merchant(_), _) => true,
                (KeyOwner::Reseller(own), Origin::Reseller { reseller, .. }) => own == *reseller,
                (KeyOwner::Reseller(_), Origin::Merchant { .. }) => false,
            };
            hears && endpoint.event_types.matches(event.kind)
        };
        let (mut queued, mut cursor) = (0_u64, None);
        loop {
            let paging = Paging { limit: 100, cursor };
            let Listed::Page(page) = self.store().events(asked.clone(), paging).await? else {
                return Ok(queued);
            };
            let wanted = page.items.into_iter();
            let wanted: Vec<_> = wanted
                .filter(|(event, payment)| is_for(event, payment))
                .collect();
            for some in wanted.chunks(MISSED_MOST) {
                let some = some.to_vec();
                queued += self.store().queue_missed(endpoint.id, some, now).await?;
            }
            cursor = page.next;
            if cursor.is_none() {
                return Ok(queued);
            }
        }
    }

    /// Makes an endpoint's waiting deliveries due now. Each uses up an attempt. Returns their number.
    ///
    /// # Errors
    /// See [`EndpointError`].
    pub async fn deliver_now(
        &self,
        id: EndpointId,
        audited: Audited,
    ) -> Result<u64, EndpointError> {
        if !self.endpoint(id).await?.enabled {
            return Err(EndpointError::Disabled);
        }
        let gateway = self.clone();
        // Runs to its end if the caller hangs up, because there may be many pages.
        self.run_to_end(async move {
            let walked = gateway.hasten(id, audited, u64::MAX).await?;
            Ok(walked.ok_or(EndpointError::NotFound)?.count)
        })
        .await?
    }

    /// Like [`Self::deliver_now`] for all endpoints of an owner, or for all endpoints, in slices: each slice
    /// starts where the previous one ended and makes about ten thousand deliveries due at most. Each endpoint
    /// with waiting deliveries gets a separate audit line. Disabled endpoints are skipped.
    ///
    /// # Errors
    /// The store's.
    pub async fn deliver_waiting(
        &self,
        of: Option<KeyOwner>,
        from: Option<EndpointId>,
        audited: &Audited,
    ) -> Result<WaitingSlice, Fault> {
        let store = self.store();
        let mut slice = WaitingSlice::default();
        let waiting = store.waiting(from, SLICE_ENDPOINTS).await?;
        let more = waiting.get(SLICE_ENDPOINTS - 1).map(|(id, _)| *id);
        let ids = from
            .into_iter()
            .chain(waiting.into_iter().map(|(id, _)| id));
        for id in ids {
            if slice.deliveries >= SLICE || Some(id) == more {
                slice.next = Some(id);
                break;
            }
            // The waiting deliveries of a deleted endpoint are being cancelled.
            let Some(endpoint) = store.endpoint(id).await? else {
                continue;
            };
            if of.is_some_and(|of| of != endpoint.owner) {
                continue;
            }
            if !endpoint.enabled {
                slice.disabled += 1;
                continue;
            }
            let audited = Audited {
                object: format!("endpoint/{id}"),
                ..audited.clone()
            };
            let room = SLICE - slice.deliveries;
            let Some(walked) = self.hasten(id, audited, room).await? else {
                continue;
            };
            slice.deliveries += walked.count;
            if !walked.is_whole {
                // The next slice continues with this endpoint and skips what is already due.
                slice.next = Some(id);
                break;
            }
            slice.endpoints += 1;
        }
        Ok(slice)
    }

    /// Makes waiting deliveries of an endpoint due, page by page, until at least `at_most` are. `None` if the
    /// endpoint does not exist.
    async fn hasten(
        &self,
        id: EndpointId,
        audited: Audited,
        at_most: u64,
    ) -> Result<Option<Walked>, Fault> {
        // Deliveries queued after this time are due already.
        let now = self.now();
        pages(audited, at_most, |after, audited| async move {
            let page = self.store().hasten(id, after, audited, now);
            Ok(match page.await? {
                MadeDue::Unknown => None,
                MadeDue::Page { hastened, next } => Some((hastened, next)),
            })
        })
        .await
    }

    /// Checks by its text whether events of an owner's environment may be sent to an address.
    fn judge_destination(
        &self,
        address: &str,
        owner: KeyOwner,
        environment: Environment,
    ) -> Result<(), NotADestination> {
        let configured = self.configured();
        let inner = configured.settings.webhooks.inner_hosts(owner, environment);
        destination::judge(address, &inner, &configured).map(drop)
    }

    /// Checks by its text whether any owner's events may be sent to an address. Internal hosts are not
    /// allowed.
    pub(crate) fn judge_public_destination(&self, address: &str) -> Result<(), NotADestination> {
        destination::judge(address, &[], &self.configured()).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line() -> Audited {
        Audited {
            operator: "ann".into(),
            operator_id: None,
            actor: "ann".into(),
            reason: None,
            action: "endpoint.deliver".into(),
            object: String::new(),
            before: None,
            after: None,
        }
    }

    #[tokio::test]
    async fn pages_are_walked_until_enough_is_done_and_the_audit_line_goes_with_the_first() {
        // Three pages with two deliveries each.
        let walk = async |at_most| {
            let lines = std::cell::Cell::new(0);
            let walked = pages(line(), at_most, |after: Option<u64>, audited| {
                lines.set(lines.get() + u64::from(audited.is_some()));
                let at = after.unwrap_or(0);
                async move { Ok(Some((2, (at < 2).then_some(at + 1)))) }
            });
            let walked = walked.await.unwrap().unwrap();
            (walked.count, walked.is_whole, lines.get())
        };
        assert_eq!(walk(u64::MAX).await, (6, true, 1));
        assert_eq!(walk(6).await, (6, true, 1));
        assert_eq!(walk(3).await, (4, false, 1));
        assert_eq!(walk(1).await, (2, false, 1));
        let unknown = pages(line(), 1, |_: Option<u64>, _| async { Ok(None) });
        assert!(unknown.await.unwrap().is_none());
    }
}
