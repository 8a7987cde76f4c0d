//! Commands of the admin API: converts arguments to a call, and its response to a table or JSON.

mod call;
mod client;
mod command;
mod first_operator;
mod show;

use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};

use clap::Args;
use clap::error::ErrorKind;
use http::Method;
use http_body_util::BodyExt as _;
use kassette_domain::key::Environment;
use kassette_domain::secret::Secret;
use kassette_store::report::{Progress as _, Unit};
use serde_json::Value;

use call::{Call, Shape};
pub(super) use client::Incoming;
use client::Remote;
pub(super) use command::{
    Action, AuditAction, ConnectCodeAction, ConsentCodeAction, DeliveryAction, DomainAction,
    EndpointAction, FinanceAction, KeyAction, MerchantAction, MethodAction, NodeAction, Noun,
    OperatorAction, PaymentAction, PluginAction, ProviderAction, RatesAction, RefundAction,
    ResellerAction, WorkAction,
};

use super::output::{plain, print, write};
use super::progress::ProgressOutput;

/// Environment variable with the token; never a command-line argument, which every user of the machine can
/// read.
const TOKEN: &str = "KASSETTE_OPERATOR_TOKEN";
/// Maximum size of a token file, in bytes.
const TOKEN_BYTES: u64 = 4096;

/// Location of the server, and output format.
#[derive(Args, Clone, Debug)]
pub(super) struct Connection {
    /// Base of the admin API.
    #[arg(
        long,
        global = true,
        env = "KASSETTE_ADMIN_URL",
        default_value = "http://127.0.0.1:8081/admin/v1"
    )]
    admin_url: String,
    /// File with the operator token; otherwise it is read from KASSETTE_OPERATOR_TOKEN.
    #[arg(long, global = true, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Certificate authority (PEM) to trust in addition to the public ones.
    #[arg(long, global = true, value_name = "FILE")]
    ca_file: Option<PathBuf>,
    /// The person who acts, for the audit log.
    #[arg(long, global = true)]
    actor: Option<String>,
    /// The reason, for the audit log.
    #[arg(long, global = true)]
    reason: Option<String>,
    /// Print the response as JSON.
    #[arg(long, global = true)]
    pub(super) json: bool,
}

impl Connection {
    /// The operator token, if there is one.
    pub(super) fn token(&self) -> Result<Option<Secret>, String> {
        token(self.token_file.as_deref())
    }

    fn remote(&self) -> Result<(Remote, Secret), String> {
        let remote = Remote::new(&self.admin_url, self.ca_file.as_deref())?;
        Ok((remote, self.token()?.ok_or_else(no_token)?))
    }

    /// Exits with a usage error if an actor or a reason is given for a command that changes nothing, because
    /// such a command has no audit entry.
    pub(super) fn refuse_attribution(&self) {
        if let Some(flag) = self.idle_flag() {
            let why = format!(
                "{flag} has no effect: the command changes nothing, so that it is not audited\n"
            );
            clap::Error::raw(ErrorKind::ArgumentConflict, why).exit();
        }
    }

    fn idle_flag(&self) -> Option<&'static str> {
        let actor = self.actor.as_ref().map(|_| "--actor");
        actor.or_else(|| self.reason.as_ref().map(|_| "--reason"))
    }

    fn attribution(&self) -> (Option<&str>, Option<&str>) {
        (self.actor.as_deref(), self.reason.as_deref())
    }
}

/// Makes a call and returns the response's JSON.
///
/// # Errors
/// A sentence: the refusal, or what to do.
pub(super) async fn ask(
    connection: &Connection,
    method: Method,
    path: &[&str],
) -> Result<Value, String> {
    ask_with(connection, method, path, Vec::new()).await
}

/// The same with query parameters.
///
/// # Errors
/// As [`ask`].
pub(super) async fn ask_with(
    connection: &Connection,
    method: Method,
    path: &[&str],
    query: Vec<(&'static str, String)>,
) -> Result<Value, String> {
    let (remote, token) = connection.remote()?;
    let mut call = Call::new(method, path);
    call.query = query;
    remote.send(&call, &token, connection.attribution()).await
}

/// The same for a streamed response.
///
/// # Errors
/// As [`ask`].
pub(super) async fn stream(
    connection: &Connection,
    method: Method,
    path: &[&str],
) -> Result<Incoming, String> {
    let (remote, token) = connection.remote()?;
    let call = Call::new(method, path);
    remote.stream(&call, &token, connection.attribution()).await
}

/// The parts of a status report as a table, or the whole report as JSON.
pub(super) fn parts_table(report: &Value, json: bool) -> String {
    const PARTS: Shape = Shape::List(
        "parts",
        &[
            ("Part", "/name"),
            ("State", "/state"),
            ("Since", "/since"),
            ("Detail", "/detail"),
        ],
    );
    show::answer(&PARTS, report, json)
}

/// Executes a command.
///
/// # Errors
/// A sentence: the refusal, or what to do.
pub(super) async fn run<A: Action>(noun: Noun<A>) -> Result<(), String> {
    let Noun { connection, action } = noun;
    let has_token = connection.token()?.is_some();
    let first = action
        .first_operator()
        .filter(|first| first.is_offline(has_token));
    match first {
        Some(first) => {
            let (answer, shape) = first_operator::create(&connection, first).await?;
            print(&show::answer(&shape, &answer, connection.json))
        }
        None => {
            let call = action.call()?;
            if call.method == Method::GET {
                connection.refuse_attribution();
            }
            run_call(&connection, call).await
        }
    }
}

/// Arguments of `find`.
#[derive(Args, Debug)]
pub(super) struct FindArgs {
    #[command(flatten)]
    connection: Connection,
    /// An order, an address, an amount such as "80.00 EUR", four digits, a reference, an id, or how one begins.
    text: String,
    /// Only for payments created at this time or later, such as 2030-01-31T12:00:00Z.
    #[arg(long)]
    since: Option<String>,
    /// Only for payments created before this time.
    #[arg(long)]
    until: Option<String>,
    /// test or live; default: both.
    #[arg(long, value_parser = command::environment)]
    environment: Option<Environment>,
}

impl FindArgs {
    fn call(&self) -> Call {
        const FOUND: Shape = Shape::List(
            "found",
            &[
                ("Kind", "/kind"),
                ("ID", "/id"),
                ("Label", "/label"),
                ("Status", "/status"),
                ("Amount", "/amount"),
                ("", "/currency"),
                ("Payment", "/payment_id"),
                ("Found by", "/found_by"),
                ("Merchant", "/merchant_id"),
                ("Environment", "/environment"),
            ],
        );
        Call::new(Method::GET, ["find"])
            .with("q", Some(&self.text))
            .with("since", self.since.as_ref())
            .with("until", self.until.as_ref())
            .with("environment", self.environment)
            .shown(FOUND)
    }
}

/// Searches across all kinds of objects.
///
/// # Errors
/// As [`ask`].
pub(super) async fn find(args: FindArgs) -> Result<(), String> {
    args.connection.refuse_attribution();
    run_call(&args.connection, args.call()).await
}

/// Performs a command's call. It is not generic, so it is compiled only once.
async fn run_call(connection: &Connection, mut call: Call) -> Result<(), String> {
    if let Some(preview) = call.preview.take() {
        let (remote, token) = connection.remote()?;
        let answer = remote.send(&preview, &token, (None, None)).await?;
        let text = show::answer(&preview.shape, &answer, false);
        match connection.json {
            // Scripts expect only the response on stdout.
            true => eprint!("{text}"),
            false => print(&text)?,
        }
    }
    if let Some(question) = &call.confirm {
        confirm(question)?;
    }
    if call.shape == Shape::Text && connection.json {
        call = call.with("format", Some("jsonl"));
    }
    let (remote, token) = connection.remote()?;
    let by = connection.attribution();
    if let Some(slot) = call.candidate_of.take() {
        let digest = candidate(&remote, &token, &slot).await?;
        call.body.get_or_insert_default()["digest"] = digest;
    }
    let answer = match call.shape {
        Shape::Text => {
            let text = remote.stream(&call, &token, by).await?;
            return copy(text).await;
        }
        Shape::Diff => {
            let lines = remote.stream(&call, &token, by).await?;
            diff(lines).await?
        }
        Shape::Sums(done) => {
            let send = async |call: &Call| remote.send(call, &token, by).await;
            repeat(call.clone(), done, send, |line| eprintln!("{line}")).await?
        }
        _ => {
            let sent = remote.send(&call, &token, by).await;
            sent.map_err(|why| match &call.again {
                Some((option, value)) => {
                    format!("{why}; to try the very same again: {option} {value}")
                }
                None => why,
            })?
        }
    };
    print(&show::answer(&call.shape, &answer, connection.json))
}

/// Asks for confirmation on a terminal. Without one, exits with a usage error: scripts use `--yes`.
///
/// # Errors
/// The person declined; nothing was changed.
fn confirm(question: &str) -> Result<(), String> {
    if !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
        let why = format!(
            "{question} Nothing was changed: say --yes where there is no terminal to ask on\n"
        );
        clap::Error::raw(ErrorKind::MissingRequiredArgument, why).exit();
    }
    eprint!("{question} Go on? [y/N] ");
    let mut said = String::new();
    let read = std::io::stdin().read_line(&mut said);
    read.map_err(|error| error.to_string())?;
    match said.trim() {
        "y" | "Y" | "yes" => Ok(()),
        _ => Err("nothing was changed".to_owned()),
    }
}

/// The digest of the version on trial in a slot.
async fn candidate(remote: &Remote, token: &Secret, slot: &str) -> Result<Value, String> {
    let call = Call::new(Method::GET, ["plugins"]).with("limit", Some(100));
    let answer = remote.send(&call, token, (None, None)).await?;
    let slots = answer.get("plugins").and_then(Value::as_array);
    let its = slots
        .into_iter()
        .flatten()
        .find(|plugin| plugin["slot"] == slot);
    let digest = its.and_then(|plugin| plugin.pointer("/candidate/digest"));
    digest.cloned().ok_or_else(|| {
        format!(
            "no version is on trial in {slot}: upload one with --mode shadow, or name one that the slot has kept with \
             --digest"
        )
    })
}

/// Shows progress lines, and returns the object at the end.
async fn diff(mut lines: Incoming) -> Result<Value, String> {
    let broken = || "the replay broke off: its answer is not whole".to_owned();
    let (shown, mut begun, mut text) = (ProgressOutput::new(None), None, Vec::new());
    while let Some(frame) = lines.frame().await {
        let frame = frame.map_err(|error| format!("{}: {error}", broken()))?;
        let Ok(piece) = frame.into_data() else {
            continue;
        };
        // The last line may have megabytes in many pieces: do not search earlier pieces again.
        let mut from = text.len();
        text.extend_from_slice(&piece);
        while let Some(end) = text[from..].iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = text.drain(..=from + end).collect();
            from = 0;
            let line: Value = serde_json::from_slice(&line).map_err(|_| broken())?;
            if let Some(why) = line.get("error").and_then(Value::as_str) {
                return Err(plain(why));
            }
            let Some(progress) = line.get("progress") else {
                return Ok(line);
            };
            let number = |name: &str| progress.get(name).and_then(Value::as_u64);
            let read = number("read").unwrap_or_default();
            let before = begun.replace(read).unwrap_or_else(|| {
                shown.begin("decisions made again", Unit::Rows, number("of"));
                0
            });
            shown.advance(read.saturating_sub(before));
        }
    }
    Err(broken())
}

/// Repeats a call until its response has no `next_cursor`, and sums its counts. `tell` receives the progress
/// before each further call.
///
/// # Errors
/// The refusal, with the counts so far.
async fn repeat(
    mut call: Call,
    done: &str,
    send: impl AsyncFn(&Call) -> Result<Value, String>,
    tell: impl Fn(String),
) -> Result<Value, String> {
    let mut sums = serde_json::Map::new();
    loop {
        let answer = send(&call).await.map_err(|why| match sums.is_empty() {
            true => why,
            false => format!("{why}; {}; again for the rest", counted(&sums, done)),
        })?;
        for (name, count) in answer.as_object().into_iter().flatten() {
            if let Some(count) = count.as_u64() {
                let before = sums.get(name).and_then(Value::as_u64).unwrap_or(0);
                sums.insert(name.clone(), (before + count).into());
            }
        }
        match (answer.get("next_cursor"), &mut call.body) {
            (Some(next @ Value::String(_)), Some(body)) => body["cursor"] = next.clone(),
            _ => return Ok(Value::Object(sums)),
        }
        tell(format!("{} …", counted(&sums, done)));
    }
}

fn counted(sums: &serde_json::Map<String, Value>, done: &str) -> String {
    let sums: Vec<_> = sums
        .iter()
        .map(|(name, sum)| format!("{sum} {name}"))
        .collect();
    format!("{done} so far: {}", sums.join(", "))
}

fn no_token() -> String {
    format!("no operator token: set {TOKEN}, or name a file with --token-file")
}

/// The operator token: from the file if given, otherwise from the environment.
fn token(file: Option<&Path>) -> Result<Option<Secret>, String> {
    let text = match file {
        None => std::env::var(TOKEN).ok(),
        Some(path) => {
            let failed = |error: std::io::Error| format!("{}: {error}", path.display());
            if std::fs::metadata(path).map_err(failed)?.len() > TOKEN_BYTES {
                return Err(format!("{}: is too large for a token", path.display()));
            }
            kassette_files::judge(path, kassette_files::Holds::Secret)
                .map_err(|exposed| format!("{} {exposed}", path.display()))?;
            Some(std::fs::read_to_string(path).map_err(failed)?)
        }
    };
    let token = text.map(|text| Secret::new(text.trim()));
    Ok(token.filter(|token| !token.expose().is_empty()))
}

/// Writes a response to standard output as it arrives.
async fn copy(mut text: Incoming) -> Result<(), String> {
    while let Some(frame) = text.frame().await {
        let frame = frame.map_err(|error| {
            format!("the answer broke off, what was written is not all of it: {error}")
        })?;
        if let Ok(piece) = frame.into_data()
            && !write(&piece)?
        {
            break;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
