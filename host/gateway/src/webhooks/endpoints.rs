//! Making, changing and trying endpoints.

use std::time::Duration;

use kassette_domain::audit::Audited;
use kassette_domain::id::{EndpointId, MerchantId};
use kassette_domain::key::Environment;
use kassette_domain::secret::Secret;
use kassette_domain::time::Time;
use kassette_domain::webhook::{
    Delivery, DeliveryStatus, Endpoint, EndpointSecrets, EventFilter, generate_secret,
};
use kassette_store::{
    EndpointCreated, EndpointDeleted, EndpointRotated, Fault, Hastened, Listed, Paging, Recovered,
    Replaced,
};

use super::attempt::count_ended;
use super::destination::{self, NotADestination};
use crate::Gateway;

/// An endpoint to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewEndpoint {
    /// Whose.
    pub merchant: MerchantId,
    /// In which world.
    pub environment: Environment,
    /// Where events are posted to.
    pub url: String,
    /// Which events it wants.
    pub event_types: EventFilter,
}

/// A new endpoint, with the secret that is shown this once.
#[derive(Clone, Debug)]
pub struct IssuedEndpoint {
    /// The endpoint.
    pub endpoint: Endpoint,
    /// `whsec_…`
    pub secret: Secret,
}

/// A rotation, with the secret that is shown this once.
#[derive(Clone, Debug)]
pub struct RotatedEndpoint {
    /// The endpoint.
    pub endpoint: Endpoint,
    /// `whsec_…`
    pub secret: Secret,
    /// From when on it signs; until then the one before does.
    pub active_from: Time,
}

/// Why nothing was done to an endpoint.
#[derive(Debug, thiserror::Error)]
pub enum EndpointError {
    /// 404.
    #[error("merchant not found")]
    NoSuchMerchant,
    /// 404.
    #[error("webhook endpoint not found")]
    NotFound,
    /// 422.
    #[error("url: {0}")]
    Destination(#[from] NotADestination),
    /// 422.
    #[error("overlap_hours: must be 0 to 72")]
    Overlap,
    /// 409.
    #[error(
        "the merchant has {} webhook endpoints in this environment; delete one first",
        Endpoint::MAX_PER_MERCHANT
    )]
    TooMany,
    /// 409.
    #[error("the webhook endpoint is disabled, so nothing is delivered to it; enable it first")]
    Disabled,
    /// 409: another caller changed it meanwhile.
    #[error("the webhook endpoint was changed meanwhile; read it again")]
    Stale,
    /// 500.
    #[error(transparent)]
    Random(#[from] getrandom::Error),
    /// 500.
    #[error(transparent)]
    Store(#[from] Fault),
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
            merchant: new.merchant,
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
            EndpointCreated::TooMany => Err(EndpointError::TooMany),
            EndpointCreated::NoSuchMerchant => Err(EndpointError::NoSuchMerchant),
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

    /// Lists a merchant's endpoints, newest first.
    ///
    /// # Errors
    /// The store's.
    pub async fn endpoints(
        &self,
        merchant: MerchantId,
        paging: Paging,
    ) -> Result<Listed<Endpoint>, Fault> {
        self.store().endpoints(merchant, paging).await
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
            Replaced::Done(endpoint) => Ok(endpoint),
            Replaced::Stale => Err(EndpointError::Stale),
            Replaced::Unknown => Err(EndpointError::NotFound),
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
        self.carry(async move {
            let (mut count, mut after, mut audited) = (0, None, Some(audited));
            loop {
                let now = gateway.now();
                let page = gateway
                    .store()
                    .recover(id, since, after, audited.take(), now)
                    .await?;
                match page {
                    Recovered::Unknown if count == 0 => return Err(EndpointError::NotFound),
                    // Deleted meanwhile.
                    Recovered::Unknown => return Ok(count),
                    Recovered::Page { queued, next } => {
                        count += queued;
                        if next.is_none() {
                            return Ok(count);
                        }
                        after = next;
                    }
                }
            }
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
        // What is queued while this runs is due already.
        let now = self.now();
        // Many pages: carried to the end where the caller hangs up.
        self.carry(async move {
            let (mut count, mut after, mut audited) = (0, None, Some(audited));
            loop {
                let store = gateway.store();
                match store.hasten(id, after, audited.take(), now).await? {
                    Hastened::Unknown if count == 0 => return Err(EndpointError::NotFound),
                    // Deleted meanwhile.
                    Hastened::Unknown => return Ok(count),
                    Hastened::Page { hastened, next } => {
                        count += hastened;
                        if next.is_none() {
                            return Ok(count);
                        }
                        after = next;
                    }
                }
            }
        })
        .await?
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
