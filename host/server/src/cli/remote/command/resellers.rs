//! Resellers, and consent codes of merchants.

use clap::Subcommand;
use http::Method;
use serde_json::json;

use super::{Action, Paging};
use crate::cli::remote::call::{Call, Shape};

/// Commands for resellers.
#[derive(Subcommand, Debug)]
pub(in crate::cli) enum ResellerAction {
    /// Create a reseller.
    Create {
        /// Shown to the merchants that it invites.
        #[arg(long)]
        name: String,
    },
    /// List resellers, newest first.
    List {
        #[command(flatten)]
        paging: Paging,
    },
    /// Show a reseller.
    Show {
        /// The reseller's number.
        id: u64,
    },
    /// Enable or disable its live keys; needs --actor and --reason.
    LiveRollout {
        /// The reseller's number.
        id: u64,
        /// true or false.
        #[arg(long, action = clap::ArgAction::Set)]
        enabled: bool,
    },
    /// List the merchants that it has invited or that have authorized it, newest first.
    Delegations {
        /// The reseller's number.
        id: u64,
        #[command(flatten)]
        paging: Paging,
    },
    /// Let it work for a merchant; needs --actor and --reason.
    Authorize {
        /// The reseller's number.
        id: u64,
        /// The merchant's number.
        #[arg(long, alias = "merchant")]
        merchant_id: u64,
        /// Whether it may refund the payments that it created, true or false. If absent, this stays as it is; at
        /// first, and after a revocation, it is false.
        #[arg(long, action = clap::ArgAction::Set)]
        refunds: Option<bool>,
    },
    /// Revoke its authorization for a merchant immediately; needs --actor and --reason.
    Revoke {
        /// The reseller's number.
        id: u64,
        /// The merchant's number.
        #[arg(long, alias = "merchant")]
        merchant_id: u64,
    },
}

const RESELLERS: Shape = Shape::List(
    "resellers",
    &[
        ("ID", "/reseller_id"),
        ("Name", "/name"),
        ("Live", "/live_rollout"),
        ("Created", "/created_at"),
    ],
);

const DELEGATIONS: Shape = Shape::List(
    "delegations",
    &[
        ("Merchant", "/merchant_id"),
        ("Business", "/business_name"),
        ("Status", "/status"),
        ("Authorized", "/authorized_at"),
        ("Refunds", "/refunds"),
        ("Reference", "/client_ref"),
        ("Created", "/created_at"),
    ],
);

impl Action for ResellerAction {
    fn call(self) -> Result<Call, String> {
        let one = |method, id: u64, more: &[&str]| {
            let path = ["resellers".to_owned(), id.to_string()];
            Call::new(
                method,
                path.into_iter()
                    .chain(more.iter().map(|part| (*part).to_owned())),
            )
        };
        let delegate = |id, merchant: u64, decision| {
            one(Method::PUT, id, &["delegations", &merchant.to_string()]).body(decision)
        };
        Ok(match self {
            Self::Create { name } => {
                Call::new(Method::POST, ["resellers"]).body(json!({ "name": name }))
            }
            Self::List { paging } => {
                paging.put(Call::new(Method::GET, ["resellers"]).shown(RESELLERS))
            }
            Self::Show { id } => one(Method::GET, id, &[]),
            Self::LiveRollout { id, enabled } => {
                one(Method::PUT, id, &["live-rollout"]).body(json!({ "enabled": enabled }))
            }
            Self::Delegations { id, paging } => {
                paging.put(one(Method::GET, id, &["delegations"]).shown(DELEGATIONS))
            }
            Self::Authorize {
                id,
                merchant_id,
                refunds,
            } => {
                let mut decision = json!({ "status": "authorized" });
                if let Some(refunds) = refunds {
                    decision["refunds"] = refunds.into();
                }
                delegate(id, merchant_id, decision)
            }
            Self::Revoke { id, merchant_id } => {
                delegate(id, merchant_id, json!({ "status": "revoked" }))
            }
        })
    }
}

/// Commands for consent codes.
#[derive(Subcommand, Debug)]
pub(in crate::cli) enum ConsentCodeAction {
    /// Issue a code with which a merchant accepts an invitation; it is shown only this time.
    Create {
        /// The merchant's number.
        #[arg(long, alias = "merchant")]
        merchant_id: u64,
    },
}

impl Action for ConsentCodeAction {
    fn call(self) -> Result<Call, String> {
        let Self::Create { merchant_id } = self;
        let path = [
            "merchants".to_owned(),
            merchant_id.to_string(),
            "consent-codes".to_owned(),
        ];
        Ok(Call::new(Method::POST, path).shown(Shape::Once))
    }
}
