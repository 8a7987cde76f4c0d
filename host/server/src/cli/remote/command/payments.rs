//! Payments, the work list and provider accounts.

use clap::{Subcommand, ValueEnum};
use http::Method;
use kassette_domain::key::Environment;
use serde_json::json;

use super::{Action, Paging, environment};
use crate::cli::remote::call::{Call, Shape};

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
        #[command(flatten)]
        paging: Paging,
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
        ("Environment", "/environment"),
        ("Method", "/payment_method"),
        ("Status", "/status"),
        ("Settlement", "/settlement_status"),
        ("Created", "/created_at"),
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
                paging,
            } => {
                let call = Call::new(Method::GET, ["payments"])
                    .with("merchant_id", merchant_id)
                    .with("status", status)
                    .with("order_id", order_id)
                    .with("environment", environment)
                    .shown(PAYMENTS);
                paging.of(call)
            }
            Self::Show { payment_id } => Call::new(Method::GET, ["payments", &payment_id]),
            Self::Review {
                payment_id,
                decision,
                settlement,
            } => {
                let decision = match decision {
                    Decision::Approve => "approve",
                    Decision::Decline => "decline",
                };
                let settlement = settlement.map(|settlement| match settlement {
                    Settlement::Confirmed => "confirmed",
                    Settlement::Pending => "pending",
                });
                act(&payment_id, "review")
                    .body(json!({ "decision": decision, "settlement": settlement }))
            }
            Self::Cancel { payment_id } => act(&payment_id, "cancel"),
            Self::Redact { payment_id } => act(&payment_id, "redact"),
        })
    }
}

/// What can be done with the work list.
#[derive(Subcommand, Debug)]
pub(in crate::cli) enum WorkAction {
    /// List what a person has to look at.
    List {
        /// What was looked at already, too.
        #[arg(long)]
        done: bool,
        #[command(flatten)]
        paging: Paging,
    },
    /// Mark a line as looked at. Needs --actor and --reason.
    Done {
        /// The line's id.
        work_id: String,
    },
}

const WORK: Shape = Shape::List(
    "work",
    &[
        ("ID", "/id"),
        ("Kind", "/kind"),
        ("Payment", "/payment_id"),
        ("Provider", "/provider_id"),
        ("Amount", "/amount"),
        ("", "/currency"),
        ("Detail", "/detail"),
        ("Opened", "/opened_at"),
        ("Done", "/done_at"),
    ],
);

impl Action for WorkAction {
    fn call(self) -> Result<Call, String> {
        Ok(match self {
            Self::List { done, paging } => {
                let call = Call::new(Method::GET, ["work"]).with("done", done.then_some(true));
                paging.of(call.shown(WORK))
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
        ("Module", "/module"),
        ("Name", "/name"),
        ("Environment", "/environment"),
        ("Enabled", "/enabled"),
        ("State", "/health/state"),
        ("Success", "/health/success_rate"),
        ("Median ms", "/health/median_ms"),
        ("Samples", "/health/samples"),
        ("Checked", "/health/checked_at"),
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
