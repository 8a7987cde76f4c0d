//! The ledger of movements.

use clap::{Args, Subcommand, ValueEnum};
use http::Method;
use kassette_domain::key::Environment;
use serde_json::json;

use super::{Action, Paging, environment};
use crate::cli::remote::call::{Call, Shape};

/// Commands for the ledger.
#[derive(Subcommand, Debug)]
pub(in crate::cli) enum FinanceAction {
    /// Write the movements of money that were booked on some days to standard output, oldest first, as CSV, or
    /// with --json as JSON lines.
    Export {
        #[command(flatten)]
        days: Days,
        #[command(flatten)]
        whose: Whose,
    },
    /// Sums per day, account, merchant and currency, with opening and closing balance.
    Days {
        #[command(flatten)]
        days: Days,
        #[command(flatten)]
        whose: Whose,
        #[command(flatten)]
        paging: Paging,
    },
    /// Book a movement that no provider reports. By an admin. Needs --actor and --reason.
    Correct {
        /// The provider account.
        #[arg(long, alias = "provider")]
        provider_id: String,
        /// The payment to which the money belongs, if any.
        #[arg(long, alias = "payment")]
        payment_id: Option<String>,
        /// Whether money came in or went out.
        #[arg(long)]
        effect: Effect,
        /// own, excess, surplus or late.
        #[arg(long)]
        bucket: Option<String>,
        /// Amount, such as 10.00.
        #[arg(long)]
        amount: String,
        /// The currency's code.
        #[arg(long)]
        currency: String,
        /// Time of the movement, such as 2030-01-31T12:00:00Z; now if absent.
        #[arg(long)]
        occurred_at: Option<String>,
        /// An id that the provider's statements print for it. Repeatable.
        #[arg(long = "reference")]
        provider_references: Vec<String>,
        /// Repeats a command whose response was lost: the correction is booked once per key. Generated
        /// randomly, and printed, if absent.
        #[arg(long)]
        idempotency_key: Option<String>,
    },
    /// Confirm that the clock is right after it jumped forward. By an admin. Needs --actor and --reason.
    ConfirmClock,
}

/// Direction of a movement.
#[derive(ValueEnum, Clone, Copy, Debug)]
pub(in crate::cli) enum Effect {
    In,
    Out,
}

/// Days of a time zone.
#[derive(Args, Clone, Debug)]
pub(in crate::cli) struct Days {
    /// The first day, such as 2030-01-01.
    #[arg(long)]
    from: String,
    /// The last day, inclusive.
    #[arg(long)]
    to: String,
    /// IANA name of the time zone in which days start; UTC if absent.
    #[arg(long)]
    zone: Option<String>,
}

/// Filter by owner.
#[derive(Args, Clone, Debug)]
pub(in crate::cli) struct Whose {
    /// test or live; both if absent.
    #[arg(long, value_parser = environment)]
    environment: Option<Environment>,
    /// Only movements of this merchant.
    #[arg(long, alias = "merchant")]
    merchant_id: Option<u64>,
    /// Only movements at this provider account.
    #[arg(long, alias = "provider")]
    provider_id: Option<String>,
}

fn call(path: &str, days: Days, whose: Whose) -> Call {
    Call::new(Method::GET, ["finance", path])
        .with("from", Some(days.from))
        .with("to", Some(days.to))
        .with("zone", days.zone)
        .with("environment", whose.environment)
        .with("merchant_id", whose.merchant_id)
        .with("provider_id", whose.provider_id)
}

const DAYS: Shape = Shape::List(
    "days",
    &[
        ("Day", "/day"),
        ("Closed", "/closed"),
        ("Provider", "/provider_id"),
        ("Merchant", "/merchant_id"),
        ("Currency", "/currency"),
        ("Opening", "/opening"),
        ("Captured", "/sums/captured"),
        ("Refunded", "/sums/refunded"),
        ("Withdrawn", "/sums/funds_withdrawn"),
        ("Closing", "/closing"),
        ("Reversed", "/sums/capture_reversed"),
        ("Refund back", "/sums/refund_reversed"),
        ("Reinstated", "/sums/funds_reinstated"),
        ("Provider fee", "/sums/provider_fee"),
        ("Platform fee", "/sums/platform_fee"),
        ("Payout", "/sums/payout"),
        ("Correction", "/sums/correction"),
        ("Environment", "/environment"),
    ],
);

impl Action for FinanceAction {
    fn call(self) -> Result<Call, String> {
        Ok(match self {
            Self::Export { days, whose } => call("export", days, whose).shown(Shape::Text),
            Self::Days {
                days,
                whose,
                paging,
            } => paging.put(call("days", days, whose).shown(DAYS)),
            Self::Correct {
                provider_id,
                payment_id,
                effect,
                bucket,
                amount,
                currency,
                occurred_at,
                provider_references,
                idempotency_key,
            } => {
                let key = super::payments::idempotency_key(idempotency_key)?;
                let effect = match effect {
                    Effect::In => "in",
                    Effect::Out => "out",
                };
                let body = json!({
                    "provider_id": provider_id, "payment_id": payment_id, "effect": effect,
                    "bucket": bucket, "amount": amount, "currency": currency,
                    "occurred_at": occurred_at, "provider_references": provider_references,
                    "idempotency_key": key,
                });
                let call = Call::new(Method::POST, ["corrections"]).body(body);
                call.repeatable("--idempotency-key", key)
            }
            Self::ConfirmClock => Call::new(Method::POST, ["finance", "confirm-clock"]),
        })
    }
}
