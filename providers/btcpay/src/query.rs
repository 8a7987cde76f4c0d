//! Querying an invoice, after closing it if the host requests this.
use kassette_plugin::encode::percent;
use kassette_plugin::provider::call::Answer;
use kassette_plugin::provider::{Account, Attempt, QueryFailure, QueryPurpose, Report};

use crate::coins::{self, Coins};
use crate::wire::{self, Invoice};
use crate::{api, start};

/// The server's error code for an unknown invoice.
const NOT_FOUND: &str = "invoice-not-found";

/// Finds the invoice, closes it if the purpose requires this, and reports its status. A capture is not necessary:
/// confirmed payments belong to the store.
pub(crate) fn query(
    account: &Account,
    attempt: &Attempt,
    reference: Option<&str>,
    purpose: QueryPurpose,
    // Not needed, because an invoice can always be found by the attempt's id.
    _: Option<&str>,
) -> Result<Report, QueryFailure> {
    let mut invoice = match reference {
        Some(reference) => fetch(account, attempt, reference)?,
        None => find(account, attempt)?.ok_or(QueryFailure::Absent)?,
    };
    if purpose == QueryPurpose::Cancel && invoice.is_untouched() {
        invoice = invalidate(account, attempt, &invoice)?;
    }
    let coins = match invoice.is_paid() {
        true => coins_of(account, &invoice)?,
        false => Coins::default(),
    };
    Ok(invoice.report(purpose, account.now, coins))
}

/// The payments of an invoice. If the server is confirming the invoice, or has settled it in full and in time,
/// they only add details, and a failed query results in none.
fn coins_of(account: &Account, invoice: &Invoice) -> Result<Coins, QueryFailure> {
    let read = || {
        let answer = api::get(
            account,
            &format!("{}/payment-methods", api::invoice(account, &invoice.id)),
        )?;
        match answer.status {
            200 => coins::coins(&answer.body)
                .ok_or_else(|| unavailable("the coins that came cannot be read")),
            _ => Err(refused(&answer)),
        }
    };
    match read() {
        Err(_) if !invoice.is_odd() => Ok(Coins::default()),
        read => read,
    }
}

fn fetch(account: &Account, attempt: &Attempt, id: &str) -> Result<Invoice, QueryFailure> {
    if !wire::is_plain(id) {
        return Err(unavailable("the reference is not one of this module's"));
    }
    let answer = api::get(account, &api::invoice(account, id))?;
    match answer.status {
        200 => ours(wire::invoice(&answer.body), account, attempt),
        // Any other 404 concerns a store, an address or a proxy, and proves nothing.
        404 if wire::code(&answer) == NOT_FOUND => Err(QueryFailure::Absent),
        _ => Err(refused(&answer)),
    }
}

/// Searches for the invoice by the attempt's id, which is a search term of every invoice. If a lost answer and its
/// repetition created two, the one with money counts, then the payable one; no payer received the address of the
/// other. `None` if there are none.
pub(crate) fn find(account: &Account, attempt: &Attempt) -> Result<Option<Invoice>, QueryFailure> {
    let path = format!(
        "{}?textSearch={}",
        api::invoices(account),
        percent(&attempt.id)
    );
    let answer = api::get(account, &path)?;
    if answer.status != 200 {
        return Err(refused(&answer));
    }
    let found = wire::invoices(&answer.body)
        .ok_or_else(|| unavailable("the answer cannot be read"))?
        .into_iter()
        .filter(|invoice| start::is_ours(invoice, account, attempt));
    Ok(found.min_by_key(|invoice| {
        (
            !invoice.is_paid(),
            !invoice.is_untouched(),
            invoice.created_at.unwrap_or(u64::MAX),
        )
    }))
}

/// Marks an invoice as invalid, so that its page accepts no payment.
fn invalidate(
    account: &Account,
    attempt: &Attempt,
    invoice: &Invoice,
) -> Result<Invoice, QueryFailure> {
    let path = format!("{}/status", api::invoice(account, &invoice.id));
    let answer = api::post(account, &path, &wire::mark_invalid())?;
    match answer.status {
        200 => ours(wire::invoice(&answer.body), account, attempt),
        // The invoice has changed in the meantime: read its current state.
        400 | 404 | 422 => fetch(account, attempt, &invoice.id),
        _ => Err(refused(&answer)),
    }
}

fn ours(
    invoice: Option<Invoice>,
    account: &Account,
    attempt: &Attempt,
) -> Result<Invoice, QueryFailure> {
    let invoice = invoice.ok_or_else(|| unavailable("the answer cannot be read"))?;
    if start::is_ours(&invoice, account, attempt) {
        Ok(invoice)
    } else {
        Err(unavailable(&format!(
            "{} belongs to another attempt",
            invoice.id
        )))
    }
}

fn refused(answer: &Answer) -> QueryFailure {
    QueryFailure::Unavailable(wire::refusal(answer))
}

fn unavailable(why: &str) -> QueryFailure {
    QueryFailure::Unavailable(why.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{account, attempt};
    use crate::wire::tests::told;
    use kassette_plugin::provider::http::{Request, Response, SendFailure};
    use kassette_plugin::testing::{Host, with_host};
    use serde_json::json;

    /// A server that has created two invoices of one attempt.
    struct Twice(&'static str);
    impl Host for Twice {
        fn send(&mut self, request: &Request) -> Result<Response, SendFailure> {
            assert!(
                request
                    .url
                    .ends_with("/api/v1/stores/shop/invoices?textSearch=attempt-1")
            );
            let mut first = told("New", "None", "0");
            let mut second = told(self.0, "None", "49.90");
            first["id"] = json!("first");
            second["id"] = json!("second");
            second["createdTime"] = json!(1_799_996_401);
            if self.0 == "New" {
                second["paidAmount"] = json!("0");
            }
            let mut other = told("Settled", "None", "49.90");
            other["metadata"]["orderId"] = json!("attempt-10");
            Ok(Response {
                status: 200,
                headers: Vec::new(),
                body: json!([second, first, other]).to_string().into_bytes(),
            })
        }
    }

    #[test]
    fn of_two_invoices_the_paid_one_counts_then_the_older() {
        for (status, id) in [
            ("Settled", "second"),
            ("Processing", "second"),
            ("New", "first"),
        ] {
            let found = with_host(Twice(status), || find(&account(), &attempt()));
            assert_eq!(
                found.unwrap().map(|invoice| invoice.id).as_deref(),
                Some(id)
            );
        }
    }

    #[test]
    fn a_reference_that_could_change_the_path_is_not_used() {
        let odd = query(
            &account(),
            &attempt(),
            Some("../users"),
            QueryPurpose::Sync,
            None,
        );
        assert!(matches!(odd, Err(QueryFailure::Unavailable(_))));
    }

    /// A server that answers 404 with this text.
    struct Missing(&'static str);
    impl Host for Missing {
        fn send(&mut self, request: &Request) -> Result<Response, SendFailure> {
            assert!(request.url.ends_with("/api/v1/stores/shop/invoices/first"));
            Ok(Response {
                status: 404,
                headers: Vec::new(),
                body: self.0.as_bytes().to_vec(),
            })
        }
    }

    #[test]
    fn only_the_servers_own_word_says_that_there_is_no_invoice() {
        let asked = |body| {
            with_host(Missing(body), || {
                query(
                    &account(),
                    &attempt(),
                    Some("first"),
                    QueryPurpose::Sync,
                    None,
                )
            })
        };
        let known = r#"{"code":"invoice-not-found","message":"The invoice was not found"}"#;
        assert_eq!(asked(known), Err(QueryFailure::Absent));
        for other in ["", "<html>", r#"{"code":"store-not-found"}"#] {
            assert!(
                matches!(asked(other), Err(QueryFailure::Unavailable(_))),
                "{other}"
            );
        }
    }
}
