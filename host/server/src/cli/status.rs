//! `kassette status`: reports whether everything is well.

use std::process::ExitCode;

use clap::Args;
use http::Method;
use kassette_gateway::clock::{Clock as _, SystemClock};
use serde_json::{Value, json};

use super::output::print;
use super::remote::{Connection, ask, parts_table};
use super::stopped_store::StoppedStore;
use crate::status::{self, State};

/// The options of `kassette status`.
#[derive(Args, Debug)]
pub(super) struct StatusArgs {
    #[command(flatten)]
    connection: Connection,
    #[command(flatten)]
    store: StoppedStore,
}

/// Exit code for a state. If the command fails, the exit code is that of `Failing`.
const fn exit_code(state: State) -> u8 {
    match state {
        State::Ok => 0,
        State::Attention => 1,
        State::Failing => 2,
    }
}

/// Gets the report from the gateway if there is a token and no folder is given. Otherwise reads the report that
/// the server writes.
pub(super) async fn status(args: StatusArgs) -> ExitCode {
    args.connection.refuse_attribution();
    match shown(&args).await {
        Ok(state) => ExitCode::from(exit_code(state)),
        Err(why) => {
            super::refuse(&why);
            ExitCode::from(exit_code(State::Failing))
        }
    }
}

async fn shown(args: &StatusArgs) -> Result<State, String> {
    let remote = !args.store.is_named() && args.connection.token()?.is_some();
    let report = if remote {
        ask(&args.connection, Method::GET, &["status"]).await?
    } else {
        let folder = args.store.folder()?;
        let file = status::read(&folder).map_err(|error| {
            format!("{error}: the server writes it while it runs; root and the service's user may read it")
        })?;
        json!(file.judged(SystemClock.now()))
    };
    let state = report.get("state").and_then(Value::as_str);
    let state = State::ALL
        .into_iter()
        .find(|each| Some(each.as_str()) == state);
    let state = state.ok_or("the answer names no state")?;
    print(&parts_table(&report, args.connection.json))?;
    Ok(state)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_state_has_its_exit_code() {
        assert_eq!(State::ALL.map(exit_code), [0, 1, 2]);
    }
}
