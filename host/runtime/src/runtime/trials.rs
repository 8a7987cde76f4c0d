//! Versions on trial.

use std::io;
use std::sync::Arc;

use kassette_domain::candidate::Candidate;
use kassette_domain::id::{Digest, Slot};
use kassette_domain::method::MethodId;
use kassette_domain::time::Time;

use super::{Prepared, RollbackError, Runtime};
use crate::error::short;
use crate::history::Cause;
use crate::slots::Staged;

impl Runtime {
    /// The version on trial in a slot, once it is loaded. Take it once and use it throughout a request.
    pub fn staged(&self, slot: &Slot) -> Option<Arc<Staged>> {
        self.slots.staged(slot)
    }

    /// The same of a method.
    pub fn staged_method(&self, method: MethodId) -> Option<Arc<Staged>> {
        self.slots.staged_method(method)
    }

    /// Whether any version is on trial and loaded: most gateways have none.
    pub fn has_trials(&self) -> bool {
        self.slots.has_staged()
    }

    /// Every version on trial that is loaded.
    pub fn all_staged(&self) -> Vec<(Slot, Arc<Staged>)> {
        self.slots.all_staged()
    }

    /// How the version on trial is tried, loaded or not.
    pub fn candidate(&self, slot: &Slot) -> Option<Candidate> {
        self.slots.history(slot).candidate
    }

    /// Puts a prepared version on trial, over restarts too, in the place of the one that is. No file of the plugin
    /// folder is touched.
    ///
    /// # Errors
    /// Where that cannot be written down; then there is no trial.
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

    /// Tries the version on trial in another way.
    ///
    /// # Errors
    /// Where there is no such version, or that cannot be written down; then there is no trial any more.
    pub fn restage(&self, slot: &Slot, candidate: Candidate, now: Time) -> io::Result<()> {
        let _lock = self.loading.lock();
        let module = self.slots.staged(slot).map(|staged| staged.module.clone());
        let module = module.filter(|module| module.identity().digest == candidate.digest);
        let module = module.ok_or(io::ErrorKind::NotFound)?;
        self.slots.stage(slot, candidate, module, now);
        self.keep_trial(slot, now)
    }

    fn keep_trial(&self, slot: &Slot, now: Time) -> io::Result<()> {
        let kept = self.versions.save(slot, &self.slots.history(slot));
        kept.inspect_err(|_| self.slots.retire(slot, None, now))
    }

    /// Ends a trial: from now on no new payment is the candidate's. What it began finishes on it. `why` is told
    /// as the slot's last error.
    ///
    /// # Errors
    /// Where that cannot be written down. It has ended all the same, and a restart would begin it again.
    pub fn end_trial(&self, slot: &Slot, why: Option<String>, now: Time) -> io::Result<()> {
        // No lock: a compilation under way must not hold it back.
        self.slots.retire(slot, why, now);
        let _lock = self.loading.lock();
        self.versions.save(slot, &self.slots.history(slot))
    }

    /// The version on trial, checked again, to take the active one's place.
    ///
    /// # Errors
    /// Where there is none, or it cannot be had any more.
    pub fn prepare_candidate(&self, slot: &Slot) -> Result<Prepared, RollbackError> {
        let digest = self.candidate(slot).map(|candidate| candidate.digest);
        self.prepare_kept(slot, digest.ok_or(RollbackError::Nothing)?, Cause::Promote)
    }

    /// Whether files of the plugin folder leave the active version in its place.
    pub fn is_pinned(&self, slot: &Slot) -> bool {
        self.slots.is_pinned(slot)
    }

    /// Whether this very version is on trial.
    pub fn is_candidate(&self, slot: &Slot, digest: &Digest) -> bool {
        let candidate = self.candidate(slot);
        candidate.is_some_and(|candidate| candidate.digest == *digest)
    }
}
