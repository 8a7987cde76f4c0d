//! Requests and answers of Checkout.
use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};
use url::Url;

use crate::{
    account::Account,
    adyen::{is_captured_by_merchant, merchant_account, problem::Problem},
    money::{Amount, Money},
    session::{Phase, Session},
};

/// Key in a payment's `extra`: it was paid at some time.
pub(crate) const PAID: &str = "paid";
/// Key in a payment's `extra`: the payer has started to pay by a slow method.
pub(crate) const UNDER_WAY: &str = "under-way";
/// Key in a payment's `extra`: the merchant has expired the link.
pub(crate) const EXPIRED: &str = "expired";
/// Key in a payment's `extra`: cancelled by merchant reference.
pub(crate) const VOIDED: &str = "voided";

/// The last four digits of every simulated card.
pub(crate) const CARD: &str = "1111";

const DAY_MS: u64 = 86_400_000;

/// Adyen's payment method types and the gateway's methods.
const TYPES: [(&str, &str); 9] = [
    ("scheme", "credit_card"),
    ("ideal", "ideal"),
    ("klarna", "klarna"),
    ("klarna_account", "klarna"),
    ("klarna_paynow", "klarna"),
    ("paypal", "paypal"),
    ("upi_collect", "upi_imps"),
    ("upi_intent", "upi_imps"),
    ("upi_qr", "upi_imps"),
];

/// Adyen's first type of a method.
pub(crate) fn type_of(method: &str) -> &'static str {
    let of = TYPES.iter().find(|(_, known)| *known == method);
    of.map_or("", |(name, _)| *name)
}

/// A payment's method in notifications: the brand for a card.
pub(crate) fn brand(method: &str) -> &'static str {
    match type_of(method) {
        "scheme" => "visa",
        other => other,
    }
}

/// The id of the payment that is made on a page.
pub(crate) fn psp_reference(session: &Session) -> &str {
    session.reference.get(2..).unwrap_or_default()
}

/// Data that the payment page can request from the payer.
const SHOPPER_FIELDS: [&str; 5] = [
    "billingAddress",
    "deliveryAddress",
    "shopperEmail",
    "shopperName",
    "telephoneNumber",
];

/// Minor units of a currency.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Sum {
    value: u64,
    currency: String,
}

impl From<Sum> for Money {
    fn from(sum: Sum) -> Self {
        Self {
            value: Amount(sum.value),
            currency: sum.currency,
        }
    }
}

/// An amount in Adyen's notation.
pub(crate) fn sum(money: &Money) -> Value {
    json!({ "value": money.value.0, "currency": money.currency })
}

/// Further fields of a link or a session in the document "Checkout API v72", which do not affect the payment's
/// status.
const OTHERS: [&str; 38] = [
    "accountInfo",
    "applicationInfo",
    "authenticationData",
    "billingAddress",
    "blockedPaymentMethods",
    "captureDelayHours",
    "company",
    "dateOfBirth",
    "deliverAt",
    "deliveryAddress",
    "enableOneClick",
    "fundOrigin",
    "fundRecipient",
    "installmentOptions",
    "mcc",
    "metadata",
    "platformChargebackLogic",
    "recurringProcessingModel",
    "riskData",
    "shopperInteraction",
    "shopperLocale",
    "shopperName",
    "shopperReference",
    "shopperStatement",
    "showInstallmentAmount",
    "showRemovePaymentMethodButton",
    "socialSecurityNumber",
    "splitCardFundingSources",
    "splits",
    "store",
    "storeFiltrationMode",
    "storePaymentMethod",
    "storePaymentMethodMode",
    "telephoneNumber",
    "themeId",
    "threeDS2RequestData",
    "threeDSAuthenticationOnly",
    "trustedShopper",
];

/// Fields that this simulator ignores.
pub(crate) type Others = BTreeMap<String, Value>;

/// Refuses fields that are not among `known`.
///
/// # Errors
/// Adyen's refusal of an unknown field.
pub(crate) fn only(others: &Others, known: &[&str]) -> Result<(), Problem> {
    match others.keys().find(|name| !known.contains(&name.as_str())) {
        Some(name) => Err(Problem::unreadable(format!("unknown field {name}"))),
        None => Ok(()),
    }
}

/// The creation of a link.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Create {
    pub(crate) merchant_account: String,
    pub(crate) amount: Sum,
    pub(crate) reference: String,
    pub(crate) merchant_order_reference: Option<String>,
    pub(crate) description: Option<String>,
    pub(crate) return_url: Option<String>,
    pub(crate) expires_at: Option<String>,
    pub(crate) reusable: Option<bool>,
    /// If empty, the payer can choose among all of the account; the books record one.
    #[serde(default)]
    pub(crate) allowed_payment_methods: Vec<String>,
    pub(crate) manual_capture: Option<bool>,
    pub(crate) shopper_email: Option<String>,
    pub(crate) country_code: Option<String>,
    pub(crate) line_items: Option<Vec<LineItem>>,
    pub(crate) required_shopper_fields: Option<Vec<String>>,
    #[serde(flatten)]
    pub(crate) others: Others,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[derive(Default)]
pub(crate) struct LineItem {
    id: String,
    description: String,
    quantity: u64,
    amount_including_tax: u64,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Update {
    pub(crate) status: String,
}

/// Further fields of a capture, a cancellation or a refund.
pub(crate) const MODIFIED_WITH: [&str; 10] = [
    "applicationInfo",
    "capturePspReference",
    "enhancedSchemeData",
    "lineItems",
    "merchantRefundReason",
    "metadata",
    "platformChargebackLogic",
    "splits",
    "store",
    "subMerchants",
];

/// A capture or a refund (with an amount) or a cancellation (without).
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Modify {
    pub(crate) merchant_account: String,
    pub(crate) reference: Option<String>,
    pub(crate) amount: Option<Sum>,
    #[serde(flatten)]
    pub(crate) others: Others,
}

/// A cancellation by merchant reference.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Void {
    pub(crate) merchant_account: String,
    pub(crate) payment_reference: String,
    reference: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Methods {
    pub(crate) merchant_account: String,
}

/// A creation after validation.
pub(crate) struct Checked {
    pub(crate) method: &'static str,
    pub(crate) return_url: String,
    pub(crate) expires_at: u64,
}

/// Refuses what Adyen would refuse.
pub(crate) fn check(asked: &Create, now: u64, longest_ms: u64) -> Result<Checked, Problem> {
    only(&asked.others, &OTHERS)?;
    let refuse = |why: &str| Err(Problem::invalid("14_012", why));
    if asked.reference.is_empty() || asked.reference.len() > 80 {
        return refuse("reference: 1 to 80 characters");
    }
    let money = Money::from(asked.amount.clone());
    if money.value.0 == 0 || !money.has_currency_code() {
        return Err(Problem::invalid("137", "Invalid amount specified"));
    }
    let long = |text: &Option<String>, most: usize| {
        text.as_ref()
            .is_some_and(|text| text.chars().count() > most)
    };
    if long(&asked.description, 280)
        || long(&asked.merchant_order_reference, 1_000)
        || long(&asked.return_url, 8_000)
        || long(&asked.shopper_email, 500)
    {
        return refuse("a text is too long");
    }
    if asked
        .shopper_email
        .as_ref()
        .is_some_and(|email| !email.contains('@'))
    {
        return refuse("shopperEmail is none");
    }
    let is_code = |code: &String| code.len() == 2 && code.bytes().all(|b| b.is_ascii_uppercase());
    if asked
        .country_code
        .as_ref()
        .is_some_and(|code| !is_code(code))
    {
        return refuse("countryCode is none");
    }
    if asked.reusable == Some(true) {
        return refuse("this account's links are for one payment");
    }
    let method = method(&asked.allowed_payment_methods)
        .ok_or_else(|| Problem::invalid("14_012", "allowedPaymentMethods are not known"))?;
    let fits = match method {
        "ideal" => money.currency == "EUR",
        "upi_imps" => money.currency == "INR",
        _ => true,
    };
    if !fits {
        return refuse("the payment method does not take the currency");
    }
    if asked.manual_capture == Some(true) && !is_captured_by_merchant(method) {
        return refuse("the payment method knows no separate capture");
    }
    if method == "klarna" {
        let items = asked.line_items.as_deref().unwrap_or_default();
        let total: u64 = items
            .iter()
            .map(|item| item.amount_including_tax.saturating_mul(item.quantity))
            .sum();
        let named = |item: &LineItem| !item.id.is_empty() && !item.description.is_empty();
        if items.is_empty() || !items.iter().all(named) || total != money.value.0 {
            return refuse("lineItems are missing or do not add up");
        }
    }
    let known = |field: &String| SHOPPER_FIELDS.contains(&field.as_str());
    if !asked.required_shopper_fields.iter().flatten().all(known) {
        return refuse("requiredShopperFields are not known");
    }
    let return_url = asked.return_url.clone().unwrap_or_default();
    // A link without a return address ends on Adyen's own page.
    if asked.return_url.is_some() && Url::parse(&return_url).is_err() {
        return Err(Problem::invalid("14_030", "Return URL is missing."));
    }
    let expires_at = match &asked.expires_at {
        Some(text) => time_of(text),
        None => Some(now.saturating_add(DAY_MS)),
    };
    match expires_at {
        Some(at) if at > now && at <= now.saturating_add(longest_ms) => Ok(Checked {
            method,
            return_url,
            expires_at: at,
        }),
        _ => refuse("expiresAt must be in the future, and not too far away"),
    }
}

/// The method of these types. `None` if they are unknown or belong to several methods.
fn method(types: &[String]) -> Option<&'static str> {
    let of = |name: &String| {
        let (_, method) = TYPES.iter().find(|(known, _)| known == name)?;
        Some(*method)
    };
    let Some(first) = types.first() else {
        return Some("credit_card");
    };
    let first = of(first)?;
    types
        .iter()
        .all(|name| of(name) == Some(first))
        .then_some(first)
}

/// A link in its current state.
pub(crate) fn link(account: &Account, session: &Session, now: u64) -> Value {
    link_as(account, session, status(session, now))
}

/// A link as in the first answer to its creation, which repetitions receive too.
pub(crate) fn created(account: &Account, session: &Session) -> Value {
    link_as(account, session, "active")
}

fn status(session: &Session, now: u64) -> &'static str {
    let is = |mark: &str| session.extra.contains_key(mark);
    if is(PAID) {
        return "completed";
    }
    match session.phase(now) {
        Phase::Authorised => "paymentPending",
        _ if is(EXPIRED) => "expired",
        Phase::Open | Phase::Declined if session.is_payable(now) && is(UNDER_WAY) => {
            "paymentPending"
        }
        Phase::Open => "active",
        Phase::Declined if session.is_payable(now) => "active",
        _ => "expired",
    }
}

fn link_as(account: &Account, session: &Session, status: &str) -> Value {
    json!({
        "id": session.reference,
        "url": account.page_url(session),
        "merchantAccount": merchant_account(&account.settings),
        "reference": session.attempt_id,
        "merchantOrderReference": session.order,
        "amount": sum(&session.due),
        "returnUrl": session.return_url,
        "expiresAt": time(session.expires_at),
        "reusable": false,
        "status": status,
        "updatedAt": time(session.updated_at),
    })
}

/// The answer to an accepted modification.
pub(crate) fn received(payment: &str, id: &str, asked: &Modify) -> Value {
    let mut answer = BTreeMap::from([
        (
            "merchantAccount",
            Value::from(asked.merchant_account.as_str()),
        ),
        ("paymentPspReference", payment.into()),
        ("pspReference", id.into()),
        ("status", "received".into()),
    ]);
    if let Some(reference) = &asked.reference {
        answer.insert("reference", reference.as_str().into());
    }
    if let Some(amount) = &asked.amount {
        answer.insert("amount", sum(&amount.clone().into()));
    }
    json!(answer)
}

/// The answer to an accepted cancellation by merchant reference.
pub(crate) fn void_received(id: &str, asked: &Void) -> Value {
    let mut answer = json!({
        "merchantAccount": asked.merchant_account,
        "paymentReference": asked.payment_reference,
        "pspReference": id,
        "status": "received",
    });
    if let Some(reference) = &asked.reference {
        answer["reference"] = reference.as_str().into();
    }
    answer
}

/// A time in Adyen's notation, from milliseconds since 1970.
pub(crate) fn time(ms: u64) -> String {
    let second = i64::try_from(ms / 1_000).unwrap_or(i64::MAX);
    Timestamp::from_second(second)
        .unwrap_or(Timestamp::MAX)
        .to_string()
}

fn time_of(text: &str) -> Option<u64> {
    let time: Timestamp = text.parse().ok()?;
    u64::try_from(time.as_millisecond()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_800_000_000_000;

    fn refused(field: &str, value: Value) -> bool {
        let mut asked = json!({
            "merchantAccount": "shopECOM", "reference": "attempt-1",
            "amount": { "value": 4990, "currency": "EUR" },
            "description": "Demo shop: order-1", "returnUrl": "https://pay.example/return/1",
            "expiresAt": "2027-01-15T09:00:00Z", "reusable": false,
            "allowedPaymentMethods": ["klarna", "klarna_paynow"], "manualCapture": true,
            "lineItems": [{ "id": "1", "description": "order-1", "quantity": 1,
                "amountIncludingTax": 4990 }],
            "requiredShopperFields": ["billingAddress"],
        });
        if !field.is_empty() {
            asked[field] = value;
        }
        let read: Result<Create, _> = serde_json::from_value(asked);
        read.map_or(true, |asked| check(&asked, NOW, 70 * DAY_MS).is_err())
    }

    #[test]
    fn what_adyen_would_refuse_is_refused() {
        assert!(!refused("", Value::Null));
        for (field, odd) in [
            ("amount", json!({ "value": 0, "currency": "EUR" })),
            ("amount", json!({ "value": "4990", "currency": "EUR" })),
            ("amount", json!({ "value": 49.9, "currency": "EUR" })),
            ("amount", json!({ "value": 4990, "currency": "eur" })),
            ("reference", json!("")),
            ("description", json!("x".repeat(281))),
            ("returnUrl", json!("return")),
            ("expiresAt", json!("2027-01-15T07:00:00Z")),
            ("expiresAt", json!("2027-04-15T07:00:00Z")),
            ("expiresAt", json!(1_800_003_600)),
            ("allowedPaymentMethods", json!(["klarna", "ideal"])),
            ("allowedPaymentMethods", json!(["card"])),
            ("allowedPaymentMethods", json!(["ideal"])),
            ("lineItems", json!([])),
            ("requiredShopperFields", json!(["shoeSize"])),
            ("countryCode", json!("NLD")),
            ("shopperEmail", json!("nobody")),
            ("idempotencyKey", json!("x")),
        ] {
            assert!(refused(field, odd.clone()), "{field}: {odd}");
        }
        for (field, fine) in [
            ("returnUrl", Value::Null),
            ("shopperReference", json!("shopper-1")),
            ("metadata", json!({ "cart": "7" })),
        ] {
            assert!(!refused(field, fine.clone()), "{field}: {fine}");
        }
    }
}
