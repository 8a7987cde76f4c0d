//! Querying a payment, after requesting it if the host requires this.
use kassette_plugin::json::{Json, object};
use kassette_plugin::provider::{Account, Attempt, QueryFailure, QueryPurpose, Report, Status};
use kassette_plugin::time;

use crate::api;
use crate::wire::{self, Belongings, Handle, Handled, Paid, Payment};

/// Start of the search for refunds, relative to the attempt's expiry, in milliseconds. Paysafe's default is the
/// last 30 days.
const BEFORE_END_MS: u64 = 30 * 86_400_000;

/// Maximum number of refunds in a search.
const REFUNDS: usize = 50;

/// Finds handle and payment by the attempt's id, requests the payment for the purpose `capture`, and reports its
/// status.
///
/// A handle cannot be cancelled, and Paysafe captures automatically if a payer has paid at Interac and this module
/// makes no payment. So the purpose `cancel` only reports the status, which is final once the handle's lifetime of
/// a quarter of an hour has passed.
pub(crate) fn query(
    account: &Account,
    attempt: &Attempt,
    // Not needed: handles and payments are found by the attempt's id.
    _: Option<&str>,
    purpose: QueryPurpose,
    _: Option<&str>,
) -> Result<Report, QueryFailure> {
    let handle = handle(account, attempt)?.ok_or(QueryFailure::Absent)?;
    match (handle.stands, purpose) {
        (Handled::Payable, QueryPurpose::Capture)
            if handle.due.as_ref().is_some_and(|due| *due != attempt.due) =>
        {
            let why = "the handle's amount is not what is due; it was not asked for";
            Ok(handle.says(Status::Review, why))
        }
        (Handled::Payable, QueryPurpose::Capture) => pay(account, attempt, &handle),
        (Handled::Waiting | Handled::Payable, _) => tell(&handle, account),
        (Handled::Used, _) => {
            let payment = payment(account, attempt)?;
            let payment = payment.ok_or_else(|| unavailable("the payment is not shown yet"))?;
            told(account, attempt, &handle, &payment)
        }
        // Paysafe may have made a payment automatically just now.
        (Handled::Failed | Handled::Cancelled | Handled::Expired | Handled::Unknown, _) => {
            match payment(account, attempt)? {
                Some(payment) if !payment.is_over() => told(account, attempt, &handle, &payment),
                _ => tell(&handle, account),
            }
        }
    }
}

fn tell(handle: &Handle, account: &Account) -> Result<Report, QueryFailure> {
    let report = handle.report(account.now);
    report.ok_or_else(|| unavailable("the handle tells nothing"))
}

/// Requests the payment. A handle can be used only one time, and `dupCheck` prevents a second payment of the
/// attempt.
fn pay(account: &Account, attempt: &Attempt, handle: &Handle) -> Result<Report, QueryFailure> {
    let token = handle.token.as_deref();
    let token = token.ok_or_else(|| unavailable("the handle has no token to pay with"))?;
    let body = object([
        ("merchantRefNum", attempt.id.as_str().into()),
        ("amount", attempt.due.amount.into()),
        ("currencyCode", attempt.due.currency.as_str().into()),
        ("paymentHandleToken", token.into()),
        ("settleWithAuth", true.into()),
        ("dupCheck", true.into()),
    ]);
    let answer = api::post(account, "/payments", &body)?;
    match answer.status {
        // The answer is about this payment, even if it omits its data.
        200 | 201 => {
            let made = answer.json();
            let made = made.as_ref().and_then(wire::payment);
            let made = made.ok_or_else(|| unavailable("the answer cannot be read"))?;
            told(account, attempt, handle, &made)
        }
        // Paysafe records declined payments, and an earlier payment exists there.
        400..=499 if answer.status != 429 => match payment(account, attempt)? {
            Some(payment) => told(account, attempt, handle, &payment),
            None => Err(unavailable(&api::problem(&answer).to_string())),
        },
        _ => Err(unavailable(&api::problem(&answer).to_string())),
    }
}

/// Reports a payment. For a completed payment its settlements and the refunds of the Business Portal are read too,
/// for every purpose.
fn told(
    account: &Account,
    attempt: &Attempt,
    handle: &Handle,
    payment: &Payment,
) -> Result<Report, QueryFailure> {
    let mut belongings = Belongings::default();
    if payment.stands == Paid::Completed {
        let settlements = look_up(account, &attempt.id, "settlements", "")?;
        match settlements.list("settlements", &attempt.id) {
            Some(settlements) => belongings.settle(&settlements),
            None => belongings.unreadable.note("the settlements cannot be read"),
        }
        // A refund made in the Business Portal has the payment's own reference.
        let since = time::rfc3339(attempt.expires.saturating_sub(BEFORE_END_MS));
        let rest = format!("&startDate={since}&limit={REFUNDS}");
        let refunds = look_up(account, &attempt.id, "refunds", &rest)?;
        match refunds.list("refunds", &attempt.id) {
            Some(refunds) => belongings.refund(&refunds),
            None => belongings.unreadable.note("the refunds cannot be read"),
        }
    }
    let report = payment.report(Some(&handle.id), belongings);
    report.ok_or_else(|| unavailable("no answer tells the payment's amount"))
}

/// The attempt's handle. There is at most one, because all are created with `dupCheck`.
pub(crate) fn handle(account: &Account, attempt: &Attempt) -> Result<Option<Handle>, QueryFailure> {
    let answer = look_up(account, &attempt.id, "paymenthandles", "")?;
    let found = answer.list("paymentHandles", &attempt.id);
    let found = found.ok_or_else(|| unavailable("the handles cannot be read"))?;
    Ok(found.into_iter().find_map(wire::handle))
}

/// The attempt's payment. Of several payments the one with the most progress.
fn payment(account: &Account, attempt: &Attempt) -> Result<Option<Payment>, QueryFailure> {
    let answer = look_up(account, &attempt.id, "payments", "")?;
    let found = answer.list("payments", &attempt.id);
    let found = found.ok_or_else(|| unavailable("the payments cannot be read"))?;
    let payments = found.into_iter().filter_map(wire::payment);
    Ok(payments.min_by_key(|payment| payment.stands))
}

/// The answer to a search. `None` if it is not JSON.
pub(crate) struct Found(Option<Json>);

impl Found {
    /// The entries with a reference. `None` if the answer cannot be parsed.
    pub(crate) fn list(&self, list: &str, ours: &str) -> Option<Vec<&Json>> {
        wire::listed(self.0.as_ref()?, list, &[ours])
    }
}

/// Searches by merchant reference.
pub(crate) fn look_up(
    account: &Account,
    reference: &str,
    what: &str,
    rest: &str,
) -> Result<Found, QueryFailure> {
    let path = format!("/{what}?merchantRefNum={reference}{rest}");
    let answer = api::get(account, &path)?;
    match answer.status {
        200 => Ok(Found(answer.json())),
        // Paysafe's other answer to a search without a result.
        404 if api::problem(&answer).code == api::NOT_FOUND => {
            let list = match what {
                "paymenthandles" => "paymentHandles",
                other => other,
            };
            Ok(Found(Some(object([(list, Vec::new().into())]))))
        }
        _ => Err(unavailable(&api::problem(&answer).to_string())),
    }
}

pub(crate) fn unavailable(why: &str) -> QueryFailure {
    QueryFailure::Unavailable(why.into())
}
