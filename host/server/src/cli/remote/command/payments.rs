//! Payments, the work list and provider accounts.

use clap::{Args, Subcommand, ValueEnum};
use http::Method;
use kassette_domain::key::Environment;
use serde_json::{Value, json};

use super::{Action, Paging, environment};
use crate::cli::remote::call::{Beside, Call, Shape};

/// Commands for payments.
#[derive(Subcommand, Debug)]
pub(in crate::cli) enum PaymentAction {
    /// List payments, newest first.
    List {
        /// Only payments of this merchant.
        #[arg(long, alias = "merchant")]
        merchant_id: Option<u64>,
        /// Only payments in this status, such as review.
        #[arg(long)]
        status: Option<String>,
        /// Only payments with this order reference.
        #[arg(long)]
        order_id: Option<String>,
        /// test or live.
        #[arg(long, value_parser = environment)]
        environment: Option<Environment>,
        /// Only payments with an attempt at this provider account.
        #[arg(long, alias = "provider")]
        provider_id: Option<String>,
        /// Only the payment of this attempt.
        #[arg(long, alias = "attempt")]
        attempt_id: Option<String>,
        /// Only payments with an attempt that has this id at the provider.
        #[arg(long)]
        reference: Option<String>,
        #[command(flatten)]
        period: Period,
        #[command(flatten)]
        paging: Paging,
    },
    /// Write the captures, refunds and disputes of the payments created in a period to standard output, newest
    /// payment first, as CSV, or with --json as JSON lines.
    Export {
        /// Write a line for payments without any of these as well.
        #[arg(long)]
        all: bool,
        #[command(flatten)]
        period: Period,
        /// Only payments of this merchant.
        #[arg(long, alias = "merchant")]
        merchant_id: Option<u64>,
        /// test or live; both if absent.
        #[arg(long, value_parser = environment)]
        environment: Option<Environment>,
    },
    /// Show a payment with its complete history.
    Show {
        /// The payment's id.
        payment_id: String,
    },
    /// Decide about a payment in review. Needs --actor and --reason.
    Review {
        /// The payment's id.
        payment_id: String,
        /// Whether to accept the money.
        #[arg(long)]
        decision: Decision,
        /// With approve: whether the money is known to have arrived.
        #[arg(long)]
        settlement: Option<Settlement>,
        /// With approve, by an admin: complete it although the provider does not confirm the money. Shown
        /// permanently, and remains on the work list.
        #[arg(long)]
        vouch: bool,
        /// With approve: the amount and currency to accept instead of the invoice's, such as "70.00 EUR".
        #[arg(long, value_parser = accepted)]
        accept: Option<(String, String)>,
        /// With approve: id of a pending refund or an open dispute that does not prevent the approval.
        /// Repeatable.
        #[arg(long)]
        despite: Vec<String>,
    },
    /// Query the provider now.
    Query {
        /// The payment's id.
        payment_id: String,
    },
    /// Move a payment to review that is stuck in processing or verification_pending. Needs --actor and
    /// --reason.
    ToReview {
        /// The payment's id.
        payment_id: String,
    },
    /// Refund money of a payment. Needs --actor and --reason.
    Refund {
        /// The payment's id.
        payment_id: String,
        #[command(flatten)]
        refund: Refund,
    },
    /// Cancel a payment that is not paid. Needs --actor and --reason.
    Cancel {
        /// The payment's id.
        payment_id: String,
    },
    /// Erase the payer's personal data, of one payment or of all with an address. Needs --actor and --reason.
    #[command(group = clap::ArgGroup::new("of").required(true).args(["payment_id", "email"]))]
    Redact {
        /// Its id.
        payment_id: Option<String>,
        /// Erase all payments with this address, without regard to case. Variants with `+…` are listed, and
        /// erased only if they are named.
        #[arg(long)]
        email: Option<String>,
        /// Do not ask.
        #[arg(long, requires = "email")]
        yes: bool,
    },
}

/// Parses an amount with its currency.
fn accepted(text: &str) -> Result<(String, String), String> {
    let parts = text.split_once(' ');
    let (amount, currency) = parts.ok_or("must be an amount and a currency, such as 70.00 EUR")?;
    Ok((amount.to_owned(), currency.to_owned()))
}

/// Period in which something was created.
#[derive(Args, Clone, Debug)]
pub(in crate::cli) struct Period {
    /// Created at this time or later, such as 2030-01-31T12:00:00Z.
    #[arg(long)]
    since: Option<String>,
    /// Created before this time.
    #[arg(long)]
    until: Option<String>,
}

impl Period {
    pub(super) fn put(self, call: Call) -> Call {
        call.with("since", self.since).with("until", self.until)
    }
}

/// Amount of a refund.
#[derive(Args, Clone, Debug)]
pub(in crate::cli) struct Refund {
    /// Amount, such as 10.00; the whole remaining amount if absent.
    #[arg(long)]
    amount: Option<String>,
    /// Repeats a command whose response was lost: the refund is ordered once per key. Generated randomly, and
    /// printed, if absent.
    #[arg(long)]
    idempotency_key: Option<String>,
}

impl Refund {
    fn put(self, call: Call) -> Result<Call, String> {
        let key = idempotency_key(self.idempotency_key)?;
        let body = json!({ "amount": self.amount, "idempotency_key": key });
        Ok(call.body(body).repeatable("--idempotency-key", key))
    }
}

/// The given key, otherwise a random one.
pub(super) fn idempotency_key(named: Option<String>) -> Result<String, String> {
    if let Some(key) = named {
        return Ok(key);
    }
    let mut drawn = [0; 16];
    getrandom::fill(&mut drawn).map_err(|error| error.to_string())?;
    Ok(format!("cli-{}", hex::encode(drawn)))
}

/// Decision about a review.
#[derive(ValueEnum, Clone, Copy, Debug)]
pub(in crate::cli) enum Decision {
    /// Completes the payment.
    Approve,
    /// Fails the payment.
    Decline,
}

/// State of the money.
#[derive(ValueEnum, Clone, Copy, Debug)]
pub(in crate::cli) enum Settlement {
    /// It has arrived.
    Confirmed,
    /// Not yet.
    Pending,
}

const PAYMENTS: Shape = Shape::List(
    "payments",
    &[
        ("ID", "/payment_id"),
        ("Merchant", "/merchant_id"),
        ("Order", "/order_id"),
        ("Amount", "/amount"),
        ("", "/currency"),
        ("Status", "/status"),
        ("Settlement", "/settlement_status"),
        ("Environment", "/environment"),
        ("Created", "/created_at"),
        ("Method", "/payment_method"),
    ],
);

impl Action for PaymentAction {
    fn call(self) -> Result<Call, String> {
        let act = |id: &str, act: &str| Call::new(Method::POST, ["payments", id, act]);
        Ok(match self {
            Self::List {
                merchant_id,
                status,
                order_id,
                environment,
                provider_id,
                attempt_id,
                reference,
                period,
                paging,
            } => {
                let call = Call::new(Method::GET, ["payments"])
                    .with("merchant_id", merchant_id)
                    .with("status", status)
                    .with("order_id", order_id)
                    .with("environment", environment)
                    .with("provider_id", provider_id)
                    .with("attempt_id", attempt_id)
                    .with("reference", reference)
                    .shown(PAYMENTS);
                paging.put(period.put(call))
            }
            Self::Export {
                all,
                period,
                merchant_id,
                environment,
            } => period.put(
                Call::new(Method::GET, ["payments", "export"])
                    .with("all", all.then_some(true))
                    .with("merchant_id", merchant_id)
                    .with("environment", environment)
                    .shown(Shape::Text),
            ),
            Self::Show { payment_id } => Call::new(Method::GET, ["payments", &payment_id]),
            Self::Review {
                payment_id,
                decision,
                settlement,
                vouch,
                accept,
                despite,
            } => {
                let decision = match decision {
                    Decision::Approve => "approve",
                    Decision::Decline => "decline",
                };
                let settlement = settlement.map(|settlement| match settlement {
                    Settlement::Confirmed => "confirmed",
                    Settlement::Pending => "pending",
                });
                let mut body = json!({ "decision": decision, "settlement": settlement });
                if vouch {
                    body["vouch"] = true.into();
                }
                if let Some((amount, currency)) = accept {
                    body["accept"] = json!({ "amount": amount, "currency": currency });
                }
                if !despite.is_empty() {
                    body["despite"] = despite.into();
                }
                act(&payment_id, "review").body(body)
            }
            Self::Query { payment_id } => act(&payment_id, "query"),
            Self::ToReview { payment_id } => act(&payment_id, "to-review"),
            Self::Refund { payment_id, refund } => refund.put(act(&payment_id, "refunds"))?,
            Self::Cancel { payment_id } => act(&payment_id, "cancel"),
            Self::Redact {
                payment_id, email, ..
            } if email.is_none() => act(&payment_id.unwrap_or_default(), "redact"),
            Self::Redact { email, yes, .. } => {
                let of_address = |preview: bool| {
                    Call::new(Method::POST, ["payments", "redact"])
                        .body(json!({ "email": email, "preview": preview }))
                };
                of_address(false).previewed(of_address(true)).confirmed(
                    "The personal data of these payments are erased for good.",
                    yes,
                )
            }
        })
    }
}

/// Commands for the work list.
#[derive(Subcommand, Debug)]
pub(in crate::cli) enum WorkAction {
    /// List items that require a decision, and the payments in review.
    List {
        /// Include completed items.
        #[arg(long)]
        done: bool,
        /// Only items of this kind, such as refund, or review.
        #[arg(long)]
        kind: Option<String>,
        /// test or live.
        #[arg(long, value_parser = environment)]
        environment: Option<Environment>,
        #[command(flatten)]
        paging: Paging,
    },
    /// Refund the surplus, excess or late money of an item, which closes once the refund has succeeded. Needs
    /// --actor and --reason.
    Refund {
        /// The item's id.
        work_id: String,
        #[command(flatten)]
        refund: Refund,
    },
    /// Mark an item as done. Needs --actor and --reason.
    Done {
        /// The item's id.
        work_id: String,
    },
}

const WORK: Shape = Shape::ListBeside(
    "work",
    &[
        ("ID", "/id"),
        ("Kind", "/kind"),
        ("Amount", "/amount"),
        ("", "/currency"),
        ("Payment", "/payment_id"),
        ("Detail", "/detail"),
        ("Deadline", "/deadline"),
        ("Order", "/order_id"),
        ("Merchant", "/merchant_id"),
        ("Environment", "/environment"),
        ("Subject", "/subject_id"),
        ("Provider", "/provider_id"),
        ("Opened", "/opened_at"),
        ("Done", "/done_at"),
    ],
    Beside {
        field: "in_review",
        items: "payments",
        what: "payments in review",
        columns: &[
            ("ID", "/payment_id"),
            ("Merchant", "/merchant_id"),
            ("Amount", "/amount"),
            ("", "/currency"),
            ("Environment", "/environment"),
            ("Cause", "/review_cause"),
            ("Created", "/created_at"),
            ("Order", "/order_id"),
        ],
        all: "kassette payment list --status review",
    },
);

impl Action for WorkAction {
    fn call(self) -> Result<Call, String> {
        Ok(match self {
            Self::List {
                done,
                kind,
                environment,
                paging,
            } => {
                let call = Call::new(Method::GET, ["work"])
                    .with("done", done.then_some(true))
                    .with("reviews", Some(true))
                    .with("kind", kind)
                    .with("environment", environment);
                paging.put(call.shown(WORK))
            }
            Self::Refund { work_id, refund } => {
                refund.put(Call::new(Method::POST, ["work", &work_id, "refund"]))?
            }
            Self::Done { work_id } => Call::new(Method::POST, ["work", &work_id, "done"]),
        })
    }
}

/// Commands for refunds.
#[derive(Subcommand, Debug)]
pub(in crate::cli) enum RefundAction {
    /// Settle a refund whose outcome remained unknown, from 24 hours after its order on: the provider is
    /// queried again, and its report takes precedence. By an admin. Needs --actor and --reason.
    Settle {
        /// The refund's id.
        refund_id: String,
        /// Whether the payer has received the money.
        #[arg(long)]
        outcome: SettledOutcome,
        /// With made: the refunded amount, if only a part was refunded.
        #[arg(long)]
        amount: Option<String>,
    },
}

/// Outcome of a refund.
#[derive(ValueEnum, Clone, Copy, Debug)]
pub(in crate::cli) enum SettledOutcome {
    /// It was made.
    Made,
    /// It was not made. The payer can no longer claim it.
    #[value(name = "not_made", alias = "not-made")]
    NotMade,
}

impl Action for RefundAction {
    fn call(self) -> Result<Call, String> {
        let Self::Settle {
            refund_id,
            outcome,
            amount,
        } = self;
        let outcome = match outcome {
            SettledOutcome::Made => "made",
            SettledOutcome::NotMade => "not_made",
        };
        let call = Call::new(Method::POST, ["refunds", &refund_id, "settle"]);
        Ok(call.body(json!({ "outcome": outcome, "amount": amount })))
    }
}

/// Commands for provider accounts.
#[derive(Subcommand, Debug)]
pub(in crate::cli) enum ProviderAction {
    /// List accounts with their health.
    List {
        #[command(flatten)]
        paging: Paging,
    },
    /// Disable an account for new attempts, or remove that switch.
    ///
    /// An account is disabled if either its file or the switch disables it. A live account needs --actor and
    /// --reason.
    Update {
        /// The account's id, such as sandbox-test.
        provider_id: String,
        /// false disables it; true and file remove the switch.
        #[arg(long)]
        enabled: Enabled,
    },
}

/// A position of an account's switch.
#[derive(ValueEnum, Clone, Copy, Debug)]
pub(in crate::cli) enum Enabled {
    True,
    False,
    File,
}

const PROVIDERS: Shape = Shape::List(
    "providers",
    &[
        ("ID", "/id"),
        ("Environment", "/environment"),
        ("Enabled", "/enabled"),
        ("By", "/enabled_by"),
        ("State", "/health/state"),
        ("Since", "/health/since"),
        ("Why", "/health/reason"),
        ("Success", "/health/success_rate"),
        ("Median ms", "/health/median_ms"),
        ("Samples", "/health/samples"),
        ("Checked", "/health/checked_at"),
        ("Module", "/module"),
        ("Name", "/name"),
    ],
);

impl Action for ProviderAction {
    fn call(self) -> Result<Call, String> {
        Ok(match self {
            Self::List { paging } => {
                paging.put(Call::new(Method::GET, ["providers"]).shown(PROVIDERS))
            }
            Self::Update {
                provider_id,
                enabled,
            } => {
                let enabled = match enabled {
                    Enabled::True => true.into(),
                    Enabled::False => false.into(),
                    Enabled::File => Value::from("file"),
                };
                Call::new(Method::PATCH, ["providers", &provider_id])
                    .body(json!({ "enabled": enabled }))
            }
        })
    }
}
