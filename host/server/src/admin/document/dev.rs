//! What only `dev` has.
#![expect(dead_code, reason = "only the schemas are used")]

use utoipa::ToSchema;

use super::call::Call;
use super::formats::*;

pub(super) fn calls() -> Vec<Call> {
    vec![
        Call::post(
            "/dev/clock",
            "moveClock",
            "Moves the clock of gateway and simulators forward.",
        )
        .about("What falls due is done at once. It lasts until the process ends.")
        .unaudited::<ClockMove>()
        .ok::<Clock>("What time it is now.")
        .missing("The gateway was not started by `dev`."),
        Call::post(
            "/dev/faults",
            "orderFault",
            "Makes a simulated account misbehave for its next calls.",
        )
        .unaudited::<NewFault>()
        .ok::<OrderedFault>("What was ordered.")
        .missing("There is no such simulated account."),
        Call::post(
            "/dev/callbacks",
            "redirectCallbacks",
            "Says where a simulated account sends its callbacks.",
        )
        .unaudited::<CallbackTarget>()
        .ok::<CallbackTarget>("Where to, from now on.")
        .missing("There is no such simulated account."),
        Call::get(
            "/dev/books",
            "readBooks",
            "Tells what the simulators believe.",
        )
        .query::<ProviderId>("provider_id", "Of one account alone.")
        .query::<BooksLimit>(
            "limit",
            "Most entries of a page; all of them where it is absent. Needs a `provider_id`.",
        )
        .query::<Cursor>(
            "cursor",
            "`next_cursor` of the page before. Needs a `limit`.",
        )
        .ok::<Books>("Their books.")
        .missing("There is no such simulated account."),
    ]
}

/// How far the clock is moved.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
struct ClockMove {
    advance_seconds: Advance,
}

/// What time it is.
#[derive(ToSchema)]
struct Clock {
    now: Instant,
}

/// A fault to be.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
struct NewFault {
    provider_id: ProviderId,
    fault: Fault,
    /// How many calls; 1 where it is absent.
    #[schema(minimum = 1, maximum = 4_294_967_295_u64)]
    times: Option<u64>,
}

/// A fault that was ordered.
#[derive(ToSchema)]
struct OrderedFault {
    provider_id: ProviderId,
    fault: Fault,
    times: u64,
}

/// Where an account's callbacks go.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
struct CallbackTarget {
    provider_id: ProviderId,
    url: String,
}

/// What simulators believe.
#[derive(ToSchema)]
struct Books {
    entries: Vec<BookEntry>,
    /// Only where there is a `limit`; null at the last page.
    next_cursor: Option<String>,
}

/// What a simulator believes of one attempt.
#[derive(ToSchema)]
struct BookEntry {
    provider_id: ProviderId,
    attempt_id: String,
    reference: String,
    /// `open`, `authorised`, `captured`, `declined`, `closed` or `refunded`.
    state: String,
    amount: Amount,
    currency: AnyCurrency,
    captured_times: u64,
    /// Given back so far.
    refunded: Amount,
    refunds: Vec<BookRefund>,
}

/// What a simulator believes of one refund.
#[derive(ToSchema)]
struct BookRefund {
    /// The simulated provider's id.
    reference: String,
    /// The gateway's id; null for one that was made in the provider's dashboard.
    #[schema(required)]
    refund_id: Option<String>,
    amount: Amount,
    /// `pending`, `succeeded`, `failed` or `cancelled`.
    state: String,
}
