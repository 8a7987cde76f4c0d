//! World `provider`: how to talk to one vendor.
//!
//! Implement [`Provider`] and export it with [`export!`](export). Requests go through
//! [`call::Call`] or [`http::send`], secrets are used by name through [`secrets`], notes for the operator go to
//! [`log`].
pub mod call;
mod describe;
pub mod http;
pub mod secrets;
pub mod words;

use std::marker::PhantomData;

pub use crate::bindings::method::kassette::plugin::types::SettingForm;
use crate::bindings::provider::exports::kassette::plugin::payments::Guest;
pub use crate::bindings::provider::exports::kassette::plugin::payments::{
    Account, Action, Attempt, CallbackFailure, CallbackReply, CallbackRequest, Condition,
    Description, Dispute, DisputeState, Encoding, Environment, Form, Header, Instructions,
    MethodSupport, Money, Notice, Open, Particulars, Payer, QueryFailure, QueryPurpose, Question,
    QuestionKind, Refund, RefundState, Report, SecretSpec, Setting, SettingSpec, Settlement,
    StartFailure, Started, Status, Subject, Verb,
};
use crate::bindings::provider::exports::kassette::plugin::refunds::Guest as RefundsGuest;
pub use crate::bindings::provider::exports::kassette::plugin::refunds::{
    Given, Order, Paid, RefundFailure, Refundable,
};
pub use crate::bindings::provider::kassette::plugin::log::Level;
pub use crate::export_provider as export;
pub use crate::forward_provider as forward;

/// A provider's answers; see `payments` in the WIT.
pub trait Provider {
    /// What this module is.
    fn describe() -> Description;

    /// Judges an account's settings together, each of which is of its form; an error is one sentence for the
    /// operator that names a setting. Unless a module has more to say nothing is wrong with them.
    fn check_settings(_environment: Environment, _settings: &[Setting]) -> Result<(), String> {
        Ok(())
    }

    /// Creates the payment at the vendor.
    fn start(account: Account, attempt: Attempt) -> Result<Started, StartFailure>;

    /// Verifies and reads what arrived at the callback address.
    fn callback(
        account: Account,
        request: CallbackRequest,
    ) -> Result<CallbackReply, CallbackFailure>;

    /// Asks the vendor where the payment stands.
    fn query(
        account: Account,
        attempt: Attempt,
        reference: Option<String>,
        purpose: QueryPurpose,
        return_query: Option<String>,
    ) -> Result<Report, QueryFailure>;

    /// A cheap request that proves address and credentials.
    fn health(account: Account) -> Condition;

    /// What can be given back at this account; a method that is not named cannot. Unless a module has
    /// more to say nothing can.
    fn refund_terms(_account: Account) -> Vec<Refundable> {
        Vec::new()
    }

    /// Gives money back; `refunds.refund` in the WIT. The host asks only for what the terms name.
    fn refund(_account: Account, _paid: Paid, _order: Order) -> Result<Given, RefundFailure> {
        Err(RefundFailure::Unavailable(GIVES_NOTHING_BACK.to_owned()))
    }

    /// Asks the vendor what became of a refund; `refunds.query` in the WIT.
    fn query_refund(_account: Account, _paid: Paid, _order: Order) -> Result<Given, QueryFailure> {
        Err(QueryFailure::Unavailable(GIVES_NOTHING_BACK.to_owned()))
    }
}

/// Another version of the module may have given something back: nothing is certain.
const GIVES_NOTHING_BACK: &str = "this module gives nothing back";

/// What a component exports of a [`Provider`].
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
}

/// Nothing told: what a report begins with.
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
            refunds: Vec::new(),
            disputes: Vec::new(),
        }
    }
}

/// Write one line for the operator; see `log.write` in the WIT. Natively a no-op.
pub fn log(level: Level, message: &str) {
    #[cfg(target_arch = "wasm32")]
    crate::bindings::provider::kassette::plugin::log::write(level, message);
    #[cfg(not(target_arch = "wasm32"))]
    let _ = (level, message);
}

#[doc(hidden)]
pub const fn implemented_by<T: Provider>() {}
