//! Making, changing and trying endpoints.

use std::time::Duration;

use kassette_domain::audit::Audited;
use kassette_domain::id::EndpointId;
use kassette_domain::key::{Environment, KeyOwner};
use kassette_domain::secret::Secret;
use kassette_domain::time::Time;
use kassette_domain::webhook::{
    Delivery, DeliveryStatus, Endpoint, EndpointSecrets, EventFilter, generate_secret,
};
use kassette_store::{
    EndpointCreated, EndpointDeleted, EndpointReplaced, EndpointRotated, Fault, Listed, MadeDue,
    Paging, Recovered,
};

use super::attempt::count_ended;
use super::destination::{self, NotADestination};
use crate::Gateway;

/// An endpoint to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewEndpoint {
    pub owner: KeyOwner,
    pub environment: Environment,
    /// Where events are posted to.
    pub url: String,
    pub event_types: EventFilter,
}

/// A new endpoint, with the secret that is shown this once.
#[derive(Clone, Debug)]
pub struct IssuedEndpoint {
    pub endpoint: Endpoint,
    /// `whsec_…`
    pub secret: Secret,
}

/// A rotation, with the secret that is shown this once.
#[derive(Clone, Debug)]
pub struct RotatedEndpoint {
    pub endpoint: Endpoint,
    /// `whsec_…`
    pub secret: Secret,
    /// From when on it signs; until then the one before does.
    pub active_from: Time,
}

/// Why nothing was done to an endpoint.
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

/// From so many deliveries on a slice of [`Gateway::deliver_waiting`] ends.
const SLICE: u64 = 10_000;
/// Most endpoints that a slice looks at.
const SLICE_ENDPOINTS: usize = 500;

/// What a slice of [`Gateway::deliver_waiting`] did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WaitingSlice {
    /// Deliveries that are due now and were not.
    pub deliveries: u64,
    /// Endpoints of which nothing waits for a later time any more.
    pub endpoints: u64,
    /// Endpoints for which something waits that is held back, because they are disabled.
    pub disabled: u64,
    /// With which endpoint the next slice begins; none at the end.
    pub next: Option<EndpointId>,
}

/// What was done to an endpoint's deliveries.
#[derive(Clone, Copy)]
struct Walked {
    count: u64,
    /// Whether nothing is left.
    is_whole: bool,
}

/// Does something to an endpoint's deliveries page by page, until it is done to at least so many; the audit line
/// goes with the first page. `page` says how many it was done to, and where the next begins; none where there is
/// no such endpoint.
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
    /// Makes an endpoint. The audit line's object is set to `endpoint/<id>`.
    ///
    /// # Errors
    /// See [`EndpointError`].
    pub async fn create_endpoint(
        &self,
        new: NewEndpoint,
        audited: Audited,
    ) -> Result<IssuedEndpoint, EndpointError> {
        self.judge_destination(&new.url, new.environment)?;
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

    /// An endpoint.
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

    /// Changes address, filter or switch of an endpoint that is still as `before`. What waits goes to
    /// the new address.
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
            self.judge_destination(&after.url, after.environment)?;
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

    /// Deletes an endpoint; what waits for it is cancelled.
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

    /// Makes another secret, which signs after an overlap of at most 72 hours.
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

    /// Queues a `webhook.test` for an endpoint, whatever its filter.
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

    /// Queues again everything that was queued since a time and is exhausted, each once; how many.
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
        // Many pages: carried to the end where the caller hangs up.
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
            Ok(walked.await?.ok_or(EndpointError::NotFound)?.count)
        })
        .await?
    }

    /// Makes due at once what waits for an endpoint's next attempts, which each uses one for; how many.
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
        // Many pages: carried to the end where the caller hangs up.
        self.run_to_end(async move {
            let walked = gateway.hasten(id, audited, u64::MAX).await?;
            Ok(walked.ok_or(EndpointError::NotFound)?.count)
        })
        .await?
    }

    /// The same for every endpoint of an owner, or of all of them: one slice, which begins where the slice
    /// before said and makes due some ten thousand deliveries at most. Each endpoint that anything waits for
    /// has an audit line of its own; those that are disabled are passed over.
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
            // What waits for a deleted one is being cancelled.
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
                // What was made due is passed over when the next slice goes on with it.
                slice.next = Some(id);
                break;
            }
            slice.endpoints += 1;
        }
        Ok(slice)
    }

    /// Makes due what waits for an endpoint, page by page until at least so many are; none where there is no
    /// such endpoint.
    async fn hasten(
        &self,
        id: EndpointId,
        audited: Audited,
        at_most: u64,
    ) -> Result<Option<Walked>, Fault> {
        // What is queued while this runs is due already.
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

    /// Whether an environment's events may be sent to an address, by its text.
    pub(crate) fn judge_destination(
        &self,
        address: &str,
        environment: Environment,
    ) -> Result<(), NotADestination> {
        let configured = self.configured();
        destination::judge(address, environment, &configured).map(drop)
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
        // Three pages of two each.
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
