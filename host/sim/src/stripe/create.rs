//! The request `POST /v1/checkout/sessions` and its validation.
use url::Url;

use crate::{
    money::{Amount, Money},
    stripe::{
        params::{Metadata, Params},
        problem::Problem,
        wire::{self, Sold},
    },
};

/// Minimum and maximum lifetime of a session, in seconds.
const LIFE: std::ops::RangeInclusive<u64> = 30 * 60..=24 * 60 * 60;

/// Payment methods with their presentment currencies; empty for all.
const TYPES: [(&str, &str, &[&str]); 5] = [
    ("card", "credit_card", &[]),
    ("ideal", "ideal", &["eur"]),
    (
        "klarna",
        "klarna",
        &[
            "aud", "cad", "chf", "czk", "dkk", "eur", "gbp", "nok", "nzd", "pln", "ron", "sek",
            "usd",
        ],
    ),
    ("cashapp", "cash_app", &["usd"]),
    (
        "revolut_pay",
        "revolut",
        &["eur", "gbp", "ron", "huf", "pln", "dkk"],
    ),
];

/// Minimum charges, in minor units: "Minimum and maximum charge amounts".
const LEAST: [(&str, u64); 10] = [
    ("aed", 200),
    ("czk", 1_500),
    ("dkk", 250),
    ("gbp", 30),
    ("huf", 17_500),
    ("mxn", 1_000),
    ("nok", 300),
    ("pln", 200),
    ("ron", 200),
    ("sek", 300),
];
/// Minimum charge in other currencies.
const LEAST_ELSEWHERE: u64 = 50;
/// Maximum number of line items of a session.
const MOST_ITEMS: usize = 100;

/// Parameters, including nested ones, that do not affect the payment's status.
const IGNORED: [&str; 19] = [
    "allow_promotion_codes",
    "automatic_tax",
    "billing_address_collection",
    "consent_collection",
    "custom_text",
    "customer_creation",
    "invoice_creation",
    "locale",
    "name_collection",
    "payment_intent_data[receipt_email]",
    "payment_intent_data[setup_future_usage]",
    "payment_intent_data[statement_descriptor]",
    "payment_intent_data[statement_descriptor_suffix]",
    "payment_method_options",
    "phone_number_collection",
    "saved_payment_method_options",
    "shipping_address_collection",
    "submit_type",
    "ui_mode",
];

/// Maximum charge: eight digits.
const MOST: u64 = 99_999_999;

/// A valid creation.
#[derive(Debug)]
pub(crate) struct Create {
    pub(crate) attempt_id: String,
    /// Metadata of the session and of its payment.
    pub(crate) metadata: Metadata,
    pub(crate) payment_metadata: Metadata,
    pub(crate) due: Money,
    pub(crate) method: String,
    /// Name of the first line item.
    pub(crate) order: String,
    pub(crate) sold: Vec<Sold>,
    pub(crate) description: String,
    pub(crate) manual: bool,
    pub(crate) email: Option<String>,
    pub(crate) success_url: String,
    pub(crate) cancel_url: String,
    /// Seconds since 1970.
    pub(crate) expires_at: u64,
}

impl Create {
    /// Parses and validates all parameters.
    pub(crate) fn read(mut params: Params, now: u64) -> Result<Self, Problem> {
        params
            .choice("mode", &["payment"])?
            .ok_or_else(|| Problem::missing("mode"))?;
        params.choice("adaptive_pricing[enabled]", &["true", "false"])?;
        params.expand(&wire::EXPANDABLE)?;
        let attempt_id = params.text("client_reference_id", 200)?;
        let metadata = params.metadata("metadata")?;
        let payment_metadata = params.metadata("payment_intent_data[metadata]")?;
        for name in IGNORED {
            params.take(name);
            params.map(name);
        }
        let capture = params.choice(
            "payment_intent_data[capture_method]",
            &["automatic", "automatic_async", "manual"],
        )?;
        params.text("payment_intent_data[description]", 1_000)?;
        let sold = line_items(&mut params)?;
        let due = sold_together(&sold)?;
        let first = sold.first();
        let (name, description) = first
            .map(|item| (item.name.clone(), item.description.clone()))
            .unwrap_or_default();
        let manual = capture.as_deref() == Some("manual");
        let method = method(&mut params, &due.currency, manual)?;
        let email = email(&mut params)?;
        let success_url =
            address(&mut params, "success_url")?.ok_or_else(|| Problem::missing("success_url"))?;
        let cancel_url = address(&mut params, "cancel_url")?;
        let expires_at = expires_at(&mut params, now)?;
        params.finish()?;
        Ok(Self {
            // The books distinguish payments by the merchant's reference, if there is one.
            attempt_id: attempt_id
                .or_else(|| metadata.get("attempt").cloned())
                .unwrap_or_default(),
            metadata,
            payment_metadata,
            due: Money {
                currency: due.currency.to_ascii_uppercase(),
                ..due
            },
            method,
            order: name,
            sold,
            description,
            manual,
            email,
            cancel_url: cancel_url.unwrap_or_else(|| success_url.clone()),
            success_url,
            expires_at,
        })
    }
}

fn line_items(params: &mut Params) -> Result<Vec<Sold>, Problem> {
    let mut sold = Vec::new();
    while let Some(item) = line_item(params, sold.len())? {
        sold.push(item);
        if sold.len() > MOST_ITEMS {
            return Err(Problem::invalid("At most 100 line items.").param("line_items"));
        }
    }
    Ok(sold)
}

/// The total of the line items.
fn sold_together(sold: &[Sold]) -> Result<Money, Problem> {
    let first = sold.first().ok_or_else(|| Problem::missing("line_items"))?;
    let mut due = first.due.clone();
    for more in sold.iter().skip(1) {
        if more.due.currency != due.currency {
            let message = "All line items must have the same currency.";
            return Err(Problem::invalid(message).param("line_items"));
        }
        due.value = Amount(due.value.0.saturating_add(more.due.value.0));
    }
    let least = LEAST
        .iter()
        .find(|(code, _)| *code == due.currency)
        .map_or(LEAST_ELSEWHERE, |(_, least)| *least);
    if due.value.0 < least {
        let message =
            "The Checkout Session's total amount due must add up to at least the minimum.";
        return Err(Problem::invalid(message).code("amount_too_small"));
    }
    if due.value.0 > MOST {
        let message = "The Checkout Session's total amount must be no more than 999,999.99.";
        return Err(Problem::invalid(message).code("amount_too_large"));
    }
    Ok(due)
}

/// The line item at a position. `None` after the last one.
fn line_item(params: &mut Params, at: usize) -> Result<Option<Sold>, Problem> {
    let quantity = format!("line_items[{at}][quantity]");
    let Some(quantity) = params.whole(&quantity)? else {
        return Ok(None);
    };
    let of = |name: &str| format!("line_items[{at}][price_data]{name}");
    let name = of("[currency]");
    let currency = params.need(&name)?;
    if currency.len() != 3 || !currency.bytes().all(|byte| byte.is_ascii_lowercase()) {
        return Err(Problem::invalid(format!("Invalid currency: {currency}.")).param(name));
    }
    let name = of("[unit_amount]");
    let amount = params
        .whole(&name)?
        .ok_or_else(|| Problem::missing(&name))?;
    let name = of("[product_data][name]");
    let product = params
        .text(&name, 5_000)?
        .ok_or_else(|| Problem::missing(&name))?;
    let description = params.text(&of("[product_data][description]"), 40_000)?;
    params.metadata(&of("[product_data][metadata]"))?;
    params.list(&of("[product_data][images]"));
    params.take(&of("[product_data][tax_code]"));
    params.take(&of("[tax_behavior]"));
    params.map(&format!("line_items[{at}][adjustable_quantity]"));
    Ok(Some(Sold {
        due: Money {
            value: Amount(amount.saturating_mul(quantity)),
            currency,
        },
        quantity,
        name: product,
        description: description.unwrap_or_default(),
    }))
}

/// The wire id of the method.
fn method(params: &mut Params, currency: &str, manual: bool) -> Result<String, Problem> {
    let name = "payment_method_types";
    let types = params.list(name);
    // Without types Stripe chooses; among several the payer does. The books record one.
    let kind = types.first().map_or("card", String::as_str);
    let known = TYPES.iter().find(|(known, ..)| *known == kind);
    let Some((_, method, currencies)) = known else {
        let message = format!("Invalid payment_method_types[0]: must be one of …, not {kind}");
        return Err(Problem::invalid(message).param(name));
    };
    if !currencies.is_empty() && !currencies.contains(&currency) {
        let message = format!("The payment method `{kind}` cannot be used with {currency}.");
        return Err(Problem::invalid(message).param(name));
    }
    if manual && kind == "ideal" {
        let message = "The payment method `ideal` does not support `capture_method=manual`.";
        return Err(Problem::invalid(message).param("payment_intent_data[capture_method]"));
    }
    Ok((*method).to_owned())
}

fn email(params: &mut Params) -> Result<Option<String>, Problem> {
    let email = params.text("customer_email", 800)?;
    let good = |email: &String| {
        email
            .split_once('@')
            .is_some_and(|(user, host)| !user.is_empty() && host.contains('.'))
    };
    match email {
        Some(email) if !good(&email) => Err(Problem::invalid("Invalid email address")
            .code("email_invalid")
            .param("customer_email")),
        other => Ok(other),
    }
}

fn address(params: &mut Params, name: &'static str) -> Result<Option<String>, Problem> {
    let address = params.text(name, 5_000)?;
    let good =
        |text: &String| Url::parse(text).is_ok_and(|url| matches!(url.scheme(), "http" | "https"));
    match address {
        Some(text) if !good(&text) => Err(Problem::invalid("Not a valid URL")
            .code("url_invalid")
            .param(name)),
        other => Ok(other),
    }
}

fn expires_at(params: &mut Params, now: u64) -> Result<u64, Problem> {
    let name = "expires_at";
    let now = now / 1_000;
    let Some(at) = params.whole(name)? else {
        return Ok(now.saturating_add(*LIFE.end()));
    };
    let life = at.checked_sub(now);
    if life.is_some_and(|life| LIFE.contains(&life)) {
        return Ok(at);
    }
    let message = "The `expires_at` timestamp must be between 30 minutes and 24 hours from \
                   Checkout Session creation.";
    Err(Problem::invalid(message).param(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_800_000_000_000;

    fn form(changes: &[(&str, Option<&str>)]) -> String {
        let mut fields = vec![
            ("mode", "payment"),
            ("client_reference_id", "a1"),
            ("payment_intent_data[metadata][attempt]", "a1"),
            ("payment_method_types[0]", "ideal"),
            ("line_items[0][quantity]", "1"),
            ("line_items[0][price_data][currency]", "eur"),
            ("line_items[0][price_data][unit_amount]", "4990"),
            ("line_items[0][price_data][product_data][name]", "order"),
            ("success_url", "https://x.example/r"),
            ("expires_at", "1800001800"),
        ];
        for (name, value) in changes {
            fields.retain(|(known, _)| known != name);
            fields.extend(value.map(|value| (*name, value)));
        }
        let mut form = url::form_urlencoded::Serializer::new(String::new());
        form.extend_pairs(fields);
        form.finish()
    }

    fn read(changes: &[(&str, Option<&str>)]) -> Result<Create, Problem> {
        Create::read(Params::of_query(Some(&form(changes)))?, NOW)
    }

    #[test]
    fn what_stripe_would_refuse_is_refused() {
        assert_eq!(read(&[]).unwrap().due.value, Amount(4990));
        for change in [
            ("mode", None),
            ("mode", Some("setup")),
            ("line_items[0][quantity]", None),
            ("success_url", None),
            ("success_url", Some("javascript:1")),
            ("line_items[0][price_data][unit_amount]", Some("49.90")),
            ("line_items[0][price_data][unit_amount]", Some("49")),
            ("line_items[0][price_data][unit_amount]", Some("100000000")),
            ("line_items[0][price_data][currency]", Some("EUR")),
            ("line_items[0][price_data][currency]", Some("usd")),
            ("line_items[0][price_data][product_data][name]", None),
            ("payment_method_types[0]", Some("cash_app")),
            ("payment_intent_data[capture_method]", Some("manual")),
            ("customer_email", Some("nobody")),
            ("expires_at", Some("1800001799")),
            ("expires_at", Some("1800086401")),
            ("amount", Some("4990")),
        ] {
            assert!(read(&[change]).is_err(), "{change:?}");
        }
        assert!(read(&[("expires_at", Some("1800086400"))]).is_ok());
    }

    #[test]
    fn what_only_the_gateway_sends_may_be_absent() {
        let bare = [
            ("client_reference_id", None),
            ("payment_intent_data[metadata][attempt]", None),
            ("payment_method_types[0]", None),
            ("expires_at", None),
            ("metadata[cart]", Some("7")),
            ("locale", Some("nl")),
            ("automatic_tax[enabled]", Some("false")),
            ("line_items[0][price_data][tax_behavior]", Some("inclusive")),
        ];
        assert_eq!(read(&bare).unwrap().method, "credit_card");
    }

    #[test]
    fn several_things_are_paid_together() {
        let two = [
            ("line_items[0][quantity]", Some("2")),
            ("line_items[1][quantity]", Some("1")),
            ("line_items[1][price_data][currency]", Some("eur")),
            ("line_items[1][price_data][unit_amount]", Some("20")),
            ("line_items[1][price_data][product_data][name]", Some("bag")),
        ];
        assert_eq!(read(&two).unwrap().due.value, Amount(10_000));
        let mut other = two;
        other[2].1 = Some("usd");
        assert!(read(&other).is_err());
    }
}
