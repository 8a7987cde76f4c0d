//! Payments, the work list and provider accounts.

use clap::{Args, Subcommand, ValueEnum};
use http::Method;
use kassette_domain::key::Environment;
use serde_json::json;

use super::{Action, Paging, environment};
use crate::cli::remote::call::{Beside, Call, Shape};

/// What can be done with payments.
#[derive(Subcommand, Debug)]
pub(in crate::cli) enum PaymentAction {
    /// List payments, newest first.
    List {
        /// Of this merchant.
        #[arg(long, alias = "merchant")]
        merchant_id: Option<u64>,
        /// In this status, such as review.
        #[arg(long)]
        status: Option<String>,
        /// With this order reference.
        #[arg(long)]
        order_id: Option<String>,
        /// test or live.
        #[arg(long, value_parser = environment)]
        environment: Option<Environment>,
        /// With an attempt at this provider account.
        #[arg(long, alias = "provider")]
        provider_id: Option<String>,
        /// Of this attempt.
        #[arg(long, alias = "attempt")]
        attempt_id: Option<String>,
        /// With an attempt that the vendor knows by this id of its own.
        #[arg(long)]
        reference: Option<String>,
        #[command(flatten)]
        period: Period,
        #[command(flatten)]
        paging: Paging,
    },
    /// Write CSV, or with --json an object a line, to standard output: a line for each capture, refund and
    /// dispute of the payments that were created in a period, newest payment first.
    Export {
        #[command(flatten)]
        period: Period,
        /// Of this merchant.
        #[arg(long, alias = "merchant")]
        merchant_id: Option<u64>,
        /// test or live; both where it is not said.
        #[arg(long, value_parser = environment)]
        environment: Option<Environment>,
    },
    /// Show one with everything that happened to it.
    Show {
        /// Its id.
        payment_id: String,
    },
    /// Decide a review. Needs --actor and --reason.
    Review {
        /// The payment's id.
        payment_id: String,
        /// Take the money, or not.
        #[arg(long)]
        decision: Decision,
        /// With approve: whether the money is known to have arrived.
        #[arg(long)]
        settlement: Option<Settlement>,
        /// With approve, by an admin: complete it without the vendor's word for the money. Shown for
        /// good, and left on the work list.
        #[arg(long)]
        vouch: bool,
    },
    /// Ask the vendor now where it stands.
    Query {
        /// Its id.
        payment_id: String,
    },
    /// Send one to review that hangs in processing or verification_pending. Needs --actor and
    /// --reason.
    ToReview {
        /// Its id.
        payment_id: String,
    },
    /// Give money of one back. Needs --actor and --reason.
    Refund {
        /// The payment's id.
        payment_id: String,
        #[command(flatten)]
        refund: Refund,
    },
    /// Call one off that is not paid. Needs --actor and --reason.
    Cancel {
        /// Its id.
        payment_id: String,
    },
    /// Erase the payer's personal data. Needs --actor and --reason.
    Redact {
        /// Its id.
        payment_id: String,
    },
}

/// When something was made.
#[derive(Args, Clone, Debug)]
pub(in crate::cli) struct Period {
    /// Made at this time or later, such as 2030-01-31T12:00:00Z.
    #[arg(long)]
    since: Option<String>,
    /// Made before this time.
    #[arg(long)]
    until: Option<String>,
}

impl Period {
    pub(super) fn of(self, call: Call) -> Call {
        call.with("since", self.since).with("until", self.until)
    }
}

/// How much is given back.
#[derive(Args, Clone, Debug)]
pub(in crate::cli) struct Refund {
    /// How much, such as 10.00; all that is left where it is not said.
    #[arg(long)]
    amount: Option<String>,
    /// Repeats a command whose answer was lost: the refund is made once for each key. Drawn at random, and
    /// told, where it is not said.
    #[arg(long)]
    idempotency_key: Option<String>,
}

impl Refund {
    fn of(self, call: Call) -> Result<Call, String> {
        let key = match self.idempotency_key {
            Some(key) => key,
            None => {
                let mut drawn = [0; 16];
                getrandom::fill(&mut drawn).map_err(|error| error.to_string())?;
                format!("cli-{}", hex::encode(drawn))
            }
        };
        let body = json!({ "amount": self.amount, "idempotency_key": key });
        Ok(call.body(body).repeatable("--idempotency-key", key))
    }
}

/// A review's end.
#[derive(ValueEnum, Clone, Copy, Debug)]
pub(in crate::cli) enum Decision {
    /// The payment is completed.
    Approve,
    /// The payment has failed.
    Decline,
}

/// What is known of the money.
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
                paging.of(period.of(call))
            }
            Self::Export {
                period,
                merchant_id,
                environment,
            } => period.of(Call::new(Method::GET, ["payments", "export"])
                .with("merchant_id", merchant_id)
                .with("environment", environment)
                .shown(Shape::Text)),
            Self::Show { payment_id } => Call::new(Method::GET, ["payments", &payment_id]),
            Self::Review {
                payment_id,
                decision,
                settlement,
                vouch,
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
                act(&payment_id, "review").body(body)
            }
            Self::Query { payment_id } => act(&payment_id, "query"),
            Self::ToReview { payment_id } => act(&payment_id, "to-review"),
            Self::Refund { payment_id, refund } => refund.of(act(&payment_id, "refunds"))?,
            Self::Cancel { payment_id } => act(&payment_id, "cancel"),
            Self::Redact { payment_id } => act(&payment_id, "redact"),
        })
    }
}

/// What can be done with the work list.
#[derive(Subcommand, Debug)]
pub(in crate::cli) enum WorkAction {
    /// List what a person has to look at, and the payments in review beside it.
    List {
        /// What was looked at already, too.
        #[arg(long)]
        done: bool,
        #[command(flatten)]
        paging: Paging,
    },
    /// Give back the surplus, excess or late money that a line is about, which is done once that has succeeded.
    /// Needs --actor and --reason.
    Refund {
        /// The line's id.
        work_id: String,
        #[command(flatten)]
        refund: Refund,
    },
    /// Mark a line as looked at. Needs --actor and --reason.
    Done {
        /// The line's id.
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
            Self::List { done, paging } => {
                let call = Call::new(Method::GET, ["work"]).with("done", done.then_some(true));
                paging.of(call.shown(WORK))
            }
            Self::Refund { work_id, refund } => {
                refund.of(Call::new(Method::POST, ["work", &work_id, "refund"]))?
            }
            Self::Done { work_id } => Call::new(Method::POST, ["work", &work_id, "done"]),
        })
    }
}

/// What can be done with provider accounts.
#[derive(Subcommand, Debug)]
pub(in crate::cli) enum ProviderAction {
    /// List accounts and how they fare.
    List {
        #[command(flatten)]
        paging: Paging,
    },
    /// Switch an account on or off for new attempts.
    Update {
        /// The account's id, such as sandbox-test.
        provider_id: String,
        /// true or false.
        #[arg(long, action = clap::ArgAction::Set)]
        enabled: bool,
    },
}

const PROVIDERS: Shape = Shape::List(
    "providers",
    &[
        ("ID", "/id"),
        ("Environment", "/environment"),
        ("Enabled", "/enabled"),
        ("State", "/health/state"),
        ("Why", "/health/detail"),
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
                paging.of(Call::new(Method::GET, ["providers"]).shown(PROVIDERS))
            }
            Self::Update {
                provider_id,
                enabled,
            } => Call::new(Method::PATCH, ["providers", &provider_id])
                .body(json!({ "enabled": enabled })),
        })
    }
}
