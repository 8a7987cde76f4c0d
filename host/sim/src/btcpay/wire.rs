//! Requests, answers and events of the Greenfield API.
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::{
    account::Account,
    btcpay::{problem::Problem, store_id},
    money::{Amount, Money},
    refund::{Refund, RefundState},
    rfc3339,
    session::{Happened, Phase, Session, State},
    vendor::Event,
};

/// Lifetime of an invoice in the simulated store's settings.
pub(crate) const LIFE_MS: u64 = 3_600_000;
const DAY_SECONDS: u64 = 86_400;

/// Destination of the coins of every invoice.
const ADDRESS: &str = "bc1qsimulatedsimulatedsimulatedsimulated";

/// Key in a payment's `extra`: the invoice's metadata.
pub(crate) const METADATA: &str = "metadata";

/// The server's version: the oldest that the module supports.
pub(crate) const VERSION: &str = "1.7.1.0";

/// The creation of an invoice.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Create {
    /// Required, because this store creates no top-up invoices.
    amount: String,
    currency: String,
    additional_search_terms: Vec<String>,
    pub(crate) metadata: Option<Map<String, Value>>,
    pub(crate) checkout: Option<Checkout>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Checkout {
    #[serde(rename = "redirectURL")]
    pub(crate) redirect_url: Option<String>,
    #[serde(rename = "redirectAutomatically")]
    pub(crate) redirect_automatically: Option<bool>,
}

/// The description of the purchased item.
pub(crate) fn item(metadata: &Map<String, Value>) -> &str {
    let item = metadata.get("itemDesc").and_then(Value::as_str);
    item.unwrap_or_default()
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

/// Refuses a refund that the server would refuse. Returns the refund's amount.
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

/// The refund order's id for the books: the last part of the pull payment's name. `None` if it has another form.
pub(crate) fn order(name: &str) -> Option<&str> {
    let digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    let last = name.rsplit(' ').next()?;
    (last.len() == 32 && last.bytes().all(digit)).then_some(last)
}

/// The stored name and description of a pull payment.
pub(crate) fn note(name: &str, description: &str) -> String {
    json!({ "name": name, "description": description }).to_string()
}

/// A refund as the server returns it.
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

/// The payouts of a refund, which was claimed in full or not at all.
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

/// Refuses a creation that the server would refuse. Returns the amount due and the search term.
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
        // A payer who declines lets the invoice expire.
        Phase::Declined | Phase::Expired => ("Expired", "None"),
        Phase::Authorised => ("Processing", "None"),
        Phase::InReview => ("Expired", "PaidLate"),
        Phase::Closed => ("Invalid", "Marked"),
        _ if session.received.as_ref().is_some_and(over) => ("Settled", "PaidOver"),
        _ => ("Settled", "None"),
    }
}

/// An invoice in its current state. If it was settled in another currency, it is shown in that currency.
pub(crate) fn invoice(account: &Account, session: &Session, now: u64) -> Value {
    let (status, additional) = status(session, now);
    let received = session.received.as_ref();
    // Unconfirmed coins count as paid too.
    let paid = match session.state {
        State::Authorised => session.due.value,
        _ => received.map_or(Amount(0), |money| money.value),
    };
    let currency = received.map_or(&session.due.currency, |money| &money.currency);
    let marks: &[&str] = match status {
        "New" | "Processing" | "Expired" => &["Settled", "Invalid"],
        _ => &[],
    };
    let mut told = json!({
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
        "checkout": { "redirectURL": session.return_url, "defaultLanguage": null },
        "receipt": { "enabled": null },
    });
    if is_old(session)
        && let Some(fields) = told.as_object_mut()
    {
        // In the format of servers of 2021.
        if paid == session.due.value {
            fields.remove("paidAmount");
        }
        fields.remove("receipt");
        for name in ["createdTime", "expirationTime", "monitoringExpiration"] {
            let seconds = fields.get(name).and_then(Value::as_u64).unwrap_or_default();
            fields.insert(name.into(), rfc3339::utc(seconds * 1_000).into());
        }
        let amount: Result<Value, _> = serde_json::from_str(&session.due.value.to_string());
        fields.insert("amount".into(), amount.unwrap_or_default());
    }
    told
}

/// Whether an invoice has an old server's format: about every second one.
fn is_old(session: &Session) -> bool {
    session
        .token
        .bytes()
        .next()
        .is_some_and(|byte| byte % 2 == 0)
}

/// The payment method of an invoice.
fn way(session: &Session) -> &'static str {
    match is_old(session) {
        true => "BTC-OnChain",
        false => "BTC-CHAIN",
    }
}

/// The payment methods of an invoice, with their payments.
pub(crate) fn coins(session: &Session) -> Value {
    let status = if session.received.is_some() {
        "Settled"
    } else {
        "Processing"
    };
    let received = session.received.as_ref().unwrap_or(&session.due);
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
    let name = match is_old(session) {
        true => "paymentMethod",
        false => "paymentMethodId",
    };
    json!([{
        name: way(session),
        "currency": "BTC",
        // So that the coins' value equals the amount paid.
        "rate": format!("{}", received.value.0 * 20),
        "paymentLink": null,
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

/// The webhook about an event. `None` if the server sends none: refunds are separate payouts.
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
        // Late payment: the chain's confirmation is an event of the payment, not of the invoice.
        Happened::InReview => ("InvoicePaymentSettled", "afterExpiration", true),
        Happened::Declined if session.state == State::Closed => {
            ("InvoiceInvalid", "manuallyMarked", true)
        }
        Happened::Declined => ("InvoiceExpired", "partiallyPaid", false),
        Happened::CaptureRefused
        | Happened::CaptureFailed
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
            ("checkout", json!({ "expiry": 1 })),
            ("additionalSearchTerms", json!([])),
            ("additionalSearchTerms", json!("attempt-1")),
        ] {
            assert!(refused(field, odd.clone()), "{field}: {odd}");
        }
    }
}
