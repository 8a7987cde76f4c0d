//! The nouns and their commands.

mod connect;
mod finance;
mod merchants;
mod methods;
mod operators;
mod payments;
mod plugins;
mod rates;
mod resellers;
mod webhooks;

use clap::{Args, Subcommand};
use kassette_domain::key::Environment;

use super::Connection;
use super::call::Call;

pub(in crate::cli) use connect::ConnectCodeAction;
pub(in crate::cli) use finance::FinanceAction;
pub(in crate::cli) use merchants::{DomainAction, KeyAction, MerchantAction};
pub(in crate::cli) use methods::MethodAction;
pub(in crate::cli) use operators::{AuditAction, NodeAction, OperatorAction, OperatorCreate};
pub(in crate::cli) use payments::{PaymentAction, ProviderAction, RefundAction, WorkAction};
pub(in crate::cli) use plugins::PluginAction;
pub(in crate::cli) use rates::RatesAction;
pub(in crate::cli) use resellers::{ConsentCodeAction, ResellerAction};
pub(in crate::cli) use webhooks::{DeliveryAction, EndpointAction};

/// A noun's command: location of the server, and action.
#[derive(Args, Debug)]
pub(in crate::cli) struct Noun<A: Subcommand> {
    #[command(flatten)]
    pub(super) connection: Connection,
    #[command(subcommand)]
    pub(super) action: A,
}

/// An action of a noun.
pub(in crate::cli) trait Action: Subcommand {
    /// The call that performs it.
    ///
    /// # Errors
    /// If an argument names a file that cannot be used.
    fn call(self) -> Result<Call, String>;

    /// The operator to insert into the store of a stopped server, instead of a call. `None` for all other
    /// actions.
    fn first_operator(&self) -> Option<&OperatorCreate> {
        None
    }
}

/// Selects a page of a list.
#[derive(Args, Clone, Debug)]
pub(in crate::cli) struct Paging {
    /// Maximum number of items, 1-100.
    #[arg(long, value_parser = clap::value_parser!(u8).range(1..=100))]
    limit: Option<u8>,
    /// Cursor that the previous page ended with.
    #[arg(long)]
    cursor: Option<String>,
}

impl Paging {
    fn put(self, call: Call) -> Call {
        call.with("limit", self.limit).with("cursor", self.cursor)
    }
}

/// `test` or `live`.
pub(in crate::cli) fn environment(text: &str) -> Result<Environment, String> {
    crate::web::text::environment(text).map_err(str::to_owned)
}
