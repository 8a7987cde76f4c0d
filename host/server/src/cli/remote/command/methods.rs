//! Payment methods.

use clap::Subcommand;
use http::Method;
use kassette_domain::key::Environment;

use super::{Action, environment};
use crate::cli::remote::call::{Call, Shape};

/// Commands for payment methods.
#[derive(Subcommand, Debug)]
pub(in crate::cli) enum MethodAction {
    /// Explain why each method is available to a merchant's payers now, or not.
    #[command(
        after_help = "Example:\n  kassette method explain --merchant-id 1 --environment live --amount 10.13 --currency CAD"
    )]
    Explain {
        /// The merchant of the payment.
        #[arg(long)]
        merchant_id: u64,
        /// test or live.
        #[arg(long, value_parser = environment)]
        environment: Environment,
        /// Amount, such as 10.13; without it limits are not applied.
        #[arg(long)]
        amount: Option<String>,
        /// Currency of the amount; USD if absent.
        #[arg(long)]
        currency: Option<String>,
    },
}

const METHODS: Shape = Shape::ListOfLists(
    "methods",
    "accounts",
    &[
        ("Method", "/method_id"),
        ("Offered", "/offered"),
        ("Account", "/provider_id"),
        ("Eligible", "/eligible"),
        ("Reason", "/reason"),
    ],
);

impl Action for MethodAction {
    fn call(self) -> Result<Call, String> {
        let Self::Explain {
            merchant_id,
            environment,
            amount,
            currency,
        } = self;
        Ok(Call::new(Method::GET, ["explain"])
            .with("merchant_id", Some(merchant_id))
            .with("environment", Some(environment))
            .with("amount", amount)
            .with("currency", currency)
            .shown(METHODS))
    }
}
