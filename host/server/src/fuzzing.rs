//! Functions for the fuzzing targets (`tests/fuzz`). Not used by other programs.

use std::path::Path;

use axum::Router;
use kassette_domain::operator::{Operator, Role};
use kassette_domain::secret::Secret;
use kassette_domain::time::Time;
use kassette_gateway::Gateway;
use kassette_gateway::settings::Settings;

use crate::admission::InFlightLimits;
use crate::config::{Config, Profile};
use crate::proxies::Proxies;
use crate::{admin, api, cli, docs, pages};

/// All routes of the public listener of `serve`, except the sandbox's pages.
pub fn public(gateway: Gateway) -> Router {
    let state = api::ApiState::new(
        gateway.clone(),
        Proxies::default(),
        InFlightLimits::default(),
    );
    let payers = pages::PagesState::new(gateway, Proxies::default()).limited_by(state.clone());
    let docs = docs::router(&state);
    api::router(state).merge(pages::router(payers)).merge(docs)
}

/// The admin API, under one host name.
pub fn admin(gateway: Gateway, host: &str) -> Router {
    admin::router(admin::AdminState::new(gateway, vec![host.to_owned()], None))
}

/// Creates an operator and its token.
///
/// # Errors
/// If the operating system provides no random bytes.
pub fn operator(name: &str, role: Role, now: Time) -> Result<(Operator, Secret), getrandom::Error> {
    admin::draw_operator(name.to_owned(), role, None, now)
}

/// Lines and sentences that `kassette config check` reports for a folder, without the checks of modules.
pub fn config_problems(folder: &Path) -> Vec<(Option<usize>, String)> {
    cli::config_problems(folder)
}

/// Settings with which `serve` would start on a folder.
///
/// # Errors
/// The error that `serve` would report.
pub fn settings(folder: &Path) -> Result<Settings, String> {
    let config = Config::read(folder, Profile::Serve).map_err(|error| error.to_string())?;
    let public_url = config.main.public_origin()?;
    Ok(config.settings(&public_url, Profile::Serve))
}
