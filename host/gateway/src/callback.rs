//! A provider's callback: verify, read, store, then answer.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use kassette_domain::id::{AccountId, AttemptId, MovementId};
use kassette_domain::lifecycle::{NewWork, PaymentAggregate, Step, Via};
use kassette_domain::money::Minor;
use kassette_domain::movement::{Bucket, Effect, Movement, MovementKind, Source};
use kassette_domain::provider::{
    CallbackFailure, CallbackReply, CallbackRequest, Notice, ProviderStatus, Report, Subject,
};
use kassette_domain::time::Time;
use kassette_domain::work::{WorkKey, WorkKind};
use kassette_runtime::{CallError, Sampled};
use kassette_store::{About, Fault, KeptCallback, Stepped};

use crate::Gateway;
use crate::apply::Applied;
use crate::modules::{Access, Provider};
use crate::permits::Kind;
use crate::vendor::QueryAnswer;

/// Maximum number of captures of unknown attempts, per day and account, that get a separate work item
/// (decisions, "Unknown money").
const UNKNOWN_A_DAY: u64 = 20;
const DAY: u64 = 24 * 3600;

/// HTTP response to a callback.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallbackAnswer {
    pub status: u16,
    pub media_type: String,
    /// May be empty.
    pub body: String,
}

/// Origin of a notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NoticeSource {
    /// The provider; this was proved.
    Provider,
    /// An unverified request from this address.
    Address(IpAddr),
}

/// Reason why a notice was not stored. The provider should send it again.
enum NotStored {
    Fault(Fault),
    /// Too many notices are waiting for a start that records their reference.
    Full,
    /// The provider gave no certain answer about an attempt that the store does not know.
    Unasked,
}

impl From<Fault> for NotStored {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

impl CallbackAnswer {
    fn plain(status: u16, body: &str) -> Self {
        Self {
            status,
            media_type: "text/plain".to_owned(),
            body: body.to_owned(),
        }
    }
}

/// A callback that a provider module has read. Nothing is stored yet.
#[derive(Debug)]
pub struct ReadCallback {
    /// A module was called.
    was_read: bool,
    reply: Result<CallbackReply, (&'static str, CallbackAnswer)>,
}

impl ReadCallback {
    /// Whether the host saw a proof that the callback comes from the provider. A callback that is only
    /// acknowledged can come from any sender.
    pub fn proved(&self) -> bool {
        self.reply.as_ref().is_ok_and(|reply| reply.proved)
    }

    /// Whether a module was called and the host saw no proof.
    pub fn unproved(&self) -> bool {
        self.was_read && !self.proved()
    }
}

impl Gateway {
    /// Calls the account's module to read a request to `/callbacks/{account}`. `stranger` is the request's
    /// address if it has not recently sent a verified callback of the account: such addresses share a small
    /// pool of permits.
    pub async fn judge_callback(
        &self,
        account: &AccountId,
        incoming: &CallbackRequest,
        stranger: Option<IpAddr>,
    ) -> ReadCallback {
        let unread = |outcome, status, why| ReadCallback {
            was_read: false,
            reply: Err((outcome, CallbackAnswer::plain(status, why))),
        };
        let configured = self.configured();
        if !configured.settings.accounts.contains_key(account) {
            return unread("unknown", 404, "no such account");
        }
        let (Some(slot), Some(access)) = (
            configured.slot(account),
            configured.access(account, self.now()),
        ) else {
            return unread("failed", 500, "the account is not usable");
        };
        let mut access = Access { stranger, ..access };
        self.have_recorded(&mut access, None);
        let kind = match stranger {
            None => Kind::Callback,
            Some(_) => Kind::Unproved,
        };
        let environment = access.account.environment;
        let permits = &self.inner.permits;
        let permit = permits.acquire(kind, environment, account.into());
        let Some(_permit) = permit.await else {
            return unread("busy", 503, "try again");
        };
        let called = self.call_callback(slot.name(), &access, incoming).await;
        let was_read = !matches!(called, Err(CallError::Busy));
        let reply = match called {
            Ok(Ok(acknowledged)) => Ok(acknowledged),
            Ok(Err(refused)) => Err(self.refusal(account, &refused)),
            Err(CallError::Busy | CallError::Timeout) => {
                Err(("busy", CallbackAnswer::plain(503, "try again")))
            }
            Err(_) => Err(("failed", CallbackAnswer::plain(500, "try again"))),
        };
        ReadCallback { was_read, reply }
    }

    /// Stores the notices of a callback that came `from` an address, and returns the response: 404 for an
    /// unknown account, 401 for a forged and 400 for a malformed callback, 503 or 500 if the provider should
    /// send it again. Otherwise it is the module's response, sent after its notices are stored.
    pub async fn handle_callback(
        &self,
        account: &AccountId,
        judged: ReadCallback,
        from: IpAddr,
    ) -> CallbackAnswer {
        let (outcome, answer) = match judged.reply {
            Ok(reply) => {
                let (gateway, id) = (self.clone(), account.clone());
                let storing =
                    self.run_to_end(async move { gateway.store_notices(&id, reply, from).await });
                let stopping = |_| ("failed", CallbackAnswer::plain(503, "stopping"));
                storing.await.unwrap_or_else(stopping)
            }
            Err(refused) => refused,
        };
        self.count_callback(account, outcome);
        answer
    }

    /// Counts a callback that was refused, before or after it was read, because of a rate limit.
    pub fn count_limited_callback(&self, account: &AccountId) {
        self.count_callback(account, "limited");
    }

    fn count_callback(&self, account: &AccountId, outcome: &'static str) {
        let known = self.settings().accounts.contains_key(account);
        // The sender chooses this text; as a label it would create an unlimited number of metrics.
        let provider = if known { account.as_str() } else { "unknown" };
        let provider = provider.to_owned();
        metrics::counter!(
            "kassette_callbacks_total",
            "provider" => provider, "outcome" => outcome,
            "environment" => self.environment_of(account)
        )
        .increment(1);
    }

    /// Stores the notices of a callback. Returns the outcome for the metric and the response.
    async fn store_notices(
        &self,
        id: &AccountId,
        reply: CallbackReply,
        from: IpAddr,
    ) -> (&'static str, CallbackAnswer) {
        let source = match reply.proved {
            true => NoticeSource::Provider,
            false => NoticeSource::Address(from),
        };
        match self.take_all(id, reply.notices, source).await {
            Ok(()) => (
                "read",
                CallbackAnswer {
                    status: reply.status,
                    media_type: reply.media_type,
                    body: reply.body,
                },
            ),
            Err(NotStored::Full) => ("full", CallbackAnswer::plain(503, "try again")),
            Err(NotStored::Unasked) => ("later", CallbackAnswer::plain(503, "try again")),
            Err(NotStored::Fault(fault)) => {
                // An overload of the store is counted and is not logged as an error.
                if !matches!(fault, Fault::Busy)
                    && let Some(left_out) = self.inner.lines.not_stored.line()
                {
                    tracing::error!(
                        provider.id = %id, error = %fault, left_out, "a notice could not be stored"
                    );
                }
                ("failed", CallbackAnswer::plain(503, "try again"))
            }
        }
    }

    /// Response when the module rejects a callback. Any sender can cause this, so the log gets at most one
    /// line per second and account.
    fn refusal(
        &self,
        account: &AccountId,
        refused: &CallbackFailure,
    ) -> (&'static str, CallbackAnswer) {
        let (outcome, status, why, body) = match refused {
            CallbackFailure::Forged(why) => ("forged", 401, why, "the signature is wrong"),
            CallbackFailure::Malformed(why) => {
                ("malformed", 400, why, "the request cannot be read")
            }
            CallbackFailure::Later(why) => ("later", 503, why, "try again"),
        };
        let line = self
            .inner
            .refused_callbacks
            .lock()
            .entry((account.clone(), outcome))
            .or_insert_with(|| Sampled::new("refused-callback", 1))
            .line();
        if let Some(left_out) = line {
            tracing::warn!(
                provider.id = %account, callback.outcome = outcome, callback.detail = %why,
                left_out,
                "a callback was refused"
            );
        }
        (outcome, CallbackAnswer::plain(status, body))
    }

    /// Reads a callback with the active version. If that version fails, uses the version that served well
    /// before it.
    async fn call_callback(
        &self,
        module: &str,
        access: &Access,
        incoming: &CallbackRequest,
    ) -> Result<Result<CallbackReply, CallbackFailure>, CallError> {
        let environment = access.account.environment;
        let active = self.modules().provider(module, environment);
        let first = match active {
            Some(active) => self.timed(&active, access, incoming).await,
            None => Err(CallError::Trap),
        };
        match first {
            Err(failed) if failed.blames_module() => {
                let previous = self.modules().previous_provider(module, environment);
                let previous = previous.ok_or(failed)?;
                self.timed(&previous, access, incoming).await
            }
            answer => answer,
        }
    }

    async fn timed(
        &self,
        module: &Arc<dyn Provider>,
        access: &Access,
        incoming: &CallbackRequest,
    ) -> Result<Result<CallbackReply, CallbackFailure>, CallError> {
        let limit = self.settings().provider_deadline;
        tokio::time::timeout(limit, module.callback(access, incoming))
            .await
            .unwrap_or(Err(CallError::Timeout))
    }

    async fn take_all(
        &self,
        account: &AccountId,
        notices: Vec<Notice>,
        source: NoticeSource,
    ) -> Result<(), NotStored> {
        for notice in notices {
            self.take(account, notice, source).await?;
        }
        Ok(())
    }

    /// Stores one notice about an attempt of the account. Notices about attempts of other accounts are only
    /// logged.
    async fn take(
        &self,
        account: &AccountId,
        notice: Notice,
        source: NoticeSource,
    ) -> Result<(), NotStored> {
        match notice.about {
            Subject::Attempt(id) => {
                let aggregate = self.store().aggregate(About::Attempt(id)).await?;
                let known = aggregate.is_some();
                let ours = aggregate.is_some_and(|aggregate| {
                    let attempt = aggregate.attempt(id);
                    attempt.is_some_and(|attempt| attempt.account == *account)
                });
                match (ours, known) {
                    (true, _) => self.apply_notice(id, notice.report).await?,
                    (false, true) => {
                        if let Some(left_out) = self.inner.lines.foreign.line() {
                            tracing::info!(
                                provider.id = %account, left_out,
                                "a notice about an attempt that is not the account's"
                            );
                        }
                    }
                    // Ignored if unverified: each would cause a request to the provider.
                    (false, false) if source != NoticeSource::Provider => {}
                    (false, false) => {
                        let told = (notice.reference, notice.report);
                        self.unknown(account, id, told).await?;
                    }
                }
            }
            Subject::Reference(reference) => {
                let about = About::Reference {
                    account: account.clone(),
                    reference: reference.clone(),
                };
                let known = self.store().aggregate(about).await?;
                match known
                    .and_then(|aggregate| attempt_by_reference(&aggregate, account, &reference))
                {
                    Some(id) => self.apply_notice(id, notice.report).await?,
                    None => match source {
                        NoticeSource::Provider => {
                            self.store_pending_callback(account, reference, notice.report)
                                .await?
                        }
                        NoticeSource::Address(from) => {
                            self.await_start(account, reference, from).await?
                        }
                    },
                }
            }
        }
        Ok(())
    }

    /// Handles a notice about an attempt whose id has our format but which the store does not contain, as
    /// after the restore of a backup. Captured money is booked and put on the work list. An attempt is stored
    /// before its provider is called, so it cannot become known later.
    async fn unknown(
        &self,
        account: &AccountId,
        id: AttemptId,
        (reference, report): (Option<String>, Option<Report>),
    ) -> Result<(), NotStored> {
        let is_told = report.is_some();
        let report = match report {
            Some(report) => Some(report),
            None => match self.ask_about_unknown(account, id, reference).await {
                QueryAnswer::Report(report) => Some(*report),
                QueryAnswer::Absent => None,
                QueryAnswer::Uncertain | QueryAnswer::Unasked => return Err(NotStored::Unasked),
            },
        };
        let captured = report.filter(|report| {
            let taken = matches!(
                report.status,
                ProviderStatus::Completed | ProviderStatus::Overpaid | ProviderStatus::Review
            );
            taken && report.received > Minor(0)
        });
        let Some(report) = captured else {
            tracing::info!(
                provider.id = %account, attempt.id = %id,
                "a notice about an attempt that the store does not know proves no capture"
            );
            return Ok(());
        };
        tracing::error!(
            provider.id = %account, attempt.id = %id,
            "money was captured for an attempt that the store does not know"
        );
        let settings = self.settings();
        let Some(configured) = settings.accounts.get(account) else {
            return Ok(());
        };
        let now = self.now();
        let number = self.inner.unknown_captures.lock().count(account, now);
        let told = &report.particulars;
        let object = format!("capture {}", report.reference);
        let mut references = vec![report.reference.clone()];
        references.extend(told.captures.iter().map(|capture| capture.id.clone()));
        references.dedup();
        let kind = MovementKind::Captured;
        let movement = Movement {
            id: MovementId::derived(account, &object, kind, 0),
            account: account.clone(),
            environment: configured.environment,
            merchant: None,
            payment: None,
            attempt: Some(id),
            kind,
            effect: Effect::In,
            bucket: Some(Bucket::Late),
            from_bucket: None,
            amount: report.received,
            currency: report.currency.clone(),
            provider_references: references,
            occurred_at: told.captured_at.unwrap_or(now),
            booked_at: now,
            source: if is_told {
                Source::Notification
            } else {
                Source::Query
            },
        };
        let mut found = NewWork {
            key: WorkKey {
                attempt: id,
                kind: WorkKind::Unknown,
                subject: report.reference.clone(),
            },
            account: account.clone(),
            amount: report.received,
            currency: report.currency,
            received: report.received,
            detail: format!(
                "captured under the reference {}, and the store knows no such attempt: was a backup \
                 restored?",
                report.reference
            ),
            deadline: None,
        };
        if number > UNKNOWN_A_DAY {
            found.key.attempt = unknown_line(account, now);
            found.key.subject = String::new();
            found.amount = Minor(0);
            found.detail = format!(
                "{number} captures today of attempts that the store does not know, the last under the \
                 reference {}: another gateway uses the account",
                report.reference
            );
        }
        Ok(self.store().unknown_money(found, movement, now).await?)
    }

    /// Records that an attempt must be queried once a start records its reference.
    async fn await_start(
        &self,
        account: &AccountId,
        reference: String,
        from: IpAddr,
    ) -> Result<(), Fault> {
        let unproved = &self.inner.unproved_notices;
        let environment = self.environment_of(account);
        let now = self.now();
        unproved.keep((account.clone(), reference.clone()), environment, from, now);
        // The start may have been stored since the last read.
        let about = About::Reference {
            account: account.clone(),
            reference,
        };
        match self.store().aggregate(about).await? {
            Some(aggregate) => self.ask_as_early_notices_want(&aggregate).await,
            None => Ok(()),
        }
    }

    /// Schedules queries about those attempts of a payment whose references appeared in notices before they
    /// were known.
    pub(crate) async fn ask_as_early_notices_want(
        &self,
        aggregate: &PaymentAggregate,
    ) -> Result<(), Fault> {
        let unproved = &self.inner.unproved_notices;
        if unproved.is_empty() {
            return Ok(());
        }
        let now = self.now();
        for attempt in &aggregate.attempts {
            let mut told = false;
            for reference in &attempt.references {
                told |= unproved.take(&attempt.account, reference, now);
            }
            if told {
                let ask = Step::AskAt {
                    attempt: attempt.id,
                    at: now,
                };
                let about = About::Attempt(attempt.id);
                let asked = self.store().step(about, ask, None, now).await?;
                if let Stepped::Done { aggregate, .. } = asked {
                    self.reconcile_known(aggregate);
                }
            }
        }
        Ok(())
    }

    /// Stores a notice about a reference that is not known yet.
    async fn store_pending_callback(
        &self,
        account: &AccountId,
        reference: String,
        report: Option<Report>,
    ) -> Result<(), NotStored> {
        let store = self.store();
        let kept = store
            .keep_callback(account.clone(), reference, report.clone(), self.now())
            .await?;
        match kept {
            KeptCallback::Kept => Ok(()),
            KeptCallback::Known(id) => Ok(self.apply_notice(id, report).await?),
            KeptCallback::Full => Err(NotStored::Full),
        }
    }

    /// Applies a report. If the notice has no report, or an unusable one, schedules a query instead.
    async fn apply_notice(&self, id: AttemptId, report: Option<Report>) -> Result<(), Fault> {
        if let Some(report) = report {
            match self.apply_report(id, report, Via::Callback, None).await? {
                Applied::Taken(aggregate) => {
                    if aggregate.next_action(self.now()).is_some() {
                        self.reconcile_known(*aggregate);
                    }
                    return Ok(());
                }
                Applied::Unknown => return Ok(()),
                Applied::Unusable => {}
            }
        }
        let now = self.now();
        let at = self.inner.query_throttle.lock().next(id, now);
        if let Stepped::Done { aggregate, .. } = self.ask_at(id, at).await?
            && at <= now
        {
            self.reconcile_known(aggregate);
        }
        Ok(())
    }
}

/// Number of captures of unknown attempts at each account, counted from midnight (UTC).
#[derive(Debug, Default)]
pub(crate) struct UnknownCaptures(HashMap<AccountId, (u64, u64)>);

impl UnknownCaptures {
    /// Counts another capture. Returns the number of captures today.
    fn count(&mut self, account: &AccountId, now: Time) -> u64 {
        let today = now.as_secs() / DAY;
        let (day, count) = self.0.entry(account.clone()).or_default();
        if *day != today {
            (*day, *count) = (today, 0);
        }
        *count += 1;
        *count
    }
}

/// Id of the work item that covers all further captures of the day at an account.
fn unknown_line(account: &AccountId, now: Time) -> AttemptId {
    let name = format!("unknown\n{account}\n{}", now.as_secs() / DAY);
    AttemptId::of_name(&name)
}

fn attempt_by_reference(
    aggregate: &PaymentAggregate,
    account: &AccountId,
    reference: &str,
) -> Option<AttemptId> {
    let named = |known: &String| known == reference;
    aggregate
        .attempts
        .iter()
        .find(|attempt| attempt.account == *account && attempt.references.iter().any(named))
        .map(|attempt| attempt.id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_captures_are_counted_by_account_and_day() {
        let mut captures = UnknownCaptures::default();
        let account = |name| AccountId::parse(name).unwrap();
        let (one, two) = (account("one"), account("two"));
        let noon = Time::from_secs(20_000 * DAY + DAY / 2);
        assert_eq!(
            [captures.count(&one, noon), captures.count(&one, noon)],
            [1, 2]
        );
        assert_eq!(captures.count(&two, noon), 1);
        let tomorrow = Time::from_secs(20_001 * DAY);
        assert_eq!(captures.count(&one, tomorrow), 1);
        assert_eq!(
            unknown_line(&one, noon),
            unknown_line(&one, Time::from_secs(20_000 * DAY))
        );
        assert_ne!(unknown_line(&one, noon), unknown_line(&one, tomorrow));
    }
}
