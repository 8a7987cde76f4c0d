//! Calls that exist only under `dev`.
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
        Call::get(
            "/dev/clock",
            "readClock",
            "Shows how far the clock was moved.",
        )
        .about("A receiver that compares the times of events with its own clock adds the offset.")
        .ok::<ClockOffset>("The offset and the time.")
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
        Call::post(
            "/dev/release",
            "releaseHeldPayments",
            "Lets every payment go that a simulated account holds for review.",
        )
        .about("The simulator finds nothing wrong with them and reports each as the provider does.")
        .unaudited::<HeldPayments>()
        .ok::<ReleasedPayments>("How many it held.")
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

/// Offset of the clock since the start.
#[derive(ToSchema)]
struct ClockOffset {
    /// Number of seconds by which the gateway's clock is ahead of the machine's.
    offset_seconds: u64,
    now: Instant,
}

/// An advance of the clock.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
struct ClockMove {
    advance_seconds: Advance,
}

/// The current time.
#[derive(ToSchema)]
struct Clock {
    now: Instant,
}

/// A fault to be injected.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
struct NewFault {
    provider_id: ProviderId,
    fault: Fault,
    /// Number of calls; 1 if absent.
    #[schema(minimum = 1, maximum = 4_294_967_295_u64)]
    times: Option<u64>,
}

/// An ordered fault.
#[derive(ToSchema)]
struct OrderedFault {
    provider_id: ProviderId,
    fault: Fault,
    times: u64,
}

/// Target of an account's callbacks.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
struct CallbackTarget {
    provider_id: ProviderId,
    url: String,
}

/// Account whose held payments are released.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
struct HeldPayments {
    provider_id: ProviderId,
}

/// Number of held payments that an account has released.
#[derive(ToSchema)]
struct ReleasedPayments {
    provider_id: ProviderId,
    released: u64,
}

/// The simulators' records.
#[derive(ToSchema)]
struct Books {
    entries: Vec<BookEntry>,
    /// Only present with a `limit`; null on the last page.
    next_cursor: Option<String>,
}

/// A simulator's record of an attempt.
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
    /// Amount refunded so far.
    refunded: Amount,
    refunds: Vec<BookRefund>,
    /// Oldest first.
    movements: Vec<BookMovement>,
}

/// A simulator's record of a refund.
#[derive(ToSchema)]
struct BookRefund {
    /// The simulated provider's id.
    id: String,
    /// The gateway's id; null for a refund made in the provider's dashboard.
    #[schema(required)]
    refund_id: Option<String>,
    amount: Amount,
    /// `pending`, `succeeded` or `failed`.
    state: String,
}

/// One movement of money in a simulator's books.
#[derive(ToSchema)]
struct BookMovement {
    /// `captured`, `capture_reversed`, `refunded`, `refund_reversed`, `funds_withdrawn`, `funds_reinstated` or
    /// `provider_fee`.
    kind: String,
    /// The simulated provider's id of the payment, refund or dispute.
    id: String,
    amount: Amount,
    currency: AnyCurrency,
    at: Instant,
}
