//! Creating an invoice.
//!
//! The server does not support idempotency keys, so the invoice of an earlier call is searched for first. One
//! request contains everything: the description, the return address, and the search term. The invoice's lifetime
//! and the number of confirmations are settings of the store.
use kassette_plugin::json::{Json, object};
use kassette_plugin::provider::call::Answer;
use kassette_plugin::provider::{
    Account, Action, Attempt, Instructions, Open, QueryFailure, StartFailure, Started,
};

use crate::wire::{self, Invoice, InvoiceStatus};
use crate::{api, instructions, query};

/// Creates the invoice, or finds the invoice that an earlier call created.
pub(crate) fn start(account: &Account, attempt: &Attempt) -> Result<Started, StartFailure> {
    let known = query::find(account, attempt).map_err(|failure| match failure {
        // This call created nothing; the host queries the result of earlier ones.
        QueryFailure::Unavailable(why) => StartFailure::Unavailable(why),
        QueryFailure::Absent => StartFailure::Unavailable("the store is not there".into()),
    })?;
    if let Some(known) = known {
        return opened(known, attempt);
    }
    let post = |body| api::post(account, &api::invoices(account), &body);
    let mut answer = post(creation(attempt, true))?;
    if is_about_decoration(&answer) {
        answer = post(creation(attempt, false))?;
    }
    opened(invoice(&answer, account, attempt)?, attempt)
}

/// Body of the creation. Webhooks contain its metadata; with `decorated` this includes the description and the
/// payer's e-mail address.
fn creation(attempt: &Attempt, decorated: bool) -> Json {
    let item: String = format!("{}: {}", attempt.merchant, attempt.merchant_order)
        .chars()
        .filter(|c| !c.is_control())
        .collect();
    let mut metadata = vec![("orderId".to_owned(), attempt.id.as_str().into())];
    if decorated {
        metadata.push(("itemDesc".to_owned(), item.into()));
        if let Some(email) = &attempt.payer.email {
            metadata.push(("buyerEmail".to_owned(), email.as_str().into()));
        }
    }
    let checkout = object([
        ("redirectURL", attempt.return_url.as_str().into()),
        ("redirectAutomatically", true.into()),
    ]);
    object([
        ("amount", wire::decimal(attempt.due.amount).into()),
        ("currency", attempt.due.currency.as_str().into()),
        ("metadata", Json::Object(metadata)),
        ("checkout", checkout),
        (
            "additionalSearchTerms",
            vec![Json::from(attempt.id.as_str())].into(),
        ),
    ])
}

/// Whether the server refuses the description or the payer's e-mail address, which are optional.
fn is_about_decoration(answer: &Answer) -> bool {
    let fields = wire::refused_fields(answer);
    let decorative = |field: &String| {
        let field = field.to_ascii_lowercase();
        field.contains("itemdesc") || field.contains("buyer")
    };
    matches!(answer.status, 400 | 422) && fields.iter().any(decorative)
}

/// The invoice in an answer, if it belongs to the attempt.
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

/// Continues with an invoice that is paid or payable.
fn opened(invoice: Invoice, attempt: &Attempt) -> Result<Started, StartFailure> {
    let other_amount = invoice.due.is_some_and(|due| due != attempt.due.amount);
    if other_amount || invoice.currency != attempt.due.currency {
        return Err(about_something_else(&invoice));
    }
    let over = matches!(
        invoice.status,
        InvoiceStatus::Expired | InvoiceStatus::Invalid
    );
    if over && !invoice.is_paid() {
        return Err(StartFailure::Declined(format!("{} is over", invoice.id)));
    }
    let page = invoice
        .checkout
        .ok_or_else(|| StartFailure::Uncertain(format!("{} has no page", invoice.id)))?;
    Ok(Started::Open(Open {
        reference: invoice.id,
        action: Action::Show(Instructions {
            text: instructions::text(attempt.payer.language.as_deref()).into(),
            // The host's page shows the amount in the payer's notation.
            details: Vec::new(),
            qr: Some(page.clone()),
            link: Some(page),
        }),
        until: invoice.expires_at,
    }))
}

/// Whether an invoice belongs to the attempt and the store. Missing values match.
pub(crate) fn is_ours(invoice: &Invoice, account: &Account, attempt: &Attempt) -> bool {
    let store = invoice.store.as_deref();
    let named = invoice.attempt.as_ref();
    named.is_none_or(|named| *named == attempt.id)
        && store.is_none_or(|store| store == api::store_id(account))
}

/// Maps a refusal to its meaning.
fn refused(answer: &Answer) -> StartFailure {
    let why = wire::refusal(answer);
    let fields = wire::refused_fields(answer);
    match answer.status {
        // The store has no rate for the currency.
        400 | 422
            if fields
                .iter()
                .any(|field| field.eq_ignore_ascii_case("currency")) =>
        {
            StartFailure::NotActivated(why)
        }
        // The request was refused or not processed: no wallet, or a proxy without its server. Another account may
        // accept it.
        400..=499 | 503 => StartFailure::Unavailable(why),
        // 500 and undocumented statuses: the invoice may exist.
        _ => StartFailure::Uncertain(why),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{account, attempt};
    use crate::wire::tests::told;

    #[test]
    fn an_invoice_is_over_the_amount_due_leads_back_and_can_be_found_by_our_attempt() {
        let mut known = attempt();
        known.payer.email = Some("payer@shop.example".into());
        assert_eq!(
            creation(&known, true).to_string(),
            concat!(
                r#"{"amount":"49.90","currency":"EUR","metadata":{"orderId":"attempt-1","#,
                r#""itemDesc":"Demo shop: order-1","buyerEmail":"payer@shop.example"},"#,
                r#""checkout":{"redirectURL":"https://pay.example/return/1","#,
                r#""redirectAutomatically":true},"additionalSearchTerms":["attempt-1"]}"#
            )
        );
        let plain = creation(&known, false).to_string();
        assert!(
            plain.contains(r#""metadata":{"orderId":"attempt-1"}"#),
            "{plain}"
        );
    }

    #[test]
    fn a_refusal_tells_decoration_currency_and_the_rest_apart() {
        let refusal = |path: &str| Answer {
            status: 422,
            headers: Vec::new(),
            body: format!(r#"[{{"path":"{path}","message":"m"}}]"#).into_bytes(),
        };
        assert!(is_about_decoration(&refusal("metadata.buyerEmail")));
        assert!(!is_about_decoration(&refusal("amount")));
        assert!(matches!(
            refused(&refusal("currency")),
            StartFailure::NotActivated(_)
        ));
        assert!(matches!(
            refused(&refusal("amount")),
            StartFailure::Unavailable(_)
        ));
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
            // Money was received nevertheless: the host must not try another account.
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
