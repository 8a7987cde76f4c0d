//! A vendor's callback: verify, read, store, then answer.

use std::net::IpAddr;
use std::sync::Arc;

use kassette_domain::id::{AccountId, AttemptId};
use kassette_domain::lifecycle::{NewWork, PaymentAggregate, Step, Via};
use kassette_domain::money::Minor;
use kassette_domain::provider::{
    CallbackFailure, CallbackReply, CallbackRequest, Notice, Report, Subject, VendorStatus,
};
use kassette_domain::work::WorkKind;
use kassette_runtime::{CallError, Sampled};
use kassette_store::{About, Fault, KeptCallback, Stepped};

use crate::Gateway;
use crate::apply::Applied;
use crate::modules::{Access, Provider};
use crate::permits::Kind;
use crate::vendor::QueryAnswer;

/// What the vendor gets to hear.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallbackAnswer {
    /// HTTP status.
    pub status: u16,
    /// Media type of the body.
    pub media_type: String,
    /// A short text; empty for none.
    pub body: String,
}

/// Who a notice comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NoticeSource {
    /// The vendor, as was proved.
    Provider,
    /// A request from this address that proved nothing.
    Address(IpAddr),
}

/// Why a notice could not be stored; the vendor is to repeat it.
enum NotStored {
    Fault(Fault),
    /// Too many notices wait for a start that knows their reference.
    Full,
    /// The vendor could not be asked about an attempt that the store does not know.
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

/// What a provider's module made of a callback; nothing has come of it yet.
#[derive(Debug)]
pub struct ReadCallback {
    /// A module was called.
    was_read: bool,
    reply: Result<CallbackReply, (&'static str, CallbackAnswer)>,
}

impl ReadCallback {
    /// The host saw a proof that the callback is the vendor's. What is only acknowledged can be written
    /// by any caller.
    pub fn proved(&self) -> bool {
        self.reply.as_ref().is_ok_and(|reply| reply.proved)
    }

    /// A module was called and the host saw no proof.
    pub fn unproved(&self) -> bool {
        self.was_read && !self.proved()
    }
}

impl Gateway {
    /// Has the account's module read a request to `/callbacks/{account}`. `stranger` is the request's
    /// address where it has proved no callback of the account lately: strangers share a few permits.
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

    /// Stores the notices of a callback that came `from` an address, and says what the vendor is to be
    /// answered: 404 for an unknown account, 401 for a forged and 400 for a malformed callback, 503 or 500
    /// where the vendor should repeat it, else what the module says, after its notices are stored.
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

    /// Counts a callback that was refused before or after it was read, because too many came.
    pub fn count_limited_callback(&self, account: &AccountId) {
        self.count_callback(account, "limited");
    }

    fn count_callback(&self, account: &AccountId, outcome: &'static str) {
        let known = self.settings().accounts.contains_key(account);
        // A stranger chooses this text: as a label it would create metrics without end.
        let provider = if known { account.as_str() } else { "unknown" };
        let provider = provider.to_owned();
        metrics::counter!(
            "kassette_callbacks_total",
            "provider" => provider, "outcome" => outcome,
            "environment" => self.environment_of(account)
        )
        .increment(1);
    }

    /// Stores the notices that a callback brought; with the answer one word of what became of it.
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

    /// What is answered where the module refuses a callback. Strangers write them, so a line a second is
    /// enough for each account.
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

    /// The active version reads callbacks; where it fails, the one that served well before it.
    async fn call_callback(
        &self,
        module: &str,
        access: &Access,
        incoming: &CallbackRequest,
    ) -> Result<Result<CallbackReply, CallbackFailure>, CallError> {
        let active = self.modules().provider(module);
        let first = match active {
            Some(active) => self.timed(&active, access, incoming).await,
            None => Err(CallError::Trap),
        };
        match first {
            Err(failed) if failed.blames_module() => {
                let previous = self.modules().previous_provider(module).ok_or(failed)?;
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

    /// Stores one notice, whatever attempt it is about; only attempts of the account are reached.
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
                    // Each would cost a request to the vendor.
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

    /// Takes a notice about an attempt that has our form and is not in the store, as after a backup was
    /// restored: captured money is put before the operators. An attempt is written before its
    /// vendor is called, so it cannot become known later.
    async fn unknown(
        &self,
        account: &AccountId,
        id: AttemptId,
        (reference, report): (Option<String>, Option<Report>),
    ) -> Result<(), NotStored> {
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
                VendorStatus::Completed | VendorStatus::Overpaid | VendorStatus::Review
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
        let found = NewWork {
            kind: WorkKind::Unknown,
            attempt: id,
            account: account.clone(),
            amount: report.received,
            currency: report.currency,
            detail: format!(
                "captured under the reference {}, and the store knows no such attempt: was a backup \
                 restored?",
                report.reference
            ),
        };
        Ok(self.store().unknown_money(found, self.now()).await?)
    }

    /// Remembers that an attempt is to be asked about once a start records its reference.
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
        // The start may have been recorded since the store was asked.
        let about = About::Reference {
            account: account.clone(),
            reference,
        };
        match self.store().aggregate(about).await? {
            Some(aggregate) => self.ask_as_early_notices_want(&aggregate).await,
            None => Ok(()),
        }
    }

    /// Has those attempts of a payment asked about whose references were told before they were known.
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

    /// Keeps a notice about a reference that is not known yet.
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

    /// Applies a report; a notice without one, or with one that cannot be used, has the vendor asked.
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

/// The attempt that the vendor knows by a reference.
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
