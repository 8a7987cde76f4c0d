//! What the fuzzing targets (`tests/fuzz`) drive in their own process. No other program uses it.

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

/// Everything that the public listener of `serve` answers, but for the sandbox's pages.
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

/// Draws an operator with its token.
///
/// # Errors
/// Where the operating system gives no randomness.
pub fn operator(name: &str, role: Role, now: Time) -> Result<(Operator, Secret), getrandom::Error> {
    admin::draw_operator(name.to_owned(), role, None, now)
}

/// What `kassette config check` says of a folder, without the modules: lines and sentences.
pub fn config_problems(folder: &Path) -> Vec<(Option<usize>, String)> {
    cli::config_problems(folder)
}

/// The settings with which `serve` would begin on a folder.
///
/// # Errors
/// What `serve` would say.
pub fn settings(folder: &Path) -> Result<Settings, String> {
    let config = Config::read(folder, Profile::Serve).map_err(|error| error.to_string())?;
    let public_url = config.main.public_origin()?;
    Ok(config.settings(&public_url, Profile::Serve))
}
