//! Exports as CSV or JSON lines, written while the store is read.

use std::future::Future;

use axum::body::{Body, Bytes};
use axum::response::{IntoResponse as _, Response};
use futures_util::stream;
use http::header::CONTENT_TYPE;
use kassette_store::{Fault, Listed};
use serde_json::{Map, Value};

use super::csv;
use crate::web::ApiError;
use crate::web::query::Query;

/// Format of an export.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    /// RFC 4180, with a header.
    Csv,
    /// One JSON object per line.
    JsonLines,
}

impl Format {
    /// Takes `format` from a query; CSV if absent.
    pub(super) fn parse(query: &mut Query) -> Result<Self, ApiError> {
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

    /// Appends a line of named texts; an empty text is null in JSON.
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

/// Appends an object as a line.
pub(super) fn object(text: &mut String, object: &Value) {
    text.push_str(&object.to_string());
    text.push('\n');
}

/// The content of an export.
pub(super) trait Pages: Send + Sync + 'static {
    /// An item, which is written as one or more lines.
    type Item: Send;

    /// The page at a cursor, or the first page without one.
    fn page(
        &self,
        cursor: Option<String>,
    ) -> impl Future<Output = Result<Listed<Self::Item>, Fault>> + Send;

    /// Appends the lines of an item.
    fn lines(
        &self,
        text: &mut String,
        item: Self::Item,
    ) -> impl Future<Output = Result<(), Fault>> + Send;
}

/// Response with all pages. If the store fails on the first page, returns an error; later, the body is cut off.
pub(super) async fn answer<const N: usize>(
    format: Format,
    names: [&str; N],
    pages: impl Pages,
) -> Result<Response, ApiError> {
    let mut first = String::new();
    if format == Format::Csv {
        csv::line(&mut first, names);
    }
    let page = add_page(&pages, &mut first, None).await;
    let next = page.map_err(ApiError::from)?;
    let begin = (Some(first), next, pages);
    let body = stream::try_unfold(begin, |(first, mut next, pages)| async {
        if let Some(first) = first {
            return Ok(Some((Bytes::from(first), (None, next, pages))));
        }
        let piece = piece(&pages, &mut next).await.inspect_err(|fault| {
            tracing::warn!(error = %fault, "an export ends before its end: the store failed");
        });
        let piece = piece?;
        Ok::<_, Fault>(piece.map(|text| (Bytes::from(text), (None, next, pages))))
    });
    let head = [(CONTENT_TYPE, format.media_type())];
    Ok((head, Body::from_stream(body)).into_response())
}

/// The next lines, starting at the cursor `next`. `None` at the end.
async fn piece(pages: &impl Pages, next: &mut Option<String>) -> Result<Option<String>, Fault> {
    let mut text = String::new();
    while let Some(cursor) = next.take() {
        // Reading the store does not yield by itself, so let other tasks run between two pages.
        tokio::task::yield_now().await;
        *next = add_page(pages, &mut text, Some(cursor)).await?;
        if !text.is_empty() {
            return Ok(Some(text));
        }
    }
    Ok(None)
}

/// Appends the lines of a page, possibly none; returns the next page's cursor.
async fn add_page(
    pages: &impl Pages,
    text: &mut String,
    cursor: Option<String>,
) -> Result<Option<String>, Fault> {
    let page = match pages.page(cursor).await? {
        Listed::Page(page) => page,
        Listed::BadCursor => return Err(Fault::Corrupt("a list's own cursor".into())),
    };
    for item in page.items {
        pages.lines(text, item).await?;
    }
    Ok(page.next)
}
