//! Querying an attempt: its page, or the payment if it is known.
use kassette_plugin::json::object;
use kassette_plugin::provider::call::{Answer, Broken};
use kassette_plugin::provider::{Account, Attempt, QueryFailure, QueryPurpose, Report};

use crate::reference::Reference;
use crate::{api, link, methods, payment, session, start, wire};

/// Fulfils the purpose and reports the status.
pub(crate) fn query(
    account: &Account,
    attempt: &Attempt,
    reference: Option<&str>,
    purpose: QueryPurpose,
    return_query: Option<&str>,
) -> Result<Report, QueryFailure> {
    let known = match reference {
        Some(reference) => Reference::read(reference)
            .ok_or_else(|| payment::unavailable("the reference is not one of this module's"))?,
        None => {
            let id = recover(account, attempt)?;
            let is_link = !methods::is_captured_by_us(&attempt.method);
            if is_link && purpose == QueryPurpose::Cancel {
                // No payer received the link's address.
                let ended = link::end(account, &attempt.id, &id, "link expired")?;
                return ended.ok_or_else(|| payment::unavailable("the link is not expired"));
            }
            Reference::Page(id)
        }
    };
    match known {
        Reference::Payment(known) => payment::query(account, attempt, &known, purpose),
        Reference::Page(id) if methods::is_captured_by_us(&attempt.method) => {
            session::query(account, attempt, &id, purpose, return_query)
        }
        Reference::Page(id) => link::query(account, attempt, &id, purpose),
    }
}

/// Id of the page of a start whose answer was lost. Sessions and links cannot be searched for, but Adyen answers a
/// creation that is repeated under its key with the first page. If the repetition creates the page, no payer has
/// received its address.
fn recover(account: &Account, attempt: &Attempt) -> Result<String, QueryFailure> {
    let answer = start::create(account, attempt)?;
    let problem = match answer.status {
        201 => {
            let page = start::page(&answer, account, attempt);
            let page = page.ok_or_else(|| payment::unavailable("not about this attempt"))?;
            return Ok(page.id);
        }
        _ => wire::problem(&answer),
    };
    match problem.status {
        // Adyen evaluated the request and refused it, for example because the expiry has passed: so nothing was
        // created under the key before.
        400 | 422 if problem.code != start::IN_PROGRESS => Err(QueryFailure::Absent),
        _ => Err(QueryFailure::Unavailable(problem.to_string())),
    }
}

/// Requests the payment methods, which shows whether Adyen accepts the key and the merchant account.
pub(crate) fn methods_of(account: &Account) -> Result<Answer, Broken> {
    let body = object([("merchantAccount", api::merchant_account(account).into())]);
    api::ask(account, "/paymentMethods", &body)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{account, attempt};

    #[test]
    fn a_reference_of_another_form_is_not_used() {
        let odd = query(
            &account(),
            &attempt("ideal"),
            Some("../x"),
            QueryPurpose::Sync,
            None,
        );
        assert!(matches!(odd, Err(QueryFailure::Unavailable(_))));
    }
}
