//! Asking where a payment stands, after doing what the host wishes.
use kassette_plugin::json::object;
use kassette_plugin::provider::call::{Answer, Broken};
use kassette_plugin::provider::{
    Account, Attempt, Money, QueryFailure, Report, Settlement, Status, Wish,
};

use crate::known::{Known, Payment, Stage};
use crate::wire::{self, Link, LinkStatus};
use crate::{api, methods, start};

/// Fulfils the wish and tells.
pub(crate) fn query(
    account: &Account,
    attempt: &Attempt,
    reference: Option<&str>,
    wish: Wish,
) -> Result<Report, QueryFailure> {
    let known = match reference {
        Some(reference) => Known::read(reference)
            .ok_or_else(|| unavailable("the reference is not one of this module's"))?,
        None => Known::Link(recover(account, attempt)?),
    };
    match known {
        Known::Payment(payment) => of_payment(account, attempt, &payment, wish),
        Known::Link(id) => {
            let mut link = ours(fetch(account, &id)?, account, attempt)?;
            if wish == Wish::Close && link.is_payable() {
                link = ours(expire(account, &id)?, account, attempt)?;
            }
            Ok(of_link(link, wish))
        }
    }
}

/// The link of a start whose answer was lost. Links cannot be searched for, but a creation that is
/// repeated under its key is answered with the link that the first one made. A link that only comes
/// into being now was given to nobody.
fn recover(account: &Account, attempt: &Attempt) -> Result<String, QueryFailure> {
    let answer = start::create(account, attempt)?;
    let problem = match answer.status {
        201 => {
            let link = wire::link(&answer.body);
            return Ok(ours(link, account, attempt)?.id);
        }
        _ => wire::problem(&answer),
    };
    match problem.status {
        // Looked at anew and refused, such as for a time of expiry that has passed: the key had made
        // nothing before.
        400 | 422 if problem.code != start::IN_PROGRESS => Err(QueryFailure::Absent),
        _ => Err(QueryFailure::Unavailable(problem.to_string())),
    }
}

/// Reads a link; none where the answer cannot be read.
pub(crate) fn fetch(account: &Account, id: &str) -> Result<Option<Link>, QueryFailure> {
    let answer = api::get(account, &format!("/paymentLinks/{id}"))?;
    match answer.status {
        200 => Ok(wire::link(&answer.body)),
        _ => Err(refused(&answer)),
    }
}

/// Makes sure that nobody begins to pay by the link any more.
pub(crate) fn expire(account: &Account, id: &str) -> Result<Option<Link>, QueryFailure> {
    let path = format!("/paymentLinks/{id}");
    let answer = api::patch(account, &path, &object([("status", "expired".into())]))?;
    match answer.status {
        200 => Ok(wire::link(&answer.body)),
        // It has moved on meanwhile: what it is now is the answer.
        422 => fetch(account, id),
        _ => Err(refused(&answer)),
    }
}

fn ours(link: Option<Link>, account: &Account, attempt: &Attempt) -> Result<Link, QueryFailure> {
    let link = link.ok_or_else(|| unavailable("the answer cannot be read"))?;
    if start::is_ours(&link, account, attempt) {
        Ok(link)
    } else {
        Err(unavailable(&format!(
            "{} belongs to another attempt",
            link.id
        )))
    }
}

impl Link {
    /// Whether somebody could still pay by it.
    pub(crate) fn is_payable(&self) -> bool {
        matches!(self.status, LinkStatus::Active | LinkStatus::Pending)
    }
}

/// What a link proves, which is never money.
fn of_link(link: Link, wish: Wish) -> Report {
    let (status, detail) = match link.status {
        LinkStatus::Active => (Status::Pending, "link active"),
        LinkStatus::Pending => (Status::Pending, "link paymentPending"),
        // Which payment it was and of what amount comes with its AUTHORISATION.
        LinkStatus::Completed => (Status::Processing, "link completed, AUTHORISATION awaited"),
        LinkStatus::Expired if wish == Wish::Close => (Status::Declined, "link expired"),
        LinkStatus::Expired => (Status::Expired, "link expired"),
    };
    Report {
        reference: link.id,
        status,
        settlement: Settlement::Pending,
        received: Money {
            amount: 0,
            currency: link.due.currency,
        },
        returned: 0,
        detail: detail.into(),
    }
}

fn of_payment(
    account: &Account,
    attempt: &Attempt,
    payment: &Payment,
    wish: Wish,
) -> Result<Report, QueryFailure> {
    let captured_by_us = methods::of(&attempt.method).is_none_or(|method| method.captured_by_us);
    match (payment.stage, wish) {
        (Stage::Captured, _) => Ok(payment.captured("CAPTURE")),
        (Stage::Cancelled, _) => Ok(payment.cancelled("cancelled")),
        (Stage::Noted, _) => Err(unavailable("only notifications tell more of this payment")),
        (Stage::Authorised, _) if !captured_by_us => {
            Ok(payment.captured("AUTHORISATION of a method that takes the money at once"))
        }
        (Stage::Authorised, Wish::Finish) => {
            modify(account, attempt, payment, Modification::Capture)
        }
        (Stage::Authorised, Wish::Close) => modify(account, attempt, payment, Modification::Cancel),
        (Stage::Authorised, Wish::Look) => Ok(payment.authorised("AUTHORISATION")),
    }
}

/// What can be asked of an authorised payment.
#[derive(Clone, Copy)]
enum Modification {
    Capture,
    Cancel,
}

/// Asks for a capture or a cancellation. Adyen takes the request in, and tells by a notification
/// what became of it: until then the payment is authorised.
///
/// Cancelled, never reversed: a reversal would give back what was captured meanwhile.
fn modify(
    account: &Account,
    attempt: &Attempt,
    payment: &Payment,
    modification: Modification,
) -> Result<Report, QueryFailure> {
    let mut fields = vec![
        (
            "merchantAccount".to_owned(),
            api::merchant_account(account).into(),
        ),
        // It comes back as the notification's merchantReference.
        ("reference".to_owned(), attempt.id.as_str().into()),
    ];
    let (path, operation, asked) = match modification {
        Modification::Capture => {
            fields.push(("amount".to_owned(), wire::money_json(&payment.amount)));
            ("captures", "capture", "CAPTURE awaited")
        }
        Modification::Cancel => ("cancels", "cancel", "CANCELLATION awaited"),
    };
    let path = format!("/payments/{}/{path}", payment.psp_reference);
    let key = format!("{}-{operation}", attempt.id);
    let body = kassette_plugin::json::Json::Object(fields);
    let answer = api::post(account, &path, &key, &body)?;
    match answer.status {
        201 if wire::is_received(&answer.body, &payment.psp_reference) => {
            Ok(payment.authorised(asked))
        }
        201 => Err(unavailable("the answer cannot be read")),
        _ => Err(refused(&answer)),
    }
}

/// After a refused try: a link that can still be paid is expired, so that `declined` is certain.
/// None where the link is not the attempt's or has been paid after all: then the host asks.
pub(crate) fn decline(
    account: &Account,
    attempt: &str,
    id: &str,
    detail: &str,
) -> Result<Option<Report>, QueryFailure> {
    let belongs = |link: &Link| {
        link.attempt == attempt && link.merchant_account == api::merchant_account(account)
    };
    let Some(mut link) = fetch(account, id)?.filter(belongs) else {
        return Ok(None);
    };
    if link.is_payable() {
        match expire(account, id)?.filter(belongs) {
            Some(expired) => link = expired,
            None => return Err(unavailable("the answer cannot be read")),
        }
    }
    if link.status != LinkStatus::Expired {
        return Ok(None);
    }
    let mut report = of_link(link, Wish::Close);
    detail.clone_into(&mut report.detail);
    Ok(Some(report))
}

fn refused(answer: &Answer) -> QueryFailure {
    QueryFailure::Unavailable(wire::problem(answer).to_string())
}

fn unavailable(why: &str) -> QueryFailure {
    QueryFailure::Unavailable(why.into())
}

/// Whether Adyen can be reached with this key and merchant account.
pub(crate) fn methods_of(account: &Account) -> Result<Answer, Broken> {
    let body = object([("merchantAccount", api::merchant_account(account).into())]);
    api::ask(account, "/paymentMethods", &body)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{account, attempt};
    use crate::wire::tests::told;

    fn link(status: &str) -> Link {
        wire::link(told(status).to_string().as_bytes()).unwrap()
    }

    #[test]
    fn a_link_never_proves_money() {
        for status in ["active", "paymentPending", "completed", "paid", "expired"] {
            for wish in [Wish::Finish, Wish::Look, Wish::Close] {
                let report = of_link(link(status), wish);
                assert_ne!(report.status, Status::Completed, "{status}");
                assert_eq!(report.received.amount, 0, "{status}");
            }
        }
    }

    #[test]
    fn only_an_expired_link_ends_the_attempt() {
        for (told_as, wish, status) in [
            ("active", Wish::Close, Status::Pending),
            ("paymentPending", Wish::Close, Status::Pending),
            ("completed", Wish::Close, Status::Processing),
            ("expired", Wish::Close, Status::Declined),
            ("expired", Wish::Look, Status::Expired),
        ] {
            assert_eq!(of_link(link(told_as), wish).status, status, "{told_as}");
        }
    }

    fn authorised(method: &str, wish: Wish) -> Result<Report, QueryFailure> {
        let reference = "993617898204183D/4990EUR/authorised";
        query(&account(), &attempt(method), Some(reference), wish)
    }

    #[test]
    fn an_authorisation_proves_money_only_where_the_method_takes_it_at_once() {
        for method in ["ideal", "upi_imps"] {
            for wish in [Wish::Finish, Wish::Look, Wish::Close] {
                let report = authorised(method, wish).unwrap();
                assert_eq!(
                    (report.status, report.settlement, report.received.amount),
                    (Status::Completed, Settlement::Confirmed, 4990),
                    "{method}"
                );
            }
        }
        for method in ["credit_card", "klarna", "paypal"] {
            let report = authorised(method, Wish::Look).unwrap();
            assert_eq!(
                (report.status, report.settlement),
                (Status::Processing, Settlement::Pending),
                "{method}"
            );
            // Both need a request, and there is no network here.
            for wish in [Wish::Finish, Wish::Close] {
                assert!(authorised(method, wish).is_err(), "{method}");
            }
        }
    }

    #[test]
    fn a_reference_of_somebody_elses_is_not_used() {
        let odd = query(&account(), &attempt("ideal"), Some("../x"), Wish::Look);
        assert!(matches!(odd, Err(QueryFailure::Unavailable(_))));
    }
}
