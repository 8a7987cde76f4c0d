//! Opening attempts, what became of a start, claims.

use super::{Change, Errand, Ledger, Outcome, Refusal, StartResult};
use crate::attempt::Choice;
use crate::id::AttemptId;
use crate::secret::Secret;
use crate::time::Time;

impl Ledger {
    pub(super) fn open(
        &mut self,
        _choice: Choice,
        _now: Time,
        _change: &mut Change,
    ) -> Result<Outcome, Refusal> {
        todo!()
    }

    pub(super) fn started(
        &mut self,
        _attempt: AttemptId,
        _result: StartResult,
        _next: Option<Choice>,
        _now: Time,
        _change: &mut Change,
    ) -> Result<Outcome, Refusal> {
        todo!()
    }

    pub(super) fn answered(
        &mut self,
        _attempt: AttemptId,
        _answers: Vec<(String, Secret)>,
        _busy_until: Time,
        _now: Time,
    ) -> Result<Outcome, Refusal> {
        todo!()
    }

    pub(super) fn claim(
        &mut self,
        _attempt: AttemptId,
        _errand: Errand,
        _until: Time,
        _now: Time,
    ) -> Result<Outcome, Refusal> {
        todo!()
    }
}
