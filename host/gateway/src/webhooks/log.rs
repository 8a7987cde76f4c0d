//! The delivery log.

use kassette_domain::audit::Audited;
use kassette_domain::id::DeliveryId;
use kassette_domain::webhook::Delivery;
use kassette_store::{DeliveryFilter, Fault, Listed, Paging, Redelivered};

use crate::Gateway;

/// Reason why a delivery is not shown or queued again.
#[derive(Debug, thiserror::Error)]
pub enum DeliveryError {
    #[error("delivery not found")]
    NotFound,
    #[error("the delivery's webhook endpoint was deleted")]
    EndpointDeleted,
    #[error(transparent)]
    Store(#[from] Fault),
}

impl Gateway {
    /// Lists deliveries, newest first.
    ///
    /// # Errors
    /// The store's.
    pub async fn deliveries(
        &self,
        filter: DeliveryFilter,
        paging: Paging,
    ) -> Result<Listed<Delivery>, Fault> {
        self.store().deliveries(filter, paging).await
    }

    /// Returns a delivery with its attempts.
    ///
    /// # Errors
    /// See [`DeliveryError`].
    pub async fn delivery(&self, id: DeliveryId) -> Result<Delivery, DeliveryError> {
        let delivery = self.store().delivery(id).await?;
        delivery.ok_or(DeliveryError::NotFound)
    }

    /// Queues the event of a delivery again, as a new delivery with eight attempts.
    ///
    /// # Errors
    /// See [`DeliveryError`].
    pub async fn redeliver(
        &self,
        id: DeliveryId,
        audited: Audited,
    ) -> Result<Delivery, DeliveryError> {
        let now = self.now();
        match self.store().redeliver(id, audited, now).await? {
            Redelivered::Queued(delivery) => Ok(delivery),
            Redelivered::EndpointDeleted => Err(DeliveryError::EndpointDeleted),
            Redelivered::Unknown => Err(DeliveryError::NotFound),
        }
    }
}
