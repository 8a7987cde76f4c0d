//! Commands that need no running server.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use kassette_gateway::clock::SystemClock;
use tokio_util::sync::CancellationToken;

use crate::simulators::{
    PlannedAccount, SharedSecrets, SimulatorSettings, Simulators, simulated_module,
};
use kassette_domain::key::Environment;

/// The options of `kassette sim`.
#[derive(Args)]
pub(super) struct SimArgs {
    /// Address of the payer pages; the API uses a free port.
    #[arg(long, default_value = "127.0.0.1:8090")]
    listen: SocketAddr,
    /// Folder of the simulator's data and the account's secrets.
    #[arg(long, default_value = "data/simulators")]
    data_dir: PathBuf,
    /// Origin of the gateway that receives callbacks: a listener on loopback, without TLS.
    #[arg(long, default_value = "http://127.0.0.1:8080")]
    gateway: String,
    /// Module whose provider is simulated: sandbox, stripe, …
    #[arg(long, default_value = "sandbox", value_parser = simulated_module)]
    module: &'static str,
    /// Id of the account, for several simulators with one gateway; by default `<module>-test`.
    #[arg(long)]
    provider_id: Option<String>,
    /// Also write the account's file to this path, with mode 0600, in addition to standard output: a gateway that
    /// watches the folder applies it immediately.
    #[arg(long)]
    account_file: Option<PathBuf>,
}

/// Runs a provider's simulator until a signal to stop, and prints the account that belongs to it.
#[expect(
    clippy::print_stdout,
    reason = "the account's file goes to standard output"
)]
pub(super) async fn sim(args: SimArgs, stop: CancellationToken) -> Result<(), String> {
    crate::files::make_private_folder(&args.data_dir).map_err(|error| error.to_string())?;
    let secrets = SharedSecrets::read_or_draw(&args.data_dir.join("secrets.json"))?;
    let settings = SimulatorSettings {
        listen: args.listen,
        data_dir: args.data_dir,
        public_base: None,
        redirect_hosts: Vec::new(),
    };
    let mut planned = PlannedAccount::for_module(args.module, Environment::Test);
    if let Some(id) = args.provider_id {
        planned.id = id;
    }
    let provider_id = planned.id.clone();
    let simulators = Simulators::start(&[(planned, secrets)], settings, Arc::new(SystemClock))
        .await
        .map_err(|error| error.to_string())?;
    simulators
        .call_back_to(&args.gateway)
        .map_err(|error| error.to_string())?;
    let api = simulators
        .sim
        .api_addr(&provider_id)
        .map_err(|error| error.to_string())?;
    println!(
        "# payer pages http://{}, API http://{api}",
        simulators.sim.addr()
    );
    let account = account_file(&simulators);
    let text = toml::to_string(&account).map_err(|error| error.to_string())?;
    println!("# providers/{provider_id}.toml:\n{text}");
    if let Some(path) = &args.account_file {
        kassette_files::write(path, 0o600, text.as_bytes())
            .map_err(|error| format!("{}: {error}", path.display()))?;
    }
    stop.cancelled().await;
    Ok(())
}

fn account_file(simulators: &Simulators) -> toml::Table {
    let mut table = toml::Table::new();
    let Some(account) = simulators.accounts.values().next() else {
        return table;
    };
    let texts =
        |list: &[String]| toml::Value::Array(list.iter().cloned().map(Into::into).collect());
    table.insert("module".into(), account.module.clone().into());
    table.insert("name".into(), account.name.clone().into());
    table.insert("environment".into(), account.environment.as_str().into());
    table.insert("simulated".into(), true.into());
    table.insert("merchants".into(), "all".into());
    table.insert("hosts".into(), texts(&account.hosts));
    table.insert("redirect_hosts".into(), texts(&account.redirect_hosts));
    let settings: BTreeMap<_, _> = account.settings.iter().cloned().collect();
    let settings = settings
        .into_iter()
        .map(|(name, value)| (name, value.into()));
    table.insert("settings".into(), toml::Value::Table(settings.collect()));
    let value = |text: &str| {
        toml::Value::Table(toml::Table::from_iter([(
            "value".to_owned(),
            text.to_owned().into(),
        )]))
    };
    let secrets: toml::Table = account
        .secrets
        .iter()
        .filter_map(|secret| Some((secret.name.clone(), value(secret.values.first()?.expose()))))
        .collect();
    table.insert("secrets".into(), secrets.into());
    let methods = account
        .methods
        .keys()
        .map(|method| (method.to_string(), toml::Value::Table(toml::Table::new())));
    table.insert("methods".into(), toml::Value::Table(methods.collect()));
    table
}
