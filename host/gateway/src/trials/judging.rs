//! The worker for trials: ends a trial with bad results, and performs the steps of a ramp.

use std::sync::Arc;
use std::time::Duration;

use kassette_domain::audit::Audited;
use kassette_domain::candidate::{
    Advance, Canary, CanaryFailure, Candidate, Counted, Counts, SuccessRate, Tally, judge,
};
use kassette_domain::id::Slot;
use kassette_runtime::{OpenedModule, Staged};
use kassette_store::{Fault, SlotContent, Task};
use serde_json::json;

use super::trial;
use crate::Gateway;
use crate::modules::Method;

/// Interval between two checks of the trials.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// One node judges for all nodes, until just before its next check.
const LEASE: Duration = Duration::from_millis(900);

/// Reason why a trial ended automatically.
struct Ended {
    /// Label for metrics.
    word: &'static str,
    /// A sentence for operators.
    why: String,
}

impl Gateway {
    /// Checks the versions on trial while there are any.
    pub(crate) async fn judge_trials(&self) {
        let Some(runtime) = self.runtime() else {
            return;
        };
        let mut changes = runtime.changes();
        loop {
            if runtime.has_trials() {
                let next = self.now().after(LOOK_EVERY);
                tokio::select! {
                    () = self.clock().wait_until(next) => {}
                    () = self.inner.trials.look.notified() => {}
                }
            } else if changes.changed().await.is_err() {
                return;
            }
            self.look_at_trials().await;
        }
    }

    /// Stores the counts since the last check, before the process ends.
    pub(crate) async fn keep_counts(&self) {
        let all = self.runtime().map(|runtime| runtime.all_staged());
        for (slot, staged) in all.unwrap_or_default() {
            if staged.candidate.canary.is_some()
                && let Err(fault) = self.counted(&slot, &staged.candidate).await
            {
                tracing::warn!(plugin.slot = %slot, error = %fault, "what was counted last of a trial is lost");
            }
        }
    }

    /// Checks each version on trial one time.
    pub(crate) async fn look_at_trials(&self) {
        let Some(runtime) = self.runtime() else {
            return;
        };
        let all = runtime.all_staged();
        let is_alive = |of: &kassette_store::Trial| {
            all.iter()
                .any(|(slot, staged)| trial(slot, &staged.candidate) == *of)
        };
        self.inner.trials.shadows.retain(is_alive);
        for (slot, staged) in &all {
            let looked = match &staged.candidate.canary {
                Some(canary) => self.look_at_canary(slot, staged, canary).await,
                None => {
                    if let OpenedModule::Method(module) = &staged.module {
                        let module = Arc::clone(module) as Arc<dyn Method>;
                        self.compare_shadow(&trial(slot, &staged.candidate), module)
                            .await;
                    }
                    Ok(())
                }
            };
            if let Err(fault) = looked {
                tracing::warn!(plugin.slot = %slot, error = %fault, "a trial could not be looked at");
            }
        }
    }

    async fn look_at_canary(
        &self,
        slot: &Slot,
        staged: &Staged,
        canary: &Canary,
    ) -> Result<(), Fault> {
        let candidate = &staged.candidate;
        // A failure is handled without waiting for the store.
        if staged.faults() > 0 {
            let why = "it failed: the log of this node says how".to_owned();
            self.roll_back(slot, candidate, Ended { word: "fault", why }, None)
                .await;
            return Ok(());
        }
        let counted = self.counted(slot, candidate).await?;
        if !self.store().take_task(Task::JudgeTrials, LEASE).await? {
            return Ok(());
        }
        let limits = self.settings().trial_limits;
        if let Some(finding) = judge(&counted.by_share, &limits) {
            self.roll_back(
                slot,
                candidate,
                ended(finding, &counted.by_share),
                Some(counted),
            )
            .await;
            return Ok(());
        }
        let now_counted = counted
            .by_share
            .iter()
            .find(|(percent, _)| *percent == canary.percent());
        let decided = now_counted.map_or(0, |(_, counts)| counts.starts.candidate.payments);
        let Some(advance) = canary.advance(self.now(), decided, &limits) else {
            return Ok(());
        };
        self.go_on(slot, candidate, advance, &counted).await;
        Ok(())
    }

    /// Ends a trial with bad results, first on this node, then on all. If `counted` is `None`, the counts are
    /// read afterwards.
    async fn roll_back(
        &self,
        slot: &Slot,
        candidate: &Candidate,
        ended: Ended,
        counted: Option<Counted>,
    ) {
        let Some(runtime) = self.runtime() else {
            return;
        };
        let Ended { word, why } = ended;
        let why = format!("the candidate {} was rolled back: {why}", candidate.digest);
        let (ending, of, told, now) = (Arc::clone(runtime), slot.clone(), why.clone(), self.now());
        let kept =
            tokio::task::spawn_blocking(move || ending.end_trial(&of, Some(told), now)).await;
        let counted = match counted {
            Some(counted) => Ok(counted),
            None => self.counted(slot, candidate).await,
        };
        let counted = counted.ok().as_ref().map(figures);
        tracing::error!(
            plugin.slot = %slot, plugin.digest = %candidate.digest, trial.reason = word,
            trial.counted = counted.as_ref().map(tracing::field::display), "{why}"
        );
        metrics::counter!(
            "kassette_canary_rollbacks_total", "slot" => slot.as_str().to_owned(), "reason" => word
        )
        .increment(1);
        let more = json!({
            "slot": slot, "candidate": candidate.digest.to_string(), "reason": word, "counted": counted,
        });
        self.alert("plugin.rollback", &format!("{slot}: {why}"), &more);
        let line = Audited {
            reason: Some(why),
            before: Some(json!({ "candidate": shown(candidate) }).to_string()),
            after: Some(json!({ "candidate": null, "counted": counted }).to_string()),
            ..Audited::of_system("plugin.rollback", format!("plugin/{slot}"))
        };
        let told = if self.store().shares_modules() {
            let shared = self.share_change(slot.clone(), SlotContent::Candidate(None), line);
            shared.await
        } else {
            self.store().audit(line, now).await.map(drop)
        };
        if let Err(fault) = told {
            tracing::error!(plugin.slot = %slot, error = %fault, "the end of a trial is not on record");
        }
        if !matches!(kept, Ok(Ok(()))) {
            tracing::error!(plugin.slot = %slot, "the end of a trial is not kept over a restart");
        }
    }

    /// Performs the next step of a ramp.
    async fn go_on(&self, slot: &Slot, candidate: &Candidate, advance: Advance, counted: &Counted) {
        let line = |action, after: serde_json::Value| Audited {
            reason: Some("the ramp's next step: nothing speaks against it".into()),
            before: Some(json!({ "candidate": shown(candidate) }).to_string()),
            after: Some(after.to_string()),
            ..Audited::of_system(action, format!("plugin/{slot}"))
        };
        let done = match advance {
            Advance::Share(canary) => {
                let next = Candidate {
                    canary: Some(canary),
                    ..candidate.clone()
                };
                let after = json!({ "candidate": shown(&next), "counted": figures(counted) });
                let changed = self.change_trial(slot, Some(next), line("plugin.canary", after));
                changed.await.map_err(|error| error.to_string())
            }
            Advance::Promote => {
                let digest = candidate.digest.to_string();
                let after = json!({ "digest": digest, "counted": figures(counted) });
                self.promote(slot, line("plugin.promote", after)).await
            }
        };
        if let Err(why) = done {
            tracing::error!(plugin.slot = %slot, "a ramp does not go on: {why}");
        }
    }
}

/// A candidate in an audit line.
fn shown(candidate: &Candidate) -> serde_json::Value {
    json!({
        "digest": candidate.digest.to_string(),
        "share": candidate.canary.as_ref().map(Canary::percent),
    })
}

/// Counts of a trial in an audit line and in the history.
pub fn figures(counted: &Counted) -> serde_json::Value {
    let all = Counts::total(&counted.by_share);
    let mut figures = rates(&all);
    figures["environment"] = counted.environment.as_str().into();
    figures["compared"] = all.compared.into();
    figures["differing"] = all.differing.into();
    figures
}

/// Success rates of the payments on both sides.
pub fn rates(counts: &Counts) -> serde_json::Value {
    let tally = |tally: Tally| json!({ "payments": tally.payments, "failed": tally.failed });
    let rate = |rate: SuccessRate| {
        let pair = rate.pair(counts);
        json!({ "candidate": tally(pair.candidate), "control": tally(pair.control) })
    };
    json!({ "starts": rate(SuccessRate::Starts), "completions": rate(SuccessRate::Completions) })
}

fn ended(finding: CanaryFailure, counted: &[(u8, Counts)]) -> Ended {
    let all = Counts::total(counted);
    match finding {
        CanaryFailure::Diverges => Ended {
            word: "divergence",
            why: format!(
                "{} of {} of its decisions differ from the active version's",
                all.differing, all.compared
            ),
        },
        CanaryFailure::Worse { rate, evidence } => {
            let (word, what) = match rate {
                SuccessRate::Starts => ("starts", "starts failed"),
                SuccessRate::Completions => ("completions", "payments were not paid"),
            };
            let pair = rate.pair(&all);
            let (its, others) = (pair.candidate, pair.control);
            Ended {
                word,
                why: format!(
                    "{} of its {} {what}, and {} of the others' {}: {} to 1 against chance",
                    its.failed,
                    its.payments,
                    others.failed,
                    others.payments,
                    evidence.floor()
                ),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rollback_says_what_was_counted_and_how_sure_it_is() {
        let counts = Counts::of_figures([150, 45, 1_350, 135, 0, 0, 0, 0, 0, 0]);
        let finding = CanaryFailure::Worse {
            rate: SuccessRate::Starts,
            evidence: 431.2,
        };
        let Ended { word, why } = ended(finding, &[(10, counts)]);
        assert_eq!(word, "starts");
        assert_eq!(
            why,
            "45 of its 150 starts failed, and 135 of the others' 1350: 431 to 1 against chance"
        );
        // Payments that were not started also count as not paid.
        let counts = Counts::of_figures([20, 5, 20, 1, 15, 10, 19, 2, 0, 0]);
        let finding = CanaryFailure::Worse {
            rate: SuccessRate::Completions,
            evidence: 200.0,
        };
        let Ended { why, .. } = ended(finding, &[(10, counts)]);
        assert!(
            why.starts_with("15 of its 20 payments were not paid, and 3 of the others' 20"),
            "{why}"
        );
        assert_eq!(
            rates(&counts)["completions"]["candidate"],
            json!({ "payments": 20, "failed": 15 })
        );
    }
}
