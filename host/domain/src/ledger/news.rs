//! What a provider reports.

use super::{Change, Ledger, Outcome, Refusal, Via};
use crate::id::AttemptId;
use crate::provider::{Report, Wish};
use crate::secret::Secret;
use crate::time::Time;

impl Ledger {
    pub(super) fn news(
        &mut self,
        _attempt: AttemptId,
        _report: Report,
        _via: Via,
        _now: Time,
        _change: &mut Change,
    ) -> Result<Outcome, Refusal> {
        todo!()
    }

    pub(super) fn silence(
        &mut self,
        _attempt: AttemptId,
        _wish: Wish,
        _absent: bool,
        _scheduled: bool,
        _now: Time,
        _change: &mut Change,
    ) -> Result<Outcome, Refusal> {
        todo!()
    }

    pub(super) fn ask_at(&mut self, _attempt: AttemptId, _at: Time) -> Result<Outcome, Refusal> {
        todo!()
    }

    pub(super) fn returned(
        &mut self,
        _attempt: AttemptId,
        _query: Secret,
    ) -> Result<Outcome, Refusal> {
        todo!()
    }
}
