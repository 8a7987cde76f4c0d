//! Records calls, and replays them from a record.

use std::sync::Arc;

use kassette_domain::conversation::{CallOutcome, Conversation, ProviderCall};
use kassette_domain::secret::Secret;
use kassette_http::HostPattern;
use parking_lot::Mutex;

use super::ProviderModule;
use crate::access::{AccountAccess, RecordedCall, Recorder, Recording};
use crate::contact::Contact;
use crate::error::CallError;
use crate::guest::exchange_log::ExchangeLog;
use crate::tokens::TokenStore;

/// The recorded outcome of a call without a valid answer.
pub(super) fn failure(error: CallError) -> CallOutcome {
    CallOutcome::Failed(error.kind().to_owned())
}

impl ProviderModule {
    /// Passes a call to the recorder, if any. Does not record calls that ran out of time, because later responses
    /// are unknown.
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

    /// Repeats a recorded call without sending anything: the record answers the module's host calls. Returns the
    /// call of this version as it would be recorded.
    ///
    /// # Errors This version gave no answer in time, or could not be called because too many calls were running.
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
            // An invalid host pattern allows nothing.
            redirect_hosts: hosts
                .filter_map(|host| host.parse::<HostPattern>().ok())
                .collect(),
            secrets: Vec::new(),
            plain_loopback: recorded.plain_loopback,
            tokens: Arc::new(TokenStore::new()),
            stranger: None,
            not_after: None,
            contact: Contact::default(),
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
        // Without a log, the module was not called.
        made.ok_or(failed.unwrap_or(CallError::Busy))
    }
}
