//! Checks of slots: changes and the bytes of modules.

use std::collections::BTreeMap;

use kassette_domain::audit::KeptSlot;
use kassette_domain::id::{Digest, Slot};
use tokio_postgres::Row;

use crate::SlotContent;
use crate::newest::NewestEntries;
use crate::postgres::errors::OpenError;
use crate::postgres::modules::{ALL_CHANGES, change};
use crate::postgres::verify::reading::{CheckedRow, Reading};
use crate::rows::schema;
use crate::rows::seal::Secrets;
use crate::{SlotStage, TRIAL_CAUSE};

const MODULES: &str = "/* verify: modules */ SELECT digest, bytes FROM module";

pub(super) async fn read(
    reading: &mut Reading<'_>,
    newest: &NewestEntries,
) -> Result<(), OpenError> {
    reading.each("module", MODULES, module).await?;
    let mut kept: BTreeMap<Slot, KeptSlot> = BTreeMap::new();
    let mut changes = reading.cursor(ALL_CHANGES, 0).await?;
    while let Some(row) = reading.next(&mut changes).await? {
        reading.count("slot-change");
        let key = schema::slot_change(row.get::<_, i64>(0).unsigned_abs());
        let read = change(&reading.secrets.sealer, &row);
        if let Some(change) = reading.readable("slot-change", &key, read)?
            && change.stage == SlotStage::Settled
        {
            follow(kept.entry(change.slot).or_default(), change.content);
        }
    }
    for (slot, kept) in kept {
        let said = newest.slots().get(&slot);
        if let Some(what) = said.and_then(|said| said.difference(&kept)) {
            reading.find("slot", slot.as_str().as_bytes(), what);
        }
    }
    Ok(())
}

/// Applies a change to a slot's state.
fn follow(kept: &mut KeptSlot, content: SlotContent) {
    match content {
        SlotContent::Version { digest, cause } if cause == TRIAL_CAUSE => {
            kept.candidate = Some(digest);
        }
        SlotContent::Version { digest, .. } => {
            // A different version ends the slot's trial.
            let is_same = kept.version == Some(Some(digest));
            kept.candidate = kept.candidate.filter(|_| is_same);
            kept.version = Some(Some(digest));
        }
        SlotContent::Candidate(candidate) => {
            kept.candidate = candidate.map(|candidate| candidate.digest);
        }
        SlotContent::Disabled(is_disabled) => kept.is_disabled = Some(is_disabled),
        SlotContent::Removed => {
            *kept = KeptSlot {
                version: Some(None),
                ..KeptSlot::default()
            };
        }
    }
}

fn module(row: &Row, _: &Secrets) -> CheckedRow {
    let (digest, bytes): (&[u8], &[u8]) = (row.get(0), row.get(1));
    let is_own = Digest::hash(bytes).0 == digest;
    (
        digest.to_vec(),
        Ok(vec![(is_own, "its bytes have another digest")]),
    )
}
