//! Calls that are recorded, and made again out of a record.

use std::sync::Arc;

use kassette_domain::conversation::{CallOutcome, Conversation, ProviderCall};
use kassette_domain::secret::Secret;
use kassette_http::HostPattern;
use parking_lot::Mutex;

use super::ProviderModule;
use crate::access::{AccountAccess, RecordedCall, Recorder, Recording};
use crate::error::CallError;
use crate::guest::exchange_log::ExchangeLog;
use crate::tokens::TokenStore;

/// A call that gave no answer that counts.
pub(super) fn failure(error: CallError) -> CallOutcome {
    CallOutcome::Failed(error.kind().to_owned())
}

impl ProviderModule {
    /// Tells a call where calls are recorded. One that ran out of time is left out of a record: what it was still
    /// to hear is not known.
    pub(super) fn keep(
        &self,
        access: &AccountAccess,
        log: Option<ExchangeLog>,
        failed: Option<CallError>,
        said: impl FnOnce() -> (ProviderCall, CallOutcome),
    ) {
        let timely = !matches!(failed, Some(CallError::Timeout | CallError::Busy));
        let (Some(log), recorder) = (
            log,
            match &access.recording {
                Recording::On(recorder) if timely => recorder,
                Recording::Replay(_, recorder) => recorder,
                _ => return,
            },
        ) else {
            return;
        };
        let (call, outcome) = said();
        recorder.tell(RecordedCall {
            is_complete: !log.is_incomplete,
            failure: failed.clone(),
            conversation: Conversation {
                slot: self.identity.slot.clone(),
                digest: self.identity.digest,
                payment: None,
                account: access.account.clone(),
                payer_hosts: access
                    .redirect_hosts
                    .iter()
                    .map(ToString::to_string)
                    .collect(),
                plain_loopback: access.plain_loopback,
                call,
                exchanges: log.exchanges,
                outcome: failed.map_or(outcome, failure),
            },
        });
    }

    /// Makes a recorded call again: nothing is sent, and what the module asks its host is answered out of the
    /// record. The answer is this version's call as it would be recorded.
    ///
    /// # Errors
    /// Where this version gave no answer in time, or there was no room to call it.
    pub async fn replay(&self, recorded: &Conversation) -> Result<RecordedCall, CallError> {
        let made = Arc::new(Mutex::new(None));
        let recorder = {
            let made = Arc::clone(&made);
            Recorder::new(move |recorded| *made.lock() = Some(recorded))
        };
        let hosts = recorded.payer_hosts.iter();
        let access = AccountAccess {
            account: recorded.account.clone(),
            hosts: Vec::new(),
            // One that is none any more allows nothing.
            redirect_hosts: hosts
                .filter_map(|host| host.parse::<HostPattern>().ok())
                .collect(),
            secrets: Vec::new(),
            plain_loopback: recorded.plain_loopback,
            tokens: Arc::new(TokenStore::new()),
            stranger: None,
            not_after: None,
            recording: Recording::Replay(recorded.exchanges.as_slice().into(), recorder),
        };
        let failed = match &recorded.call {
            ProviderCall::Start(attempt) => {
                self.start(&access, attempt).await;
                None
            }
            ProviderCall::Callback(request) => self.callback(&access, request).await.err(),
            ProviderCall::Query {
                attempt,
                reference,
                purpose,
                returned,
            } => {
                let returned = returned.as_ref().map(Secret::expose);
                let reference = reference.as_deref();
                let asked = self.query(&access, attempt, reference, *purpose, returned);
                asked.await.err()
            }
        };
        let made = made.lock().take();
        // Without a log no call was made.
        made.ok_or(failed.unwrap_or(CallError::Busy))
    }
}
