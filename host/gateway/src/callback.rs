//! A provider's callback: verify, read, store, then answer.

use std::sync::Arc;

use kassette_domain::id::{AccountId, AttemptId};
use kassette_domain::ledger::{Ledger, NewWork, Via};
use kassette_domain::money::Minor;
use kassette_domain::provider::{
    Acknowledged, Incoming, Notice, Refused, Report, Subject, VendorStatus,
};
use kassette_domain::work::WorkKind;
use kassette_runtime::CallError;
use kassette_store::{About, Fault, Parked};

use crate::Gateway;
use crate::apply::Heeded;
use crate::modules::{Access, Provider};
use crate::vendor::Word;

/// What the provider gets to hear.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallbackAnswer {
    /// HTTP status.
    pub status: u16,
    /// Media type of the body.
    pub media_type: String,
    /// A short text; empty for none.
    pub body: String,
}

/// Why news could not be stored; the vendor is to repeat it.
enum NotStored {
    Fault(Fault),
    /// Too many notices wait for a start that knows their reference.
    Full,
    /// The provider could not be asked about an attempt that the store does not know.
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

impl Gateway {
    /// Handles a request to `/callbacks/{account}`. Answers 404 for an unknown account, 401 for a
    /// forged and 400 for a malformed one, 503 or 500 where the vendor should repeat it, else what
    /// the module says, after its news is stored.
    pub async fn callback(&self, account: &AccountId, incoming: Incoming) -> CallbackAnswer {
        let (gateway, id) = (self.clone(), account.clone());
        let reading = self.carry(async move { gateway.read(&id, &incoming).await });
        let (outcome, answer) = match reading.await {
            Ok(read) => read,
            Err(_) => ("failed", CallbackAnswer::plain(503, "stopping")),
        };
        let known = self.settings().accounts.contains_key(account);
        // A label of a stranger's making would let strangers make labels.
        let provider = if known { account.as_str() } else { "unknown" };
        let (provider, outcome) = (provider.to_owned(), outcome.to_owned());
        metrics::counter!("kassette_callbacks_total", "provider" => provider, "outcome" => outcome)
            .increment(1);
        answer
    }

    /// Reads a callback; with the answer one word of what became of it.
    async fn read(&self, id: &AccountId, incoming: &Incoming) -> (&'static str, CallbackAnswer) {
        let configured = self.configured();
        if !configured.settings.accounts.contains_key(id) {
            return ("unknown", CallbackAnswer::plain(404, "no such account"));
        }
        let (Some(slot), Some(access)) = (configured.slot(id), configured.access(id, self.now()))
        else {
            return (
                "failed",
                CallbackAnswer::plain(500, "the account is not usable"),
            );
        };
        let acknowledged = match self.call_callback(slot.name(), &access, incoming).await {
            Ok(Ok(acknowledged)) => acknowledged,
            Ok(Err(refused)) => return refusal(id, &refused),
            Err(CallError::Busy | CallError::Timeout) => {
                return ("busy", CallbackAnswer::plain(503, "try again"));
            }
            Err(_) => return ("failed", CallbackAnswer::plain(500, "try again")),
        };
        match self.take_all(id, acknowledged.notices).await {
            Ok(()) => (
                "read",
                answer(
                    acknowledged.status,
                    acknowledged.media_type,
                    acknowledged.body,
                ),
            ),
            Err(NotStored::Full) => ("full", CallbackAnswer::plain(503, "try again")),
            Err(NotStored::Unasked) => ("later", CallbackAnswer::plain(503, "try again")),
            Err(NotStored::Fault(fault)) => {
                tracing::error!(provider.id = %id, error = %fault, "news could not be stored");
                ("failed", CallbackAnswer::plain(503, "try again"))
            }
        }
    }

    /// The active version reads callbacks; where it fails, the one that served well before it.
    async fn call_callback(
        &self,
        module: &str,
        access: &Access,
        incoming: &Incoming,
    ) -> Result<Result<Acknowledged, Refused>, CallError> {
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
        incoming: &Incoming,
    ) -> Result<Result<Acknowledged, Refused>, CallError> {
        let limit = self.settings().provider_deadline;
        tokio::time::timeout(limit, module.callback(access, incoming))
            .await
            .unwrap_or(Err(CallError::Timeout))
    }

    async fn take_all(&self, account: &AccountId, notices: Vec<Notice>) -> Result<(), NotStored> {
        for notice in notices {
            self.take(account, notice).await?;
        }
        Ok(())
    }

    /// Stores one piece of news, whoever it is about; only attempts of the account are reached.
    async fn take(&self, account: &AccountId, notice: Notice) -> Result<(), NotStored> {
        match notice.about {
            Subject::Attempt(id) => {
                let ledger = self.store().ledger(About::Attempt(id)).await?;
                let known = ledger.is_some();
                let ours = ledger.is_some_and(|ledger| {
                    let attempt = ledger.attempt(id);
                    attempt.is_some_and(|attempt| attempt.account == *account)
                });
                match (ours, known) {
                    (true, _) => self.tell(id, notice.report).await?,
                    (false, true) => tracing::info!(
                        provider.id = %account, "news about an attempt that is not the account's"
                    ),
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
                let known = self.store().ledger(about).await?;
                match known.and_then(|ledger| bearer(&ledger, account, &reference)) {
                    Some(id) => self.tell(id, notice.report).await?,
                    None => self.park(account, reference, notice.report).await?,
                }
            }
        }
        Ok(())
    }

    /// Heeds news about an attempt that has our form and is not in the store, as after a backup was
    /// restored: captured money is put before the operators. An attempt is written before its
    /// provider is called, so it cannot become known later.
    async fn unknown(
        &self,
        account: &AccountId,
        id: AttemptId,
        (reference, report): (Option<String>, Option<Report>),
    ) -> Result<(), NotStored> {
        let report = match report {
            Some(report) => Some(report),
            None => match self.ask_about_unknown(account, id, reference).await {
                Word::Report(report) => Some(*report),
                Word::Absent => None,
                Word::None => return Err(NotStored::Unasked),
            },
        };
        let captured = report.filter(|report| {
            let taken = matches!(
                report.status,
                VendorStatus::Completed | VendorStatus::Review
            );
            taken && report.received > Minor(0)
        });
        let Some(report) = captured else {
            tracing::info!(
                provider.id = %account, attempt.id = %id,
                "news about an attempt that the store does not know proves no capture"
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

    /// Keeps news about a reference that is not known yet.
    async fn park(
        &self,
        account: &AccountId,
        reference: String,
        report: Option<Report>,
    ) -> Result<(), NotStored> {
        let store = self.store();
        let parked = store
            .park(account.clone(), reference, report.clone(), self.now())
            .await?;
        match parked {
            Parked::Kept => Ok(()),
            Parked::Known(id) => Ok(self.tell(id, report).await?),
            Parked::Full => Err(NotStored::Full),
        }
    }

    /// Applies a report; a notice without one, or with one that cannot be used, has the vendor asked.
    async fn tell(&self, id: AttemptId, report: Option<Report>) -> Result<(), Fault> {
        if let Some(report) = report {
            match self.heed(id, report, Via::Callback, None).await? {
                Heeded::Taken(ledger) => {
                    if ledger.duty(self.now()).is_some() {
                        self.tend_soon(ledger.payment.id, false);
                    }
                    return Ok(());
                }
                Heeded::Unknown => return Ok(()),
                Heeded::Unusable => {}
            }
        }
        let now = self.now();
        let at = self.inner.asked.lock().next(id, now);
        if let kassette_store::Stepped::Done { ledger, .. } = self.ask_at(id, at).await?
            && at <= now
        {
            self.tend_soon(ledger.payment.id, false);
        }
        Ok(())
    }
}

/// The attempt that the vendor knows by a reference.
fn bearer(ledger: &Ledger, account: &AccountId, reference: &str) -> Option<AttemptId> {
    let named = |known: &String| known == reference;
    ledger
        .attempts
        .iter()
        .find(|attempt| attempt.account == *account && attempt.references.iter().any(named))
        .map(|attempt| attempt.id)
}

fn refusal(account: &AccountId, refused: &Refused) -> (&'static str, CallbackAnswer) {
    let (outcome, status, why, body) = match refused {
        Refused::Forged(why) => ("forged", 401, why, "the signature is wrong"),
        Refused::Malformed(why) => ("malformed", 400, why, "the request cannot be read"),
        Refused::Later(why) => ("later", 503, why, "try again"),
    };
    tracing::warn!(
        provider.id = %account, callback.outcome = outcome, callback.detail = %why,
        "a callback was refused"
    );
    (outcome, CallbackAnswer::plain(status, body))
}

fn answer(status: u16, media_type: String, body: String) -> CallbackAnswer {
    CallbackAnswer {
        status,
        media_type,
        body,
    }
}
