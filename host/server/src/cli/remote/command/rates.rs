//! Exchange rates of sources.

use clap::{Subcommand, ValueEnum};
use http::Method;
use serde_json::json;

use super::Action;
use crate::cli::remote::call::{Call, Shape};

/// Commands about the rates of sources.
#[derive(Subcommand, Debug)]
pub(in crate::cli) enum RatesAction {
    /// Show each source's rates, and those that are refused because they jump.
    Show,
    /// Use a source's refused rate. Needs --actor and --reason.
    Accept {
        /// The rate's source.
        source: Source,
        /// The currency, such as EUR.
        currency: String,
        /// The refused rate in the output of `rates show`. The command fails if it has changed.
        #[arg(long)]
        rate: Option<String>,
    },
}

/// Source of rates.
#[derive(ValueEnum, Clone, Copy, Debug)]
pub(in crate::cli) enum Source {
    /// The operator's file.
    File,
    /// The European Central Bank's.
    Ecb,
}

impl Action for RatesAction {
    fn call(self) -> Result<Call, String> {
        Ok(match self {
            Self::Show => Call::new(Method::GET, ["rates"]).shown(Shape::List(
                "rates",
                &[
                    ("Source", "/source"),
                    ("Currency", "/currency"),
                    ("Rate", "/rate"),
                    ("Date", "/date"),
                    ("State", "/state"),
                    ("Refused", "/refused/rate"),
                    ("Of", "/refused/date"),
                    ("Unchecked", "/unchecked"),
                ],
            )),
            Self::Accept {
                source,
                currency,
                rate,
            } => {
                let source = match source {
                    Source::File => "file",
                    Source::Ecb => "ecb",
                };
                let body = json!({ "source": source, "currency": currency, "rate": rate });
                Call::new(Method::POST, ["rates", "accept"]).body(body)
            }
        })
    }
}
