//! Resellers, and the codes with which merchants consent to them.

use clap::Subcommand;
use http::Method;
use serde_json::json;

use super::{Action, Paging};
use crate::cli::remote::call::{Call, Shape};

/// What can be done with resellers.
#[derive(Subcommand, Debug)]
pub(in crate::cli) enum ResellerAction {
    /// Make a reseller.
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
    /// Show one.
    Show {
        /// Its number.
        id: u64,
    },
    /// Switch its live keys on or off; needs --actor and --reason.
    LiveRollout {
        /// Its number.
        id: u64,
        /// true or false.
        #[arg(long, action = clap::ArgAction::Set)]
        enabled: bool,
    },
    /// List the merchants that it has invited or that have authorized it, newest first.
    Delegations {
        /// Its number.
        id: u64,
        #[command(flatten)]
        paging: Paging,
    },
    /// Let it work for a merchant; needs --actor and --reason.
    Authorize {
        /// Its number.
        id: u64,
        /// The merchant's number.
        #[arg(long, alias = "merchant")]
        merchant_id: u64,
    },
    /// Let it work for a merchant no more, at once; needs --actor and --reason.
    Revoke {
        /// Its number.
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
        let delegate = |id, merchant: u64, status: &str| {
            one(Method::PUT, id, &["delegations", &merchant.to_string()])
                .body(json!({ "status": status }))
        };
        Ok(match self {
            Self::Create { name } => {
                Call::new(Method::POST, ["resellers"]).body(json!({ "name": name }))
            }
            Self::List { paging } => {
                paging.of(Call::new(Method::GET, ["resellers"]).shown(RESELLERS))
            }
            Self::Show { id } => one(Method::GET, id, &[]),
            Self::LiveRollout { id, enabled } => {
                one(Method::PUT, id, &["live-rollout"]).body(json!({ "enabled": enabled }))
            }
            Self::Delegations { id, paging } => {
                paging.of(one(Method::GET, id, &["delegations"]).shown(DELEGATIONS))
            }
            Self::Authorize { id, merchant_id } => delegate(id, merchant_id, "authorized"),
            Self::Revoke { id, merchant_id } => delegate(id, merchant_id, "revoked"),
        })
    }
}

/// What can be done with consent codes.
#[derive(Subcommand, Debug)]
pub(in crate::cli) enum ConsentCodeAction {
    /// Issue a code for a merchant to accept an invitation with; it is shown this once.
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
