//! The commands over the admin API: arguments become one call, its answer a table or JSON.

mod call;
mod client;
mod command;
mod first_operator;
mod show;

use std::path::{Path, PathBuf};

use clap::Args;
use http::Method;
use http_body_util::BodyExt as _;
use kassette_domain::secret::Secret;
use kassette_store::report::{Progress as _, Unit};
use serde_json::Value;

use call::{Call, Shape};
pub(super) use client::Incoming;
use client::Remote;
pub(super) use command::{
    Action, AuditAction, ConnectCodeAction, ConsentCodeAction, DeliveryAction, DomainAction,
    EndpointAction, KeyAction, MerchantAction, MethodAction, NodeAction, Noun, OperatorAction,
    PaymentAction, PluginAction, ProviderAction, ResellerAction, WorkAction,
};

use super::output::{print, write};
use super::progress::ProgressOutput;

/// Where the token stands; never on a command line, which every user of the machine can read.
const TOKEN: &str = "KASSETTE_OPERATOR_TOKEN";
/// Largest file that can be a token.
const TOKEN_BYTES: u64 = 4096;

/// Where the server is and how its answer is shown.
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
    /// File that holds the operator token; else it is read from KASSETTE_OPERATOR_TOKEN.
    #[arg(long, global = true, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Certificate authority (PEM) to trust beside the public ones.
    #[arg(long, global = true, value_name = "FILE")]
    ca_file: Option<PathBuf>,
    /// The person on whose behalf, for the audit log.
    #[arg(long, global = true)]
    actor: Option<String>,
    /// Why, for the audit log.
    #[arg(long, global = true)]
    reason: Option<String>,
    /// Print the answer as JSON.
    #[arg(long, global = true)]
    pub(super) json: bool,
}

impl Connection {
    /// The operator token, where there is one.
    pub(super) fn token(&self) -> Result<Option<Secret>, String> {
        token(self.token_file.as_deref())
    }

    fn remote(&self) -> Result<(Remote, Secret), String> {
        let remote = Remote::new(&self.admin_url, self.ca_file.as_deref())?;
        Ok((remote, self.token()?.ok_or_else(no_token)?))
    }

    fn attribution(&self) -> (Option<&str>, Option<&str>) {
        (self.actor.as_deref(), self.reason.as_deref())
    }
}

/// Asks the server and gives the answer back as it is.
///
/// # Errors
/// A sentence: what was refused, or what to do.
pub(super) async fn ask(
    connection: &Connection,
    method: Method,
    path: &[&str],
) -> Result<Value, String> {
    let (remote, token) = connection.remote()?;
    let call = Call::new(method, path);
    remote.send(&call, &token, connection.attribution()).await
}

/// The same for an answer that is taken in as it comes.
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

/// Does what a command of one of the nouns says.
///
/// # Errors
/// A sentence: what was refused, or what to do.
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
        None => run_call(&connection, action.call()?).await,
    }
}

/// Does a command's call. It knows no noun's type, so it is compiled once and not for each of them.
async fn run_call(connection: &Connection, mut call: Call) -> Result<(), String> {
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

/// Shows how far lines say it is, and gives the object that comes last.
async fn diff(mut lines: Incoming) -> Result<Value, String> {
    let broken = || "the replay broke off: its answer is not whole".to_owned();
    let (shown, mut begun, mut text) = (ProgressOutput::new(None), None, Vec::new());
    while let Some(frame) = lines.frame().await {
        let frame = frame.map_err(|error| format!("{}: {error}", broken()))?;
        let Ok(piece) = frame.into_data() else {
            continue;
        };
        // The last line may be megabytes in many pieces: what was looked through is not again.
        let mut from = text.len();
        text.extend_from_slice(&piece);
        while let Some(end) = text[from..].iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = text.drain(..=from + end).collect();
            from = 0;
            let line: Value = serde_json::from_slice(&line).map_err(|_| broken())?;
            if let Some(why) = line.get("error").and_then(Value::as_str) {
                return Err(show::plain(why));
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

/// Makes a call until its answer has no `next_cursor`, and adds up what the answers count. `tell` is told how far
/// it is before each call but the first.
///
/// # Errors
/// What was refused, with what was done before.
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

/// The operator token: of the file where one is named, else of the environment.
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

/// Writes an answer to standard output as it comes.
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
