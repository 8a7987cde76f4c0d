//! The JSON of orders: requests and answers.
use serde::Deserialize;
use serde_json::{Value, json};
use url::Url;

use crate::{
    account::Account,
    money::{Amount, Money},
    paypal::{ids, problem::Problem, returns, time},
    refund::{Asked, Refund},
    session::{Phase, Session, State},
};

/// The currencies that PayPal supports, more than the gateway's.
const CURRENCIES: [&str; 24] = [
    "AUD", "BRL", "CAD", "CNY", "CZK", "DKK", "EUR", "HKD", "HUF", "ILS", "JPY", "MYR", "MXN",
    "TWD", "NZD", "NOK", "PHP", "PLN", "GBP", "SGD", "SEK", "CHF", "THB", "USD",
];
/// Currencies without decimals.
const WHOLE: [&str; 3] = ["HUF", "JPY", "TWD"];

/// Destination of a payer whose order contains no address.
const STAYS: &str = "https://www.paypal.example/";

/// Time after the capture in which a refund is possible, in milliseconds.
const REFUNDABLE_MS: u64 = 180 * 86_400_000;

/// Keys in a session's `extra`: the patched `custom_id`, and the mark of an approval whose capture PayPal will
/// hold.
const CUSTOM_ID: &str = "custom_id";
pub(crate) const TO_BE_HELD: &str = "to_be_held";
/// Key in a session's `extra`: time of the capture.
pub(crate) const CAPTURED_AT: &str = "captured_at";
/// Key in a session's `extra`: the `invoice_id`.
const INVOICE_ID: &str = "invoice_id";

/// A documented field without effect here.
type Unused = Option<serde::de::IgnoredAny>;

/// Defines a request: first the fields that matter here, then other documented fields. Undocumented fields are
/// refused.
macro_rules! request {
    ($(#[$about:meta])* $name:ident { $($field:ident: $kind:ty),* $(,)? } beside: $($other:ident),* $(,)?) => {
        $(#[$about])*
        #[derive(Debug, Default, Deserialize)]
        #[serde(deny_unknown_fields, default)]
        pub(crate) struct $name {
            $($field: $kind,)*
            $($other: Unused,)*
        }
    };
}

request! {
    /// Body of a creation.
    Create { intent: String, purchase_units: Vec<Unit>, payment_source: Source, application_context: Context }
    beside: payer, processing_instruction
}
request! {
    Unit {
        reference_id: Option<String>, amount: Wanted, custom_id: Option<String>,
        invoice_id: Option<String>, description: Option<String>,
    }
    beside: payee, payment_instruction, soft_descriptor, items, shipping, supplementary_data
}
request! { Wanted { currency_code: String, value: String } beside: breakdown }
request! { Source { paypal: Option<Wallet>, venmo: Option<Wallet> } beside: }
request! {
    Wallet { experience_context: Context }
    beside: email_address, name, phone, birth_date, tax_info, address, attributes, stored_credential
}
request! {
    /// Of a wallet, or of the order as a whole.
    Context {
        brand_name: Option<String>, shipping_preference: Option<String>, user_action: Option<String>,
        payment_method_preference: Option<String>, return_url: Option<String>, cancel_url: Option<String>,
    }
    beside: locale, landing_page, contact_preference, app_switch_context, order_update_callback_config,
        payment_method
}
request! {
    /// Body of a capture.
    Paid {} beside: payment_source
}
request! {
    /// Body of a refund. Without a body or an amount the rest is refunded.
    GiveBack {
        amount: Option<Wanted>, custom_id: Option<String>, invoice_id: Option<String>,
        note_to_payer: Option<String>,
    }
    beside: payment_instruction
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Patch {
    pub(crate) op: String,
    pub(crate) path: String,
    pub(crate) value: String,
}

/// Validates a refund of the session's capture like PayPal.
pub(crate) fn refund_of(asked: GiveBack, session: &Session) -> Result<Asked, Problem> {
    let received = session.taken().unwrap_or(&session.due);
    let amount = match &asked.amount {
        None => session.left(),
        Some(amount) => {
            let money = wanted(amount)?;
            if money.currency != received.currency {
                return Err(Problem::refused("REFUND_CAPTURE_CURRENCY_MISMATCH"));
            }
            money.value
        }
    };
    let note = json!({
        "custom_id": text(asked.custom_id, 127)?,
        "note_to_payer": text(asked.note_to_payer, 255)?,
    });
    Ok(Asked {
        amount,
        order: text(asked.invoice_id, 127)?,
        note: Some(note.to_string()),
        ..Asked::default()
    })
}

/// Whether PayPal accepts this refund now, except for the check of the remaining amount.
pub(crate) fn check_refund(asked: &Asked, session: &Session, now: u64) -> Result<(), Problem> {
    let captured = session.captured_at.unwrap_or(session.created_at);
    let repeated =
        |refund: &Refund| refund.order().is_some() && refund.order() == asked.order.as_deref();
    let issue = if session.capturing().is_some() || session.held {
        "PENDING_CAPTURE"
    } else if now > captured.saturating_add(REFUNDABLE_MS) {
        "REFUND_TIME_LIMIT_EXCEEDED"
    } else if session.refunds.iter().any(repeated) {
        "DUPLICATE_INVOICE_ID"
    } else if session.open_dispute().is_some() && asked.amount < session.left() {
        "TRANSACTION_DISPUTED"
    } else {
        return Ok(());
    };
    Err(Problem::refused(issue))
}

/// A valid creation.
pub(crate) struct NewOrder {
    pub(crate) due: Money,
    pub(crate) custom_id: String,
    pub(crate) invoice_id: String,
    pub(crate) method: &'static str,
    pub(crate) order: String,
    pub(crate) merchant: String,
    pub(crate) return_url: String,
    pub(crate) cancel_url: String,
}

/// Validates a creation like PayPal.
pub(crate) fn check(create: Create) -> Result<NewOrder, Problem> {
    if create.intent != "CAPTURE" {
        return Err(Problem::refused("UNSUPPORTED_INTENT"));
    }
    let mut units = create.purchase_units;
    let (Some(unit), None) = (units.pop(), units.pop()) else {
        return Err(Problem::invalid(
            "INVALID_ARRAY_MAX_ITEMS",
            "one purchase unit is simulated",
        ));
    };
    let order = create.application_context;
    let (method, context) = match (create.payment_source.paypal, create.payment_source.venmo) {
        (Some(paypal), None) => ("paypal", paypal.experience_context),
        (None, Some(venmo)) => ("venmo", venmo.experience_context),
        // PayPal's page offers the wallet.
        (None, None) => ("paypal", Context::default()),
        _ => return Err(Problem::refused("ONE_OF_PARAMETERS_REQUIRED")),
    };
    if method == "venmo" && (context.return_url.is_some() || context.cancel_url.is_some()) {
        return Err(Problem::invalid(
            "INVALID_PARAMETER_SYNTAX",
            "Venmo's context has no addresses",
        ));
    }
    check_words(&context)?;
    check_words(&order)?;
    let due = wanted(&unit.amount)?;
    if method == "venmo" && due.currency != "USD" {
        return Err(Problem::refused("INVALID_CURRENCY_CODE"));
    }
    let words = |words, most| text(words, most).map(Option::unwrap_or_default);
    words(unit.reference_id, 256)?;
    let address = |one: Option<String>, other: Option<String>| {
        // Without an address the payer stays at PayPal.
        let url = one.or(other).unwrap_or_else(|| STAYS.to_owned());
        let good = Url::parse(&url).is_ok_and(|url| matches!(url.scheme(), "http" | "https"));
        if good {
            Ok(url)
        } else {
            Err(Problem::invalid(
                "INVALID_PARAMETER_SYNTAX",
                "an address is expected",
            ))
        }
    };
    Ok(NewOrder {
        due,
        custom_id: words(unit.custom_id, 127)?,
        invoice_id: words(unit.invoice_id, 127)?,
        method,
        order: words(unit.description, 127)?,
        merchant: words(context.brand_name.or(order.brand_name), 127)?,
        return_url: address(context.return_url, order.return_url)?,
        cancel_url: address(context.cancel_url, order.cancel_url)?,
    })
}

/// An optional text of 1 to `most` characters.
fn text(text: Option<String>, most: usize) -> Result<Option<String>, Problem> {
    match text {
        Some(text) if text.is_empty() || text.chars().count() > most => Err(Problem::invalid(
            "INVALID_STRING_LENGTH",
            format!("1-{most} characters"),
        )),
        text => Ok(text),
    }
}

fn check_words(context: &Context) -> Result<(), Problem> {
    let known = |word: &Option<String>, words: &[&str]| {
        word.as_deref().is_none_or(|word| words.contains(&word))
    };
    let good = known(
        &context.shipping_preference,
        &["GET_FROM_FILE", "NO_SHIPPING", "SET_PROVIDED_ADDRESS"],
    ) && known(&context.user_action, &["CONTINUE", "PAY_NOW"])
        && known(
            &context.payment_method_preference,
            &["UNRESTRICTED", "IMMEDIATE_PAYMENT_REQUIRED"],
        );
    if good {
        Ok(())
    } else {
        Err(Problem::invalid(
            "INVALID_PARAMETER_VALUE",
            "an unknown word",
        ))
    }
}

fn wanted(amount: &Wanted) -> Result<Money, Problem> {
    let currency = amount.currency_code.clone();
    if !CURRENCIES.contains(&currency.as_str()) {
        return Err(Problem::refused("INVALID_CURRENCY_CODE"));
    }
    let value = match amount.value.split_once('.') {
        Some(_) if WHOLE.contains(&currency.as_str()) => {
            return Err(Problem::refused("DECIMAL_PRECISION"));
        }
        Some(_) => Amount::parse(&amount.value),
        None => Amount::parse(&format!("{}.00", amount.value)),
    };
    match value {
        Some(Amount(0)) => Err(Problem::refused("CANNOT_BE_ZERO_OR_NEGATIVE")),
        Some(value) => Ok(Money { value, currency }),
        None => Err(Problem::invalid("INVALID_PARAMETER_SYNTAX", "amount.value")),
    }
}

/// An amount in PayPal's notation.
pub(super) fn money(money: &Money) -> Value {
    let whole = WHOLE.contains(&money.currency.as_str()) && money.value.0.is_multiple_of(100);
    let value = if whole {
        (money.value.0 / 100).to_string()
    } else {
        money.value.to_string()
    };
    json!({ "currency_code": money.currency, "value": value })
}

/// The current `custom_id`.
pub(super) fn custom_id(session: &Session) -> &str {
    let patched = session.extra.get(CUSTOM_ID);
    patched.map_or(&session.attempt_id, |patched| patched)
}

/// Stores the part of a creation that only PayPal needs.
pub(crate) fn remember(session: &mut Session, invoice_id: String) {
    session.extra.insert(INVOICE_ID.to_owned(), invoice_id);
}

pub(super) fn invoice_id(session: &Session) -> &str {
    session.extra.get(INVOICE_ID).map_or("", String::as_str)
}

/// An order as the API returns it.
pub(crate) fn order(account: &Account, session: &Session, now: u64) -> Value {
    let status = match session.phase(now) {
        Phase::Open | Phase::Expired => "PAYER_ACTION_REQUIRED",
        Phase::Declined | Phase::Closed => "VOIDED",
        Phase::Authorised if session.capturing().is_some() => "COMPLETED",
        Phase::Authorised => "APPROVED",
        Phase::InReview | Phase::Captured | Phase::Disputed | Phase::Refunded => "COMPLETED",
    };
    let mut unit = json!({
        "reference_id": "default",
        "amount": money(&session.due),
        "custom_id": custom_id(session),
        "invoice_id": invoice_id(session),
        "description": session.order,
        "payee": { "email_address": "merchant@shop.example", "merchant_id": "7KNGBPH2U58GQ" },
    });
    if session.taken().is_some() {
        let refunds = returns::all(session);
        let mut payments = json!({ "captures": [capture(session)] });
        if !refunds.is_empty() {
            payments["refunds"] = refunds.into();
        }
        unit["payments"] = payments;
    }
    json!({
        "id": session.reference,
        "intent": "CAPTURE",
        "status": status,
        "payment_source": { &session.method: {} },
        "purchase_units": [unit],
        "create_time": time::rfc3339(session.created_at),
        "update_time": time::rfc3339(session.updated_at),
        "links": links(account, session, now),
    })
}

/// The answer without `Prefer: return=representation`.
pub(crate) fn minimal(whole: &Value) -> Value {
    json!({ "id": whole["id"], "status": whole["status"], "links": whole["links"] })
}

fn links(account: &Account, session: &Session, now: u64) -> Value {
    let link = |href: String, rel: &str, method: &str| json!({ "href": href, "rel": rel, "method": method });
    let own = format!(
        "https://api.paypal.example/v2/checkout/orders/{}",
        session.reference
    );
    let mut links = vec![link(own.clone(), "self", "GET")];
    if session.is_payable(now) {
        links.push(link(account.page_url(session), "payer-action", "GET"));
    }
    if session.state == State::Authorised && session.capturing().is_none() {
        links.push(link(format!("{own}/capture"), "capture", "POST"));
    }
    links.into()
}

/// PayPal's fee for a capture: 3.49 % and 0.49.
pub(crate) fn fee(captured: Amount) -> Amount {
    let share = captured.0.saturating_mul(349) / 10_000;
    Amount(share.saturating_add(49).min(captured.0))
}

/// The order's capture.
pub(crate) fn capture(session: &Session) -> Value {
    let received = session.taken().unwrap_or(&session.due);
    let (status, reason) = match session.given_back().0 {
        _ if session.capturing().is_some() => {
            ("PENDING", Some("TRANSACTION_APPROVED_AWAITING_FUNDING"))
        }
        back if back >= received.value.0 => ("REFUNDED", None),
        _ if session.held => ("PENDING", Some("PENDING_REVIEW")),
        0 => ("COMPLETED", None),
        _ => ("PARTIALLY_REFUNDED", None),
    };
    let made = session
        .extra
        .get(CAPTURED_AT)
        .and_then(|at| at.parse().ok());
    let mut capture = json!({
        "id": ids::capture(&session.reference),
        "status": status,
        "amount": money(received),
        "final_capture": true,
        "custom_id": custom_id(session),
        "invoice_id": invoice_id(session),
        "supplementary_data": { "related_ids": { "order_id": session.reference } },
        "create_time": time::rfc3339(made.unwrap_or(session.updated_at)),
        "update_time": time::rfc3339(session.updated_at),
        "links": [{
            "href": format!("https://api.paypal.example/v2/checkout/orders/{}", session.reference),
            "rel": "up",
            "method": "GET",
        }],
    });
    if let Some(reason) = reason {
        capture["status_details"] = json!({ "reason": reason });
    } else {
        capture["seller_receivable_breakdown"] = json!({
            "gross_amount": money(received),
            "paypal_fee": money(&Money {
                value: fee(received.value),
                currency: received.currency.clone(),
            }),
        });
    }
    capture
}

/// An approval that PayPal reversed before the capture.
pub(crate) fn reversal(session: &Session) -> Value {
    json!({
        "order_id": session.reference,
        "purchase_units": [{
            "reference_id": "default",
            "custom_id": custom_id(session),
            "invoice_id": invoice_id(session),
        }],
        "payment_source": { &session.method: {} },
    })
}
