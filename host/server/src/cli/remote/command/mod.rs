//! The nouns and what can be done with each.

mod connect;
mod merchants;
mod methods;
mod operators;
mod payments;
mod plugins;
mod resellers;
mod webhooks;

use clap::{Args, Subcommand};
use kassette_domain::key::Environment;

use super::Connection;
use super::call::Call;

pub(in crate::cli) use connect::ConnectCodeAction;
pub(in crate::cli) use merchants::{DomainAction, KeyAction, MerchantAction};
pub(in crate::cli) use methods::MethodAction;
pub(in crate::cli) use operators::{AuditAction, NodeAction, OperatorAction, OperatorCreate};
pub(in crate::cli) use payments::{PaymentAction, ProviderAction, WorkAction};
pub(in crate::cli) use plugins::PluginAction;
pub(in crate::cli) use resellers::{ConsentCodeAction, ResellerAction};
pub(in crate::cli) use webhooks::{DeliveryAction, EndpointAction};

/// A noun's command: where the server is, and what to do.
#[derive(Args, Debug)]
pub(in crate::cli) struct Noun<A: Subcommand> {
    #[command(flatten)]
    pub(super) connection: Connection,
    #[command(subcommand)]
    pub(super) action: A,
}

/// Something that can be done with a noun.
pub(in crate::cli) trait Action: Subcommand {
    /// The call that does it.
    ///
    /// # Errors
    /// Where an argument names a file that cannot be used.
    fn call(self) -> Result<Call, String>;

    /// The operator to write into the store of a stopped server instead of calling one.
    fn first_operator(&self) -> Option<&OperatorCreate> {
        None
    }
}

/// Which page of a list.
#[derive(Args, Clone, Debug)]
pub(in crate::cli) struct Paging {
    /// Most items, 1-100.
    #[arg(long, value_parser = clap::value_parser!(u8).range(1..=100))]
    limit: Option<u8>,
    /// Where the page before ended.
    #[arg(long)]
    cursor: Option<String>,
}

impl Paging {
    fn of(self, call: Call) -> Call {
        call.with("limit", self.limit).with("cursor", self.cursor)
    }
}

/// `test` or `live`.
fn environment(text: &str) -> Result<Environment, String> {
    crate::web::text::environment(text).map_err(str::to_owned)
}
