//! Slots and their versions.

use std::fmt::Display;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand, ValueEnum};
use http::Method;
use kassette_domain::id::Digest;
use kassette_gateway::replay::{MOST, MOST_EXAMPLES};
use kassette_runtime::MAX_MODULE_BYTES;
use serde_json::{Value, json};

use super::{Action, Noun, Paging};
use crate::cli::module::{Folder, OnFile};
use crate::cli::remote::call::{Call, Shape};
use crate::files::read_regular;
use crate::web::text::digest_begin;

/// Commands for modules.
#[derive(Subcommand, Debug)]
pub(in crate::cli) enum PluginAction {
    /// List the slots and their modules.
    #[command(after_help = "Example:\n  kassette plugin list")]
    List {
        #[command(flatten)]
        paging: Paging,
    },
    /// Check a module, and activate it in a slot or put it on trial.
    #[command(
        after_help = "Example:\n  kassette plugin upload method.ideal my-ideal.wasm --mode shadow"
    )]
    Upload {
        /// The slot, such as method.ideal.
        slot: String,
        /// The component.
        file: PathBuf,
        /// Whether to activate it; the setting `plugins.uploads` of kassette.toml if absent.
        #[arg(long)]
        mode: Option<Mode>,
    },
    /// Show how another version, other settings or another policy would have routed payments; or how another
    /// version of a provider's module would have called its provider. Changes nothing.
    #[command(
        after_help = "Example:\n  kassette plugin replay method.ideal my-ideal.wasm --last 100000"
    )]
    Replay {
        /// The slot, such as method.ideal; for a provider's slot only with a component.
        slot: String,
        #[command(flatten)]
        tried: CandidateArgs,
        /// Number of decisions or calls to replay, latest first; 10000 if absent.
        #[arg(long, value_parser = clap::value_parser!(u64).range(1..=MOST))]
        last: Option<u64>,
        /// Maximum number of changed payments to list, latest first; 20 if absent.
        #[arg(long, value_parser = clap::value_parser!(u64).range(0..=MOST_EXAMPLES as u64))]
        examples: Option<u64>,
    },
    /// Let the version on trial decide a share of the payments, or of a provider's new attempts. If its
    /// payments fail more often than the others, it is rolled back automatically. Needs --actor and --reason.
    #[command(
        after_help = "Example:\n  kassette plugin canary method.ideal --steps 1,5,25,100 --every 10m \
                      --actor ann --reason \"cheaper routes\""
    )]
    Canary {
        /// The slot.
        slot: String,
        /// The version; the one on trial if absent.
        #[arg(long, value_parser = digest)]
        digest: Option<Digest>,
        #[command(flatten)]
        pace: Pace,
    },
    /// Show which decisions the version on trial would change, and how its payments compare with the others.
    #[command(after_help = "Example:\n  kassette plugin diff method.ideal")]
    Diff {
        /// The slot.
        slot: String,
    },
    /// Activate the version on trial. Needs --actor and --reason.
    #[command(
        after_help = "Example:\n  kassette plugin promote method.ideal --actor ann --reason \"a day without a difference\""
    )]
    Promote {
        /// The slot.
        slot: String,
    },
    /// End the trial of a version; if there is no trial, activate the previous version. Needs --actor and
    /// --reason.
    #[command(
        after_help = "Example:\n  kassette plugin rollback method.ideal --actor ann --reason \"fewer are paid\""
    )]
    Rollback {
        /// The slot.
        slot: String,
    },
    /// Activate a stored version of the slot, and ignore its file in the plugin folder until another version is
    /// uploaded, promoted, rolled back or pinned. Needs --actor and --reason.
    #[command(after_help = "Example:\n  kassette plugin pin method.ideal \
                      6f1d0c3b5a49 --actor ann --reason audited")]
    Pin {
        /// The slot.
        slot: String,
        /// The version's digest as in `kassette plugin history`, or at least its first 8 characters.
        #[arg(value_parser = digest_begin)]
        digest: String,
    },
    /// Route nothing new to a slot: neither payments to a method, nor attempts to a provider. Payments and
    /// attempts in flight continue. The slot remains disabled after a restart and with any other module.
    #[command(
        after_help = "Example:\n  kassette plugin disable provider.paypal --actor ann --reason outage"
    )]
    Disable {
        /// The slot, such as provider.paypal.
        slot: String,
    },
    /// Route payments to a slot again.
    #[command(
        after_help = "Example:\n  kassette plugin enable provider.paypal --actor ann --reason \"it is back\""
    )]
    Enable {
        /// The slot.
        slot: String,
    },
    /// Remove a slot that is not part of the release, with all its versions, once its file is deleted and
    /// nothing uses it.
    #[command(
        after_help = "Example:\n  kassette plugin remove method.blik --actor ann --reason \"no longer sold\""
    )]
    Remove {
        /// The slot, such as method.blik.
        slot: String,
    },
    /// List the versions that were active in a slot, newest first.
    #[command(after_help = "Example:\n  kassette plugin history method.ideal")]
    History {
        /// The slot.
        slot: String,
        #[command(flatten)]
        paging: Paging,
    },
    /// Show properties of a module's file: world, imports, sizes, class, and its description.
    #[command(after_help = "Example:\n  kassette plugin inspect my-ideal.wasm")]
    Inspect {
        /// The component.
        file: PathBuf,
    },
    /// Check a module's file: whether a server would load it, and whether its answers satisfy the contract.
    #[command(after_help = "Example:\n  kassette plugin check my-ideal.wasm")]
    Check {
        /// The component.
        file: PathBuf,
    },
    /// Write the program's bundled modules into the plugin folder, where they remain regardless of the modules
    /// of the next release.
    #[command(
        after_help = "Example:\n  kassette plugin install --bundled --plugin-dir /var/lib/kassette/plugins"
    )]
    Install {
        /// All modules of this program.
        #[arg(long, required = true)]
        bundled: bool,
        /// Target folder; the plugin folder of the configuration if absent.
        #[arg(long, value_name = "DIR")]
        into: Option<PathBuf>,
        /// The folder with kassette.toml.
        #[arg(long, default_value = "config", conflicts_with = "into")]
        config: PathBuf,
    },
    /// Generate a key to sign modules with, and print its public half in the format of `plugins.keys` in
    /// kassette.toml.
    #[command(
        after_help = "Example:\n  kassette plugin keygen --secret-key release.key --public-key release.pub"
    )]
    Keygen {
        /// File for the secret half, which must not exist. Only its user may read it.
        #[arg(long, value_name = "FILE")]
        secret_key: PathBuf,
        /// File for the public half, which must not exist. `wasmsign2` and `wsc` verify with it.
        #[arg(long, value_name = "FILE")]
        public_key: PathBuf,
    },
    /// Sign a module's file. Signatures by others over the same bytes remain; those over other bytes are
    /// removed.
    #[command(
        after_help = "Example:\n  kassette plugin sign my-ideal.wasm --secret-key release.key"
    )]
    Sign {
        /// The component.
        file: PathBuf,
        /// The file that `kassette plugin keygen` or `wasmsign2 keygen` wrote.
        #[arg(long, value_name = "FILE")]
        secret_key: PathBuf,
        /// Output file; replaces the component if absent.
        #[arg(short, long, value_name = "FILE")]
        output: Option<PathBuf>,
    },
}

/// How an upload is used.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(in crate::cli) enum Mode {
    /// It serves immediately.
    Activate,
    /// It is called in addition to the active version, and decides nothing.
    Shadow,
}

impl Mode {
    const fn name(self) -> &'static str {
        match self {
            Self::Activate => "activate",
            Self::Shadow => "shadow",
        }
    }
}

/// Share of the decisions of a version on trial.
#[derive(Args, Debug)]
pub(in crate::cli) struct Pace {
    /// Percentage of payments.
    #[arg(
        long,
        value_name = "PERCENT",
        required_unless_present = "steps",
        conflicts_with = "steps",
        value_parser = clap::value_parser!(u8).range(1..=100)
    )]
    share: Option<u8>,
    /// Ascending shares, one after another, while nothing is wrong; 100 as the last one promotes the version.
    #[arg(
        long,
        value_name = "PERCENT,…",
        value_delimiter = ',',
        requires = "every",
        value_parser = clap::value_parser!(u8).range(1..=100)
    )]
    steps: Vec<u8>,
    /// Minimum time between two steps, such as 90s, 10m, 2h; seconds without a unit.
    #[arg(long, value_name = "TIME", requires = "steps", conflicts_with = "share", value_parser = seconds)]
    every: Option<u64>,
}

impl Pace {
    fn body(self) -> Value {
        match self.share {
            Some(share) => json!({ "share": share }),
            None => json!({ "steps": self.steps, "every_seconds": self.every }),
        }
    }
}

fn digest(text: &str) -> Result<Digest, String> {
    let wrong =
        "must be 64 hexadecimal characters in lower case, as `kassette plugin history` shows";
    Digest::parse(text).ok_or_else(|| wrong.to_owned())
}

/// Parses a whole number of seconds, minutes or hours; seconds without a unit.
fn seconds(text: &str) -> Result<u64, String> {
    let units = [("s", 1), ("m", 60), ("h", 3600)];
    let with_unit = units
        .into_iter()
        .find_map(|(unit, seconds)| Some((text.strip_suffix(unit)?, seconds)));
    let (number, unit) = with_unit.unwrap_or((text, 1));
    let number: Option<u64> = number.parse().ok();
    let wrong = "must be a whole number with s, m or h behind it, such as 10m";
    number
        .and_then(|number| number.checked_mul(unit))
        .ok_or_else(|| wrong.to_owned())
}

/// The candidate of a replay.
#[derive(Args, Debug)]
pub(in crate::cli) struct CandidateArgs {
    #[command(flatten)]
    what: What,
    /// Replay only this merchant's decisions; a policy is then a patch of the merchant's.
    #[arg(long, conflicts_with = "file")]
    merchant_id: Option<u64>,
}

#[derive(Args, Debug)]
#[group(required = true, multiple = false)]
struct What {
    /// The component.
    file: Option<PathBuf>,
    /// The method's settings in the format of its configuration file (TOML).
    #[arg(long, value_name = "FILE")]
    settings: Option<PathBuf>,
    /// A merchant's policy in the format of the API (JSON).
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,
}

impl CandidateArgs {
    /// Adds the candidate to a call.
    fn sent_by(self, call: Call) -> Result<Call, String> {
        let What {
            file,
            settings,
            policy,
        } = self.what;
        if let Some(file) = file {
            return Ok(call.module(component(&file)?));
        }
        let read = |path: &Path| {
            let text = std::fs::read_to_string(path);
            text.map_err(|error| format!("{}: {error}", path.display()))
        };
        let wrong = |path: &Path, error: &dyn Display| format!("{}: {error}", path.display());
        let mut body = serde_json::Map::new();
        if let Some(path) = settings {
            let value: Value =
                toml::from_str(&read(&path)?).map_err(|error| wrong(&path, &error))?;
            body.insert("settings".into(), value);
        }
        if let Some(path) = policy {
            let value: Value =
                serde_json::from_str(&read(&path)?).map_err(|error| wrong(&path, &error))?;
            body.insert("policy".into(), value);
        }
        if let Some(merchant) = self.merchant_id {
            body.insert("merchant_id".into(), merchant.into());
        }
        Ok(call.body(Value::Object(body)))
    }
}

/// Reads a module's file if it is not too large.
fn component(file: &Path) -> Result<Vec<u8>, String> {
    let failed = |error: std::io::Error| format!("{}: {error}", file.display());
    let length = std::fs::metadata(file).map_err(failed)?.len();
    if length > MAX_MODULE_BYTES as u64 {
        let most = MAX_MODULE_BYTES >> 20;
        return Err(format!("{}: is larger than {most} MiB", file.display()));
    }
    read_regular(file).map_err(failed)
}

impl PluginAction {
    /// Whether the command works on a file and calls no server.
    const fn is_on_file(&self) -> bool {
        matches!(
            self,
            Self::Inspect { .. }
                | Self::Check { .. }
                | Self::Install { .. }
                | Self::Keygen { .. }
                | Self::Sign { .. }
        )
    }
}

impl Noun<PluginAction> {
    /// The operation on a file, and whether to print JSON, for commands without a server; otherwise returns the
    /// command.
    pub(in crate::cli) fn on_file(self) -> Result<(OnFile, bool), Box<Self>> {
        let json = self.connection.json;
        if self.action.is_on_file() {
            self.connection.refuse_attribution();
        }
        match self.action {
            PluginAction::Inspect { file } => Ok((OnFile::Inspect(file), json)),
            PluginAction::Check { file } => Ok((OnFile::Check(file), json)),
            PluginAction::Install { into, config, .. } => Ok((
                OnFile::Install(into.map_or(Folder::Configured(config), Folder::Named)),
                json,
            )),
            PluginAction::Keygen {
                secret_key,
                public_key,
            } => Ok((
                OnFile::Keygen {
                    secret_key,
                    public_key,
                },
                json,
            )),
            PluginAction::Sign {
                file,
                secret_key,
                output,
            } => Ok((
                OnFile::Sign {
                    file,
                    secret_key,
                    output,
                },
                json,
            )),
            _ => Err(Box::new(self)),
        }
    }
}

const PLUGINS: Shape = Shape::List(
    "plugins",
    &[
        ("Slot", "/slot"),
        ("State", "/state"),
        ("Version", "/active/version"),
        ("On trial", "/candidate/mode"),
        ("Share %", "/candidate/share"),
        ("Last error", "/last_error"),
        ("Since", "/active/since"),
        ("Name", "/active/name"),
        ("Digest", "/active/digest"),
    ],
);

const HISTORY: Shape = Shape::List(
    "history",
    &[
        ("At", "/at"),
        ("Cause", "/cause"),
        ("Name", "/name"),
        ("Version", "/version"),
        ("Share %", "/trial/share"),
        ("Starts", "/trial/starts/candidate/payments"),
        ("Failed", "/trial/starts/candidate/failed"),
        ("Others' starts", "/trial/starts/control/payments"),
        ("Failed", "/trial/starts/control/failed"),
        ("Compared", "/trial/compared"),
        ("Differing", "/trial/differing"),
        ("Digest", "/digest"),
    ],
);

impl Action for PluginAction {
    fn call(self) -> Result<Call, String> {
        let act = |slot: &str, act| Call::new(Method::POST, ["plugins", slot, act]);
        Ok(match self {
            Self::List { paging } => paging.put(Call::new(Method::GET, ["plugins"]).shown(PLUGINS)),
            Self::Upload { slot, file, mode } => Call::new(Method::POST, ["plugins", &slot])
                .with("mode", mode.map(Mode::name))
                .module(component(&file)?),
            Self::Replay {
                slot,
                tried,
                last,
                examples,
            } => {
                let call = act(&slot, "replay").with("last", last);
                tried.sent_by(call.with("examples", examples).shown(Shape::Diff))?
            }
            Self::Canary { slot, digest, pace } => {
                let mut body = pace.body();
                let call = act(&slot, "canary");
                let Some(digest) = digest else {
                    return Ok(call.body(body).of_candidate(slot));
                };
                body["digest"] = digest.to_string().into();
                call.body(body)
            }
            Self::Diff { slot } => Call::new(Method::GET, ["plugins", &slot, "diff"]),
            Self::Promote { slot } => act(&slot, "promote"),
            Self::Rollback { slot } => act(&slot, "rollback"),
            Self::Pin { slot, digest } => act(&slot, "pin").body(json!({ "digest": digest })),
            Self::Disable { slot } => act(&slot, "disable"),
            Self::Enable { slot } => act(&slot, "enable"),
            Self::Remove { slot } => {
                let done = format!("The slot {slot} is removed.");
                Call::new(Method::DELETE, ["plugins", &slot]).shown(Shape::Nothing(done))
            }
            Self::History { slot, paging } => {
                paging.put(Call::new(Method::GET, ["plugins", &slot, "history"]).shown(HISTORY))
            }
            Self::Inspect { .. }
            | Self::Check { .. }
            | Self::Install { .. }
            | Self::Keygen { .. }
            | Self::Sign { .. } => {
                return Err("this is done without a server".into());
            }
        })
    }
}
