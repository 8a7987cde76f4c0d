//! Putting a version on trial, changing the trial, ending it.

use std::sync::Arc;

use kassette_domain::audit::Audited;
use kassette_domain::candidate::{BadCanary, Canary, Candidate};
use kassette_domain::id::{Digest, Slot};
use kassette_runtime::Prepared;
use kassette_store::{Fault, SlotContent};

use crate::Gateway;
use crate::shared_modules::ShareError;

/// Reason why a trial was not changed. `server` maps each to HTTP.
#[derive(Debug, thiserror::Error)]
pub enum TrialError {
    #[error("no version is on trial in this slot; upload one with mode=shadow")]
    Nothing,
    #[error("what is kept of the slot cannot be written ({0}); no version is on trial")]
    NotKept(String),
    #[error(transparent)]
    Shared(#[from] ShareError),
    #[error(transparent)]
    Store(#[from] Fault),
}

/// Reason why a canary was not started.
#[derive(Debug, thiserror::Error)]
pub enum CanaryError {
    #[error(transparent)]
    Bad(#[from] BadCanary),
    #[error("the version on trial in this slot is another: {0}")]
    Other(Digest),
    #[error("no version is on trial in this slot; upload one with mode=shadow")]
    Nothing,
    #[error("no randomness from the operating system")]
    Random,
}

impl From<getrandom::Error> for CanaryError {
    fn from(_: getrandom::Error) -> Self {
        Self::Random
    }
}

impl Gateway {
    /// Writes the audit line, then does the work, so that no change lacks an audit line. If the work fails, a
    /// second line records that, and the inner error contains the reason.
    ///
    /// # Errors
    /// The store's.
    pub async fn audited<T: Send + 'static, E: Send + 'static>(
        &self,
        line: Audited,
        work: impl FnOnce() -> Result<T, E> + Send + 'static,
        why: impl FnOnce(&E) -> String,
    ) -> Result<Result<T, String>, Fault> {
        let now = self.now();
        self.store().audit(line.clone(), now).await?;
        let done = tokio::task::spawn_blocking(work).await;
        let error = match done.map_err(|_| Fault::Stopping)? {
            Ok(done) => return Ok(Ok(done)),
            Err(error) => error,
        };
        let why = why(&error);
        let line = Audited {
            action: "plugin.abandon".into(),
            reason: Some(why.clone()),
            after: line.before.clone(),
            ..line
        };
        self.store().audit(line, now).await?;
        Ok(Err(why))
    }

    /// Puts a prepared version on trial in the shadow of the active one.
    ///
    /// # Errors
    /// See [`TrialError`].
    pub async fn stage(&self, prepared: Prepared, line: Audited) -> Result<(), TrialError> {
        if self.store().shares_modules() {
            return Ok(self.share_version(prepared, line).await?);
        }
        let runtime = self.runtime().cloned().ok_or(TrialError::Nothing)?;
        self.note_figures(prepared.slot()).await;
        let now = self.now();
        let candidate = Candidate {
            digest: prepared.digest(),
            since: now,
            canary: None,
        };
        let staging = move || runtime.stage(prepared, candidate, now);
        let staged = self.audited(line, staging, |error| error.kind().to_string());
        staged.await?.map_err(TrialError::NotKept)
    }

    /// Returns the candidate of a slot with this share, or these steps of a ramp. A running canary keeps its
    /// payments and its counts.
    ///
    /// # Errors
    /// See [`CanaryError`].
    pub fn canary(
        &self,
        slot: &Slot,
        digest: Digest,
        steps: &[u8],
        every_seconds: u64,
    ) -> Result<Candidate, CanaryError> {
        let runtime = self.runtime().ok_or(CanaryError::Nothing)?;
        let candidate = runtime.candidate(slot).ok_or(CanaryError::Nothing)?;
        if candidate.digest != digest {
            return Err(CanaryError::Other(candidate.digest));
        }
        let now = self.now();
        Ok(match &candidate.canary {
            Some(canary) => Candidate {
                canary: Some(canary.change(steps, every_seconds, now)?),
                ..candidate
            },
            None => Candidate {
                digest,
                since: now,
                canary: Some(Canary::begin(steps, every_seconds, crate::random()?, now)?),
            },
        })
    }

    /// Changes how the version on trial is tried, or ends the trial.
    ///
    /// # Errors
    /// See [`TrialError`].
    pub async fn change_trial(
        &self,
        slot: &Slot,
        candidate: Option<Candidate>,
        line: Audited,
    ) -> Result<(), TrialError> {
        let runtime = self.runtime().cloned().ok_or(TrialError::Nothing)?;
        if runtime.candidate(slot).is_none() {
            return Err(TrialError::Nothing);
        }
        if self.store().shares_modules() {
            let content = SlotContent::Candidate(candidate);
            return Ok(self.share_change(slot.clone(), content, line).await?);
        }
        self.note_figures(slot).await;
        let (slot, now) = (slot.clone(), self.now());
        let changing = move || match candidate {
            Some(candidate) => runtime.restage(&slot, candidate, now),
            None => runtime.end_trial(&slot, None, now),
        };
        let changed = self.audited(line, changing, |error| error.kind().to_string());
        changed.await?.map_err(TrialError::NotKept)
    }

    /// Makes the candidate the active version, as the last step of its ramp.
    pub(super) async fn promote(&self, slot: &Slot, line: Audited) -> Result<(), String> {
        let runtime = self.runtime().cloned().ok_or("there are no modules")?;
        let (checking, of) = (Arc::clone(&runtime), slot.clone());
        let prepared = tokio::task::spawn_blocking(move || checking.prepare_candidate(&of));
        let prepared = prepared.await.map_err(|error| error.to_string())?;
        let prepared = prepared.map_err(|error| error.to_string())?;
        if self.store().shares_modules() {
            let shared = self.share_version(prepared, line).await;
            return shared.map_err(|error| error.to_string());
        }
        self.note_figures(slot).await;
        let now = self.now();
        let activating = move || runtime.activate(prepared, now).map(drop);
        let activated = self.audited(line, activating, |error| error.kind().to_string());
        activated.await.map_err(|fault| fault.to_string())?
    }
}
