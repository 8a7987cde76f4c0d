//! Accounts at providers: health, share of traffic, and the switch.

use askama::Template;
use serde_json::Value;

use super::node::{Node, percent};
use super::words::account_state;
use crate::console::context::Context;
use crate::console::reply::{ConsoleError, Html};

#[derive(Template)]
#[template(path = "console/providers.html")]
pub(super) struct Page {
    context: Context,
    data: Value,
    /// Figures of the last hour.
    stats: Value,
}

/// `GET /console/providers`
pub(super) async fn show(context: Context) -> Result<Html<Page>, ConsoleError> {
    let data = context.read("/providers?limit=100").await?;
    let environment = context.environment_name();
    let stats = format!("/stats?span=hour&environment={environment}");
    let stats = context.read(&stats).await?;
    Ok(Html(Page {
        context,
        data,
        stats,
    }))
}

impl Page {
    /// The accounts of the page's environment.
    fn accounts(&self) -> Vec<Node<'_>> {
        let mut accounts = self.context.node(&self.data).at("providers").list();
        accounts.retain(|account| {
            account
                .at("environment")
                .is(self.context.environment_name())
        });
        accounts
    }

    /// How many accounts take payments, as a sentence.
    fn lead(&self) -> String {
        let accounts = self.accounts();
        let on = |account: &&Node<'_>| account.at("enabled").is_true();
        let down = |account: &&Node<'_>| account.at("health").at("state").is("down");
        let off = accounts.len() - accounts.iter().filter(on).count();
        let broken = accounts.iter().filter(on).filter(down).count();
        format!(
            "{} of {} {} accounts take payments; {broken} down, {off} off. Figures are of the last hour.",
            accounts.len() - off - broken,
            accounts.len(),
            self.context.environment_name()
        )
    }

    /// Share of an account in the started payments of the last hour.
    fn share(&self, account: &Node<'_>) -> String {
        let stats = self.context.node(&self.stats).at("accounts").list();
        let started = |one: &Node<'_>| one.at("started").number();
        let all: u64 = stats.iter().map(started).sum();
        let mut own = stats.iter();
        let own = own.find(|one| one.at("provider_id").is(account.at("id").raw()));
        percent(own.map_or(0, started), all)
    }

    /// Share of starts that worked.
    fn success(&self, account: &Node<'_>) -> String {
        match account.at("health").at("success_rate").is_set() {
            true => format!(
                "{:.1} %",
                account.at("health").at("success_rate").fraction() * 100.0
            ),
            false => String::new(),
        }
    }
}
