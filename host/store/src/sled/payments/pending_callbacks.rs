//! Notices about references that no attempt has yet: callbacks that arrive before the start's answer.

use std::ops::ControlFlow;

use kassette_domain::id::AccountId;
use kassette_domain::pending_callback::{Admission, PendingCallback};
use kassette_domain::provider::Report;
use kassette_domain::time::Time;
use kassette_engine::{Operation, Span};

use crate::rows::schema;
use crate::rows::source::{RowSource, Save as _};
use crate::rows::stored::AttemptKey;
use crate::sled::memory::{Memory, Rows};
use crate::{Fault, KeptCallback};

pub(crate) struct KeepCallback {
    pub(crate) account: AccountId,
    pub(crate) reference: String,
    pub(crate) report: Option<Report>,
    pub(crate) now: Time,
}

impl Operation<Memory> for KeepCallback {
    type Outcome = KeptCallback;

    fn apply(self, rows: &mut Rows<'_>) -> Result<KeptCallback, Fault> {
        let known: Option<AttemptKey> =
            rows.load(&schema::reference(&self.account, &self.reference))?;
        if let Some(known) = known {
            return Ok(KeptCallback::Known(known.lookup(rows)?.id));
        }
        sweep(rows, self.now)?;
        let (mut last, mut waiting) = (None, Vec::new());
        for (key, notice) in notices(rows, &self.account, &self.reference)? {
            last = key.last_chunk().copied();
            if notice.is_alive(self.now) {
                waiting.push(notice);
            } else {
                // Expired notices make space.
                let end = schema::pending_callback_end(notice.until, &key);
                remove(rows, key, end)?;
            }
        }
        let count_key = schema::pending_callback_count(self.account.as_str().as_bytes());
        let count: u32 = rows.load(&count_key)?.unwrap_or_default();
        let notice = match PendingCallback::admit(self.report, &waiting, count, self.now) {
            Admission::New(notice) => notice,
            Admission::Kept => return Ok(KeptCallback::Kept),
            Admission::Full => return Ok(KeptCallback::Full),
        };
        let ordinal = last.map_or(0, |last| u32::from_be_bytes(last).wrapping_add(1));
        let key = schema::pending_callback(&self.account, &self.reference, ordinal);
        rows.save(schema::pending_callback_end(notice.until, &key), &())?;
        rows.save(key, &notice)?;
        rows.save(count_key, &(count + 1))?;
        Ok(KeptCallback::Kept)
    }
}

fn notices(
    rows: &Rows<'_>,
    account: &AccountId,
    reference: &str,
) -> Result<Vec<(schema::Key, PendingCallback)>, Fault> {
    let span = Span::prefix(&schema::pending_callbacks_for(account, reference));
    let found = rows.scan(&span, PendingCallback::MAX_PER_REFERENCE)?;
    found
        .into_iter()
        .map(|(key, row)| {
            let notice = crate::rows::records::decode(rows.sealer(), &key, &row)?;
            Ok((key, notice))
        })
        .collect()
}

/// Removes and returns the notices of a reference, oldest first, without expired ones.
pub(crate) fn take(
    rows: &mut Rows<'_>,
    account: &AccountId,
    reference: &str,
    now: Time,
) -> Result<Vec<PendingCallback>, Fault> {
    let mut taken = Vec::new();
    for (key, notice) in notices(rows, account, reference)? {
        let end = schema::pending_callback_end(notice.until, &key);
        remove(rows, key, end)?;
        if notice.is_alive(now) {
            taken.push(notice);
        }
    }
    Ok(taken)
}

/// Removes some of the expired notices. Returns whether there may be more.
pub(crate) fn sweep(rows: &mut Rows<'_>, now: Time) -> Result<bool, Fault> {
    let rest = rows.walk(
        Span::prefix(schema::PENDING_CALLBACK_ENDS),
        |rows, end, _| {
            let until = schema::leading_time(end, schema::PENDING_CALLBACK_ENDS);
            if until.is_some_and(|until| now < until) {
                return Ok(ControlFlow::Break(()));
            }
            let key = schema::pending_callback_of_end(end)
                .unwrap_or_default()
                .to_vec();
            remove(rows, key, end.clone())?;
            Ok(ControlFlow::Continue(()))
        },
    )?;
    Ok(rest.is_some())
}

fn remove(rows: &mut Rows<'_>, key: schema::Key, end: schema::Key) -> Result<(), Fault> {
    let count_key = schema::pending_callback_count(schema::account_in(&key).unwrap_or_default());
    let count: u32 = rows.load(&count_key)?.unwrap_or_default();
    rows.save(count_key, &count.saturating_sub(1))?;
    rows.remove(key);
    rows.remove(end);
    Ok(())
}
