//! Export of payments' captures, refunds and disputes, one line each.

use std::sync::Arc;

use axum::extract::{RawQuery, State};
use axum::response::Response;
use kassette_domain::attempt::Attempt;
use kassette_domain::id::{MerchantId, RefundId};
use kassette_domain::lifecycle::PaymentAggregate;
use kassette_domain::method::MethodId;
use kassette_domain::money::Minor;
use kassette_domain::payment::Payment;
use kassette_domain::time::Time;
use kassette_store::{About, Fault, Listed, Paging, PaymentFilter, Store};

use super::AdminState;
use super::caller::Viewer;
use super::download::{self, Format, Pages};
use crate::web::ApiError;
use crate::web::query::Query;
use crate::web::time::{INSTANT, instant};

/// Number of payments that are read at once.
const AT_ONCE: usize = 50;
/// The header.
const HEADER: [&str; 20] = [
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
    "short_amount",
    "short_currency",
];

/// `GET /payments/export`: the current state of payments created in a period. For each attempt, the sum of
/// captures is the amount received, and the sum of refunds and disputes the amount returned.
pub(super) async fn export(
    _: Viewer,
    State(state): State<AdminState>,
    RawQuery(query): RawQuery,
) -> Result<Response, ApiError> {
    let mut query = Query::parse(query.as_deref())?;
    let filter = PaymentFilter {
        since: query.read("since", instant, INSTANT)?,
        until: query.read("until", instant, INSTANT)?,
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
    let all = query.read("all", |text| text.parse().ok(), "must be true or false")?;
    let format = Format::parse(&mut query)?;
    query.finish()?;
    let pages = Movements {
        store: Arc::clone(state.gateway.store()),
        filter,
        format,
        all: all.unwrap_or(false),
    };
    download::answer(format, HEADER, pages).await
}

/// The payments of an export.
struct Movements {
    store: Arc<dyn Store>,
    filter: PaymentFilter,
    format: Format,
    /// Whether payments without money get a line too.
    all: bool,
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
            lines(text, self.format, &aggregate, self.all);
        }
        Ok(())
    }
}

/// A capture, refund or dispute.
struct Movement<'a> {
    kind: &'static str,
    state: &'static str,
    at: Time,
    /// Amount moved so far.
    amount: Minor,
    /// Total amount. Differs from the moved amount if the outcome is open, or was different.
    full: Minor,
    /// The provider's fee for it.
    fee: Option<&'a (Minor, String)>,
    /// The provider's id, if it has sent one.
    id: &'a str,
    /// The gateway's id of a refund, as in the API and its events.
    refund: Option<RefundId>,
}

/// Appends the lines of a payment.
fn lines(text: &mut String, format: Format, aggregate: &PaymentAggregate, all: bool) {
    let payment = &aggregate.payment;
    let short = payment.short.as_ref();
    let (short_amount, short_currency) = short
        .map_or_else(Default::default, |(amount, currency)| {
            (amount.to_string(), currency.as_str())
        });
    let mut is_empty = true;
    for attempt in &aggregate.attempts {
        for movement in movements(attempt) {
            is_empty = false;
            let fee = movement.fee.map(|(fee, _)| fee.to_string());
            let refund = movement.refund.map(|id| id.to_string());
            let fields: [&str; HEADER.len()] = [
                movement.kind,
                movement.state,
                &movement.at.rfc3339(),
                &movement.amount.to_string(),
                &movement.full.to_string(),
                attempt.received_currency(),
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
                &short_amount,
                short_currency,
            ];
            format.line(text, HEADER, fields);
        }
    }
    if all && is_empty {
        let last = aggregate.attempts.last();
        let attempt = last.map(|attempt| attempt.id.to_string());
        let fields: [&str; HEADER.len()] = [
            "payment",
            payment.status.as_str(),
            &payment.created_at.rfc3339(),
            "0.00",
            &payment.due.amount.to_string(),
            payment.due.currency.code(),
            "",
            "",
            &payment.id.to_string(),
            &payment.merchant.0.to_string(),
            payment.order_id.as_str(),
            payment.environment.as_str(),
            &attempt.unwrap_or_default(),
            last.map_or("", |attempt| attempt.account.as_str()),
            payment.method.as_ref().map_or("", MethodId::as_str),
            last.and_then(Attempt::reference).unwrap_or_default(),
            "",
            "",
            &short_amount,
            short_currency,
        ];
        format.line(text, HEADER, fields);
    }
}

/// Completed and possible movements of an attempt. The sum of captures, less refunds and disputes, is the
/// attempt's net amount.
fn movements(attempt: &Attempt) -> Vec<Movement<'_>> {
    let told = &attempt.particulars;
    let captures = attempt.funds.captures.iter().enumerate();
    let captures = captures.map(|(i, capture)| Movement {
        kind: "capture",
        state: if capture.reversed {
            "reversed"
        } else {
            "captured"
        },
        at: capture
            .at
            .or(told.captured_at)
            .unwrap_or_else(|| heard(attempt)),
        amount: moved(capture.amount, !capture.reversed),
        full: capture.amount,
        fee: told.fee.as_ref().filter(|_| i == 0),
        id: capture.reference.as_deref().unwrap_or_default(),
        refund: None,
    });
    let refunds = attempt.funds.refunds.iter().map(|refund| Movement {
        kind: "refund",
        state: refund.state.as_str(),
        at: refund.at,
        amount: refund.out,
        full: refund.amount,
        fee: None,
        id: refund.reference.as_deref().unwrap_or_default(),
        refund: Some(refund.id),
    });
    let disputes = attempt.funds.disputes.iter().map(|disputed| {
        let dispute = &disputed.dispute;
        Movement {
            kind: "dispute",
            state: dispute.state.as_str(),
            at: disputed.at,
            amount: dispute.withdrawn,
            full: dispute.amount,
            fee: None,
            id: &dispute.id,
            refund: None,
        }
    });
    captures.chain(refunds).chain(disputes).collect()
}

/// Time of the provider's last report.
fn heard(attempt: &Attempt) -> Time {
    let facts = attempt.vendor.as_ref();
    facts.map_or(attempt.opened_at, |facts| facts.at)
}

/// The amount if it moved, otherwise zero.
const fn moved(amount: Minor, is_moved: bool) -> Minor {
    match is_moved {
        true => amount,
        false => Minor(0),
    }
}
