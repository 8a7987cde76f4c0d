//! Refunds: the calls of the interface `refunds`.

use kassette_domain::provider::{
    Given, PaidFacts, QueryFailure, RefundFailure, RefundOrder, RefundQuery, RefundTerms,
};

use super::{Called, ProviderModule};
use crate::access::AccountAccess;
use crate::error::CallError;
use crate::outcome::{refund_outcome, refund_query_outcome};
use crate::v0_2;
use crate::v0_2::bindings::provider::exports::kassette::plugin::payments::QueryFailure as WitQueryFailure;
use crate::v0_2::bindings::provider::exports::kassette::plugin::refunds::RefundFailure as WitRefundFailure;

/// Reason if this version lacks the interface. An earlier version may have had it, so it is unknown what that
/// version did.
const LACKING: &str = "this version of the module cannot give money back";

impl ProviderModule {
    /// Returns the refund terms of this account by method, without sending anything. Empty if the module does not
    /// support refunds.
    ///
    /// # Errors Reason why the call has no answer.
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
        self.checked("refund-terms", &access, v0_2::refunds::terms(answer?))
    }

    /// Refunds money at the provider.
    ///
    /// # Errors Reason why no refund is known. `Uncertain`, even against the module's answer, if a request that
    /// may have changed something got no complete response, or if the module trapped, ran out of time or violated
    /// the contract after such a request. `Unavailable` if no such request was sent and the module gave no answer,
    /// or if it does not support refunds.
    pub async fn refund(
        &self,
        access: &AccountAccess,
        paid: &PaidFacts,
        order: &RefundOrder,
    ) -> Result<Given, RefundFailure> {
        let account = v0_2::provider::account(&access.account);
        let ordered = order.amount;
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
        let answer = answer.and_then(|answer| {
            self.checked(
                "refund",
                access,
                v0_2::refunds::refunded(answer, ordered, pages),
            )
        });
        refund_outcome(answer, &sent)
    }

    /// Queries the status of a refund at the provider, or cancels it.
    ///
    /// An answer that the refund failed or is absent becomes `Unavailable` if a request of the same call that may
    /// have changed something got no complete response. The answer is also `Unavailable` if the module does not
    /// support refunds.
    ///
    /// # Errors Reason why the call has no answer.
    pub async fn query_refund(
        &self,
        access: &AccountAccess,
        paid: &PaidFacts,
        order: &RefundOrder,
        purpose: RefundQuery,
    ) -> Result<Result<Given, QueryFailure>, CallError> {
        let account = v0_2::provider::account(&access.account);
        let ordered = order.amount;
        let order = v0_2::refunds::order(order, &paid.currency);
        let paid = v0_2::refunds::paid(paid);
        let calls = &self.calls.query_refund;
        let Called { answer, sent, .. } = self
            .call("query-refund", calls, access, |exports, store| {
                Box::pin(async move {
                    match &exports.refunds {
                        Some(refunds) => match purpose {
                            RefundQuery::Sync => {
                                refunds.call_query(store, &account, &paid, &order).await
                            }
                            RefundQuery::Cancel => {
                                refunds.call_cancel(store, &account, &paid, &order).await
                            }
                        },
                        None => Ok(Err(WitQueryFailure::Unavailable(LACKING.into()))),
                    }
                })
            })
            .await;
        let pages = access.pages();
        let answer = self.checked(
            "query-refund",
            access,
            v0_2::refunds::queried(answer?, ordered, pages),
        )?;
        Ok(refund_query_outcome(answer, &sent))
    }
}
