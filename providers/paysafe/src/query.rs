//! Asking where a payment stands, after doing what the host asks for.
use kassette_plugin::json::{Json, object};
use kassette_plugin::provider::{Account, Attempt, QueryFailure, QueryPurpose, Report, Status};

use crate::api;
use crate::wire::{self, Given, Handle, Handled, Paid, Payment};

/// Finds handle and payment by the attempt's id, asks for the money for the purpose `capture`, and tells.
///
/// There is nothing to close: a handle cannot be called off, and what a payer has paid at Interac
/// Paysafe takes by itself where we do not ask for it. So the purpose `cancel` is answered with how it
/// stands, which is certain once the handle's quarter of an hour is over.
pub(crate) fn query(
    account: &Account,
    attempt: &Attempt,
    // Handles and payments are found by the attempt's id alone.
    _: Option<&str>,
    purpose: QueryPurpose,
    _: Option<&str>,
) -> Result<Report, QueryFailure> {
    let handle = handle(account, attempt)?.ok_or(QueryFailure::Absent)?;
    match (handle.stands, purpose) {
        (Handled::Payable, QueryPurpose::Capture) if handle.due != attempt.due => Ok(handle.says(
            Status::Review,
            "the handle's amount is not what is due; it was not asked for",
        )),
        (Handled::Payable, QueryPurpose::Capture) => pay(account, attempt, &handle),
        (Handled::Waiting | Handled::Payable, _) => tell(&handle, account),
        (Handled::Used, _) => {
            let payment = payment(account, attempt)?;
            let payment = payment.ok_or_else(|| unavailable("the payment is not shown yet"))?;
            told(account, attempt, &payment)
        }
        // Paysafe may have made a payment itself just then.
        (Handled::Failed | Handled::Expired, _) => match payment(account, attempt)? {
            Some(payment) if !payment.is_over() => told(account, attempt, &payment),
            _ => tell(&handle, account),
        },
    }
}

fn tell(handle: &Handle, account: &Account) -> Result<Report, QueryFailure> {
    let report = handle.report(account.now);
    report.ok_or_else(|| unavailable("the handle tells nothing"))
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
            let made = answer.json();
            let made = made.as_ref().and_then(wire::payment);
            let ours = made.filter(|(named, _)| *named == attempt.id);
            let (_, payment) = ours.ok_or_else(|| unavailable("the answer cannot be read"))?;
            told(account, attempt, &payment)
        }
        // Declined payments are recorded, and a payment that was made before is there.
        400..=499 if answer.status != 429 => match payment(account, attempt)? {
            Some(payment) => told(account, attempt, &payment),
            None => Err(unavailable(&api::problem(&answer).to_string())),
        },
        _ => Err(unavailable(&api::problem(&answer).to_string())),
    }
}

/// Tells a payment. What was given back stands in its settlements, which are read whatever the purpose:
/// a sum that a question leaves out would count as gone.
fn told(account: &Account, attempt: &Attempt, payment: &Payment) -> Result<Report, QueryFailure> {
    let mut given = Given::default();
    if payment.stands == Paid::Completed {
        let settlements = look_up(account, attempt, "settlements")?;
        let told = wire::given(&settlements);
        given = told.ok_or_else(|| unavailable("the settlements cannot be read"))?;
    }
    Ok(payment.report(&given))
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
