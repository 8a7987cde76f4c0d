//! Creating an invoice.
//!
//! The server knows no idempotency keys, so what an earlier call made is looked for first. The
//! document's schema of a creation allows amount, currency and search terms and nothing else, so the
//! rest is told in a second request, and until it has been no payer gets the invoice's address. What an
//! invoice is created with beside that, its life and the confirmations it waits for, is the store's.
use kassette_plugin::json::{Json, object};
use kassette_plugin::provider::call::{Answer, Broken};
use kassette_plugin::provider::{
    Account, Action, Attempt, Instructions, Open, QueryFailure, StartFailure, Started,
};

use crate::wire::{self, Invoice, InvoiceStatus};
use crate::{api, instructions, query};

/// Creates the invoice, or finds the one that an earlier call made.
pub(crate) fn start(account: &Account, attempt: &Attempt) -> Result<Started, StartFailure> {
    let known = query::find(account, attempt).map_err(|failure| match failure {
        // This call has made nothing; what an earlier one did, the host asks about.
        QueryFailure::Unavailable(why) => StartFailure::Unavailable(why),
        QueryFailure::Absent => StartFailure::Unavailable("the store is not there".into()),
    })?;
    let invoice = if let Some(known) = known {
        known
    } else {
        let answer = api::post(account, &api::invoices(account), &creation(attempt))?;
        invoice(&answer, account, attempt)?
    };
    if invoice.attempt.is_some() {
        return opened(invoice, attempt);
    }
    let path = format!("/invoices/{}", invoice.id);
    // The invoice is there, whether this arrives or not.
    let uncertain =
        |(Broken::NotSent(why) | Broken::NoAnswer(why)): Broken| StartFailure::Uncertain(why);
    let answer = api::put(account, &path, &description(attempt)).map_err(uncertain)?;
    opened(self::invoice(&answer, account, attempt)?, attempt)
}

fn creation(attempt: &Attempt) -> Json {
    object([
        ("amount", wire::decimal(attempt.due.amount).into()),
        ("currency", attempt.due.currency.as_str().into()),
        (
            "additionalSearchTerms",
            vec![Json::from(attempt.id.as_str())].into(),
        ),
    ])
}

/// What the invoice is for. Webhooks repeat it.
fn description(attempt: &Attempt) -> Json {
    let item: String = format!("{}: {}", attempt.merchant, attempt.merchant_order)
        .chars()
        .filter(|c| !c.is_control())
        .collect();
    let mut metadata = vec![
        ("orderId".to_owned(), attempt.id.as_str().into()),
        ("itemDesc".to_owned(), item.into()),
    ];
    if let Some(email) = &attempt.payer.email {
        metadata.push(("buyerEmail".to_owned(), email.as_str().into()));
    }
    object([("metadata", Json::Object(metadata))])
}

/// The invoice of an answer, where it is ours.
fn invoice(answer: &Answer, account: &Account, attempt: &Attempt) -> Result<Invoice, StartFailure> {
    if answer.status != 200 {
        return Err(refused(answer));
    }
    let invoice = wire::invoice(&answer.body)
        .ok_or_else(|| StartFailure::Uncertain("the answer cannot be read".into()))?;
    if is_ours(&invoice, account, attempt) {
        Ok(invoice)
    } else {
        Err(about_something_else(&invoice))
    }
}

fn about_something_else(invoice: &Invoice) -> StartFailure {
    StartFailure::Uncertain(format!("{} is about something else", invoice.id))
}

/// Goes on with an invoice that can still be paid or has been.
fn opened(invoice: Invoice, attempt: &Attempt) -> Result<Started, StartFailure> {
    if invoice.due != attempt.due {
        return Err(about_something_else(&invoice));
    }
    let over = matches!(
        invoice.status,
        InvoiceStatus::Expired | InvoiceStatus::Invalid
    );
    if over && !invoice.is_paid() {
        return Err(StartFailure::Declined(format!("{} is over", invoice.id)));
    }
    Ok(Started::Open(Open {
        reference: invoice.id,
        action: Action::Show(Instructions {
            text: instructions::text(attempt.payer.language.as_deref()).into(),
            // The host's page shows the amount as the payer writes it.
            details: Vec::new(),
            qr: Some(invoice.checkout.clone()),
            link: Some(invoice.checkout),
        }),
        until: Some(invoice.expires_at),
    }))
}

/// Whether an invoice is the attempt's. One that was found by the attempt's id and has not been told
/// yet what it is for is.
pub(crate) fn is_ours(invoice: &Invoice, account: &Account, attempt: &Attempt) -> bool {
    let named = invoice.attempt.as_ref();
    named.is_none_or(|named| *named == attempt.id) && invoice.store == api::store_id(account)
}

/// What a refusal proves.
fn refused(answer: &Answer) -> StartFailure {
    let why = wire::refusal(answer);
    match answer.status {
        // The request was refused, or not looked at: no rate for the currency, no wallet, a proxy
        // without its server. Another account need not refuse it, and no payer was given the
        // address of an invoice that was made and could not be described.
        400..=499 | 503 => StartFailure::Unavailable(why),
        // 500 and everything undocumented: the invoice may exist.
        _ => StartFailure::Uncertain(why),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{account, attempt};
    use crate::wire::tests::told;

    #[test]
    fn an_invoice_is_over_the_amount_due_and_can_be_found_by_our_attempt() {
        assert_eq!(
            creation(&attempt()).to_string(),
            r#"{"amount":"49.90","currency":"EUR","additionalSearchTerms":["attempt-1"]}"#
        );
        let mut known = attempt();
        known.payer.email = Some("payer@shop.example".into());
        assert_eq!(
            description(&known).to_string(),
            concat!(
                r#"{"metadata":{"orderId":"attempt-1","itemDesc":"Demo shop: order-1","#,
                r#""buyerEmail":"payer@shop.example"}}"#
            )
        );
    }

    fn answer(invoice: &serde_json::Value) -> Answer {
        Answer {
            status: 200,
            headers: Vec::new(),
            body: invoice.to_string().into_bytes(),
        }
    }

    fn opened_as(status: &str, paid: &str) -> Result<Started, StartFailure> {
        let answer = answer(&told(status, "None", paid));
        opened(invoice(&answer, &account(), &attempt())?, &attempt())
    }

    #[test]
    fn an_invoice_that_is_over_cannot_be_started() {
        for status in ["Expired", "Invalid"] {
            assert!(matches!(
                opened_as(status, "0"),
                Err(StartFailure::Declined(_))
            ));
            // Money came all the same: nothing may be tried elsewhere.
            assert!(matches!(opened_as(status, "49.90"), Ok(Started::Open(_))));
        }
        for status in ["New", "Processing", "Settled"] {
            assert!(matches!(opened_as(status, "0"), Ok(Started::Open(_))));
        }
    }

    #[test]
    fn an_invoice_about_something_else_is_not_ours() {
        for (name, odd) in [
            ("storeId", serde_json::json!("other")),
            ("amount", serde_json::json!("49.91")),
            ("currency", serde_json::json!("USD")),
            ("metadata", serde_json::json!({ "orderId": "attempt-2" })),
        ] {
            let mut other = told("New", "None", "0");
            other[name] = odd;
            let opened = invoice(&answer(&other), &account(), &attempt())
                .and_then(|invoice| opened(invoice, &attempt()));
            assert!(matches!(opened, Err(StartFailure::Uncertain(_))), "{name}");
        }
    }
}
