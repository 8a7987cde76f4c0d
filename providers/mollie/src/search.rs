//! Finding a payment whose creation had no answer. Mollie cannot search by metadata, so the newest payments are
//! listed and searched for the attempt's id.
//!
//! A page of 250 payments has some hundred kilobytes; parsing all of it would take most of a call's time. So a
//! page is searched as text, and only the matching payment is parsed.
use kassette_plugin::json::Json;
use kassette_plugin::provider::{Account, QueryFailure};

use crate::wire::{self, Payment};
use crate::{api, particulars};

/// Payments per page: Mollie's maximum.
const PAGE: usize = 250;

/// Maximum number of pages: the thousand newest payments of the account. No payer has received an older payment
/// without a known reference, because only the lost answer contained its address.
const PAGES: usize = 4;

/// The attempt's payment. `None` if it is not among the account's newest payments.
pub(crate) fn find(account: &Account, attempt: &str) -> Result<Option<Payment>, QueryFailure> {
    let mut path = format!("/v2/payments?limit={PAGE}");
    for _ in 0..PAGES {
        let answer = api::get(account, &path)?;
        if answer.status != 200 {
            return Err(QueryFailure::Unavailable(
                wire::problem(&answer).to_string(),
            ));
        }
        let page = std::str::from_utf8(&answer.body).map_err(|_| unreadable())?;
        if let Some(at) = page.find(attempt) {
            let id = id_before(page, at).ok_or_else(unreadable)?;
            return read(account, id).map(Some);
        }
        match next(page).ok_or_else(unreadable)? {
            Some(from) => path = format!("/v2/payments?limit={PAGE}&from={from}"),
            None => return Ok(None),
        }
    }
    Ok(None)
}

/// Reads a payment by its id, with its details. The caller checks whether it belongs to the attempt.
pub(crate) fn read(account: &Account, id: &str) -> Result<Payment, QueryFailure> {
    let path = format!("/v2/payments/{id}?{}", particulars::EMBED);
    let answer = api::get(account, &path)?;
    match answer.status {
        200 => wire::payment(&answer.body).ok_or_else(unreadable),
        404 => Err(QueryFailure::Absent),
        _ => Err(QueryFailure::Unavailable(
            wire::problem(&answer).to_string(),
        )),
    }
}

fn unreadable() -> QueryFailure {
    QueryFailure::Unavailable("the answer cannot be read".into())
}

/// The last payment id before a position in a list: in Mollie's objects the id precedes the metadata.
fn id_before(page: &str, at: usize) -> Option<&str> {
    let before = page.get(..at)?;
    let id = before.get(before.rfind("\"tr_")? + 1..)?;
    let id = id.get(..id.find('"')?)?;
    wire::is_id(id).then_some(id)
}

/// First id of the next page; `Some(None)` after the last page. `None` if the list cannot be parsed.
fn next(page: &str) -> Option<Option<String>> {
    // The list's own links are the last member of its object; payments contain links too.
    let links = page.get(page.rfind("\"_links\"")?..)?;
    let links = Json::parse(format!("{{{links}").as_bytes())?;
    match links.path(&["_links", "next"])? {
        Json::Null => Some(None),
        next => {
            let address = next.get("href")?.text()?;
            let (_, from) = address.split_once("from=")?;
            let id = from.split('&').next().filter(|id| wire::is_id(id))?;
            Some(Some(id.to_owned()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::tests::told;
    use kassette_plugin::provider::Environment;
    use kassette_plugin::provider::http::{Request, Response, SendFailure};
    use kassette_plugin::testing::{Host, with_host};
    use serde_json::{Value, json};

    fn payment(number: usize, metadata: &Value) -> Value {
        let mut payment = told("open");
        payment["id"] = json!(format!("tr_{number}"));
        payment["metadata"] = metadata.clone();
        payment
    }

    fn list(payments: &[Value], next: Option<&str>) -> Value {
        let next = next.map(|id| {
            json!({ "href": format!("https://api.mollie.com/v2/payments?from={id}&limit=250"), "type": "application/hal+json" })
        });
        json!({
            "count": payments.len(),
            "_embedded": { "payments": payments },
            "_links": {
                "self": { "href": "https://api.mollie.com/v2/payments?limit=250", "type": "application/hal+json" },
                "previous": null,
                "next": next,
            },
        })
    }

    /// An account with that many payments; one of them belongs to the attempt.
    struct Vendor {
        payments: Vec<Value>,
        asked: usize,
    }

    impl Host for Vendor {
        fn send(&mut self, request: &Request) -> Result<Response, SendFailure> {
            self.asked += 1;
            assert!(self.asked <= PAGES + 1, "asks without end");
            let (_, path) = request.url.split_once("/v2/payments").unwrap();
            let body = if let Some(path) = path.strip_prefix('/') {
                let id = path.strip_suffix("?embed=captures,refunds,chargebacks");
                let id = id.expect("what belongs to the payment is asked for with it");
                self.payments
                    .iter()
                    .find(|p| p["id"] == id)
                    .unwrap()
                    .clone()
            } else {
                let from = path.split_once("from=").map_or("", |(_, from)| from);
                let start = self.payments.iter().position(|p| p["id"] == from);
                let rest = &self.payments[start.unwrap_or(0)..];
                let (page, rest) = rest.split_at(rest.len().min(PAGE));
                list(page, rest.first().and_then(|next| next["id"].as_str()))
            };
            Ok(Response {
                status: 200,
                headers: Vec::new(),
                body: serde_json::to_vec_pretty(&body).unwrap(),
            })
        }
    }

    fn search(payments: usize, place: usize) -> Option<String> {
        let attempt = "00000000000000000000000000000007";
        let metadata = |at| {
            if at == place {
                json!(attempt)
            } else {
                json!(format!("other-{at}"))
            }
        };
        let payments = (0..payments).map(|at| payment(at, &metadata(at))).collect();
        let account = Account {
            id: "mollie-test".into(),
            environment: Environment::Test,
            now: 0,
            callback_url: String::new(),
            settings: Vec::new(),
        };
        let found = with_host(Vendor { payments, asked: 0 }, || find(&account, attempt));
        found.unwrap().map(|payment| payment.id)
    }

    #[test]
    fn a_payment_is_found_wherever_it_stands_in_the_pages() {
        for place in [0, 1, 249, 250, 999] {
            assert_eq!(search(1_001, place), Some(format!("tr_{place}")), "{place}");
        }
    }

    #[test]
    fn a_payment_that_is_not_there_is_not_found() {
        for payments in [0, 1, 250, 251] {
            assert_eq!(search(payments, usize::MAX), None, "{payments}");
        }
        assert_eq!(search(1_200, 1_100), None);
    }

    #[test]
    fn the_list_is_read_without_spaces_too() {
        let page = list(
            &[payment(1, &json!("a")), payment(2, &json!("wanted"))],
            Some("tr_2"),
        );
        for text in [
            page.to_string(),
            serde_json::to_string_pretty(&page).unwrap(),
        ] {
            let at = text.find("wanted").unwrap();
            assert_eq!(id_before(&text, at), Some("tr_2"));
            assert_eq!(next(&text), Some(Some("tr_2".into())));
        }
        assert_eq!(next(&list(&[], None).to_string()), Some(None));
        for odd in [
            "",
            "{}",
            "{\"_links\":{}}",
            "{\"_links\":{\"next\":{\"href\":\"x\"}}}",
        ] {
            assert_eq!(next(odd), None, "{odd}");
        }
    }
}
