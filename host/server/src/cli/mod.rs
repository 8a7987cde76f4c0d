//! The command line.

mod check;
mod migrate;
mod module;
mod offline;
mod output;
mod progress;
mod remote;
mod service_user;
mod signing;
mod status;
mod stopped_store;
mod store;
mod table;

pub(crate) use check::problems as config_problems;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, Subcommand};

use self::remote::{
    AuditAction, ConnectCodeAction, ConsentCodeAction, DeliveryAction, DomainAction,
    EndpointAction, FinanceAction, KeyAction, MerchantAction, MethodAction, NodeAction, Noun,
    OperatorAction, PaymentAction, PluginAction, ProviderAction, RatesAction, RefundAction,
    ResellerAction, WorkAction,
};
use crate::compiler::COMPILE_MODULE;
use crate::config::{Config, Profile};
use crate::listen::{HandedOver, handed_over};
use crate::signals::{Signals, Stop};
use crate::telemetry::LogFormat;
use crate::web::text::escape_directions;
use crate::{dev, memory, serve, telemetry};

/// Version of the program, and of the specification that it implements.
const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), " (spec 0.24.1)");

/// Exit code of a failed command. Invalid usage has clap's exit code 2.
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
    /// Run the gateway with a configuration folder.
    Serve {
        /// Folder with kassette.toml, methods/ and providers/.
        #[arg(long, default_value = "config")]
        config: PathBuf,
        /// File that is written when requests are served.
        #[arg(long)]
        ready_file: Option<PathBuf>,
    },
    /// Build all modules and run everything on this machine, with simulated providers.
    Dev(dev::DevArgs),
    /// Run a simulated provider for an account of the test environment, of `serve` or of `dev`.
    Sim(offline::SimArgs),
    /// Back up the store, of a running server or of a stopped one.
    ///
    /// With an operator token of the role admin, the running server sends its backup and continues to serve.
    /// Without one, or with --config or --data-dir, the store of a stopped server is read.
    Backup(store::BackupArgs),
    /// Restore a backup into a data directory without a store.
    Restore(store::RestoreArgs),
    /// Read and check the complete store of a stopped server, a database, or a backup.
    Verify(store::VerifyArgs),
    /// Rewrite the store of a stopped server with its minimum size.
    Compact(store::CompactArgs),
    /// Encrypt the secrets in the store of a stopped server with another master key.
    Rekey(store::RekeyArgs),
    /// Create the tables of the database that the configuration names, or update them for this release.
    ///
    /// Can run while servers of this or the previous release use the database. An interrupted migration is
    /// resumed.
    Migrate(migrate::MigrateArgs),
    /// Move the store of a stopped server to the database that the configuration names, or back.
    ///
    /// The copy is read completely and compared with the original by counts. The original is then marked and no
    /// longer served.
    Copy(store::CopyArgs),
    /// Check the configuration.
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Merchants: rates, routing and risk.
    Merchant(Noun<MerchantAction>),
    /// Payment methods: why they are offered.
    Method(Noun<MethodAction>),
    /// API keys of merchants and resellers.
    Key(Noun<KeyAction>),
    /// Resellers, who create payments for merchants that authorize them.
    Reseller(Noun<ResellerAction>),
    /// Codes with which merchants accept a reseller's invitation.
    ConsentCode(Noun<ConsentCodeAction>),
    /// Verified shop domains.
    Domain(Noun<DomainAction>),
    /// One-time codes with which shops connect.
    ConnectCode(Noun<ConnectCodeAction>),
    /// Webhook endpoints, which receive the events of merchants and resellers.
    Endpoint(Noun<EndpointAction>),
    /// Webhook deliveries and their responses.
    Delivery(Noun<DeliveryAction>),
    /// Payments, and decisions about them.
    Payment(Noun<PaymentAction>),
    /// Refunds whose outcome remained unknown.
    Refund(Noun<RefundAction>),
    /// Work items: money that needs a person's attention.
    Work(Noun<WorkAction>),
    /// The ledger: movements of money, and sums by day.
    Finance(Noun<FinanceAction>),
    /// Provider accounts.
    Provider(Noun<ProviderAction>),
    /// Exchange rates of sources.
    Rates(Noun<RatesAction>),
    /// People and scripts that run the gateway.
    Operator(Noun<OperatorAction>),
    /// Report whether everything is well. Exit code 0: yes; 1: something needs attention; 2: failing, or no
    /// response.
    ///
    /// With an operator token, the gateway at --admin-url reports. Without one, or with --config or --data-dir,
    /// the report is read that the server on this machine writes every 10 s, which root and the service's user may
    /// read.
    #[command(after_help = "Example:\n  kassette status --config /etc/kassette")]
    Status(status::StatusArgs),
    /// Find anything: by an order, an address, an amount, four digits, a reference, an id or how one begins.
    #[command(after_help = "Example:\n  kassette find \"80.00 EUR\" --since 2030-01-31T00:00:00Z")]
    Find(remote::FindArgs),
    /// The processes that serve the store.
    Node(Noun<NodeAction>),
    /// The audit log: who changed what and why.
    Audit(Noun<AuditAction>),
    /// Modules.
    Plugin(Noun<PluginAction>),
    /// Print a shell script that completes commands and options.
    #[command(
        after_help = "Example:\n  kassette completions bash > ~/.local/share/bash-completion/completions/kassette"
    )]
    Completions {
        /// Name of the shell.
        shell: clap_complete::Shell,
    },
    /// The gateway's own compiler: reads a module from standard input and writes machine code to standard output.
    #[command(name = COMPILE_MODULE, hide = true)]
    CompileModule,
    /// A node of `dev --nodes`, started by `dev`.
    #[command(name = dev::NODE, hide = true)]
    DevNode,
}

#[derive(Subcommand)]
enum ConfigCommand {
    /// Read all files and report problems.
    Check(check::CheckArgs),
}

/// Maximum number of threads for blocking work: 16 reads of the store, 8 interpreted modules, and some for
/// compilation and files. tokio starts another thread whenever none is idle, and used 70 during the attacks of
/// `cargo bench`, with 40 MB more memory.
const BLOCKING_THREADS: usize = 28;

/// Parses the arguments and runs the command.
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    // Before any thread starts, because the process drops privileges that a compiler does not need.
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
    // Threads that are still blocked after the drain must not delay the end of the process.
    runtime.shutdown_timeout(std::time::Duration::from_secs(5));
    match done {
        Ok(code) => code,
        Err(why) => refuse(&why),
    }
}

async fn run(command: Command, sockets: HandedOver) -> Result<ExitCode, String> {
    let done = match command {
        Command::Status(args) => return Ok(status::status(args).await),
        Command::Serve { config, ready_file } => {
            let signals = Signals::catch().map_err(uncaught)?;
            let config = Config::read(&config, Profile::Serve).map_err(text)?;
            telemetry::init(config.main.log.format, &config.main.log.filter);
            serve::run(config, ready_file, sockets, signals)
                .await
                .map_err(text)
        }
        Command::Dev(args) => {
            telemetry::init(LogFormat::Pretty, dev::LOG_FILTER);
            let signals = Signals::catch().map_err(uncaught)?;
            dev::run(args, signals).await.map_err(text)
        }
        Command::DevNode => {
            telemetry::init(LogFormat::Pretty, dev::LOG_FILTER);
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
        Command::Refund(noun) => remote::run(noun).await,
        Command::Work(noun) => remote::run(noun).await,
        Command::Finance(noun) => remote::run(noun).await,
        Command::Provider(noun) => remote::run(noun).await,
        Command::Rates(noun) => remote::run(noun).await,
        Command::Operator(noun) => remote::run(noun).await,
        Command::Find(args) => remote::find(args).await,
        Command::Node(noun) => remote::run(noun).await,
        Command::Audit(noun) => match noun.audit_to_verify() {
            Ok((connection, stopped, expected)) => {
                connection.refuse_attribution();
                store::verify_audit(&connection, stopped, expected).await
            }
            Err(noun) => remote::run(*noun).await,
        },
        Command::Plugin(noun) => match noun.on_file() {
            Ok((what, json)) => module::run(what, json).await,
            Err(noun) => remote::run(*noun).await,
        },
        Command::Completions { shell } => output::print(&completions(shell)),
        Command::CompileModule => Err("is done before".into()),
    };
    done.map(|()| ExitCode::SUCCESS)
}

/// Completion script for all commands except hidden ones.
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
    eprintln!("kassette: {}", escape_directions(why));
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
