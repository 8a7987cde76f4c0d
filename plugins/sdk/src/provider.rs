//! World `provider`: how to talk to one vendor.
//!
//! Implement [`Provider`] and export it with [`export!`](export). Requests go through
//! [`call::Call`] or [`http::send`], secrets are used by name through [`secrets`], notes for the operator go to
//! [`log`].
pub mod call;
mod describe;
pub mod http;
pub mod secrets;

pub use crate::bindings::provider::exports::kassette::plugin::payments::{
    Account, Action, Attempt, CallbackFailure, CallbackReply, CallbackRequest, Condition,
    Description, Dispute, DisputeState, Encoding, Environment, Form, Guest as Provider, Header,
    Instructions, Money, Notice, Open, Particulars, Payer, QueryFailure, QueryPurpose, Question,
    QuestionKind, Refund, RefundState, Report, SecretSpec, Service, Setting, SettingSpec,
    Settlement, StartFailure, Started, Status, Subject, Verb,
};
pub use crate::bindings::provider::kassette::plugin::log::Level;
pub use crate::export_provider as export;
pub use crate::forward_provider as forward;

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
