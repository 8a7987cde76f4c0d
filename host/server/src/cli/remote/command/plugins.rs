//! The slots and the versions in them.

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

/// What can be done with modules.
#[derive(Subcommand, Debug)]
pub(in crate::cli) enum PluginAction {
    /// List the slots and what serves in them.
    #[command(after_help = "Example:\n  kassette plugin list")]
    List {
        #[command(flatten)]
        paging: Paging,
    },
    /// Check a module, and let it serve in a slot at once or put it on trial beside the one that serves.
    #[command(
        after_help = "Example:\n  kassette plugin upload method.ideal my-ideal.wasm --mode shadow"
    )]
    Upload {
        /// The slot, such as method.ideal.
        slot: String,
        /// The component.
        file: PathBuf,
        /// What becomes of it; where it is not said, what `plugins.uploads` of kassette.toml says.
        #[arg(long)]
        mode: Option<Mode>,
    },
    /// Say where money would have gone by another version, other settings or another policy; or how another version
    /// of a provider's module would have spoken to its provider. Nothing is changed.
    #[command(
        after_help = "Example:\n  kassette plugin replay method.ideal my-ideal.wasm --last 100000"
    )]
    Replay {
        /// The slot, such as method.ideal; of a provider with a component only.
        slot: String,
        #[command(flatten)]
        tried: CandidateArgs,
        /// How many decisions or calls are made again, the latest first; 10000 where it is not said.
        #[arg(long, value_parser = clap::value_parser!(u64).range(1..=MOST))]
        last: Option<u64>,
        /// How many of the payments that change are named, the latest first; 20 where it is not said.
        #[arg(long, value_parser = clap::value_parser!(u64).range(0..=MOST_EXAMPLES as u64))]
        examples: Option<u64>,
    },
    /// Let the version on trial decide a share of the payments, or of a provider's new attempts. One whose payments
    /// fail more often than the others is rolled back automatically. Needs --actor and --reason.
    #[command(
        after_help = "Example:\n  kassette plugin canary method.ideal --steps 1,5,25,100 --every 10m \
                      --actor ann --reason \"cheaper routes\""
    )]
    Canary {
        /// The slot.
        slot: String,
        /// The version; the one on trial where it is not said.
        #[arg(long, value_parser = digest)]
        digest: Option<Digest>,
        #[command(flatten)]
        pace: Pace,
    },
    /// Show what the version on trial would decide otherwise, and how its payments fare beside the others.
    #[command(after_help = "Example:\n  kassette plugin diff method.ideal")]
    Diff {
        /// The slot.
        slot: String,
    },
    /// Let the version on trial serve. Needs --actor and --reason.
    #[command(
        after_help = "Example:\n  kassette plugin promote method.ideal --actor ann --reason \"a day without a difference\""
    )]
    Promote {
        /// The slot.
        slot: String,
    },
    /// End the trial of a version; where none is on trial, let the version serve again that was active before.
    /// Needs --actor and --reason.
    #[command(
        after_help = "Example:\n  kassette plugin rollback method.ideal --actor ann --reason \"fewer are paid\""
    )]
    Rollback {
        /// The slot.
        slot: String,
    },
    /// Let a version serve that the slot has kept, and take no file of the plugin folder for it until another is
    /// uploaded, promoted, rolled back or pinned. Needs --actor and --reason.
    #[command(after_help = "Example:\n  kassette plugin pin method.ideal \
                      6f1d0c3b5a49e8872d7c6b5a4f3e2d1c0b9a8f7e6d5c4b3a29181706f5e4d3c2 --actor ann --reason audited")]
    Pin {
        /// The slot.
        slot: String,
        /// The version, as `kassette plugin history` has it.
        #[arg(value_parser = digest)]
        digest: Digest,
    },
    /// Route nothing new to a slot: neither payments to a method, nor attempts to a provider. What is under
    /// way goes on. It stays so over restarts and whatever module is put there.
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
    /// Take a slot away that the release does not bring, with all its versions, once its file is deleted
    /// and nothing needs it.
    #[command(
        after_help = "Example:\n  kassette plugin remove method.blik --actor ann --reason \"no longer sold\""
    )]
    Remove {
        /// The slot, such as method.blik.
        slot: String,
    },
    /// List the versions that became active in a slot, newest first.
    #[command(after_help = "Example:\n  kassette plugin history method.ideal")]
    History {
        /// The slot.
        slot: String,
        #[command(flatten)]
        paging: Paging,
    },
    /// Show what a module's file is: world, imports, sizes, class, what it says of itself.
    #[command(after_help = "Example:\n  kassette plugin inspect my-ideal.wasm")]
    Inspect {
        /// The component.
        file: PathBuf,
    },
    /// Check a module's file: that a server would load it, and that its answers keep the contract.
    #[command(after_help = "Example:\n  kassette plugin check my-ideal.wasm")]
    Check {
        /// The component.
        file: PathBuf,
    },
    /// Write the modules that the program brings along into the plugin folder, where they stay whatever the
    /// next program brings.
    #[command(
        after_help = "Example:\n  kassette plugin install --bundled --plugin-dir /var/lib/kassette/plugins"
    )]
    Install {
        /// Those of this program, all of them.
        #[arg(long, required = true)]
        bundled: bool,
        /// Write them there; into the plugin folder of the configuration where it is not said.
        #[arg(long, value_name = "DIR")]
        into: Option<PathBuf>,
        /// The folder with kassette.toml.
        #[arg(long, default_value = "config", conflicts_with = "into")]
        config: PathBuf,
    },
    /// Draw a key to sign modules with, and print its public half as `plugins.keys` of kassette.toml takes it.
    #[command(
        after_help = "Example:\n  kassette plugin keygen --secret-key release.key --public-key release.pub"
    )]
    Keygen {
        /// The file for the secret half, which must not be there. Its user alone may read it.
        #[arg(long, value_name = "FILE")]
        secret_key: PathBuf,
        /// The file for the public half, which must not be there. `wasmsign2` and `wsc` verify with it.
        #[arg(long, value_name = "FILE")]
        public_key: PathBuf,
    },
    /// Sign a module's file. Signatures of others over the same bytes stay in it; those over other bytes go.
    #[command(
        after_help = "Example:\n  kassette plugin sign my-ideal.wasm --secret-key release.key"
    )]
    Sign {
        /// The component.
        file: PathBuf,
        /// The file that `kassette plugin keygen` or `wasmsign2 keygen` wrote.
        #[arg(long, value_name = "FILE")]
        secret_key: PathBuf,
        /// Write the signed module there; in the component's place where it is not said.
        #[arg(short, long, value_name = "FILE")]
        output: Option<PathBuf>,
    },
}

/// What becomes of an upload.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(in crate::cli) enum Mode {
    /// It serves at once.
    Activate,
    /// It is asked beside the one that serves, and decides nothing.
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

/// How much a version on trial decides.
#[derive(Args, Debug)]
pub(in crate::cli) struct Pace {
    /// So many of a hundred payments.
    #[arg(
        long,
        value_name = "PERCENT",
        required_unless_present = "steps",
        conflicts_with = "steps",
        value_parser = clap::value_parser!(u8).range(1..=100)
    )]
    share: Option<u8>,
    /// One share after another, each larger, while nothing is wrong; 100 as the last one promotes the version.
    #[arg(
        long,
        value_name = "PERCENT,…",
        value_delimiter = ',',
        requires = "every",
        value_parser = clap::value_parser!(u8).range(1..=100)
    )]
    steps: Vec<u8>,
    /// The least time between two steps, such as 90s, 10m, 2h; seconds where there is no unit.
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

/// Seconds, of a whole number with a unit or without one.
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

/// What a replay tries.
#[derive(Args, Debug)]
pub(in crate::cli) struct CandidateArgs {
    #[command(flatten)]
    what: What,
    /// Look at this merchant's decisions alone; a policy is a patch of its own.
    #[arg(long, conflicts_with = "file")]
    merchant_id: Option<u64>,
}

#[derive(Args, Debug)]
#[group(required = true, multiple = false)]
struct What {
    /// The component.
    file: Option<PathBuf>,
    /// The method's settings, as its file in the configuration has them (TOML).
    #[arg(long, value_name = "FILE")]
    settings: Option<PathBuf>,
    /// A merchant's policy, as the API has it (JSON).
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,
}

impl CandidateArgs {
    /// The call with it.
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

/// A module's file that is no larger than one may be.
fn component(file: &Path) -> Result<Vec<u8>, String> {
    let failed = |error: std::io::Error| format!("{}: {error}", file.display());
    let length = std::fs::metadata(file).map_err(failed)?.len();
    if length > MAX_MODULE_BYTES as u64 {
        let most = MAX_MODULE_BYTES >> 20;
        return Err(format!("{}: is larger than {most} MiB", file.display()));
    }
    std::fs::read(file).map_err(failed)
}

impl Noun<PluginAction> {
    /// What to do with a file, and whether to print JSON, where no server is asked; else the
    /// command as it is.
    pub(in crate::cli) fn on_file(self) -> Result<(OnFile, bool), Box<Self>> {
        let json = self.connection.json;
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
        ("Digest", "/digest"),
    ],
);

impl Action for PluginAction {
    fn call(self) -> Result<Call, String> {
        let act = |slot: &str, act| Call::new(Method::POST, ["plugins", slot, act]);
        Ok(match self {
            Self::List { paging } => paging.of(Call::new(Method::GET, ["plugins"]).shown(PLUGINS)),
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
            Self::Pin { slot, digest } => {
                act(&slot, "pin").body(json!({ "digest": digest.to_string() }))
            }
            Self::Disable { slot } => act(&slot, "disable"),
            Self::Enable { slot } => act(&slot, "enable"),
            Self::Remove { slot } => {
                let done = format!("The slot {slot} is removed.");
                Call::new(Method::DELETE, ["plugins", &slot]).shown(Shape::Nothing(done))
            }
            Self::History { slot, paging } => {
                paging.of(Call::new(Method::GET, ["plugins", &slot, "history"]).shown(HISTORY))
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
