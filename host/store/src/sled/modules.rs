//! `SharedModules` on sled: there is one node, whose plugin folder determines the active versions.

use kassette_domain::audit::Audited;
use kassette_domain::id::{Digest, Slot};
use kassette_domain::time::Time;

use crate::sled::SledStore;
use crate::{Fault, Proposal, SharedModules, SlotChange, SlotContent, StoreFuture};

/// Result of a call without a check of [`SharedModules::shares_modules`].
fn not_shared<T: Send + 'static>() -> StoreFuture<'static, T> {
    let fault = Fault::Unavailable("this store shares no modules".into());
    Box::pin(std::future::ready(Err(fault)))
}

impl SharedModules for SledStore {
    fn shares_modules(&self) -> bool {
        false
    }

    fn propose_version(&self, _: Proposal, _: Time) -> StoreFuture<'_, Option<u64>> {
        not_shared()
    }

    fn settle_version(&self, _: u64, _: Option<Audited>, _: Time) -> StoreFuture<'_, Option<u64>> {
        not_shared()
    }

    fn withdraw_version(&self, _: u64) -> StoreFuture<'_, ()> {
        not_shared()
    }

    fn change_slot(&self, _: Slot, _: SlotContent, _: Audited, _: Time) -> StoreFuture<'_, u64> {
        not_shared()
    }

    fn slot_changes(&self, _: u64) -> StoreFuture<'_, Vec<SlotChange>> {
        Box::pin(std::future::ready(Ok(Vec::new())))
    }

    fn module_bytes(&self, _: Digest) -> StoreFuture<'_, Option<Vec<u8>>> {
        Box::pin(std::future::ready(Ok(None)))
    }
}
