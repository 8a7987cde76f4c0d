//! World `provider`: communicates with one provider.
//!
//! Implement [`Provider`] and export it with [`export!`](export). Send requests with [`call::Call`] or
//! [`http::send`], use secrets by name through [`secrets`], and write to the operator's log with [`log`].
pub mod call;
mod describe;
pub mod http;
pub mod read;
pub mod secrets;
pub mod words;

use std::marker::PhantomData;

pub use crate::bindings::method::kassette::plugin::types::SettingForm;
use crate::bindings::provider::exports::kassette::plugin::payments::Guest;
pub use crate::bindings::provider::exports::kassette::plugin::payments::{
    Account, Action, Attempt, CallbackFailure, CallbackReply, CallbackRequest, Capture, Condition,
    Description, Dispute, DisputeKind, DisputeState, Encoding, Environment, Form, Header,
    Instructions, MethodSupport, Money, Notice, Open, Particulars, Payer, QueryFailure,
    QueryPurpose, Question, QuestionKind, Refund, RefundState, Report, SecretSpec, Setting,
    SettingSpec, Settlement, StartFailure, Started, Status, Subject, Verb,
};
use crate::bindings::provider::exports::kassette::plugin::refunds::Guest as RefundsGuest;
pub use crate::bindings::provider::exports::kassette::plugin::refunds::{
    Given, Order, Paid, RefundFailure, Refundable,
};
pub use crate::bindings::provider::kassette::plugin::log::Level;
pub use crate::export_provider as export;
pub use crate::forward_provider as forward;

/// A provider module; see `payments` in the WIT.
pub trait Provider {
    /// Describes the module.
    fn describe() -> Description;

    /// Checks an account's settings together. Each of them already has a valid form. The error is one sentence for
    /// the operator that names a setting. By default accepts all settings.
    fn check_settings(_environment: Environment, _settings: &[Setting]) -> Result<(), String> {
        Ok(())
    }

    /// Creates the payment at the provider.
    fn start(account: Account, attempt: Attempt) -> Result<Started, StartFailure>;

    /// Verifies and parses a request to the callback URL.
    fn callback(
        account: Account,
        request: CallbackRequest,
    ) -> Result<CallbackReply, CallbackFailure>;

    /// Queries the status of the payment at the provider.
    fn query(
        account: Account,
        attempt: Attempt,
        reference: Option<String>,
        purpose: QueryPurpose,
        return_query: Option<String>,
    ) -> Result<Report, QueryFailure>;

    /// Sends a cheap request that checks URL and credentials.
    fn health(account: Account) -> Condition;

    /// Describes the refunds that this account supports. Methods that are not listed cannot be refunded. Empty by
    /// default.
    fn refund_terms(_account: Account) -> Vec<Refundable> {
        Vec::new()
    }

    /// Refunds money; `refunds.refund` in the WIT. The host only calls it within the terms.
    fn refund(_account: Account, _paid: Paid, _order: Order) -> Result<Given, RefundFailure> {
        Err(RefundFailure::Unavailable(GIVES_NOTHING_BACK.to_owned()))
    }

    /// Queries the status of a refund; `refunds.query` in the WIT.
    fn query_refund(_account: Account, _paid: Paid, _order: Order) -> Result<Given, QueryFailure> {
        Err(QueryFailure::Unavailable(GIVES_NOTHING_BACK.to_owned()))
    }

    /// Ensures that the payer can no longer claim a refund; `refunds.cancel` in the WIT. By default calls
    /// `query_refund`, for providers whose refunds need no claim.
    fn cancel_refund(account: Account, paid: Paid, order: Order) -> Result<Given, QueryFailure> {
        Self::query_refund(account, paid, order)
    }
}

/// Used with `Unavailable`: another version of the module may have made the refund, so nothing is certain.
const GIVES_NOTHING_BACK: &str = "this module gives nothing back";

/// Exports of a component for a [`Provider`].
#[doc(hidden)]
pub struct Exported<T>(PhantomData<T>);

impl<T: Provider> Guest for Exported<T> {
    fn describe() -> Description {
        T::describe()
    }

    fn check_settings(environment: Environment, settings: Vec<Setting>) -> Result<(), String> {
        T::check_settings(environment, &settings)
    }

    fn start(account: Account, attempt: Attempt) -> Result<Started, StartFailure> {
        T::start(account, attempt)
    }

    fn callback(
        account: Account,
        request: CallbackRequest,
    ) -> Result<CallbackReply, CallbackFailure> {
        T::callback(account, request)
    }

    fn query(
        account: Account,
        attempt: Attempt,
        reference: Option<String>,
        purpose: QueryPurpose,
        return_query: Option<String>,
    ) -> Result<Report, QueryFailure> {
        T::query(account, attempt, reference, purpose, return_query)
    }

    fn health(account: Account) -> Condition {
        T::health(account)
    }
}

impl<T: Provider> RefundsGuest for Exported<T> {
    fn terms(account: Account) -> Vec<Refundable> {
        T::refund_terms(account)
    }

    fn refund(account: Account, paid: Paid, order: Order) -> Result<Given, RefundFailure> {
        T::refund(account, paid, order)
    }

    fn query(account: Account, paid: Paid, order: Order) -> Result<Given, QueryFailure> {
        T::query_refund(account, paid, order)
    }

    fn cancel(account: Account, paid: Paid, order: Order) -> Result<Given, QueryFailure> {
        T::cancel_refund(account, paid, order)
    }
}

/// Empty particulars, to start a report from.
impl Default for Particulars {
    fn default() -> Self {
        Self {
            provider_status: None,
            reason: None,
            references: Vec::new(),
            fee: None,
            authorised_at: None,
            captured_at: None,
            capture_before: None,
            instrument: None,
            provider_url: None,
            captures: Vec::new(),
            refunds: Vec::new(),
            disputes: Vec::new(),
            fraud_warning: None,
            unreadable: Vec::new(),
        }
    }
}

/// Writes one line to the operator's log; see `log.write` in the WIT. Does nothing in native builds.
pub fn log(level: Level, message: &str) {
    #[cfg(target_arch = "wasm32")]
    crate::bindings::provider::kassette::plugin::log::write(level, message);
    #[cfg(not(target_arch = "wasm32"))]
    let _ = (level, message);
}

#[doc(hidden)]
pub const fn implemented_by<T: Provider>() {}
