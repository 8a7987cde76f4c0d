//! Asking where a payment stands, after doing what the host wishes.
use kassette_plugin::json::{Json, object};
use kassette_plugin::provider::{Account, Attempt, QueryFailure, Report, Status, Wish};

use crate::api;
use crate::wire::{self, Handle, Handled, Paid, Payment};

/// What is done about a handle before it is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    /// Ask for the money.
    Pay,
    /// See whether the money was asked for, and say that it never will be.
    Close,
}

/// Finds handle and payment by the attempt's id, fulfils the wish, and tells.
pub(crate) fn query(
    account: &Account,
    attempt: &Attempt,
    wish: Wish,
) -> Result<Report, QueryFailure> {
    let handle = handle(account, attempt)?.ok_or(QueryFailure::Absent)?;
    match needed(handle.stands, wish) {
        Some(Act::Pay) if handle.due != attempt.due => Ok(handle.says(
            Status::Review,
            "the handle's amount is not what is due; it was not asked for",
        )),
        Some(Act::Pay) => pay(account, attempt, &handle),
        Some(Act::Close) => match payment(account, attempt)? {
            Some(payment) => told(account, attempt, &handle, &payment, wish),
            None => Ok(handle.says(Status::Declined, "called off by the merchant")),
        },
        None => match handle.report() {
            Some(report) => Ok(report),
            None => {
                let payment = payment(account, attempt)?;
                let payment = payment.ok_or_else(|| unavailable("the payment is not shown yet"))?;
                told(account, attempt, &handle, &payment, wish)
            }
        },
    }
}

/// What the wish asks of a handle in this state. A handle cannot be called off; that the money is never
/// asked for is what closes it.
fn needed(stands: Handled, wish: Wish) -> Option<Act> {
    match (stands, wish) {
        (Handled::Payable, Wish::Finish) => Some(Act::Pay),
        (Handled::Waiting | Handled::Payable, Wish::Close) => Some(Act::Close),
        _ => None,
    }
}

/// Asks for the money. A handle pays once, and `dupCheck` forbids a second payment of the attempt.
fn pay(account: &Account, attempt: &Attempt, handle: &Handle) -> Result<Report, QueryFailure> {
    let body = object([
        ("merchantRefNum", attempt.id.as_str().into()),
        ("amount", attempt.due.amount.into()),
        ("currencyCode", attempt.due.currency.as_str().into()),
        ("paymentHandleToken", handle.token.as_str().into()),
        ("settleWithAuth", true.into()),
        ("dupCheck", true.into()),
    ]);
    let answer = api::post(account, "/payments", &body)?;
    match answer.status {
        200 | 201 => {
            let told = answer.json();
            let told = told.as_ref().and_then(wire::payment);
            let ours = told.filter(|(named, _)| *named == attempt.id);
            let (_, payment) = ours.ok_or_else(|| unavailable("the answer cannot be read"))?;
            Ok(payment.report(Some(&handle.id), 0))
        }
        // Declined payments are recorded, and a payment that was made before is there.
        400..=499 if answer.status != 429 => match payment(account, attempt)? {
            Some(payment) => Ok(payment.report(Some(&handle.id), 0)),
            None => Err(unavailable(&api::problem(&answer).to_string())),
        },
        _ => Err(unavailable(&api::problem(&answer).to_string())),
    }
}

/// Tells a payment. What was given back stands in its settlements.
fn told(
    account: &Account,
    attempt: &Attempt,
    handle: &Handle,
    payment: &Payment,
    wish: Wish,
) -> Result<Report, QueryFailure> {
    let mut returned = 0;
    if payment.stands == Paid::Completed && wish == Wish::Look {
        let settlements = look_up(account, attempt, "settlements")?;
        let sum = wire::returned(&settlements);
        returned = sum.ok_or_else(|| unavailable("the settlements cannot be read"))?;
    }
    Ok(payment.report(Some(&handle.id), returned))
}

/// The attempt's handle. There is at most one, because none is made without `dupCheck`.
pub(crate) fn handle(account: &Account, attempt: &Attempt) -> Result<Option<Handle>, QueryFailure> {
    let answer = look_up(account, attempt, "paymenthandles")?;
    let found = wire::found(&answer, "paymentHandles", &attempt.id, wire::handle);
    let found = found.ok_or_else(|| unavailable("the handles cannot be read"))?;
    Ok(found.into_iter().next())
}

/// The attempt's payment: where there are several, the one that is furthest.
fn payment(account: &Account, attempt: &Attempt) -> Result<Option<Payment>, QueryFailure> {
    let answer = look_up(account, attempt, "payments")?;
    let found = wire::found(&answer, "payments", &attempt.id, wire::payment);
    let found = found.ok_or_else(|| unavailable("the payments cannot be read"))?;
    Ok(found.into_iter().min_by_key(|payment| payment.stands))
}

fn look_up(account: &Account, attempt: &Attempt, what: &str) -> Result<Json, QueryFailure> {
    let path = format!("/{what}?merchantRefNum={}", attempt.id);
    let answer = api::get(account, &path)?;
    match answer.status {
        200 => answer
            .json()
            .ok_or_else(|| unavailable("the answer cannot be read")),
        _ => Err(unavailable(&api::problem(&answer).to_string())),
    }
}

fn unavailable(why: &str) -> QueryFailure {
    QueryFailure::Unavailable(why.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_finish_asks_for_money_and_only_of_a_payable_handle() {
        use Handled::{Expired, Failed, Payable, Used, Waiting};
        for stands in [Waiting, Payable, Used, Failed, Expired] {
            for wish in [Wish::Finish, Wish::Look, Wish::Close] {
                let pays = needed(stands, wish) == Some(Act::Pay);
                assert_eq!(pays, (stands, wish) == (Payable, Wish::Finish));
            }
            assert_eq!(needed(stands, Wish::Look), None);
        }
        for stands in [Used, Failed, Expired] {
            assert_eq!(needed(stands, Wish::Close), None);
        }
    }
}
