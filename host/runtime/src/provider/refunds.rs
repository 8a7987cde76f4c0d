//! Giving money back: the calls of the interface `refunds`.

use kassette_domain::provider::{
    Given, PaidFacts, QueryFailure, RefundFailure, RefundOrder, RefundTerms,
};

use super::{Called, ProviderModule};
use crate::access::AccountAccess;
use crate::error::CallError;
use crate::outcome::{refund_outcome, refund_query_outcome};
use crate::v0_2;
use crate::v0_2::bindings::provider::exports::kassette::plugin::payments::QueryFailure as WitQueryFailure;
use crate::v0_2::bindings::provider::exports::kassette::plugin::refunds::RefundFailure as WitRefundFailure;

/// A version that lacks the interface may stand in the place of one that had it: nothing is proved about what
/// that one has done.
const LACKING: &str = "this version of the module cannot give money back";

impl ProviderModule {
    /// What can be given back at this account, by method; empty where the module cannot give money back.
    /// Nothing can be sent meanwhile.
    ///
    /// # Errors
    /// Why there is no answer.
    pub async fn refund_terms(
        &self,
        access: &AccountAccess,
    ) -> Result<Vec<RefundTerms>, CallError> {
        let access = AccountAccess {
            hosts: Vec::new(),
            ..access.clone()
        };
        let account = v0_2::provider::account(&access.account);
        let calls = &self.calls.refund_terms;
        let Called { answer, .. } = self
            .call("refund-terms", calls, &access, |exports, store| {
                Box::pin(async move {
                    match &exports.refunds {
                        Some(refunds) => refunds.call_terms(store, &account).await,
                        None => Ok(Vec::new()),
                    }
                })
            })
            .await;
        self.checked("refund-terms", v0_2::refunds::terms(answer?))
    }

    /// Gives money back at the vendor.
    ///
    /// # Errors
    /// Why nothing is known to be given back. `Uncertain`, whatever the module says, where it trapped, ran
    /// out of time or broke the contract after a request that may have changed something, and where such a
    /// request got no whole answer. `Unavailable` where nothing left this host and the module gave no answer,
    /// and where it has no such function.
    pub async fn refund(
        &self,
        access: &AccountAccess,
        paid: &PaidFacts,
        order: &RefundOrder,
    ) -> Result<Given, RefundFailure> {
        let account = v0_2::provider::account(&access.account);
        let order = v0_2::refunds::order(order, &paid.currency);
        let paid = v0_2::refunds::paid(paid);
        let Called { answer, sent, .. } = self
            .call("refund", &self.calls.refund, access, |exports, store| {
                Box::pin(async move {
                    match &exports.refunds {
                        Some(refunds) => refunds.call_refund(store, &account, &paid, &order).await,
                        None => Ok(Err(WitRefundFailure::Unavailable(LACKING.into()))),
                    }
                })
            })
            .await;
        let pages = access.pages();
        let answer = answer
            .and_then(|answer| self.checked("refund", v0_2::refunds::refunded(answer, pages)));
        refund_outcome(answer, &sent)
    }

    /// Asks the vendor what became of a refund.
    ///
    /// An answer that says "failed" or "absent" is not believed where a request of this very call that may
    /// have changed something got no whole answer. `Unavailable` where the module has no such function.
    ///
    /// # Errors
    /// Why there is no answer.
    pub async fn query_refund(
        &self,
        access: &AccountAccess,
        paid: &PaidFacts,
        order: &RefundOrder,
    ) -> Result<Result<Given, QueryFailure>, CallError> {
        let account = v0_2::provider::account(&access.account);
        let order = v0_2::refunds::order(order, &paid.currency);
        let paid = v0_2::refunds::paid(paid);
        let calls = &self.calls.query_refund;
        let Called { answer, sent, .. } = self
            .call("query-refund", calls, access, |exports, store| {
                Box::pin(async move {
                    match &exports.refunds {
                        Some(refunds) => refunds.call_query(store, &account, &paid, &order).await,
                        None => Ok(Err(WitQueryFailure::Unavailable(LACKING.into()))),
                    }
                })
            })
            .await;
        let pages = access.pages();
        let answer = self.checked("query-refund", v0_2::refunds::queried(answer?, pages))?;
        Ok(refund_query_outcome(answer, &sent))
    }
}
