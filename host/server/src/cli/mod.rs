//! The command line.

mod check;
mod migrate;
mod module;
mod offline;
mod output;
mod progress;
mod remote;
mod signing;
mod stopped_store;
mod store;
mod table;

pub(crate) use check::problems as config_problems;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, Subcommand};

use self::remote::{
    AuditAction, ConnectCodeAction, ConsentCodeAction, DeliveryAction, DomainAction,
    EndpointAction, KeyAction, MerchantAction, MethodAction, NodeAction, Noun, OperatorAction,
    PaymentAction, PluginAction, ProviderAction, ResellerAction, WorkAction,
};
use crate::compiler::COMPILE_MODULE;
use crate::config::{Config, Profile};
use crate::listen::{HandedOver, handed_over};
use crate::signals::{Signals, Stop};
use crate::telemetry::LogFormat;
use crate::{dev, memory, serve, telemetry};

/// The interface version that is served, beside our own.
const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), " (spec 0.24.1)");

/// Exit code of a refusal; clap exits with 2 on wrong usage by itself.
const REFUSED: u8 = 1;

/// A payment checkout gateway whose methods and providers are modules.
#[derive(Parser)]
#[command(name = "kassette", version = VERSION, about)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run the gateway on a configuration folder.
    Serve {
        /// The folder with kassette.toml, methods/ and providers/.
        #[arg(long, default_value = "config")]
        config: PathBuf,
        /// Written once requests are served.
        #[arg(long)]
        ready_file: Option<PathBuf>,
    },
    /// Build all modules and run everything on this machine, with simulated vendors.
    Dev(dev::DevArgs),
    /// Run a simulated vendor for an account of the test environment, of `serve` or of `dev`.
    Sim(offline::SimArgs),
    /// Back up the store, of a running server or of a stopped one.
    ///
    /// With an operator token of the role admin the running server is asked for it and goes on
    /// serving; without one, or with --config or --data-dir, the store of a stopped server is read.
    Backup(store::BackupArgs),
    /// Restore a backup into a data directory without a store.
    Restore(store::RestoreArgs),
    /// Read the store of a stopped server, a database, or a backup, through from end to end.
    Verify(store::VerifyArgs),
    /// Write the store of a stopped server anew, as small as it gets.
    Compact(store::CompactArgs),
    /// Seal the store of a stopped server under another master key.
    Rekey(store::RekeyArgs),
    /// Make the tables of the database that the configuration names, or bring them to this release's form.
    ///
    /// It can run beside servers, of this release or the one before; what was interrupted goes on.
    Migrate(migrate::MigrateArgs),
    /// Move the store of a stopped server to the database that the configuration names, or back.
    ///
    /// The copy is read through and counted against the store that it was made from, which is marked: it is no
    /// longer served.
    Copy(store::CopyArgs),
    /// Look at the configuration.
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Merchants: rates, routing and risk.
    Merchant(Noun<MerchantAction>),
    /// Payment methods: why they are offered.
    Method(Noun<MethodAction>),
    /// API keys of merchants and resellers.
    Key(Noun<KeyAction>),
    /// Who makes payments for merchants that let it.
    Reseller(Noun<ResellerAction>),
    /// What a merchant consents with to a reseller's invitation.
    ConsentCode(Noun<ConsentCodeAction>),
    /// Verified shop domains.
    Domain(Noun<DomainAction>),
    /// One-time codes with which shops connect.
    ConnectCode(Noun<ConnectCodeAction>),
    /// Where merchants' events are sent.
    Endpoint(Noun<EndpointAction>),
    /// What was sent, and what came back.
    Delivery(Noun<DeliveryAction>),
    /// Payments, and what to decide about one.
    Payment(Noun<PaymentAction>),
    /// Money that a person has to look at.
    Work(Noun<WorkAction>),
    /// Provider accounts.
    Provider(Noun<ProviderAction>),
    /// People and scripts that run the gateway.
    Operator(Noun<OperatorAction>),
    /// The processes that serve the store.
    Node(Noun<NodeAction>),
    /// Who changed what and why.
    Audit(Noun<AuditAction>),
    /// Modules.
    Plugin(Noun<PluginAction>),
    /// Print what completes commands and options in a shell.
    #[command(
        after_help = "Example:\n  kassette completions bash > ~/.local/share/bash-completion/completions/kassette"
    )]
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
    /// The gateway's own compiler: a module on standard input, machine code on standard output.
    #[command(name = COMPILE_MODULE, hide = true)]
    CompileModule,
    /// A node of `dev --nodes`, which starts it.
    #[command(name = dev::NODE, hide = true)]
    DevNode,
}

#[derive(Subcommand)]
enum ConfigCommand {
    /// Read every file and say what is wrong.
    Check(check::CheckArgs),
}

/// Most threads for what blocks: the store's 16 reads, 8 interpreted modules, and some for compilation and
/// files. tokio starts another whenever none is idle, and came to 70 beside the attacks of `cargo bench`, which
/// took 40 MB more.
const BLOCKING_THREADS: usize = 28;

/// Reads the arguments and does what they say.
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    // Before any thread is started: the process gives up what a compiler does not need.
    if let Command::CompileModule = cli.command {
        return match kassette_runtime::compile_as_child() {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => refuse(&error.to_string()),
        };
    }
    if let Command::Serve { .. } | Command::Dev(_) | Command::DevNode = cli.command {
        memory::give_back_soon();
    }
    let sockets = match cli.command {
        Command::Serve { .. } => handed_over(),
        _ => Ok(HandedOver::default()),
    };
    let sockets = match sockets {
        Ok(sockets) => sockets,
        Err(error) => return refuse(&error.to_string()),
    };
    let runtime = match tokio::runtime::Builder::new_multi_thread()
        .max_blocking_threads(BLOCKING_THREADS)
        .enable_all()
        .build()
    {
        Ok(runtime) => runtime,
        Err(error) => return refuse(&format!("no threads: {error}")),
    };
    let done = runtime.block_on(run(cli.command, sockets));
    // What still blocks a thread after the drain must not hold the process.
    runtime.shutdown_timeout(std::time::Duration::from_secs(5));
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => refuse(&why),
    }
}

async fn run(command: Command, sockets: HandedOver) -> Result<(), String> {
    match command {
        Command::Serve { config, ready_file } => {
            let signals = Signals::catch().map_err(uncaught)?;
            let config = Config::read(&config, Profile::Serve).map_err(text)?;
            telemetry::init(config.main.log.format, &config.main.log.filter);
            serve::run(config, ready_file, sockets, signals)
                .await
                .map_err(text)
        }
        Command::Dev(args) => {
            telemetry::init(LogFormat::Pretty, "info");
            let signals = Signals::catch().map_err(uncaught)?;
            dev::run(args, signals).await.map_err(text)
        }
        Command::DevNode => {
            telemetry::init(LogFormat::Pretty, "info");
            let signals = Signals::catch().map_err(uncaught)?;
            dev::node(signals).await.map_err(text)
        }
        Command::Sim(args) => {
            telemetry::init(LogFormat::Pretty, "info");
            let stop = Stop::catch().map_err(uncaught)?;
            offline::sim(args, stop.stop_requested).await
        }
        Command::Backup(args) => store::backup(args).await,
        Command::Restore(args) => store::restore(args).await,
        Command::Verify(args) => store::verify(args).await,
        Command::Compact(args) => store::compact(args).await,
        Command::Rekey(args) => store::rekey(args).await,
        Command::Migrate(args) => migrate::migrate(args).await,
        Command::Copy(args) => store::copy(args).await,
        Command::Config(ConfigCommand::Check(args)) => check::check(args).await,
        Command::Merchant(noun) => remote::run(noun).await,
        Command::Method(noun) => remote::run(noun).await,
        Command::Key(noun) => remote::run(noun).await,
        Command::Reseller(noun) => remote::run(noun).await,
        Command::ConsentCode(noun) => remote::run(noun).await,
        Command::Domain(noun) => remote::run(noun).await,
        Command::ConnectCode(noun) => remote::run(noun).await,
        Command::Endpoint(noun) => remote::run(noun).await,
        Command::Delivery(noun) => remote::run(noun).await,
        Command::Payment(noun) => remote::run(noun).await,
        Command::Work(noun) => remote::run(noun).await,
        Command::Provider(noun) => remote::run(noun).await,
        Command::Operator(noun) => remote::run(noun).await,
        Command::Node(noun) => remote::run(noun).await,
        Command::Audit(noun) => match noun.audit_to_verify() {
            Ok((connection, stopped)) => store::verify_audit(&connection, stopped).await,
            Err(noun) => remote::run(*noun).await,
        },
        Command::Plugin(noun) => match noun.on_file() {
            Ok((what, json)) => module::run(what, json).await,
            Err(noun) => remote::run(*noun).await,
        },
        Command::Completions { shell } => output::print(&completions(shell)),
        Command::CompileModule => Err("is done before".into()),
    }
}

/// Of all commands but the gateway's own.
fn completions(shell: clap_complete::Shell) -> String {
    let cli = Cli::command();
    let known = cli.get_subcommands().filter(|it| !it.is_hide_set());
    let mut shown = clap::Command::new("kassette")
        .version(VERSION)
        .subcommands(known);
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut shown, "kassette", &mut script);
    String::from_utf8_lossy(&script).into_owned()
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

fn uncaught(error: std::io::Error) -> String {
    format!("signals cannot be caught, so that nothing could stop it in order: {error}")
}

#[expect(
    clippy::print_stderr,
    reason = "this is what the person at the terminal reads"
)]
fn refuse(why: &str) -> ExitCode {
    eprintln!("kassette: {why}");
    ExitCode::from(REFUSED)
}

#[cfg(test)]
mod tests {
    use clap_complete::Shell;

    use super::*;

    #[test]
    fn completions_of_each_shell_know_commands_options_and_values() {
        for shell in [Shell::Bash, Shell::Fish, Shell::Zsh] {
            let script = completions(shell);
            for word in ["plugin", "canary", "steps", "shadow"] {
                assert!(script.contains(word), "{shell}: {word}");
            }
            assert!(!script.contains(COMPILE_MODULE), "{shell}");
        }
    }

    #[test]
    fn the_help_of_what_is_done_with_modules_has_an_example_that_is_read() {
        let cli = Cli::command();
        for noun in ["plugin", "method"] {
            let noun = cli.find_subcommand(noun).unwrap();
            for action in noun.get_subcommands() {
                let name = action.get_name();
                let help = action.get_after_help().map(ToString::to_string);
                let example = help
                    .as_deref()
                    .and_then(|help| help.split("kassette ").nth(1));
                let example = example.unwrap_or_else(|| panic!("{name} has no example"));
                let words = example.replace('"', "");
                assert!(words.contains(name), "{words}");
            }
        }
    }
}
