//! Connect codes of shops.

use clap::Subcommand;
use http::Method;
use kassette_domain::key::Environment;
use serde_json::json;

use super::{Action, Paging, environment};
use crate::cli::remote::call::{Call, Shape};

/// Commands for connect codes.
#[derive(Subcommand, Debug)]
pub(in crate::cli) enum ConnectCodeAction {
    /// Issue a code that is valid for five minutes; it is shown only this time.
    Create {
        /// The merchant's number.
        #[arg(long, alias = "merchant")]
        merchant_id: u64,
        /// test or live.
        #[arg(long, value_parser = environment)]
        environment: Environment,
        /// The only site that may use it, such as https://shop.example.
        #[arg(long)]
        site_url: String,
        /// payments:create, payments:read, payments:refund or account:manage; the first two if absent. May be
        /// repeated.
        #[arg(long = "scope")]
        scopes: Vec<String>,
    },
    /// List a merchant's codes of the last day, newest first.
    List {
        /// The merchant's number.
        #[arg(long, alias = "merchant")]
        merchant_id: u64,
        #[command(flatten)]
        paging: Paging,
    },
}

const CODES: Shape = Shape::List(
    "connect_codes",
    &[
        ("ID", "/connect_code_id"),
        ("Environment", "/environment"),
        ("Site", "/site_origin"),
        ("State", "/state"),
        ("Expires", "/expires_at"),
        ("Scopes", "/scopes"),
        ("Created", "/created_at"),
        ("Redeemed", "/redeemed_at"),
    ],
);

impl Action for ConnectCodeAction {
    fn call(self) -> Result<Call, String> {
        let of = |method, id: u64| {
            let id = id.to_string();
            Call::new(method, ["merchants", &id, "connect-codes"])
        };
        Ok(match self {
            Self::Create {
                merchant_id,
                environment,
                site_url,
                scopes,
            } => {
                let scopes = (!scopes.is_empty()).then_some(scopes);
                let body =
                    json!({ "environment": environment, "site_url": site_url, "scopes": scopes });
                of(Method::POST, merchant_id).body(body).shown(Shape::Once)
            }
            Self::List {
                merchant_id,
                paging,
            } => paging.put(of(Method::GET, merchant_id).shown(CODES)),
        })
    }
}
