//! Lines that are written while they are read, as CSV or as a JSON object each.

use std::future::Future;

use axum::body::{Body, Bytes};
use axum::response::{IntoResponse as _, Response};
use futures_util::stream;
use http::header::CONTENT_TYPE;
use kassette_store::Fault;
use serde_json::{Map, Value};

use super::csv;
use super::query::Query;
use crate::web::ApiError;

/// How lines are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    /// RFC 4180, with the names in the first line.
    Csv,
    /// An object a line.
    JsonLines,
}

impl Format {
    /// Takes `format` out of a query; CSV where it is not said.
    pub(super) fn of(query: &mut Query) -> Result<Self, ApiError> {
        let read = |text: &str| match text {
            "csv" => Some(Self::Csv),
            "jsonl" => Some(Self::JsonLines),
            _ => None,
        };
        let said = query.read("format", read, "must be \"csv\" or \"jsonl\"")?;
        Ok(said.unwrap_or(Self::Csv))
    }

    const fn media_type(self) -> &'static str {
        match self {
            Self::Csv => "text/csv; charset=utf-8; header=present",
            Self::JsonLines => "application/jsonl",
        }
    }

    /// Adds a line of texts under names; an empty one is null where that can be said.
    pub(super) fn line<const N: usize>(self, text: &mut String, names: [&str; N], of: [&str; N]) {
        match self {
            Self::Csv => csv::line(text, of),
            Self::JsonLines => {
                let value = |field: &str| (!field.is_empty()).then(|| Value::from(field));
                let fields = names.into_iter().zip(of);
                let fields = fields.map(|(name, field)| (name.to_owned(), value(field).into()));
                object(text, &Value::Object(fields.collect::<Map<_, _>>()));
            }
        }
    }
}

/// Adds an object as a line.
pub(super) fn object(text: &mut String, object: &Value) {
    text.push_str(&object.to_string());
    text.push('\n');
}

/// What is still to be written.
pub(super) trait Pages: Send + Sized + 'static {
    /// Whether nothing is.
    fn are_over(&self) -> bool;
    /// The lines of the next page, perhaps none.
    fn page(self) -> impl Future<Output = Result<(Self, String), Fault>> + Send;
}

/// The answer that holds all pages. A store that cannot be read is told as such where it fails at once; later
/// the body breaks off.
pub(super) async fn answer<const N: usize>(
    format: Format,
    names: [&str; N],
    pages: impl Pages,
) -> Result<Response, ApiError> {
    let mut first = String::new();
    if format == Format::Csv {
        csv::line(&mut first, names);
    }
    let (pages, page) = pages.page().await.map_err(ApiError::from)?;
    first.push_str(&page);
    let begin = (Some(first), pages);
    let body = stream::try_unfold(begin, |(first, pages)| async {
        if let Some(first) = first {
            return Ok(Some((Bytes::from(first), (None, pages))));
        }
        let piece = piece(pages).await.inspect_err(|fault| {
            tracing::warn!(error = %fault, "an export ends before its end: the store failed");
        });
        let piece = piece?;
        Ok::<_, Fault>(piece.map(|(pages, text)| (Bytes::from(text), (None, pages))))
    });
    let head = [(CONTENT_TYPE, format.media_type())];
    Ok((head, Body::from_stream(body)).into_response())
}

/// The next lines; none at the end.
async fn piece<P: Pages>(mut pages: P) -> Result<Option<(P, String)>, Fault> {
    while !pages.are_over() {
        // Reading the store waits for nothing: others have their turn between two pages.
        tokio::task::yield_now().await;
        let text;
        (pages, text) = pages.page().await?;
        if !text.is_empty() {
            return Ok(Some((pages, text)));
        }
    }
    Ok(None)
}
