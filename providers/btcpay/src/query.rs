//! Asking where an invoice stands, after doing what the host asks for.
use kassette_plugin::encode::percent;
use kassette_plugin::provider::call::Answer;
use kassette_plugin::provider::{Account, Attempt, QueryFailure, QueryPurpose, Report};

use crate::coins::{self, Coins};
use crate::wire::{self, Invoice};
use crate::{api, start};

/// Finds the invoice, fulfils the purpose, and tells. There is nothing to capture: what is confirmed is
/// the store's.
pub(crate) fn query(
    account: &Account,
    attempt: &Attempt,
    reference: Option<&str>,
    purpose: QueryPurpose,
    // An invoice is always found by the attempt's id, so the payer's word is not needed.
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

/// The coins that came. Of an invoice that the server has settled in full and in time, or is confirming,
/// they only tell more: it is told without them where they cannot be had.
fn coins_of(account: &Account, invoice: &Invoice) -> Result<Coins, QueryFailure> {
    let read = || {
        let answer = api::get(
            account,
            &format!("/invoices/{}/payment-methods", invoice.id),
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
    let answer = api::get(account, &format!("/invoices/{id}"))?;
    match answer.status {
        200 => ours(wire::invoice(&answer.body), account, attempt),
        404 => Err(QueryFailure::Absent),
        _ => Err(refused(&answer)),
    }
}

/// Looks the attempt up by its id, a search term of every invoice. Where a lost answer and its
/// repeat made two, the one that money came to counts, then the one that can be paid; no payer
/// was given the address of the other.
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
            invoice.created_at,
        )
    }))
}

/// Marks an invoice so that its page takes no payment any more.
fn invalidate(
    account: &Account,
    attempt: &Attempt,
    invoice: &Invoice,
) -> Result<Invoice, QueryFailure> {
    let path = format!("/invoices/{}/status", invoice.id);
    let answer = api::post(account, &path, &wire::mark_invalid())?;
    match answer.status {
        200 => ours(wire::invoice(&answer.body), account, attempt),
        // It has moved on meanwhile: what it is now is the answer.
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

    /// A server that has made two invoices of one attempt.
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
}
