//! Requests, answers and events of the Greenfield API.
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::{
    account::Account,
    btcpay::{problem::Problem, store_id},
    money::{Amount, Money},
    refund::{Refund, RefundState},
    session::{Happened, Phase, Session, State},
    vendor::Event,
};

/// How long an invoice can be paid, as the simulated store is set.
pub(crate) const LIFE_MS: u64 = 3_600_000;
const DAY_SECONDS: u64 = 86_400;

/// Where the coins of every invoice go.
const ADDRESS: &str = "bc1qsimulatedsimulatedsimulatedsimulated";

/// In a payment's extra: what the invoice was told to be for.
pub(crate) const METADATA: &str = "metadata";

/// The fields that the document's schema of a creation allows.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Create {
    /// A top-up invoice has none; this store makes no such.
    amount: String,
    currency: String,
    additional_search_terms: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Update {
    pub(crate) metadata: Map<String, Value>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct MarkInvoice {
    pub(crate) status: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct GiveBack {
    pub(crate) name: Option<String>,
    #[serde(default)]
    pub(crate) description: String,
    payout_methods: Option<Vec<String>>,
    refund_variant: Option<String>,
    custom_amount: Option<String>,
    custom_currency: Option<String>,
}

/// Refuses what the server would refuse of a refund; how much it is of what was received.
pub(crate) fn check_refund(asked: &GiveBack, session: &Session) -> Result<Amount, Problem> {
    let methods = asked.payout_methods.iter().flatten();
    if methods.into_iter().any(|method| method != "BTC-CHAIN") {
        let message = "Invalid or unsupported payout method";
        return Err(Problem::field("payoutMethods", message));
    }
    let received = session.received.as_ref().unwrap_or(&session.due);
    match asked.refund_variant.as_deref() {
        Some("Custom") => {}
        Some("Fiat") => return Ok(session.left()),
        None => {
            return Err(Problem::field(
                "refundVariant",
                "`refundVariant` is mandatory",
            ));
        }
        Some(_) => {
            let message = "only Custom and Fiat are played here";
            return Err(Problem::field("refundVariant", message));
        }
    }
    if asked.custom_currency.as_ref() != Some(&received.currency) {
        return Err(Problem::field("customCurrency", "Invalid currency"));
    }
    let amount = asked.custom_amount.as_deref().and_then(Amount::parse);
    let amount = amount.filter(|amount| amount.0 > 0);
    amount.ok_or_else(|| Problem::field("customAmount", "Amount must be greater than 0"))
}

/// The shop's own id of a refund, for the books: how the name of its pull payment ends.
pub(crate) fn order(name: &str) -> Option<&str> {
    let digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    let last = name.rsplit(' ').next()?;
    (last.len() == 32 && last.bytes().all(digit)).then_some(last)
}

/// What is kept of a pull payment's words.
pub(crate) fn note(name: &str, description: &str) -> String {
    json!({ "name": name, "description": description }).to_string()
}

/// A refund as the server tells it.
pub(crate) fn pull_payment(account: &Account, session: &Session, made: &Refund) -> Value {
    let note = made.asked.as_ref().and_then(|asked| asked.note.as_deref());
    let words: Option<Value> = note.and_then(|note| serde_json::from_str(note).ok());
    let words = words.unwrap_or_else(
        || json!({ "name": format!("Refund {}", session.reference), "description": "" }),
    );
    let received = session.received.as_ref().unwrap_or(&session.due);
    json!({
        "id": made.id,
        "name": words["name"],
        "description": words["description"],
        "currency": received.currency,
        "amount": made.amount,
        "BOLT11Expiration": "30",
        "autoApproveClaims": false,
        "startsAt": made.created_at / 1_000,
        "archived": made.has_failed(),
        "viewLink": account.page_url(session),
    })
}

/// What was claimed of a refund: all at once, or nothing.
pub(crate) fn payouts(session: &Session, made: &Refund) -> Value {
    let received = session.received.as_ref().unwrap_or(&session.due);
    let claimed = (made.state == RefundState::Succeeded).then(|| {
        json!({
            "id": format!("payout{}", made.id),
            "revision": 0,
            "pullPaymentId": made.id,
            "date": made.updated_at / 1_000,
            "destination": ADDRESS,
            "originalCurrency": received.currency,
            "originalAmount": made.amount,
            "payoutCurrency": "BTC",
            "payoutAmount": "0.0005",
            "payoutMethodId": "BTC-CHAIN",
            "state": "Completed",
            "metadata": {},
        })
    });
    claimed.into_iter().collect()
}

/// Refuses what the server would refuse; what is to be paid, and the term that finds it.
pub(crate) fn check(asked: Create) -> Result<(Money, String), Problem> {
    let money = Amount::parse(&asked.amount).map(|value| Money {
        value,
        currency: asked.currency,
    });
    let Some(due) = money.filter(|due| due.value.0 > 0) else {
        return Err(Problem::field("amount", "The amount should be more than 0"));
    };
    if !due.has_currency_code() {
        return Err(Problem::field("currency", "Invalid currency"));
    }
    match <[String; 1]>::try_from(asked.additional_search_terms) {
        Ok([term]) if !term.is_empty() => Ok((due, term)),
        _ => Err(Problem::field(
            "additionalSearchTerms",
            "one term is expected here",
        )),
    }
}

/// Status and additional status.
fn status(session: &Session, now: u64) -> (&'static str, &'static str) {
    let over = |received: &Money| received.value > session.due.value;
    match session.phase(now) {
        Phase::Open => ("New", "None"),
        // A payer who has declined lets the time pass.
        Phase::Declined | Phase::Expired => ("Expired", "None"),
        Phase::Authorised => ("Processing", "None"),
        Phase::InReview => ("Expired", "PaidLate"),
        Phase::Closed => ("Invalid", "Marked"),
        _ if session.received.as_ref().is_some_and(over) => ("Settled", "PaidOver"),
        _ => ("Settled", "None"),
    }
}

/// An invoice as it stands. One that was settled in another currency than asked for is told in that.
pub(crate) fn invoice(account: &Account, session: &Session, now: u64) -> Value {
    let (status, additional) = status(session, now);
    let received = session.received.as_ref();
    // Unconfirmed coins count as paid as well.
    let paid = match session.state {
        State::Authorised => session.due.value,
        _ => received.map_or(Amount(0), |money| money.value),
    };
    let currency = received.map_or(&session.due.currency, |money| &money.currency);
    let marks: &[&str] = match status {
        "New" | "Processing" | "Expired" => &["Settled", "Invalid"],
        _ => &[],
    };
    json!({
        "id": session.reference,
        "storeId": store_id(&account.settings),
        "amount": session.due.value,
        "paidAmount": paid,
        "currency": currency,
        "type": "Standard",
        "checkoutLink": account.page_url(session),
        "createdTime": session.created_at / 1_000,
        "expirationTime": session.expires_at / 1_000,
        "monitoringExpiration": session.expires_at / 1_000 + DAY_SECONDS,
        "status": status,
        "additionalStatus": additional,
        "availableStatusesForManualMarking": marks,
        "archived": false,
        "metadata": metadata(session),
        "checkout": {},
        "receipt": {},
    })
}

/// The ways that an invoice can be paid, with what came by each.
pub(crate) fn coins(session: &Session) -> Value {
    let status = if session.received.is_some() {
        "Settled"
    } else {
        "Processing"
    };
    let came = session.authorised_at.map(|at| {
        let transaction = session.token.repeat(2);
        json!({
            "id": format!("{transaction}-0"),
            "receivedDate": at / 1_000,
            "value": "0.0005",
            "fee": "0",
            "status": status,
            "destination": ADDRESS,
        })
    });
    json!([{
        "paymentMethodId": "BTC-CHAIN",
        "currency": "BTC",
        "destination": ADDRESS,
        "activated": true,
        "payments": came.into_iter().collect::<Vec<_>>(),
    }])
}

fn metadata(session: &Session) -> Value {
    let kept = session.extra.get(METADATA);
    kept.and_then(|kept| serde_json::from_str(kept).ok())
        .unwrap_or_else(|| json!({}))
}

/// The webhook about an event; none where the server sends none: refunds are payouts of their own.
pub(crate) fn event(account: &Account, event: &Event<'_>) -> Option<Value> {
    let session = event.session;
    let mut told = json!({
        "deliveryId": event.id,
        "webhookId": "webhook",
        "originalDeliveryId": event.id,
        "isRedelivery": false,
        "timestamp": event.at / 1_000,
        "storeId": store_id(&account.settings),
        "invoiceId": session.reference,
        "metadata": metadata(session),
    });
    let over = status(session, event.at).1 == "PaidOver";
    let (kind, name, value) = match event.happened {
        Happened::Opened => ("InvoiceCreated", "", false),
        Happened::Authorised => ("InvoiceProcessing", "overPaid", over),
        Happened::Captured => ("InvoiceSettled", "overPaid", over),
        // It came too late: what the chain confirms then is a payment, and no invoice.
        Happened::InReview => ("InvoicePaymentSettled", "afterExpiration", true),
        Happened::Declined if session.state == State::Closed => {
            ("InvoiceInvalid", "manuallyMarked", true)
        }
        Happened::Declined => ("InvoiceExpired", "partiallyPaid", false),
        Happened::CaptureRefused
        | Happened::Voided
        | Happened::Refunded
        | Happened::RefundPending
        | Happened::RefundFailed
        | Happened::Disputed
        | Happened::DisputeWon
        | Happened::DisputeLost => return None,
    };
    let fields = told.as_object_mut()?;
    fields.insert("type".into(), kind.into());
    if !name.is_empty() {
        fields.insert(name.into(), value.into());
    }
    if kind == "InvoiceSettled" {
        fields.insert("manuallyMarked".into(), false.into());
    }
    Some(told)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(field: &str, value: Value) -> bool {
        let mut asked =
            json!({ "amount": "49.90", "currency": "EUR", "additionalSearchTerms": ["attempt-1"] });
        asked[field] = value;
        let read: Result<Create, _> = serde_json::from_value(asked);
        read.map_or(true, |asked| check(asked).is_err())
    }

    #[test]
    fn what_the_server_would_refuse_is_refused() {
        assert!(!refused("amount", json!("49.90")));
        for (field, odd) in [
            ("amount", json!("0.00")),
            ("amount", json!(49.9)),
            ("amount", json!("49,90")),
            ("currency", json!("eur")),
            ("orderId", json!("attempt-1")),
            ("metadata", json!({ "orderId": "attempt-1" })),
            ("additionalSearchTerms", json!([])),
            ("additionalSearchTerms", json!("attempt-1")),
        ] {
            assert!(refused(field, odd.clone()), "{field}: {odd}");
        }
    }
}
