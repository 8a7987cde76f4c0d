//! Versions on trial.

use std::io;
use std::sync::Arc;

use kassette_domain::candidate::{Candidate, Counted};
use kassette_domain::id::{Digest, Slot};
use kassette_domain::method::MethodId;
use kassette_domain::time::Time;

use super::{Prepared, RollbackError, Runtime};
use crate::error::short;
use crate::history::Cause;
use crate::slots::Staged;

impl Runtime {
    /// The version on trial in a slot, if it is loaded. Call this once per request and use the result throughout.
    pub fn staged(&self, slot: &Slot) -> Option<Arc<Staged>> {
        self.slots.staged(slot)
    }

    /// Like [`Runtime::staged`], for a method.
    pub fn staged_method(&self, method: MethodId) -> Option<Arc<Staged>> {
        self.slots.staged_method(method)
    }

    /// Whether any loaded version is on trial. Most gateways have none.
    pub fn has_trials(&self) -> bool {
        self.slots.has_staged()
    }

    /// All loaded versions on trial.
    pub fn all_staged(&self) -> Vec<(Slot, Arc<Staged>)> {
        self.slots.all_staged()
    }

    /// Settings of the trial in a slot, even if its version is not loaded.
    pub fn candidate(&self, slot: &Slot) -> Option<Candidate> {
        self.slots.history(slot).candidate
    }

    /// Starts or replaces the trial in a slot, with a prepared version. Survives restarts and does not change the
    /// plugin folder.
    ///
    /// # Errors The version or the history cannot be saved. If only the history failed, the slot has no trial
    /// then.
    pub fn stage(&self, prepared: Prepared, candidate: Candidate, now: Time) -> io::Result<()> {
        let _lock = self.loading.lock();
        let Prepared {
            slot,
            module,
            bytes,
            ..
        } = prepared;
        self.versions.put(&slot, &candidate.digest, &bytes)?;
        self.slots.stage(&slot, candidate.clone(), module, now);
        self.keep_trial(&slot, now)?;
        tracing::info!(
            plugin.slot = %slot, plugin.digest = short(&candidate.digest),
            "{slot} tries {} beside the version that serves", short(&candidate.digest),
        );
        self.clean_cache();
        Ok(())
    }

    /// Changes the settings of the trial.
    ///
    /// # Errors The version is not on trial, or the history cannot be saved. In the second case the trial ends.
    pub fn restage(&self, slot: &Slot, candidate: Candidate, now: Time) -> io::Result<()> {
        let _lock = self.loading.lock();
        let module = self.slots.staged(slot).map(|staged| staged.module.clone());
        let module = module.filter(|module| module.identity().digest == candidate.digest);
        let module = module.ok_or(io::ErrorKind::NotFound)?;
        self.slots.stage(slot, candidate, module, now);
        self.keep_trial(slot, now)
    }

    /// Stores the newest counts of a trial, for the history's event that ends it.
    pub fn note_counted(&self, slot: &Slot, candidate: &Candidate, counted: Counted) {
        self.slots.note_counted(slot, candidate, counted);
    }

    fn keep_trial(&self, slot: &Slot, now: Time) -> io::Result<()> {
        let kept = self.versions.save(slot, &self.slots.history(slot));
        kept.inspect_err(|_| self.slots.retire(slot, None, now))
    }

    /// Ends a trial: the candidate gets no new payments, but finishes the attempts that it started. `why` becomes
    /// the slot's last error.
    ///
    /// # Errors The history cannot be saved. The trial has ended, but a restart would start it again.
    pub fn end_trial(&self, slot: &Slot, why: Option<String>, now: Time) -> io::Result<()> {
        // Without the lock, so that a running compilation does not delay it.
        self.slots.retire(slot, why, now);
        let _lock = self.loading.lock();
        self.versions.save(slot, &self.slots.history(slot))
    }

    /// Checks the version on trial again, to replace the active one.
    ///
    /// # Errors No version is on trial, or it cannot be loaded any longer.
    pub fn prepare_candidate(&self, slot: &Slot) -> Result<Prepared, RollbackError> {
        let digest = self.candidate(slot).map(|candidate| candidate.digest);
        self.prepare_kept(slot, digest.ok_or(RollbackError::Nothing)?, Cause::Promote)
    }

    /// Whether the slot is pinned: files in the plugin folder do not replace the active version.
    pub fn is_pinned(&self, slot: &Slot) -> bool {
        self.slots.is_pinned(slot)
    }

    /// Whether this version is on trial.
    pub fn is_candidate(&self, slot: &Slot, digest: &Digest) -> bool {
        let candidate = self.candidate(slot);
        candidate.is_some_and(|candidate| candidate.digest == *digest)
    }
}
