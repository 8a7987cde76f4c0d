//! Exports of a provider component: `payments`, and `refunds` if it supports refunds.

use wasmtime::component::InstancePre;
use wasmtime::{AsContextMut, Engine};

use super::bindings::provider::exports::kassette::plugin::{payments, refunds};

const REFUNDS: &str = "kassette:plugin/refunds@0.2.0";

pub(crate) struct Exports {
    pub(crate) payments: payments::Guest,
    /// `None` for a component of the world `provider`.
    pub(crate) refunds: Option<refunds::Guest>,
}

/// A linked component with the indexes of its exports.
pub(crate) struct ExportsPre<T: 'static> {
    instance: InstancePre<T>,
    payments: payments::GuestIndices,
    refunds: Option<refunds::GuestIndices>,
}

impl<T: Send> ExportsPre<T> {
    pub(crate) fn new(instance: InstancePre<T>) -> wasmtime::Result<Self> {
        let payments = payments::GuestIndices::new(&instance)?;
        let refunds = instance.component().get_export_index(None, REFUNDS);
        let refunds = refunds.map(|_| refunds::GuestIndices::new(&instance));
        Ok(Self {
            payments,
            refunds: refunds.transpose()?,
            instance,
        })
    }

    pub(crate) fn engine(&self) -> &Engine {
        self.instance.engine()
    }

    pub(crate) async fn instantiate(
        &self,
        mut store: impl AsContextMut<Data = T>,
    ) -> wasmtime::Result<Exports> {
        let instance = self.instance.instantiate_async(&mut store).await?;
        let payments = self.payments.load(&mut store, &instance)?;
        let refunds = self.refunds.as_ref();
        let refunds = refunds.map(|refunds| refunds.load(&mut store, &instance));
        Ok(Exports {
            payments,
            refunds: refunds.transpose()?,
        })
    }
}
