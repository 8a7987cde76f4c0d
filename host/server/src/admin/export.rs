//! What moved on payments, a line for each capture, refund and dispute.

use std::sync::Arc;

use axum::extract::{RawQuery, State};
use axum::response::Response;
use kassette_domain::attempt::Attempt;
use kassette_domain::id::{MerchantId, RefundId};
use kassette_domain::lifecycle::PaymentAggregate;
use kassette_domain::money::Minor;
use kassette_domain::payment::Payment;
use kassette_domain::provider::{DisputeState, RefundState};
use kassette_domain::time::Time;
use kassette_store::{About, Fault, Listed, Paging, PaymentFilter, Store};

use super::AdminState;
use super::caller::Viewer;
use super::download::{self, Format, Pages};
use super::payment_view::taken;
use crate::web::ApiError;
use crate::web::query::Query;
use crate::web::time::{UTC, utc};

/// Payments that are read at once.
const AT_ONCE: usize = 50;
/// The first line.
const HEADER: [&str; 18] = [
    "type",
    "state",
    "at",
    "amount",
    "full_amount",
    "currency",
    "fee",
    "fee_currency",
    "payment_id",
    "merchant_id",
    "order_id",
    "environment",
    "attempt_id",
    "provider_id",
    "payment_method",
    "reference",
    "id",
    "refund_id",
];

/// `GET /payments/export`: of the payments that were created in a period, as they stand now. For each
/// attempt the captures' sum is what it received, that of refunds and disputes what it returned.
pub(super) async fn export(
    _: Viewer,
    State(state): State<AdminState>,
    RawQuery(query): RawQuery,
) -> Result<Response, ApiError> {
    let mut query = Query::of(query.as_deref())?;
    let filter = PaymentFilter {
        since: query.read("since", utc, UTC)?,
        until: query.read("until", utc, UTC)?,
        merchant: query
            .read(
                "merchant_id",
                |text| text.parse().ok(),
                "must be a merchant's number",
            )?
            .map(MerchantId),
        environment: query.read(
            "environment",
            |text| crate::web::text::environment(text).ok(),
            "must be \"test\" or \"live\"",
        )?,
        ..PaymentFilter::default()
    };
    let format = Format::of(&mut query)?;
    query.finish()?;
    let pages = Movements {
        store: Arc::clone(state.gateway.store()),
        filter,
        format,
    };
    download::answer(format, HEADER, pages).await
}

/// The payments whose movements are written.
struct Movements {
    store: Arc<dyn Store>,
    filter: PaymentFilter,
    format: Format,
}

impl Pages for Movements {
    type Item = Payment;

    async fn page(&self, cursor: Option<String>) -> Result<Listed<Payment>, Fault> {
        let limit = AT_ONCE;
        let paging = Paging { limit, cursor };
        self.store.payments(self.filter.clone(), paging).await
    }

    async fn lines(&self, text: &mut String, payment: Payment) -> Result<(), Fault> {
        if let Some(aggregate) = self.store.aggregate(About::Payment(payment.id)).await? {
            lines(text, self.format, &aggregate);
        }
        Ok(())
    }
}

/// A capture, refund or dispute.
struct Movement<'a> {
    kind: &'static str,
    state: &'static str,
    at: Time,
    /// What moved with it so far.
    amount: Minor,
    /// What it is about: more than moved where it is not decided, or was decided otherwise.
    full: Minor,
    /// What the vendor kept of it.
    fee: Option<&'a (Minor, String)>,
    /// The vendor's id for it, where it told one.
    id: &'a str,
    /// The gateway's id of a refund, as the API and its events tell it.
    refund: Option<RefundId>,
}

/// The lines of a payment.
fn lines(text: &mut String, format: Format, aggregate: &PaymentAggregate) {
    let payment = &aggregate.payment;
    for attempt in &aggregate.attempts {
        for movement in movements(attempt) {
            let fee = movement.fee.map(|(fee, _)| fee.to_string());
            let refund = movement.refund.map(|id| id.to_string());
            let fields: [&str; HEADER.len()] = [
                movement.kind,
                movement.state,
                &movement.at.rfc3339(),
                &movement.amount.to_string(),
                &movement.full.to_string(),
                currency(attempt),
                fee.as_deref().unwrap_or_default(),
                movement.fee.map_or("", |(_, currency)| currency),
                &payment.id.to_string(),
                &payment.merchant.0.to_string(),
                payment.order_id.as_str(),
                payment.environment.as_str(),
                &attempt.id.to_string(),
                attempt.account.as_str(),
                attempt.method.as_str(),
                attempt.reference().unwrap_or_default(),
                movement.id,
                &refund.unwrap_or_default(),
            ];
            format.line(text, HEADER, fields);
        }
    }
}

/// Of which currency an attempt's figures are.
fn currency(attempt: &Attempt) -> &str {
    let told = attempt.vendor.as_ref().map(|facts| facts.currency.as_str());
    told.unwrap_or_else(|| attempt.due.currency.code())
}

/// What moved on an attempt, and what may yet. The captures' sum is what the attempt received, that of
/// refunds and disputes what it returned.
fn movements(attempt: &Attempt) -> Vec<Movement<'_>> {
    let told = &attempt.particulars;
    let capture = taken(attempt).map(|facts| Movement {
        kind: "capture",
        state: "captured",
        at: told.captured_at.unwrap_or(facts.at),
        amount: facts.received,
        full: facts.received,
        fee: told.fee.as_ref(),
        id: "",
        refund: None,
    });
    let refunds = attempt.returns.refunds.iter().map(|refund| Movement {
        kind: "refund",
        state: refund.state.as_str(),
        at: refund.at,
        amount: moved(refund.amount, refund.state == RefundState::Succeeded),
        full: refund.amount,
        fee: None,
        id: refund.reference.as_deref().unwrap_or_default(),
        refund: Some(refund.id),
    });
    let disputes = attempt.returns.disputes.iter().map(|disputed| {
        let dispute = &disputed.dispute;
        Movement {
            kind: "dispute",
            state: dispute.state.as_str(),
            at: disputed.at,
            amount: moved(dispute.amount, dispute.state == DisputeState::Lost),
            full: dispute.amount,
            fee: None,
            id: &dispute.id,
            refund: None,
        }
    });
    capture.into_iter().chain(refunds).chain(disputes).collect()
}

/// An amount where it is gone.
const fn moved(amount: Minor, gone: bool) -> Minor {
    match gone {
        true => amount,
        false => Minor(0),
    }
}
